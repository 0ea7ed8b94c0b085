//! Recoveries that pass because a pipeline hides how they end.

use brownout_recovery::{Expectation, is_pipeline};

use super::plan::Plan;

/// What a test in which every recovery passes does not show, if the commands are pipelines. If the output is compared, a recovery that
/// fails still shows.
pub fn hidden_status(plan: &Plan) -> Option<String> {
    let recovery = &plan.recovery;
    // The status of a server decides nothing.
    let command = recovery.client.as_ref().unwrap_or(&recovery.command);
    let is_compared = !matches!(plan.expected, Expectation::Anything);
    (is_pipeline(command) && !is_compared).then(|| format!(
        "recovery passes if the last command of its pipeline does, whatever the commands before it found: `{command}`; \
         use `bash -c 'set -o pipefail; …'`, or write to a file instead of a pipe"
    ))
}
