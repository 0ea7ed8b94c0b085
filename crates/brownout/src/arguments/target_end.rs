//! How a target may end, as users name it: an exit status or a signal.

use brownout_recovery::{signal_name, signal_text};
use brownout_trace::ProcessEnd;

/// The highest signal number.
const LAST_SIGNAL: i32 = 64;

/// Parses `3`, `SIGTERM`, `term` or `SIG15`.
pub fn target_end(text: &str) -> Result<ProcessEnd, String> {
    if let Ok(status) = text.parse::<u8>() {
        let status = i32::from(status);
        return Ok(ProcessEnd::Exited { status });
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_named = |signal: &i32| {
        let known = signal_name(*signal);
        known.is_some_and(|known| known.strip_prefix("SIG") == Some(name))
    };
    let number = upper.strip_prefix("SIG").and_then(|rest| rest.parse().ok());
    let number = number.filter(|number| (1..=LAST_SIGNAL).contains(number));
    let signal = number.or_else(|| (1..=LAST_SIGNAL).find(is_named));
    signal
        .map(|signal| ProcessEnd::Signaled { signal })
        .ok_or_else(|| {
            "give an exit status from 0 to 255, or a signal such as SIGTERM or SIG15".to_owned()
        })
}

/// How a target ended, to be continued after "the program".
pub fn describe(end: ProcessEnd) -> String {
    match end {
        ProcessEnd::Exited { status } => format!("exited with status {status}"),
        ProcessEnd::Signaled { signal } => format!("was killed by {}", signal_text(signal)),
        _ => "did not exit".to_owned(),
    }
}

/// The argument that means this end.
pub fn argument(end: ProcessEnd) -> Option<String> {
    match end {
        ProcessEnd::Exited { status } => Some(status.to_string()),
        ProcessEnd::Signaled { signal } => {
            let name = signal_name(signal).map(str::to_owned);
            Some(name.unwrap_or_else(|| format!("SIG{signal}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_signals_are_named_in_several_ways() {
        let exited = |status| Ok(ProcessEnd::Exited { status });
        let killed = |signal| Ok(ProcessEnd::Signaled { signal });
        assert_eq!(target_end("3"), exited(3));
        for text in ["SIGTERM", "TERM", "term", "SIG15"] {
            assert_eq!(target_end(text), killed(15), "{text}");
        }
        assert_eq!(target_end("SIG34"), killed(34));
        for wrong in ["", "256", "-1", "SIG", "SIG0", "SIG65", "SIGNAL", "kil"] {
            assert!(target_end(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_end_is_described_and_can_be_given_as_an_argument() {
        let end = ProcessEnd::Signaled { signal: 9 };
        assert_eq!(describe(end), "was killed by SIGKILL");
        assert_eq!(argument(end).as_deref(), Some("SIGKILL"));
        assert_eq!(target_end(&argument(end).unwrap()), Ok(end));
    }
}
