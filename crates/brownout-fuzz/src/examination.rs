//! What the examination of a recorded test case has come to, besides its findings.
//!
//! It is stored with the test case, so that a campaign that is continued knows why it has not passed.

use brownout_report::{ReasonKind, Reasons};
use serde::{Deserialize, Serialize};

/// What the examination of one recording has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseExamination {
    /// Why absent findings of lint and of the search for races do not show that the run is correct.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// What could not be examined, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Absent if crashes were not tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashes: Option<CaseCrashes>,
}

/// What testing the crashes of one recording has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseCrashes {
    /// Failure points at which a crash was tried.
    pub tried: u64,
    /// Why not all crashes were tested.
    #[serde(flatten)]
    pub reasons: Reasons,
}

/// How much of the crashes of one recording was tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashesTested {
    Completely,
    Partly,
    /// None, for want of time.
    Untried,
    /// None, or what was tested shows nothing: recovery does not work without a crash, for example.
    Refused,
}

impl CaseCrashes {
    pub fn tested(&self) -> CrashesTested {
        let mut kinds = self.reasons.0.iter().map(|reason| reason.kind);
        let is_partial =
            |kind: ReasonKind| kind.is_of_untried_crashes() || kind == ReasonKind::UndecidedTrials;
        match (self.reasons.0.is_empty(), kinds.all(is_partial)) {
            (true, _) => CrashesTested::Completely,
            (false, false) => CrashesTested::Refused,
            (false, true) if self.tried == 0 => CrashesTested::Untried,
            (false, true) => CrashesTested::Partly,
        }
    }
}

#[cfg(test)]
mod tests {
    use brownout_report::Reason;

    use super::*;

    fn crashes(tried: u64, kinds: &[ReasonKind]) -> CaseCrashes {
        let reasons = kinds.iter().map(|&kind| Reason::new(kind, "why"));
        CaseCrashes {
            tried,
            reasons: Reasons(reasons.collect()),
        }
    }

    #[test]
    fn crashes_of_which_none_was_tried_were_not_tested() {
        let gap = ReasonKind::CoverageGap;
        assert_eq!(crashes(9, &[]).tested(), CrashesTested::Completely);
        assert_eq!(crashes(0, &[]).tested(), CrashesTested::Completely);
        assert_eq!(crashes(3, &[gap]).tested(), CrashesTested::Partly);
        assert_eq!(crashes(0, &[gap]).tested(), CrashesTested::Untried);
        let refused = crashes(3, &[gap, ReasonKind::NothingRead]);
        assert_eq!(refused.tested(), CrashesTested::Refused);
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let examination = CaseExamination {
            reasons: Reasons(vec![Reason::other("the trace is damaged")]),
            gaps: vec!["no lines".to_owned()],
            crashes: Some(crashes(2, &[ReasonKind::NotReordered])),
        };
        let json = serde_json::to_string(&examination).unwrap();
        let again: CaseExamination = serde_json::from_str(&json).unwrap();
        assert_eq!(again, examination, "{json}");
    }
}
