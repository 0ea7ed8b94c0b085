//! Ctrl-C: once to stop in an orderly way, twice to stop at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Notes signals that ask the process to stop, while it exists. Before and afterwards the signals have their default
/// action.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether signals end the process again.
    default_action: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn catch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let default_action = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal is only noted, and the second ends the process.
            flag::register_conditional_default(signal, Arc::clone(&default_action))?;
            flag::register_conditional_default(signal, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self {
            asked,
            default_action,
        })
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.default_action.store(true, Ordering::Relaxed);
    }
}
