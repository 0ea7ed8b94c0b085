//! The bytes of a run's files that differ between crashes: what else recovery reads is the same after each of them.

use std::ops::Range;

use brownout_model::PossibleMemory;
use brownout_recovery::ByteRanges;
use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use crate::effect::address;

/// The bytes of each file that changed.
#[derive(Default)]
pub struct Changes {
    /// Before the first time at which a crash is explored, and since.
    before: FxHashMap<FileId, ByteRanges>,
    since: FxHashMap<FileId, ByteRanges>,
    is_exploring: bool,
    /// What the present event has changed.
    present: Vec<(FileId, Range<u64>)>,
}

impl Changes {
    pub fn add(&mut self, file: FileId, range: Range<u64>) {
        self.present.push((file, range));
    }

    pub fn begin_event(&mut self) {
        let changed = match self.is_exploring {
            true => &mut self.since,
            false => &mut self.before,
        };
        for (file, range) in self.present.drain(..) {
            let ranges = changed.entry(file).or_insert_with(ByteRanges::exact);
            ranges.insert(range);
        }
    }

    /// The first crash is explored before the present event.
    pub fn begin_exploring(&mut self) {
        self.is_exploring = true;
    }

    /// The bytes that differ between crashes: those that changed after the first of them, and those that it can lose.
    pub fn differing(
        mut self,
        first: Option<&PossibleMemory>,
        unit: u64,
    ) -> FxHashMap<FileId, ByteRanges> {
        self.begin_event();
        let mut differing = self.since;
        let Some(first) = first else {
            return differing;
        };
        for (file, ranges) in self.before {
            let ranges = ranges.ranges().flat_map(|range| by_unit(range, unit));
            for range in ranges.filter(|range| first.is_open(address(file, range.start))) {
                let of_file = differing.entry(file).or_insert_with(ByteRanges::exact);
                of_file.insert(range);
            }
        }
        differing
    }
}

/// The parts of a range in each unit.
fn by_unit(range: Range<u64>, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let part = start..(start - start % unit + unit).min(range.end);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}
