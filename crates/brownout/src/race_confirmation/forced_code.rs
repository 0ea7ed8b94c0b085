//! The sites of a race, found again in the trace of a run in which it was forced.

use std::path::Path;

use brownout_engine::CodeLocation;
use brownout_race::{AccessOwner, ForcedRoles, RaceSite, TargetCode};
use brownout_trace::{Definitions, Event};

use super::code_stack::code_stack;
use super::hold_choice::Hold;
use crate::race_run::RaceStacks;

/// Knows the code of a target whose threads were held.
pub struct ForcedCode<'h> {
    pub stacks: RaceStacks,
    hold: &'h Hold,
    roles: Vec<ForcedRoles>,
}

impl<'h> ForcedCode<'h> {
    /// For a target that was started in `directory`.
    pub fn new(directory: &Path, hold: &'h Hold) -> Self {
        Self {
            stacks: RaceStacks::new(directory),
            hold,
            roles: Vec::new(),
        }
    }
}

impl TargetCode for ForcedCode<'_> {
    fn owner(
        &mut self,
        site: RaceSite,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> AccessOwner {
        let stack = code_stack(event, definitions);
        let is_load = |first: &CodeLocation| self.hold.loads.contains(first);
        self.roles.push(ForcedRoles {
            store: !stack.is_empty() && is_alike(&stack, &self.hold.store),
            load: stack.first().is_some_and(is_load),
        });
        self.stacks.owner(site, event, definitions)
    }

    fn forced_roles(&self, site: RaceSite) -> ForcedRoles {
        let known = self.roles.get(site.0 as usize);
        known.copied().unwrap_or_default()
    }
}

/// Whether two stacks are the same as far as both are known.
fn is_alike(one: &[CodeLocation], other: &[CodeLocation]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}
