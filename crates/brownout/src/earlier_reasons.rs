//! Reasons why earlier results are not conclusive, taken over by results that contain them.
//!
//! Everything is taken over but what the command decides anew, so that no kind of reason can be forgotten.

use brownout_report::Conclusion;

use crate::crash_test::{is_about_trials, is_coverage_gap};
use crate::target_outcome;
use crate::unrecorded_changes::is_unrecorded_change;

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

/// The reasons that concern a crash test whose results are kept. Whether the target has failed is in the trace. Without a crash
/// test, only a comparison that is not repeated is left.
pub fn of_crash_test(earlier: &Conclusion) -> Vec<String> {
    let mut reasons = of_results(earlier);
    reasons.retain(|reason| match earlier.crash {
        Some(_) => !target_outcome::is_failure(reason),
        None => is_unrecorded_change(reason),
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
