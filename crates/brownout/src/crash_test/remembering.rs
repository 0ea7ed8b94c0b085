//! Remembers the update behaviours that a test has decided, if its verdicts count.

use brownout_crash::{TestConfiguration, TestedBehaviour};
use brownout_report::{Reason, ReasonKind};

use crate::behaviour_memory::BehaviourMemory;
use crate::quantity::number_of;

/// Adds behaviours to a memory and says so. If the test has shown nothing for another reason than that there is more to try, its verdicts
/// are not remembered. The results do not depend on the memory, so a memory that cannot be written is a reason and ends nothing.
pub fn remember(
    memory: &BehaviourMemory,
    decided: Vec<TestedBehaviour>,
    configuration: &TestConfiguration,
    shortfalls: &[Reason],
) -> Result<String, Reason> {
    let path = memory.path().display();
    if shortfalls
        .iter()
        .any(|why| why.kind != ReasonKind::CoverageGap)
    {
        return Ok(format!(
            "nothing was added to `{path}`: the verdicts of this test do not count"
        ));
    }
    let new = number_of(decided.len() as u64, "update behaviour");
    match memory.add(decided, configuration) {
        Ok(all) => Ok(format!("{new} added to `{path}`, which has {all} now")),
        Err(failure) => {
            let why = failure.sentence();
            let text = format!("the update behaviours that were tested are not remembered: {why}");
            Err(Reason::other(text))
        }
    }
}
