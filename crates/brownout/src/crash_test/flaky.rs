//! Recoveries that fail on an image and pass on it when they run again.

use brownout_crash::Trial;

use crate::quantity::number_of;

/// How the sentence starts.
pub const NOT_DETERMINISTIC: &str = "recovery is not deterministic: at ";

/// Why failures that do not repeat leave a test undecided, if there are any.
pub fn undecided(trials: &[Trial]) -> Option<String> {
    let flaky = trials.iter().filter(|trial| trial.is_flaky()).count() as u64;
    (flaky > 0).then(|| {
        format!(
            "{NOT_DETERMINISTIC}{} it failed, and passed when it ran again on the same image",
            number_of(flaky, "crash point")
        )
    })
}
