//! The drain: reads records from all rings and merges them into one order, until the target and all followed
//! descendants have ended.
//!
//! The drain sleeps on the wire's doorbell. Producers ring it when they have published a lot, and the supervisor rings it
//! when the target has ended. Between rings the drain polls, at growing intervals while there is nothing to read.

use crate::merge::{Losses, Merger, Sink};
use crate::sequence_gap::SequenceGap;
use crate::wire::{SlotState, Wire};
use crate::wire_processes::WireProcesses;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes to copy from one ring before the records of all rings are merged: an amount that stays in the cache.
const PULL_BYTES: usize = 256 << 10;
/// The same while the merge is stuck: it is larger, so that one stalled thread does not soon fill the rings of the others.
const STUCK_PULL_BYTES: usize = 64 << 20;
/// The limit for all streams together. Beyond it, threads have to wait for room in their rings.
const STUCK_TOTAL_BYTES: usize = 1 << 30;
/// How long the merge must be stuck before the larger amount is copied.
const STUCK_AFTER: Duration = Duration::from_millis(10);

/// A pass that copied at least this much is followed by another one immediately.
const BUSY_BYTES: u64 = 64 << 10;
/// The first sleep, the longest sleep while a few records arrive, and the longest sleep while none do. A producer that
/// publishes a lot rings the doorbell long before its ring is full.
const SHORT_SLEEP: Duration = Duration::from_millis(1);
const ACTIVE_SLEEP: Duration = Duration::from_millis(8);
const LONG_SLEEP: Duration = Duration::from_millis(32);
/// The first sleep while records wait for one that is about to be published.
const STUCK_SLEEP: Duration = Duration::from_micros(200);
/// How often the drain checks for threads that ended without closing their slot.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process that has the wire open may take to claim its first slot, and how long if it was forked and has to
/// publish that.
const NEWBORN_GRACE: Duration = Duration::from_millis(100);
const FORKED_GRACE: Duration = Duration::from_secs(10);
/// How long the last store of a killed thread waits for earlier records that have not been published.
const LAST_STORE_PATIENCE: Duration = Duration::from_millis(20);
/// How often the sink saves its records, so that a crash of the recorder does not lose them.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// State that the drain and the supervisor share.
#[derive(Default)]
pub(crate) struct SharedStatus {
    /// The target has ended and was waited for.
    pub(crate) target_ended: AtomicBool,
    /// The drain must not wait for processes that are still running.
    pub(crate) stop_waiting: AtomicBool,
    /// The drain reads no more records, because it has finished or failed.
    pub(crate) drain_over: AtomicBool,
    /// What the sink has received so far.
    pub(crate) events: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Runs the drain until every record has been passed to `sink`. Returns what was lost or reconstructed of the threads that
/// were killed while publishing.
pub(crate) fn drain<S: Sink>(
    wire: &Wire,
    wire_processes: &WireProcesses,
    status: &SharedStatus,
    sink: &mut S,
) -> Result<Losses, S::Error> {
    Drain {
        wire,
        wire_processes,
        merger: Merger::new(),
        gap: SequenceGap::default(),
        last_sweep: Instant::now(),
        last_save: Instant::now(),
        slotless_since: None,
    }
    .run(status, sink)
}

struct Drain<'a> {
    wire: &'a Wire,
    wire_processes: &'a WireProcesses,
    merger: Merger,
    gap: SequenceGap,
    last_sweep: Instant,
    last_save: Instant,
    /// The time since which no process has had a slot.
    slotless_since: Option<Instant>,
}

