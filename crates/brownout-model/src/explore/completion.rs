//! One of the states that are still possible, for a crash image: the one with as much as possible present.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::possible_memory::PossibleMemory;
use super::state_set::StateSet;
use super::store_history::RecordKind;
use super::unit_layer::{Presence, WORDS_IN_LINE};
use crate::address::{LINE, PmAddress, Time};
use crate::unit_states::Tearing;

/// A line from which a crash image lacks stores of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteLine {
    /// The start of the line.
    pub line: PmAddress,
    /// How many stores to the line there were before the crash.
    pub stores: u64,
    /// The numbers of those that are absent, or present only in part, from 0, in order.
    pub absent: Vec<u64>,
    /// Those of them that are present in part, with the aligned 8-byte words of the line that are: bit *n* represents word *n*.
    pub torn: BTreeMap<u64, u8>,
}

impl PossibleMemory {
    /// Bytes in the state that [`completed`](Self::completed) gives.
    pub fn completed_bytes(&self, address: PmAddress, len: u64) -> Vec<u8> {
        let units = self.units_of(address, len);
        let bytes = units.flat_map(|unit| {
            let newest = Arc::new(self.states(unit).newest());
            let mut reads = self.unit_reads(&newest, (unit, None), address, len);
            reads.swap_remove(0).bytes
        });
        bytes.collect()
    }

    /// Keeps one state of the unit with this byte, whatever was read of it: of the stores of the target that a crash can
    /// lose, it has those that were issued before `time`. Recoveries that crashed have lost nothing.
    pub fn keep_issued_before(&mut self, address: PmAddress, time: Time) {
        self.keep_torn_at(address, time, |_| false);
    }

    /// Like [`keep_issued_before`](Self::keep_issued_before), but the state also has the words, by number in the unit, for which
    /// `keeps` holds of the store that was issued at `time`, if stores can be torn.
    pub fn keep_torn_at(
        &mut self,
        address: PmAddress,
        time: Time,
        mut keeps: impl FnMut(usize) -> bool,
    ) {
        let unit = self.target().unit_of(address);
        let states = self.unnarrowed(unit);
        let Some((number, first_grain, layer)) = states.layers().last() else {
            return;
        };
        if !layer.is_of(self.target()) {
            return;
        }
        let (mut steps, mut absent) = (0, Vec::new());
        for part in layer.parts() {
            let is_before = part.issued() < time;
            for word in part.words() {
                let grain = match layer.presence(part, word, first_grain) {
                    Presence::Always => None,
                    Presence::InSequence { step, torn } => {
                        steps = steps.max(if is_before { step + 1 } else { 0 });
                        torn
                    }
                    Presence::Optional(grain) => Some(grain),
                };
                let is_present = is_before || part.issued() == time && keeps(word);
                absent.extend(grain.filter(|_| !is_present));
            }
        }
        let state = states.newest_without(number, steps, &absent);
        self.narrow(unit, &Arc::new(state));
    }

    /// Whether a crash can keep part of a store.
    pub fn tearing(&self) -> Tearing {
        self.target().tearing()
    }

    /// When the target issued the stores of the unit with this byte that the crash can lose, in order.
    pub fn losable(&self, address: PmAddress) -> Vec<Time> {
        let unit = self.target().unit_of(address);
        let states = self.unnarrowed(unit);
        let layer = states.layers().last().map(|(.., layer)| layer);
        let layer = layer.filter(|layer| layer.is_of(self.target()));
        let parts = layer.map_or(&[][..], |layer| layer.parts()).iter();
        let losable = parts.filter(|part| part.is_losable());
        let mut times: Vec<Time> = losable.map(|part| part.issued()).collect();
        times.dedup();
        times
    }

    /// The lines from which that state lacks stores of the target, or with [`Tearing::Words`](crate::Tearing) words of them.
    #[cfg(test)]
    fn incomplete_lines(&self) -> Vec<IncompleteLine> {
        self.incomplete_lines_of(0)
    }

    /// The lines from which that state lacks stores of one of the runs that crashed: 0 is the target, the others are recoveries.
    pub fn incomplete_lines_of(&self, run: usize) -> Vec<IncompleteLine> {
        let mut lines = BTreeMap::new();
        for (unit, states) in self.narrowed_units() {
            self.find_absent(unit, run, &states.newest(), &mut lines);
        }
        lines.into_values().collect()
    }

    /// That state as it was when the last of the runs that crashed started.
    pub fn before_last_crash(&self) -> Self {
        let last = self.crashes() - 1;
        let narrowed = self.narrowed_units();
        let narrowed = narrowed.map(|(unit, states)| (unit, Arc::new(states.newest_before(last))));
        self.without_last(narrowed.collect())
    }

