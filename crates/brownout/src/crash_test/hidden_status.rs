//! Recoveries that pass because their command hides how its parts end.

use brownout_recovery::{Expectation, HiddenStatus as Hidden, hidden_status as hidden};

use super::plan::Plan;

/// What a test in which every recovery passes does not show.
pub enum HiddenStatus {
    /// Failures of parts of the command, in a sentence.
    Gap(String),
    /// Any failure, in a sentence.
    NothingTested(String),
}

/// What a test in which every recovery passes does not show, if the command hides how its parts end. If the output is compared, a
/// recovery that fails still shows.
pub fn hidden_status(plan: &Plan) -> Option<HiddenStatus> {
    let recovery = &plan.recovery;
    // The status of a server decides nothing.
    let command = recovery.client.as_ref().unwrap_or(&recovery.command);
    if !matches!(plan.expected, Expectation::Anything) {
        return None;
    }
    Some(match hidden(command)? {
        Hidden::ByPipeline => HiddenStatus::Gap(format!(
            "recovery passes if the last command of its pipeline does, whatever the commands before it found: `{command}`; \
             use `bash -c 'set -o pipefail; …'`, or write to a file instead of a pipe"
        )),
        Hidden::AlwaysByPipeline => HiddenStatus::NothingTested(format!(
            "crash testing tested nothing: recovery passes whatever it finds, because the last command of its pipeline always does: \
             `{command}`; use `bash -c 'set -o pipefail; …'`, or write to a file instead of a pipe"
        )),
        Hidden::ByLastCommand => HiddenStatus::Gap(format!(
            "recovery passes if its last command does, whatever the commands before it found: `{command}`; \
             connect them with `&&`, or begin with `set -e;`"
        )),
        Hidden::Always => HiddenStatus::NothingTested(format!(
            "crash testing tested nothing: recovery passes whatever it finds, because its last command always does: `{command}`; \
             connect the commands with `&&`, or begin with `set -e;`"
        )),
    })
}
