//! What brownout says beside its results: warnings and remarks on standard error, results on standard
//! output.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

use crate::progress::Progress;

/// The way to the user's eyes.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    quiet: bool,
}

impl Console {
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Something that makes the result less than it could be. Shown even when quiet, since a result
    /// that is silently incomplete is a wrong one.
    pub fn warn(&self, message: impl Display) {
        // Nothing can be done about a standard error that is closed.
        let _ = writeln!(io::stderr(), "brownout: warning: {message}");
    }

    /// Something good to know.
    pub fn remark(&self, message: impl Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "brownout: {message}");
        }
    }

    /// Whether a line may be redrawn in place on standard error.
    pub fn redraws(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// A report on work that may take long.
    pub fn progress(&self, task: &'static str, total: Option<u64>) -> Progress {
        if self.quiet {
            Progress::hidden()
        } else {
            Progress::new(task, total, io::stderr().is_terminal())
        }
    }

    /// The same for a command that prints results as it goes: if these are on the terminal already,
    /// they are progress enough.
    pub fn progress_beside_output(&self, task: &'static str, total: Option<u64>) -> Progress {
        if io::stdout().is_terminal() {
            Progress::hidden()
        } else {
            self.progress(task, total)
        }
    }
}

/// Buffered standard output. Whoever writes must [`flush`](Write::flush) at the end, to learn of the
/// last error.
pub fn results() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}