    fn find_absent(
        &self,
        unit: PmAddress,
        run: usize,
        state: &StateSet,
        lines: &mut BTreeMap<PmAddress, IncompleteLine>,
    ) {
        // There is none if the run has not changed the unit.
        let Some((number, first_grain, layer)) =
            state.layers().find(|(.., layer)| layer.run == run)
        else {
            return;
        };
        let (history, crash) = self.crashed_run(run);
        let Some(log) = history.log(unit) else {
            return;
        };
        for part in layer.parts() {
            let is_present = |word: usize| match layer.presence(part, word, first_grain) {
                Presence::Always => true,
                Presence::InSequence { step, torn } => {
                    let steps = state.steps(number);
                    step < steps || step == steps && torn.is_some_and(|grain| state.has(grain))
                }
                Presence::Optional(grain) => state.has(grain),
            };
            if part.words().all(is_present) {
                continue;
            }
            let words = part.words().filter(|&word| is_present(word));
            let words = words.fold(0, |words, word| words | 1 << (word % WORDS_IN_LINE));
            let line = PmAddress {
                offset: unit.offset + part.line() as u64 * LINE,
                ..unit
            };
            let before = crash.before;
            let stores = log.records.iter().filter(|record| {
                record.line() == part.line()
                    && record.kind != RecordKind::Replacement
                    && record.issued < before
            });
            let number = stores
                .clone()
                .take_while(|record| record.issued < part.issued());
            let number = number.count() as u64;
            let entry = lines.entry(line).or_insert_with(|| IncompleteLine {
                line,
                stores: stores.count() as u64,
                absent: Vec::new(),
                torn: BTreeMap::new(),
            });
            entry.absent.push(number);
            if words != 0 {
                entry.torn.insert(number, words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Profile, SpaceId, StoreHistoryBuilder, StoreKind, Tearing};

    #[test]
    fn a_state_of_a_time_has_what_was_stored_before() {
        let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
        let thread = run.add_thread();
        let at = |offset| PmAddress {
            space: SpaceId(0),
            offset,
        };
        let stores = [
            (8, StoreKind::Cached),
            (0, StoreKind::NonTemporal),
            (64, StoreKind::Cached),
            (8, StoreKind::Cached),
        ];
        for (time, (offset, kind)) in (1..).zip(stores) {
            let by = Access {
                thread,
                time: Time(time),
            };
            run.store(by, at(offset), &[time as u8], kind);
        }
        let history = Arc::new(run.finish());
        let end = *history.crash_times().last().unwrap();
        let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
        let crash = PossibleMemory::new(Arc::new(zeros), history, end);
        assert_eq!(crash.losable(at(0)), [1, 2, 4].map(Time));
        // Two stores in a sequence, and one that is lost alone; in the other line, one store.
        let states = [0, 64].map(|offset| crash.unit_states_log10(at(offset)));
        assert!(
            (states[0] - 6_f64.log10()).abs() < 1e-9 && (states[1] - 2_f64.log10()).abs() < 1e-9
        );
        let expected = [[0, 0, 0], [0, 1, 0], [2, 1, 0], [2, 1, 3], [2, 4, 3]];
        for (before, bytes) in (1..).zip(expected) {
            let mut memory = crash.clone();
            memory.keep_issued_before(at(0), Time(before));
            memory.keep_issued_before(at(64), Time(before));
            let read = [0, 8, 64].map(|offset| memory.may_read(at(offset), 1).certain());
            assert_eq!(read, bytes.map(|byte| Some(vec![byte])), "before {before}");
            assert!(!memory.is_open(at(0)) && crash.is_open(at(0)));
        }
    }

    #[test]
    fn a_torn_store_is_named_with_the_words_that_are_present() {
        let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Words);
        let thread = run.add_thread();
        let at = |offset| PmAddress {
            space: SpaceId(0),
            offset,
        };
        for (time, (offset, len)) in (1..).zip([(64, 1), (84, 16), (64, 8)]) {
            let by = Access {
                thread,
                time: Time(time),
            };
            run.store(by, at(offset), &vec![time as u8; len], StoreKind::Cached);
        }
        let history = Arc::new(run.finish());
        let end = *history.crash_times().last().unwrap();
        let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
        let crash = PossibleMemory::new(Arc::new(zeros), history, end);
        // The second store covers words 2 to 4 of the line: it is present in seven ways, each of the others in one.
        assert!((crash.unit_states_log10(at(64)) - 10_f64.log10()).abs() < 1e-9);
        let mut memory = crash.clone();
        memory.keep_torn_at(at(64), Time(2), |word| word == 3);
        let read = |offset| memory.may_read(at(offset), 1).certain().unwrap()[0];
        assert_eq!([64, 87, 88, 95, 96].map(read), [1, 0, 2, 2, 0]);
        let expected = IncompleteLine {
            line: at(64),
            stores: 3,
            absent: vec![1, 2],
            torn: [(1, 1 << 3)].into(),
        };
        assert_eq!(memory.incomplete_lines(), [expected]);
        memory.keep_torn_at(at(64), Time(2), |_| true);
        assert_eq!(memory.incomplete_lines()[0].absent, [2]);
    }
}
