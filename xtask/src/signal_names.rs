//! Signals by the names that test programs give them in their directives and people know them by.

use anyhow::{Context, Result};
use rustix::process::Signal;

const SIGNALS: &[(&str, Signal)] = &[
    ("SIGHUP", Signal::HUP),
    ("SIGINT", Signal::INT),
    ("SIGQUIT", Signal::QUIT),
    ("SIGILL", Signal::ILL),
    ("SIGTRAP", Signal::TRAP),
    ("SIGABRT", Signal::ABORT),
    ("SIGBUS", Signal::BUS),
    ("SIGFPE", Signal::FPE),
    ("SIGKILL", Signal::KILL),
    ("SIGUSR1", Signal::USR1),
    ("SIGSEGV", Signal::SEGV),
    ("SIGUSR2", Signal::USR2),
    ("SIGPIPE", Signal::PIPE),
    ("SIGALRM", Signal::ALARM),
    ("SIGTERM", Signal::TERM),
    ("SIGXCPU", Signal::XCPU),
    ("SIGXFSZ", Signal::XFSZ),
    ("SIGSYS", Signal::SYS),
];

/// The number of a signal.
pub fn signal_number(name: &str) -> Result<i32> {
    let known = SIGNALS.iter().find(|(known, _)| *known == name);
    let (_, signal) =
        known.with_context(|| format!("`{name}` is not a signal that ends programs"))?;
    Ok(signal.as_raw())
}

/// The name of a signal that ends programs.
pub fn signal_name(number: i32) -> Option<&'static str> {
    let mut known = SIGNALS
        .iter()
        .filter(|(_, signal)| signal.as_raw() == number);
    known.next().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        assert_eq!(signal_number("SIGSEGV").unwrap(), 11);
        assert_eq!(signal_name(11), Some("SIGSEGV"));
        assert_eq!(signal_name(64), None);
        assert!(signal_number("SEGV").is_err());
    }
}
