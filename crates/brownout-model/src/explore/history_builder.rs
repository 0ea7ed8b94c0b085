//! Builds the [`StoreHistory`] of a run from its events, and decides on its crash times.

use std::ops::Range;

use super::crash_time::{CrashTime, LogSum, StateCount};
use super::known_bytes::{KnownBytes, WORD};
use super::store_history::{NEVER, RecordId, RecordKind, StoreHistory};
use crate::address::{LINE, PmAddress, SpaceId, ThreadSlot, Time, line_parts};
use crate::byte_mask::ByteMask;
use crate::line_marks::Marks;
use crate::live_stores::LiveStore;
use crate::observer::{Access, FlushEffect, PersistObserver, StoreKind};
use crate::profile::Profile;
use crate::shadow::LineRef;
use crate::tracker::Tracker;
use crate::unit_states::Tearing;

/// Follows the events of a run of the target, in the order of their effect.
///
/// The times of events increase; what one instruction does (a locked instruction is a fence and a store) has one time.
///
/// ```
/// use brownout_model::*;
///
/// let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
/// let thread = run.add_thread();
/// let at = |time| Access { thread, time: Time(time) };
/// let data = PmAddress { space: SpaceId(0), offset: 0 };
/// let commit = PmAddress { space: SpaceId(0), offset: 64 };
///
/// run.store(at(1), data, &[7; 8], StoreKind::Cached);
/// run.flush(at(2), data, FlushEffect::Deferred);
/// run.fence(at(3));
/// run.store(at(4), commit, &[1], StoreKind::Cached);
/// run.flush(at(5), commit, FlushEffect::Deferred);
/// run.fence(at(6));
///
/// // Before each fence, and at the end.
/// let history = run.finish();
/// let times: Vec<u64> = history.crash_times().iter().map(|time| time.before.0).collect();
/// assert_eq!(times, [3, 6, 7]);
/// // Two states before each fence, one at the end.
/// assert!((history.eager_states_log10() - 5_f64.log10()).abs() < 1e-6);
/// ```
#[derive(Clone)]
pub struct StoreHistoryBuilder {
    tracker: Tracker<Log>,
    log: Log,
}

impl StoreHistoryBuilder {
    /// A run without events.
    pub fn new(profile: Profile, tearing: Tearing) -> Self {
        // The content before the first store is a state that a crash can leave.
        Self::with_state_at_start(profile, tearing, true)
    }

    /// A run of recovery: a crash before its first store leaves what the crash before it left.
    pub fn of_recovery(profile: Profile, tearing: Tearing) -> Self {
        Self::with_state_at_start(profile, tearing, false)
    }

    fn with_state_at_start(profile: Profile, tearing: Tearing, changed: bool) -> Self {
        StoreHistoryBuilder {
            tracker: Tracker::new(profile),
            log: Log {
                history: StoreHistory::new(profile, tearing),
                counts: Vec::new(),
                states: LogSum::default(),
                changed,
                now: Time(0),
                at_start: (changed, LogSum::default()),
            },
        }
    }

    /// Adds a thread.
    pub fn add_thread(&mut self) -> ThreadSlot {
        self.tracker.add_thread()
    }

    /// Processes a store.
    pub fn store(&mut self, by: Access, address: PmAddress, bytes: &[u8], kind: StoreKind) {
        self.log.begin(by.time);
        let profile = *self.tracker.profile();
        let record_kind = match kind {
            StoreKind::NonTemporal if profile.non_temporal != profile.cached => {
                RecordKind::Optional
            }
            _ => RecordKind::InSequence,
        };
        for (at, mask, bytes) in lines_of(address, bytes) {
            let id = self.log.add(by.time, at, mask, bytes, record_kind);
            let line = self.tracker.line(at);
            self.tracker.store(&mut self.log, by, line, mask, kind, id);
            self.log.changed = true;
        }
    }

    /// Processes a flush of the line that contains `address`.
    pub fn flush(&mut self, by: Access, address: PmAddress, effect: FlushEffect) {
        self.log.begin(by.time);
        if let Some(line) = self.tracker.find_line(address) {
            self.tracker.flush(&mut self.log, by, line, effect, ());
        }
    }

