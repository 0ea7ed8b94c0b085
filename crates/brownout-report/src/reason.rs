//! Why a run is not conclusive: a sentence for people, and its kind, by which later commands decide what they make of it.
//!
//! In `run.json`, `reasons` are the sentences and `reason_kinds` their kinds, in the same order. Results of versions that did not
//! store kinds, and kinds that only a later version knows, are read as [`ReasonKind::Other`].

use serde::{Deserialize, Serialize};

/// Why absent findings do not show that the target is correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub kind: ReasonKind,
    /// A sentence for people.
    pub text: String,
}

/// What a reason is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReasonKind {
    /// The target failed. The trace says so, too.
    TargetFailed,
    /// Recovery failed on the files that the target left, without a crash.
    RecoveryFailedWithoutCrash,
    /// There is no persistent file.
    NothingPersistent,
    /// A pattern of `--pm` matches no file of the run.
    UnmatchedPattern,
    /// Crash testing has not tried everything that it had to.
    CoverageGap,
    /// Crash testing has not lost or reordered any stores.
    NotReordered,
    /// Crash testing was cut in a way that the crash points which it has tried do not show.
    CutShort,
    /// Recoveries failed in ways that do not decide.
    UndecidedTrials,
    /// Recovery does not read the persistent files, so its verdicts show nothing.
    NothingRead,
    /// Recovery passes whatever it finds, so its verdicts show nothing.
    HiddenStatus,
    /// A child process ran a program that cannot be recorded.
    UnrecordedProgram,
    /// Races were to be looked for, and the trace does not show what that needs.
    NoRacesTested,
    /// Another schedule than that of the trace was not examined completely, or did not pass.
    OtherSchedule,
    /// The program, or recovery without a crash, failed under another schedule than that of the trace.
    OtherScheduleFailed,
    /// A later command failed and left these results as they are.
    LaterCommandFailed,
    #[default]
    #[serde(other)]
    Other,
}

impl ReasonKind {
    /// Whether crash testing works, and has not tried all that it should: more of it helps.
    pub fn is_of_untried_crashes(self) -> bool {
        matches!(
            self,
            Self::CoverageGap | Self::NotReordered | Self::CutShort
        )
    }
}

impl Reason {
    pub fn new(kind: ReasonKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }

    /// Whether it concerns another run than that of the trace, so that nothing which is known from the trace decides it.
    pub fn is_of_other_schedule(&self) -> bool {
        matches!(
            self.kind,
            ReasonKind::OtherSchedule | ReasonKind::OtherScheduleFailed
        )
    }

    /// One of which nothing but its sentence matters.
    pub fn other(text: impl Into<String>) -> Self {
        Self::new(ReasonKind::Other, text)
    }
}

/// All reasons of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredReasons", into = "StoredReasons")]
pub struct Reasons(pub Vec<Reason>);

impl Reasons {
    /// The sentences.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|reason| reason.text.as_str())
    }
}

/// The fields of `run.json`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredReasons {
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reason_kinds: Vec<ReasonKind>,
}

impl From<Reasons> for StoredReasons {
    fn from(Reasons(reasons): Reasons) -> Self {
        Self {
            reason_kinds: reasons.iter().map(|reason| reason.kind).collect(),
            reasons: reasons.into_iter().map(|reason| reason.text).collect(),
        }
    }
}

impl From<StoredReasons> for Reasons {
    fn from(stored: StoredReasons) -> Self {
        let kinds = stored.reason_kinds.into_iter();
        let kinds = kinds.chain(std::iter::repeat(ReasonKind::Other));
        let reasons = stored.reasons.into_iter().zip(kinds);
        Self(reasons.map(|(text, kind)| Reason { kind, text }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_and_kinds_are_stored_side_by_side() {
        let reasons = Reasons(vec![
            Reason::new(ReasonKind::TargetFailed, "the program failed"),
            Reason::other("a file was changed"),
        ]);
        let json = serde_json::to_string(&reasons).unwrap();
        assert_eq!(
            json,
            r#"{"reasons":["the program failed","a file was changed"],"reason_kinds":["target-failed","other"]}"#
        );
        assert_eq!(serde_json::from_str::<Reasons>(&json).unwrap(), reasons);
        let none = serde_json::to_string(&Reasons::default()).unwrap();
        assert_eq!(none, r#"{"reasons":[]}"#);
    }

    #[test]
    fn unknown_kinds_and_results_without_kinds_are_read() {
        for json in [
            r#"{"reasons":["why"]}"#,
            r#"{"reasons":["why"],"reason_kinds":["of-a-later-version"]}"#,
        ] {
            let reasons: Reasons = serde_json::from_str(json).unwrap();
            assert_eq!(reasons.0, [Reason::other("why")]);
        }
        assert_eq!(
            serde_json::from_str::<Reasons>("{}").unwrap(),
            Reasons::default()
        );
    }
}
