//! Whether the numbers that an instruction stores are offsets of objects.
//!
//! A number can be the offset of an object by chance: a counter passes through all of them. So the instruction is judged by all
//! numbers that it stores, in whatever calling context, and only at the end of the trace:
//!
//! - If one of them cannot be an offset, or leads to where nothing was stored, none of them is one. Zero and the largest number
//!   mean that there is no object.
//! - If several different ones are offsets of objects that were not guaranteed, they are.
//! - Otherwise it is not known.

use std::hash::Hash;

use brownout_trace::{AppPc, ProcessId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::follower::guarantees::Guarantees;
use crate::follower::targets::SuspectPointer;
use crate::oracle::OracleFrame;
use crate::site_keys::{KnownSites, SiteKey};

/// The suspects that wait for what is known of the numbers that are stored.
#[derive(Default)]
pub(crate) struct Offsets {
    suspects: FxHashMap<SiteKey, OffsetSuspects>,
}

/// The suspects of a site whose pointers are offsets.
struct OffsetSuspects {
    first: SuspectPointer,
    count: u64,
    /// There are others with another value than the first one.
    differ: bool,
    /// The stores to the targets of all of them.
    targets: FxHashSet<SiteKey>,
}

impl Offsets {
    /// An offset was guaranteed before its target.
    pub(crate) fn add(&mut self, suspect: SuspectPointer) {
        let targets = suspect.target.iter().map(|store| store.site);
        match self.suspects.get_mut(&suspect.pointer.site) {
            Some(known) => {
                known.count += 1;
                known.differ |= known.first.pointer.value != suspect.pointer.value;
                known.targets.extend(targets);
            }
            None => {
                let suspects = OffsetSuspects {
                    count: 1,
                    differ: false,
                    targets: targets.collect(),
                    first: suspect,
                };
                self.suspects.insert(suspects.first.pointer.site, suspects);
            }
        }
    }
}

type Instruction = (ProcessId, AppPc);

fn instruction(sites: &KnownSites, key: SiteKey) -> Instruction {
    let site = sites.site(key);
    (site.process, site.pc)
}

impl Guarantees {
    /// Reports the suspects whose numbers may be offsets. `stack` gives the calls that led to a site.
    pub(crate) fn end_offsets(&mut self, mut stack: impl FnMut(SiteKey) -> Vec<OracleFrame>) {
        let mut offsets = std::mem::take(&mut self.pointers.numbers);
        if offsets.suspects.is_empty() {
            return;
        }
        let refuted = self.sites.storing_other_numbers();
        let refuted: FxHashSet<Instruction> =
            refuted.map(|site| instruction(&self.sites, site)).collect();
        offsets
            .suspects
            .retain(|site, _| !refuted.contains(&instruction(&self.sites, *site)));
        let mut suspects: Vec<OffsetSuspects> = offsets.suspects.into_values().collect();
        suspects.sort_unstable_by_key(|suspects| suspects.first.pointer.time);
        let (mut instructions, mut stacks) = (StoredOffsets::default(), StoredOffsets::default());
        for suspects in &suspects {
            let site = suspects.first.pointer.site;
            instructions.add(instruction(&self.sites, site), suspects);
            let stack = stack(site);
            if stack.first().is_some_and(|frame| frame.source.is_some()) {
                stacks.add(stack, suspects);
            }
        }
        for suspects in suspects {
            let site = suspects.first.pointer.site;
            let is_certain = instructions.are_several(&instruction(&self.sites, site))
                || stacks.are_several(&stack(site));
            self.pointers.reported.extend(suspects.targets);
            self.report_suspect(&suspects.first, suspects.count, is_certain);
        }
    }
}

/// Which code stores several different offsets. A compiler that unrolls a loop makes several instructions of one store, which
/// have the same stack.
struct StoredOffsets<C> {
    /// The first value, and whether there are others.
    values: FxHashMap<C, (u64, bool)>,
}

impl<C> Default for StoredOffsets<C> {
    fn default() -> Self {
        StoredOffsets {
            values: FxHashMap::default(),
        }
    }
}

impl<C: Hash + Eq> StoredOffsets<C> {
    fn add(&mut self, code: C, suspects: &OffsetSuspects) {
        let value = suspects.first.pointer.value;
        let (first, differ) = self.values.entry(code).or_insert((value, false));
        *differ |= suspects.differ || *first != value;
    }

    fn are_several(&self, code: &C) -> bool {
        self.values.get(code).is_some_and(|(_, differ)| *differ)
    }
}
