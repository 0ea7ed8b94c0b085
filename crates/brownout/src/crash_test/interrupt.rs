//! Ctrl-C: once to stop in good order, twice to stop at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Notes signals that ask to stop, as long as it lives. Before and afterwards these do what they usually do.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Signals end the process again.
    usual: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let usual = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal is only noted, and the second finds it noted.
            flag::register_conditional_default(signal, Arc::clone(&usual))?;
            flag::register_conditional_default(signal, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self { asked, usual })
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.usual.store(true, Ordering::Relaxed);
    }
}