impl Drain<'_> {
    fn run<S: Sink>(mut self, status: &SharedStatus, sink: &mut S) -> Result<Losses, S::Error> {
        let mut sleep = SHORT_SLEEP;
        loop {
            // Read before the pass: whatever these announce is then found by the pass or by the next one.
            let bell = self.wire.doorbell();
            let ended = status.target_ended.load(Ordering::SeqCst);
            let stop_waiting = status.stop_waiting.load(Ordering::SeqCst);

            let (copied, merged) = self.pass(sink)?;
            let progress = sink.progress();
            status.events.store(progress.events, Ordering::Relaxed);
            status.bytes.store(progress.bytes, Ordering::Relaxed);

            self.save(sink)?;
            let idle = copied + merged == 0;
            let look_now = ended && idle;
            let found_ended = self.sweep(if look_now {
                Duration::ZERO
            } else {
                SWEEP_INTERVAL
            });

            if merged > 0 {
                self.gap.clear();
            }
            if copied >= BUSY_BYTES || found_ended {
                sleep = SHORT_SLEEP;
                continue;
            }
            if merged == 0 && self.merger.is_stuck() {
                if stop_waiting {
                    self.merger.skip_gap(self.wire.drawn(), sink)?;
                } else if let Some(drawn) =
                    self.gap
                        .look(&mut self.merger, self.wire, self.wire_processes)
                {
                    self.merger.skip_gap(drawn, sink)?;
                } else {
                    let patience = (self.gap.age() / 16).clamp(STUCK_SLEEP, LONG_SLEEP);
                    self.wire.sleep(bell, patience);
                }
                continue;
            }
            if idle && (stop_waiting || ended && self.nobody_is_left()) {
                self.merger.finish_threads(Duration::ZERO, sink)?;
                return Ok(self.merger.losses());
            }
            // Probably the last records. Another pass confirms it.
            if !idle && ended && !self.merger.has_slots() {
                continue;
            }
            self.wire.sleep(bell, sleep);
            sleep = (sleep * 2).min(if idle { LONG_SLEEP } else { ACTIVE_SLEEP });
        }
    }

    /// Copies and merges what is available now. Returns the number of bytes copied and of records merged.
    fn pass<S: Sink>(&mut self, sink: &mut S) -> Result<(u64, u64), S::Error> {
        let stuck = self.gap.age() > STUCK_AFTER && self.merger.buffered() < STUCK_TOTAL_BYTES;
        self.merger.discover(self.wire, self.wire_processes);
        let limit = if stuck { STUCK_PULL_BYTES } else { PULL_BYTES };
        let copied = self.merger.pull(self.wire, limit, sink)?;
        let merged = self.merger.merge(sink)?;
        self.merger.finish_threads(LAST_STORE_PATIENCE, sink)?;
        Ok((copied, merged))
    }

    /// Finds killed threads, so that their slots can be freed. Returns whether there were any.
    fn sweep(&mut self, interval: Duration) -> bool {
        if self.last_sweep.elapsed() < interval {
            return false;
        }
        self.last_sweep = Instant::now();
        let mut found = false;
        for channel in self.merger.channels().filter(|channel| !channel.abandoned) {
            let live = channel
                .slot
                .is_some_and(|slot| self.wire.state(slot) == SlotState::Live);
            channel.abandoned = live && !channel.stream.owner.is_alive();
            found |= channel.abandoned;
        }
        found
    }

    /// Whether no process will publish any more. Called when the target has ended and nothing is left to merge.
    fn nobody_is_left(&mut self) -> bool {
        if self.merger.has_slots() {
            self.slotless_since = None;
            return false;
        }
        // A newly forked process has the wire open before it has a slot. A process that never claims one (a set-user-ID
        // program, for example) is not followed, and the drain does not wait for it.
        let since = self.slotless_since.get_or_insert_with(Instant::now);
        let grace = if self.wire.has_births() {
            FORKED_GRACE
        } else {
            NEWBORN_GRACE
        };
        !self.wire.has_children() || since.elapsed() > grace || !self.wire_processes.exist()
    }

    fn save<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        if self.last_save.elapsed() >= SAVE_INTERVAL {
            self.last_save = Instant::now();
            sink.save()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
