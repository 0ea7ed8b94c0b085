//! Reasons why earlier results are not conclusive, taken over by results that contain them.
//!
//! Everything is taken over but the kinds of reasons that the command decides anew, so that no kind can be forgotten.

use brownout_report::{Conclusion, Reason, ReasonKind};

use crate::exit_code::ExitCode;

/// The reasons of the run that the findings come from, without those of commands that failed later.
pub fn of_results(earlier: &Conclusion) -> Vec<Reason> {
    let mut reasons = earlier.reasons.0.clone();
    reasons.retain(|reason| reason.kind != ReasonKind::LaterCommandFailed);
    reasons
}

/// The reasons that concern crash testing, for results of lint that keep those of a crash test. Whether the target has failed is in
/// the trace. If no crash was tested, lint also decides anew whether there was anything persistent.
pub fn of_crash_test(earlier: &Conclusion) -> Vec<Reason> {
    let mut reasons = of_results(earlier);
    let was_tested = earlier.crash.is_some();
    reasons.retain(|reason| match reason.kind {
        ReasonKind::TargetFailed | ReasonKind::UnmatchedPattern => false,
        ReasonKind::NothingPersistent => was_tested,
        _ => true,
    });
    reasons
}

/// The reasons that concern neither crash testing nor the trace as such, for results of a crash test that keep those of other
/// analyses.
pub fn of_trace_analyses(earlier: &Conclusion) -> Vec<Reason> {
    let mut reasons = of_results(earlier);
    reasons
        .retain(|reason| reason.kind == ReasonKind::NoRacesTested || reason.is_of_other_schedule());
    reasons
}

/// The reasons of a part that concern the whole. What all parts have tried, and what it shows, is known from their trials.
pub fn of_part(earlier: &Conclusion) -> Vec<Reason> {
    let mut reasons = of_results(earlier);
    let is_decided_anew = |reason: &Reason| {
        matches!(
            reason.kind,
            ReasonKind::TargetFailed
                | ReasonKind::CoverageGap
                | ReasonKind::NotReordered
                | ReasonKind::UndecidedTrials
                | ReasonKind::NothingRead
        )
    };
    reasons.retain(|reason| !is_decided_anew(reason));
    reasons
}

/// What a run exits with because of a reason that it takes over.
pub fn exit_code(reason: &Reason) -> ExitCode {
    match reason.kind {
        ReasonKind::TargetFailed
        | ReasonKind::RecoveryFailedWithoutCrash
        | ReasonKind::OtherScheduleFailed => ExitCode::TargetFailed,
        _ => ExitCode::NothingTested,
    }
}