    /// Processes a fence: `sfence`, `mfence`, or a locked instruction before it stores.
    pub fn fence(&mut self, by: Access) {
        self.log.begin(by.time);
        self.tracker.fence(&mut self.log, by);
    }

    /// Processes a write-back of the pages that contain bytes of `range` (`msync`, `fsync`).
    pub fn write_back(&mut self, by: Access, space: SpaceId, range: Range<u64>) {
        self.log.begin(by.time);
        self.tracker.write_back(&mut self.log, by, space, range);
    }

    /// Processes a write to the file that bypasses the mapping: it is persistent at once and replaces what was stored
    /// there.
    pub fn replace(&mut self, time: Time, address: PmAddress, bytes: &[u8]) {
        self.log.begin(time);
        let end = address.offset.saturating_add(bytes.len() as u64);
        self.discard(address.space, address.offset..end);
        for (at, _, bytes) in lines_of(address, bytes) {
            self.log.replace(time, at, bytes);
        }
    }

    /// Processes the removal of the bytes of `range` from the file; if it gets bytes there again, they are zero.
    pub fn remove(&mut self, time: Time, space: SpaceId, range: Range<u64>) {
        self.log.begin(time);
        self.discard(space, range.clone());
        let size = self.tracker.profile().unit;
        for unit in self.log.history.units_in(space, range.clone()) {
            let offset = unit.offset.max(range.start);
            let end = unit.offset.saturating_add(size).min(range.end);
            let zeros = vec![0; (end - offset) as usize];
            for (at, _, bytes) in lines_of(PmAddress { space, offset }, &zeros) {
                self.log.replace(time, at, bytes);
            }
        }
        self.log.history.remove(time, space, range);
    }

    /// The files are about to get other names, or the like: a crash immediately before this time leaves what no later one does.
    pub fn narrow(&mut self, time: Time) {
        self.log.begin(time);
        self.log.narrowed();
    }

    /// The files have got other names, or the like: the next crash time shows what none before it does.
    pub fn widen(&mut self) {
        self.log.changed = true;
    }

    /// Drops what was stored to `range` and not settled.
    fn discard(&mut self, space: SpaceId, range: Range<u64>) {
        let log = &mut self.log;
        log.narrowed();
        log.changed = true;
        self.tracker.retain(space, range.clone(), |line, _, store| {
            let from = range.start.saturating_sub(line.offset).min(LINE);
            let to = range.end.saturating_sub(line.offset).min(LINE);
            let left = store.bytes.without(ByteMask::range(from, to - from));
            log.shrink(store, left);
            store.bytes = left;
            !left.is_empty()
        });
    }

    /// The crash times so far, without the end.
    pub fn crash_times(&self) -> &[CrashTime] {
        &self.log.history.crash_times
    }

    /// Whether something was stored since the last crash time, so that the end of the run is one, too.
    pub fn changed(&self) -> bool {
        self.log.changed
    }

    /// The newest bytes that this run stored to a unit.
    pub(super) fn newest(&self, unit: PmAddress) -> Option<KnownBytes> {
        let history = &self.log.history;
        let stored = history.log(unit).map(|log| log.newest.clone());
        if !history.has_removed(unit, NEVER) {
            return stored;
        }
        let mut known = stored.unwrap_or_else(|| KnownBytes::none(history.profile.unit));
        history.zero_removed(unit, NEVER, &mut known);
        Some(known)
    }

    /// The complete history. Its last crash time is after the last event.
    pub fn finish(mut self) -> StoreHistory {
        self.log.begin(Time(self.log.now.0 + 1));
        self.log.add_crash_time();
        self.log.history
    }
}

/// Splits bytes at line boundaries: address, bytes of the line, values.
fn lines_of(
    address: PmAddress,
    bytes: &[u8],
) -> impl Iterator<Item = (PmAddress, ByteMask, &[u8])> {
    let parts = line_parts(address.offset, bytes.len() as u64);
    parts.map(move |(line, mask, before)| {
        let offset = line + u64::from(mask.first());
        let len = mask.0.count_ones() as usize;
        let values = &bytes[before as usize..before as usize + len];
        (PmAddress { offset, ..address }, mask, values)
    })
}

