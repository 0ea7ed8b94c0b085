//! Remembers the behaviours that a test has decided, if its verdicts count: update behaviours, and behaviours of recovery.

use std::ffi::OsString;

use brownout_crash::{ExploredBehaviours, ExploredPages, TestConfiguration, TestedBehaviour};
use brownout_report::Reason;

use crate::behaviour_memory::{BehaviourMemory, Remembered};

/// Variables that shells change from command to command, and no recovery depends on.
const CHANGING: [&str; 4] = ["_", "SHLVL", "OLDPWD", "PWD"];

/// What a test has decided.
#[derive(Default)]
pub struct Decided {
    /// Update behaviours.
    pub tested: Vec<TestedBehaviour>,
    /// Behaviours of recovery, and the circumstances under which they are known; `None` if it was not explored.
    pub explored: Option<(ExploredPages, String)>,
    /// Why behaviours of recovery that were explored are not known in general.
    pub unknown: Option<&'static str>,
}

/// The circumstances of an exploration in this environment; `None` if they are not known.
pub fn circumstances(configuration: &TestConfiguration) -> Option<String> {
    let is_same = |name: &OsString| !CHANGING.iter().any(|changing| name == changing);
    let variables = std::env::vars_os().filter(|(name, _)| is_same(name));
    let mut variables: Vec<(OsString, OsString)> = variables.collect();
    variables.sort();
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        hash.update(text.as_encoded_bytes());
        hash.update(&[0]);
    }
    ExploredBehaviours::circumstances(configuration, hash.digest())
}

/// Adds behaviours to a memory and says so. If the test has shown nothing for another reason than that there is more to try, its verdicts
/// are not remembered. The results do not depend on the memory, so a memory that cannot be written is a reason and ends nothing.
pub fn remember(
    memory: &BehaviourMemory,
    decided: Decided,
    configuration: &TestConfiguration,
    shortfalls: &[Reason],
) -> Result<String, Reason> {
    let path = memory.path().display();
    let nothing = |why: &str| Ok(format!("nothing was added to `{path}`: {why}"));
    if shortfalls
        .iter()
        .any(|why| !why.kind.is_of_untried_crashes())
    {
        return nothing("the test was inconclusive");
    }
    if let Some(why) = decided.unknown {
        return nothing(why);
    }
    let noun = match &decided.explored {
        Some(_) => ("behaviour of recovery", "behaviours of recovery"),
        None => ("update behaviour", "update behaviours"),
    };
    let changed = memory.change(|known: &mut Remembered| match decided.explored {
        Some((pages, circumstances)) => {
            let before = known.explored.len();
            known.explored.add(pages, &circumstances);
            (before, known.explored.len())
        }
        None => {
            let before = known.tested.len();
            known.tested.add(decided.tested, configuration);
            (before, known.tested.len())
        }
    });
    match changed {
        Ok((before, all)) => {
            let new = all.saturating_sub(before);
            let noun = if new == 1 { noun.0 } else { noun.1 };
            Ok(format!(
                "{new} {noun} added to `{path}`, which has {all} now"
            ))
        }
        Err(failure) => {
            let why = failure.sentence();
            let text = format!("the behaviours that were tested are not remembered: {why}");
            Err(Reason::other(text))
        }
    }
}
