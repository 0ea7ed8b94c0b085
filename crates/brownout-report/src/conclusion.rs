//! How a run ended, apart from its findings. Every output format renders it, so that a run that tested little or
//! nothing never looks like one that passed.

use serde::{Deserialize, Serialize};

use crate::{CrashCoverage, LeftOut, ReadsSummary, Reason, Reasons, SymbolicCoverage};

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RunEnd {
    /// Everything was examined, and no finding makes the run fail.
    #[default]
    Passed,
    /// Findings make the run fail.
    Findings,
    /// An error of usage or of the environment ended the run.
    Error,
    /// Nothing persistent was seen, or a part of the target was not examined.
    NothingTested,
    /// The target, or recovery without a crash, failed on its own.
    TargetFailed,
    /// A fault of brownout ended the run.
    InternalError,
    /// The run has not finished, or was killed.
    Unfinished,
}

/// How a run ended, why, and what it examined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conclusion {
    #[serde(rename = "verdict")]
    pub end: RunEnd,
    /// The exit code of the command; `None` until it ends.
    pub exit_code: Option<u8>,
    /// Why absent findings do not show that the target is correct.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// What was examined, one sentence each.
    pub tested: Vec<String>,
    /// What crash testing has tried; `None` if no crash was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<CrashCoverage>,
    /// What crash testing left out on purpose.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
    /// What recovery opens and reads; `None` if no crash was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_reads: Option<ReadsSummary>,
    /// What symbolic execution has done; `None` if no input was solved for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbolic: Option<SymbolicCoverage>,
}

/// Why a run is not conclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How the run would have ended without findings.
    pub end: RunEnd,
    /// All reasons, one per line.
    pub text: String,
}

impl Conclusion {
    /// The conclusion of a run that goes on. It is in the results of a run that was killed.
    pub fn unfinished(doing: &str) -> Self {
        Self {
            end: RunEnd::Unfinished,
            exit_code: None,
            reasons: Reasons(vec![Reason::other(format!(
                "the run did not finish: it ended while {doing}"
            ))]),
            ..Self::default()
        }
    }

    /// Whether the findings are all there is to say.
    pub fn is_conclusive(&self) -> bool {
        self.problem().is_none()
    }

    /// Why the run is not conclusive; `None` if it is. A run that found bugs is not if it left something untested.
    pub fn problem(&self) -> Option<Problem> {
        let end = match self.end {
            RunEnd::Passed | RunEnd::Findings if self.reasons.0.is_empty() => return None,
            RunEnd::Passed | RunEnd::Findings => RunEnd::NothingTested,
            end => end,
        };
        let reasons: Vec<&str> = self.reasons.texts().collect();
        let text = match &reasons[..] {
            [] => end.meaning().to_owned(),
            reasons => reasons.join("\n"),
        };
        Some(Problem { end, text })
    }
}

impl RunEnd {
    /// A title for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Passed => "no finding makes the run fail",
            Self::Findings => "findings make the run fail",
            Self::Error => "the run ended with an error",
            Self::NothingTested => "not everything was tested",
            Self::TargetFailed => "the program, or recovery without a crash, failed",
            Self::InternalError => "brownout failed",
            Self::Unfinished => "the run did not finish",
        }
    }

    /// The value of `verdict` in `run.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Findings => "findings",
            Self::Error => "error",
            Self::NothingTested => "nothing-tested",
            Self::TargetFailed => "target-failed",
            Self::InternalError => "internal-error",
            Self::Unfinished => "unfinished",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::FLUSH_RULE;
    use crate::{Format, Github, Html, Human, Junit, Report, Sarif, Sources, Subject};

    #[test]
    fn only_conclusive_runs_have_no_problem() {
        assert_eq!(Conclusion::default().problem(), None);
        let mut conclusion = Conclusion::unfinished("linting");
        let problem = conclusion.problem().unwrap().text;
        assert!(problem.ends_with("it ended while linting"), "{problem}");
        conclusion.reasons = Reasons::default();
        let problem = conclusion.problem().unwrap();
        assert_eq!(problem.text, "the run did not finish");
    }

    #[test]
    fn findings_do_not_hide_what_was_not_tested() {
        let mut conclusion = Conclusion {
            end: RunEnd::Findings,
            ..Conclusion::default()
        };
        assert!(conclusion.is_conclusive());
        let reason = Reason::other("the time was not enough");
        conclusion.reasons.0.push(reason);
        let problem = conclusion.problem().unwrap();
        assert_eq!(problem.end, RunEnd::NothingTested);
        assert_eq!(problem.text, "the time was not enough");
    }

    #[test]
    fn every_format_for_people_and_machines_shows_it() {
        let mut report = Report::new(Subject::default(), vec![FLUSH_RULE], vec![]);
        report.conclusion = Conclusion::unfinished("linting");
        report.conclusion.exit_code = Some(2);
        let html = Html {
            sources: Sources::on_disk(),
        };
        let formats: [&dyn Format; 4] = [&Junit, &Sarif, &Github, &html];
        for text in formats.map(|format| format.to_text(&report)) {
            assert!(text.contains("it ended while linting"), "{text}");
        }
        let sarif = Sarif.to_text(&report);
        assert!(sarif.contains("\"executionSuccessful\":false"), "{sarif}");
        assert!(sarif.contains("\"exitCode\":2"), "{sarif}");
        let human = Human {
            color: false,
            width: 80,
            wrap: true,
            verbose: false,
            suppressed: false,
            all: false,
            results: None,
            sources: Sources::on_disk(),
        };
        assert_eq!(human.to_text(&report), "the run did not finish\n");
    }

    #[test]
    fn the_verdict_in_json_is_the_name_of_the_end() {
        for end in [
            RunEnd::Passed,
            RunEnd::NothingTested,
            RunEnd::InternalError,
            RunEnd::Unfinished,
        ] {
            let json = serde_json::to_value(end).unwrap();
            assert_eq!(json, end.as_str());
        }
    }
}
