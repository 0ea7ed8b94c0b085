//! Recoveries that fail on an image and pass on it when they run again.

use brownout_crash::Trial;
use brownout_report::{Reason, ReasonKind};

use crate::quantity::number_of;

/// Why failures that do not repeat leave a test undecided, if there are any.
pub fn undecided(trials: &[Trial]) -> Option<Reason> {
    let flaky = trials.iter().filter(|trial| trial.is_flaky()).count() as u64;
    (flaky > 0).then(|| {
        let text = format!(
            "recovery is not deterministic: at {} it failed, and passed when it ran again on the same image",
            number_of(flaky, "crash point")
        );
        Reason::new(ReasonKind::UndecidedTrials, text)
    })
}
