//! All stores of one run of the target or of recovery, with the times when they were issued, guaranteed and settled.
//! Jaaru (§4) calls it an execution.
//!
//! What a crash can leave at any time is computed from this one history, for the units that recovery reads and only for
//! them. A crash time therefore costs nothing until recovery runs, and thousands of them share all memory.

use std::collections::BTreeMap;
use std::ops::Range;

use super::crash_time::{CrashTime, states_log10};
use super::known_bytes::KnownBytes;
use crate::address::{LINE, PmAddress, SpaceId, Time};
use crate::byte_mask::ByteMask;
use crate::profile::Profile;
use crate::unit_states::Tearing;

/// The time of what has not happened.
pub(super) const NEVER: Time = Time(u64::MAX);

/// How a record takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// A store that is part of the sequence of its unit.
    InSequence,
    /// A store that a crash keeps or loses independently of others.
    Optional,
    /// A write to the file: it is persistent, and what was stored to these bytes before is gone.
    Replacement,
}

/// The part of a store in one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreRecord {
    pub(super) issued: Time,
    pub(super) guaranteed: Time,
    pub(super) settled: Time,
    /// Where its bytes start in the values of the history.
    pub(super) values: usize,
    /// The first byte in the unit.
    pub(super) start: u16,
    pub(super) len: u16,
    pub(super) kind: RecordKind,
    /// When this record was issued, all records of the unit before this one were settled.
    pub(super) oldest_open: u32,
}

impl StoreRecord {
    /// The number of the line in the unit.
    pub(super) fn line(&self) -> usize {
        usize::from(self.start) / LINE as usize
    }

    /// The bytes stored to the line.
    pub(super) fn mask(&self) -> ByteMask {
        ByteMask::range(u64::from(self.start) % LINE, u64::from(self.len))
    }
}

/// The records of one unit.
#[derive(Clone, Debug)]
pub(super) struct UnitLog {
    /// In the order of issue.
    pub(super) records: Vec<StoreRecord>,
    /// The newest value of each byte stored to.
    pub(super) newest: KnownBytes,
    /// The newest values before every [`CHECKPOINT`]th record, so that no search goes back to the start of the run.
    checkpoints: Vec<KnownBytes>,
    oldest_open: u32,
}

const CHECKPOINT: usize = 64;

impl UnitLog {
    fn new(size: u64) -> Self {
        UnitLog {
            records: Vec::new(),
            newest: KnownBytes::none(size),
            checkpoints: Vec::new(),
            oldest_open: 0,
        }
    }

    fn push(&mut self, mut record: StoreRecord, bytes: &[u8]) -> u32 {
        if self.records.len().is_multiple_of(CHECKPOINT) {
            self.checkpoints.push(self.newest.clone());
        }
        self.newest.set(usize::from(record.start), bytes);
        record.oldest_open = self.oldest_open;
        self.records.push(record);
        self.records.len() as u32 - 1
    }

    pub(super) fn settle(&mut self, record: u32, time: Time) {
        self.records[record as usize].settled = time;
        let open = self.records[self.oldest_open as usize..].iter();
        self.oldest_open += open.take_while(|record| record.settled != NEVER).count() as u32;
    }
}

/// Names a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordId {
    pub(super) unit: u32,
    pub(super) record: u32,
}

/// The stores of one run of the target or of recovery, and its [crash times](CrashTime).
/// [`StoreHistoryBuilder`](super::StoreHistoryBuilder) makes it.
#[derive(Clone, Debug)]
pub struct StoreHistory {
    pub(super) profile: Profile,
    pub(super) tearing: Tearing,
    units: BTreeMap<PmAddress, u32>,
    pub(super) logs: Vec<UnitLog>,
    values: Vec<u8>,
    /// Bytes that were cut off, oldest first.
    removed: Vec<(Time, SpaceId, Range<u64>)>,
    pub(super) crash_times: Vec<CrashTime>,
}

impl StoreHistory {
    pub(super) fn new(profile: Profile, tearing: Tearing) -> Self {
        StoreHistory {
            profile,
            tearing,
            units: BTreeMap::new(),
            logs: Vec::new(),
            values: Vec::new(),
            removed: Vec::new(),
            crash_times: Vec::new(),
        }
    }

    /// The times at which a crash can leave states that no other time shows, oldest first. Never empty.
    pub fn crash_times(&self) -> &[CrashTime] {
        &self.crash_times
    }

    /// The decimal logarithm of the number of states of all crash times, each of which an eager enumeration has to try.
    pub fn eager_states_log10(&self) -> f64 {
        states_log10(self.crash_times.iter().copied())
    }

    /// The profile that decides what is guaranteed.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether a crash can keep part of a store.
    pub fn tearing(&self) -> Tearing {
        self.tearing
    }

    /// When the states change that a crash can leave of the unit with this byte, in order. They are the same at two crash times
    /// if none of these times is before one and not before the other.
    pub fn changes(&self, address: PmAddress) -> Vec<Time> {
        let unit = self.unit_of(address);
        let records = self.log(unit).map_or(&[][..], |log| &log.records);
        let of_records = records
            .iter()
            .flat_map(|record| [record.issued, record.guaranteed, record.settled]);
        let end = unit.offset.saturating_add(self.profile.unit);
        let removals = self.removed.iter().filter(|(_, space, range)| {
            *space == unit.space && range.start < end && unit.offset < range.end
        });
        let of_removals = removals.map(|&(time, ..)| time);
        let mut changes: Vec<Time> = of_records
            .chain(of_removals)
            .filter(|&time| time != NEVER)
            .collect();
        changes.sort();
        changes.dedup();
        changes
    }