/// Writes the history as the tracker reports what happens to stores.
#[derive(Clone)]
struct Log {
    history: StoreHistory,
    /// By unit.
    counts: Vec<StateCount>,
    /// The states of all units together.
    states: LogSum,
    /// Whether something was stored since the last crash time.
    changed: bool,
    /// The time of the event that is processed, and `changed` and `states` when it began.
    now: Time,
    at_start: (bool, LogSum),
}

impl Log {
    fn begin(&mut self, time: Time) {
        debug_assert!(time >= self.now, "events are processed in order");
        if time != self.now {
            self.now = time;
            self.at_start = (self.changed, self.states);
        }
    }

    /// The event narrows what a crash can leave.
    fn narrowed(&mut self) {
        let last = self.history.crash_times.last();
        if self.at_start.0 && last.is_none_or(|last| last.before < self.now) {
            self.add_crash_time();
        }
    }

    fn add_crash_time(&mut self) {
        self.changed = false;
        self.history.crash_times.push(CrashTime {
            before: self.now,
            states_log10: self.at_start.1.log10(),
        });
    }

    fn add(
        &mut self,
        time: Time,
        address: PmAddress,
        mask: ByteMask,
        bytes: &[u8],
        kind: RecordKind,
    ) -> RecordId {
        let id = self.history.add(time, address, bytes, kind);
        self.count(id, ByteMask::NONE, mask);
        id
    }

    fn replace(&mut self, time: Time, address: PmAddress, bytes: &[u8]) {
        let kind = RecordKind::Replacement;
        let id = self.history.add(time, address, bytes, kind);
        self.history.record_mut(id).guaranteed = time;
        self.history.logs[id.unit as usize].settle(id.record, time);
    }

    /// A store keeps only the bytes `left`.
    fn shrink(&mut self, store: &LiveStore<RecordId>, left: ByteMask) {
        if !store.guaranteed {
            self.count(store.tag, store.bytes, left);
        }
        if left.is_empty() {
            let now = self.now;
            self.history.logs[store.tag.unit as usize].settle(store.tag.record, now);
        }
    }

    /// The bytes of a store that a crash can lose change from `old` to `new`.
    fn count(&mut self, id: RecordId, old: ByteMask, new: ByteMask) {
        let unit = id.unit as usize;
        if self.counts.len() <= unit {
            self.counts.resize_with(unit + 1, StateCount::default);
        }
        let tearing = self.history.tearing;
        let (kind, time) = {
            let record = self.history.record_mut(id);
            (record.kind, record.issued)
        };
        let count = &mut self.counts[unit];
        let before = count.log10();
        let (old_words, new_words) = (words(old), words(new));
        match (kind, tearing) {
            (RecordKind::Replacement, _) => {}
            (RecordKind::InSequence, _) => {
                count.change_step(tearing, time, new_words - old_words);
            }
            (RecordKind::Optional, Tearing::Words) => count.change_optional(new_words - old_words),
            (RecordKind::Optional, Tearing::Whole) => {
                count.change_optional(new_words.signum() - old_words.signum());
            }
        }
        self.states.replace(before, count.log10());
    }
}

/// The number of words with bytes of the set.
fn words(bytes: ByteMask) -> i32 {
    let words = 0..(LINE as usize / WORD) as u32;
    words
        .filter(|&word| !bytes.and(ByteMask::word(word)).is_empty())
        .count() as i32
}

impl PersistObserver for Log {
    type Store = RecordId;
    type Flush = ();
    const HISTORY: bool = true;

    fn guaranteed(
        &mut self,
        _: LineRef<'_>,
        _: Marks<'_>,
        store: &LiveStore<RecordId>,
        by: Access,
    ) {
        self.narrowed();
        self.count(store.tag, store.bytes, ByteMask::NONE);
        self.history.record_mut(store.tag).guaranteed = by.time;
    }

    fn settled(&mut self, _: LineRef<'_>, store: &LiveStore<RecordId>) {
        let now = self.now;
        self.history.logs[store.tag.unit as usize].settle(store.tag.record, now);
    }
}
