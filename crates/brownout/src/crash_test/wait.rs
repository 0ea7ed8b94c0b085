//! Ctrl-C: once to stop in good order, twice to stop at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

/// Notes signals that ask to stop, as long as it lives.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    hooks: Vec<SigId>,
}

impl Interrupt {
    pub fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let mut hooks = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal only sets the flag, and the second finds it set.
            let status = 128 + signal;
            hooks.push(flag::register_conditional_shutdown(
                signal,
                status,
                Arc::clone(&asked),
            )?);
            hooks.push(flag::register(signal, Arc::clone(&asked))?);
        }
        Ok(Self { asked, hooks })
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            low_level::unregister(hook);
        }
    }
}
