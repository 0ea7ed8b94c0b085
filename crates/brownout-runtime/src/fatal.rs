//! Ending the process with a message.
//!
//! Two ways to end: the target needs something the engine does not support (status 2, with a
//! sentence that names it), or the engine itself is at fault (status 70).

use crate::sys;
use crate::sys::linux;
use core::fmt::{self, Write};

struct Stderr;

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the kernel reads the bytes of `text`.
        unsafe { crate::sys!(linux::__NR_write, 2, text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// Ends the process because the target needs what the engine does not support.
pub fn unsupported(what: fmt::Arguments<'_>) -> ! {
    // If the message cannot be printed, nothing else can be done.
    let _ = writeln!(Stderr, "brownout: {what}");
    sys::exit_group(2)
}

/// Ends the process because of a fault of the engine.
pub fn fault(what: fmt::Arguments<'_>) -> ! {
    // As above.
    let _ = writeln!(Stderr, "brownout: internal fault: {what}");
    sys::exit_group(70)
}
