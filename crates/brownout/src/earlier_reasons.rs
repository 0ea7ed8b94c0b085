//! Reasons why earlier results are not conclusive, taken over by results that contain them.
//!
//! Everything is taken over but what the command decides anew, so that no kind of reason can be forgotten.

use brownout_report::Conclusion;

use crate::commands::is_nothing_persistent;
use crate::crash_test::{is_about_trials, is_coverage_gap, is_failure_without_crash};
use crate::exit_code::ExitCode;
use crate::target_outcome;

/// How the reason of a command ends that failed and left the results of an earlier run.
pub const OF_EARLIER_RUN: &str = "; the findings here are those of an earlier run";

/// The reasons of the run that the findings come from, without those of commands that failed later.
pub fn of_results(earlier: &Conclusion) -> Vec<String> {
    let reasons = earlier.reasons.iter();
    reasons
        .filter(|reason| !reason.ends_with(OF_EARLIER_RUN))
        .cloned()
        .collect()
}

/// The reasons that concern crash testing, for results of lint that keep those of a crash test. Whether the target has failed is in
/// the trace. If no crash was tested, lint also decides anew whether there was anything persistent.
pub fn of_crash_test(earlier: &Conclusion) -> Vec<String> {
    let mut reasons = of_results(earlier);
    let was_tested = earlier.crash.is_some();
    reasons.retain(|reason| {
        !target_outcome::is_failure(reason) && (was_tested || !is_nothing_persistent(reason))
    });
    reasons
}

/// The reasons of a part that concern the whole. What all parts have tried, and what it shows, is known from their trials.
pub fn of_part(earlier: &Conclusion) -> Vec<String> {
    let mut reasons = of_results(earlier);
    reasons.retain(|reason| {
        !target_outcome::is_failure(reason) && !is_coverage_gap(reason) && !is_about_trials(reason)
    });
    reasons
}

/// What a run exits with because of a reason that it takes over.
pub fn exit_code(reason: &str) -> ExitCode {
    match is_failure_without_crash(reason) {
        true => ExitCode::TargetFailed,
        false => ExitCode::NothingTested,
    }
}