    /// The start of the unit that contains `address`.
    pub(super) fn unit_of(&self, address: PmAddress) -> PmAddress {
        PmAddress {
            offset: address.offset - address.offset % self.profile.unit,
            ..address
        }
    }

    /// The units that were stored to, ordered by address.
    pub(super) fn units(&self) -> impl Iterator<Item = PmAddress> {
        self.units.keys().copied()
    }

    /// The units with stores that contain bytes of `range`.
    pub(super) fn units_in(&self, space: SpaceId, range: Range<u64>) -> Vec<PmAddress> {
        let address = |offset| PmAddress { space, offset };
        let first = self.unit_of(address(range.start));
        let units = self.units.range(first..address(range.end));
        units.map(|(&unit, _)| unit).collect()
    }

    pub(super) fn log(&self, unit: PmAddress) -> Option<&UnitLog> {
        self.units.get(&unit).map(|&unit| &self.logs[unit as usize])
    }

    /// Adds the part of a store in one line.
    pub(super) fn add(
        &mut self,
        time: Time,
        address: PmAddress,
        bytes: &[u8],
        kind: RecordKind,
    ) -> RecordId {
        let start = self.unit_of(address);
        let (logs, size) = (&mut self.logs, self.profile.unit);
        let unit = *self.units.entry(start).or_insert_with(|| {
            logs.push(UnitLog::new(size));
            logs.len() as u32 - 1
        });
        let record = StoreRecord {
            issued: time,
            guaranteed: NEVER,
            settled: NEVER,
            values: self.values.len(),
            start: (address.offset - start.offset) as u16,
            len: bytes.len() as u16,
            kind,
            oldest_open: 0,
        };
        self.values.extend_from_slice(bytes);
        let record = self.logs[unit as usize].push(record, bytes);
        RecordId { unit, record }
    }

    pub(super) fn record_mut(&mut self, id: RecordId) -> &mut StoreRecord {
        &mut self.logs[id.unit as usize].records[id.record as usize]
    }

    /// The bytes of a record.
    pub(super) fn bytes(&self, record: &StoreRecord) -> &[u8] {
        &self.values[record.values..record.values + usize::from(record.len)]
    }

    /// Notes that the file lost the bytes of `range`; bytes that it gets there later are zero.
    pub(super) fn remove(&mut self, time: Time, space: SpaceId, range: Range<u64>) {
        self.removed.push((time, space, range));
    }

    /// Makes the bytes of a unit that were cut off before `time` known zeros, unless a record has their value.
    pub(super) fn zero_removed(&self, unit: PmAddress, time: Time, known: &mut KnownBytes) {
        let before = self.removed.partition_point(|(at, ..)| *at < time);
        for (_, space, range) in &self.removed[..before] {
            let from = range
                .start
                .saturating_sub(unit.offset)
                .min(self.profile.unit);
            let to = range.end.saturating_sub(unit.offset).min(self.profile.unit);
            if *space == unit.space {
                known.default_to_zero(from as usize, to as usize);
            }
        }
    }

    /// Whether bytes of a unit were cut off before `time`.
    pub(super) fn has_removed(&self, unit: PmAddress, time: Time) -> bool {
        let end = unit.offset + self.profile.unit;
        let mut removed = self.removed.iter().take_while(|(at, ..)| *at < time);
        removed.any(|(_, space, range)| {
            *space == unit.space && range.start < end && unit.offset < range.end
        })
    }

    /// The records of a unit before `time`: the values that all older records left, and the newer ones.
    pub(super) fn before(&self, unit: PmAddress, time: Time) -> (KnownBytes, &[StoreRecord]) {
        let size = self.profile.unit;
        let Some(log) = self.log(unit) else {
            return (KnownBytes::none(size), &[]);
        };
        let count = log.records.partition_point(|record| record.issued < time);
        let records = &log.records[..count];
        let Some(last) = records.last() else {
            return (KnownBytes::none(size), &[]);
        };
        let open = last.oldest_open as usize;
        let checkpoint = open / CHECKPOINT;
        let mut settled = log.checkpoints[checkpoint].clone();
        for record in &records[checkpoint * CHECKPOINT..open] {
            settled.set(usize::from(record.start), self.bytes(record));
        }
        (settled, &records[open..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_before_a_time_do_not_depend_on_checkpoints() {
        let mut history = StoreHistory::new(Profile::ADR, Tearing::Whole);
        let address = |offset| PmAddress {
            offset,
            ..PmAddress::default()
        };
        for time in 1..=200 {
            let (offset, value) = if time == 3 { (8, 77) } else { (0, time as u8) };
            let id = history.add(
                Time(time),
                address(offset),
                &[value],
                RecordKind::InSequence,
            );
            history.logs[id.unit as usize].settle(id.record, Time(time));
        }
        for time in [4, 64, 65, 66, 129, 200] {
            let (mut settled, newer) = history.before(address(0), Time(time));
            for record in newer {
                settled.set(usize::from(record.start), history.bytes(record));
            }
            assert_eq!(settled.word(0).1[0], time as u8 - 1 - u8::from(time == 4));
            assert_eq!(settled.word(1), (1, &[77, 0, 0, 0, 0, 0, 0, 0][..]));
        }
    }
}
