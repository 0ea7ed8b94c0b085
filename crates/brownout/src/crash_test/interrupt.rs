//! Ctrl-C, or a terminal that is closed: once to stop in an orderly way, again to stop at once.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{flag, low_level};

/// Signals that arrive this soon after the first ask for the same: `timeout` sends its signal to the process and to its
/// group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Notes signals that ask the process to stop, while it exists. Before and afterwards the signals have their default
/// action. If there are several, they note the same signals.
#[derive(Clone)]
pub struct Interrupt {
    caught: Arc<CaughtSignals>,
}

static CAUGHT: Mutex<Weak<CaughtSignals>> = Mutex::new(Weak::new());

struct CaughtSignals {
    asked: Arc<AtomicBool>,
    /// Whether signals end the process again.
    default_action: Arc<AtomicBool>,
    arrivals: Handle,
}

impl Interrupt {
    pub fn catch() -> io::Result<Self> {
        let mut known = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner);
        let caught = match known.upgrade() {
            Some(caught) => caught,
            None => Arc::new(CaughtSignals::catch()?),
        };
        *known = Arc::downgrade(&caught);
        Ok(Self { caught })
    }

    pub fn asked(&self) -> bool {
        self.caught.asked.load(Ordering::Relaxed)
    }
}

impl CaughtSignals {
    fn catch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let default_action = Arc::new(AtomicBool::new(false));
        let mut caught = vec![SIGINT, SIGTERM];
        if !is_ignored(SIGHUP) {
            caught.push(SIGHUP);
        }
        for &signal in &caught {
            flag::register_conditional_default(signal, Arc::clone(&default_action))?;
        }
        let mut signals = Signals::new(caught)?;
        let arrivals = signals.handle();
        let noted = Arc::clone(&asked);
        thread::Builder::new().spawn(move || {
            let mut first: Option<Instant> = None;
            for signal in signals.forever() {
                noted.store(true, Ordering::Relaxed);
                if first.get_or_insert_with(Instant::now).elapsed() > SAME_REQUEST {
                    // It does not return for these signals.
                    let _ = low_level::emulate_default_handler(signal);
                }
            }
        })?;
        Ok(Self {
            asked,
            default_action,
            arrivals,
        })
    }
}

impl Drop for CaughtSignals {
    fn drop(&mut self) {
        self.default_action.store(true, Ordering::Relaxed);
        self.arrivals.close();
    }
}

/// Whether this process was started so that it ignores a signal, as `nohup` does it.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
