//! A digest of what recovery has done, which is the same for two runs that did the same, on any machine.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use brownout_model::Profile;
use brownout_trace::{Definitions, Event, ProcessId, ThreadId};
use xxhash_rust::xxh3::Xxh3;

use super::{RecoveryRun, by_number};
use crate::effect::Effect;

/// The digest of all actions so far.
#[derive(Default)]
pub(super) struct ActionDigest {
    hasher: Xxh3,
    /// Threads by the order of their first action: their ids differ in each run.
    threads: HashMap<(ProcessId, ThreadId), usize>,
}

impl ActionDigest {
    pub(super) fn now(&self) -> u64 {
        self.hasher.digest()
    }

    /// Adds what an event does, whatever the profile.
    pub(super) fn add(&mut self, run: &RecoveryRun, event: &Event<'_>, definitions: &Definitions) {
        let spaces = run.spaces(by_number);
        let next = self.threads.len();
        let Self { hasher, threads } = self;
        // The profile under which every flush and fence is an effect.
        run.effects(event, definitions, &Profile::ADR, &spaces, |effect| {
            let thread = threads.entry((event.process, event.thread)).or_insert(next);
            thread.hash(hasher);
            match effect {
                Effect::Fence => hasher.write_u8(0),
                Effect::Store { at, bytes, kind } => (1_u8, at, bytes, kind).hash(hasher),
                Effect::Flush { at, effect } => (2_u8, at, effect).hash(hasher),
                Effect::WriteBack { space, range } => (3_u8, space, range).hash(hasher),
                Effect::Replace { at, bytes } => (4_u8, at, bytes).hash(hasher),
                Effect::Remove { space, range } => (5_u8, space, range).hash(hasher),
            }
        });
    }
}
