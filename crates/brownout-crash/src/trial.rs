//! The result of one crash point: a line of the journal.

use brownout_report::{Frame, without_numbers};
use serde::{Deserialize, Serialize};

use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::failure_point::PointKind;
use crate::operation::Operation;
use crate::update_behaviour::TriedUpdate;
use brownout_recovery::{IndirectVerdict, Observation, Verdict};

/// A crash point that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    #[serde(flatten)]
    pub point: CrashPoint,
    pub kind: PointKind,
    #[serde(default)]
    pub purpose: TrialPurpose,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Digest of the crash image, or of that of `reached_from`.
    pub image: String,
    /// The trial that had an equal image, and whose verdict this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<CrashPoint>,
    /// The proposed crash point whose trial tried this one too; `None` if this one was proposed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_from: Option<CrashPoint>,
    pub verdict: Verdict,
    /// Whether a recovery that was interrupted before would have failed otherwise: then a failure is none of this crash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails_anyway: bool,
    /// How long recovery took.
    pub seconds: f64,
    /// Present if recovery did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What recovery read, if the strategy observed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    /// The number of the update behaviour that it tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<u64>,
    /// How the verdict was reached, if recovery did not run natively.
    #[serde(rename = "shortcut", default, skip_serializing_if = "Option::is_none")]
    pub indirect: Option<IndirectVerdict>,
}

impl Trial {
    /// Whether recovery fails because of this crash.
    pub fn is_failure(&self) -> bool {
        !self.verdict.passed() && !self.fails_anyway
    }

    /// Whether recovery failed, and passed when it ran again on the same image.
    pub fn is_flaky(&self) -> bool {
        let failure = self.failure.as_ref();
        let again = failure.and_then(|failure| failure.again.as_ref());
        again.is_some_and(Verdict::passed)
    }
}

/// The events at which crashes in program order were recovered from, in order.
pub fn passed_in_order(trials: &[Trial]) -> Vec<u64> {
    let passed = trials
        .iter()
        .filter(|trial| trial.verdict.passed() && trial.point.is_in_program_order());
    let mut events: Vec<u64> = passed.map(|trial| trial.point.event).collect();
    events.sort_unstable();
    events
}

/// A recovery that was interrupted by a crash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterruptedRecovery {
    /// What it was about to do; `None` at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PointKind>,
    /// Where, innermost frame first, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<Frame>,
    /// The line of it that distinguishes actions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
}

/// What is known about a recovery that did not pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The failure point, innermost frame first.
    pub stack: Vec<Frame>,
    /// The line of it that distinguishes failure points.
    pub line: String,
    /// The recoveries that were interrupted before, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<InterruptedRecovery>,
    /// The line of the last store that is lost, if stores persist in another order than that of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The updates of the update behaviour that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<TriedUpdate>,
    /// Where recovery was when it failed, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<Frame>,
    /// The first and the last lines that recovery printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// The verdict of a second run on the same image, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Verdict>,
}

impl Failure {
    /// Equal for failures of recovery that are the same on different images: where it was and, if no source line is known
    /// there, what it printed last, without numbers. Where a recovery that does not end was interrupted depends on chance.
    pub fn signature(&self, verdict: &Verdict) -> String {
        let mut signature = format!("{verdict:?}");
        if *verdict == Verdict::Hung {
            return signature;
        }
        let program = || self.recovery.iter().filter(|frame| !frame.is_library());
        if !program().any(|frame| frame.line.is_some()) {
            let last = self.output.last().map_or("", String::as_str);
            signature.push('|');
            signature.push_str(&without_numbers(last));
        }
        for frame in program() {
            signature.push('|');
            match (&frame.function, &frame.file, frame.line) {
                (function, Some(file), Some(line)) => {
                    let function = function.as_deref().unwrap_or_default();
                    signature.push_str(&format!("{function} {file}:{line}"));
                }
                // Code outside of files has an address that differs in each run.
                (function, ..) if frame.module.starts_with('[') => {
                    signature.push_str(function.as_deref().unwrap_or(&frame.module));
                }
                _ => signature.push_str(&format!("{}+{:#x}", frame.module, frame.offset)),
            }
        }
        signature
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let failure = Failure {
            output: vec![line.to_owned()],
            ..Failure::default()
        };
        failure.signature(&Verdict::Failed(1))
    }

    #[test]
    fn numbers_make_no_difference_words_do() {
        assert_eq!(
            said("entry 12 at 0x7f00 is bad"),
            said("entry 3 at 0x7e10 is bad")
        );
        assert_ne!(said("entry 12 is bad"), said("entry 12 is missing"));
    }

    #[test]
    fn a_stack_says_more_than_words() {
        let frame = |line| Frame {
            function: Some("recover".into()),
            file: Some("a.c".into()),
            line: Some(line),
            ..Frame::default()
        };
        let failure = |line, said: &str| Failure {
            recovery: vec![frame(line)],
            output: vec![said.to_owned()],
            ..Failure::default()
        };
        let signature = |failure: Failure| failure.signature(&Verdict::Crashed(11));
        assert_eq!(signature(failure(7, "a")), signature(failure(7, "b")));
        assert_ne!(signature(failure(7, "a")), signature(failure(8, "a")));
    }

    #[test]
    fn without_lines_offsets_and_output_distinguish_failures() {
        let failure = |offset, said: &str| Failure {
            recovery: vec![Frame {
                function: Some("check".into()),
                module: "/opt/libindex.so".into(),
                offset,
                ..Frame::default()
            }],
            output: vec![said.to_owned()],
            ..Failure::default()
        };
        let signature = |failure: Failure| failure.signature(&Verdict::Failed(1));
        let one = signature(failure(0x10, "key 7 is lost"));
        assert_eq!(one, signature(failure(0x10, "key 9 is lost")));
        assert_ne!(one, signature(failure(0x20, "key 7 is lost")));
        assert_ne!(one, signature(failure(0x10, "the count is wrong")));
    }

    #[test]
    fn all_hangs_are_alike() {
        let frame = |line| Frame {
            file: Some("a.c".into()),
            line: Some(line),
            ..Frame::default()
        };
        let hung = |line| {
            let failure = Failure {
                recovery: vec![frame(line)],
                ..Failure::default()
            };
            failure.signature(&Verdict::Hung)
        };
        assert_eq!(hung(7), hung(8));
    }
}
