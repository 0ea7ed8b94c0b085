//! Detects sequence numbers that will never be published.
//!
//! A thread that is killed between drawing a number and publishing its record leaves a gap, which holds up all later
//! records. The number can be skipped when no thread can still be publishing it. A thread with no published records left
//! to merge cannot be publishing it if the thread
//!
//! - has ended, or
//! - sleeps in a system call: between drawing and publishing, a producer makes no system call that sleeps except to wait
//!   for room in its ring, which [`brownout_ring::Slot::waiting`] shows, or
//! - has used more processor time since the gap was noticed than publishing can take, and is not forking: the number of a
//!   child's first record is drawn before the fork, which can take long.
//!
//! The child publishes that record, before which it has no slot. As long as a process without a slot has the wire open
//! and such a record is outstanding, the number is not skipped.
//!
//! A thread whose published records have higher numbers cannot be publishing it either, because numbers increase within a
//! thread. The drain waits for a thread that is stopped at that point (by `SIGSTOP` or a debugger).

use crate::merge::{ChannelState, Merger};
use crate::slot_owner::Activity;
use crate::wire::Wire;
use crate::wire_processes::WireProcesses;
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A gap younger than this is not examined, because in most cases a thread is about to publish.
const GRACE: Duration = Duration::from_millis(2);
/// How often an older gap is examined.
const INTERVAL: Duration = Duration::from_millis(5);
/// Processor time, in ticks of 10 ms, after which a thread must have finished publishing.
const TICKS: u64 = 3;
/// How long a process that has the wire open and no slot can hold up the merge. It is only exceeded if a child was killed
/// before it published its first record while another process could not get a slot.
const NEWBORN_PATIENCE: Duration = Duration::from_secs(10);

/// The gap that the merge is stuck at, if it is.
#[derive(Default)]
pub(crate) struct SequenceGap {
    open: Option<OpenGap>,
}

struct OpenGap {
    awaited: u64,
    since: Instant,
    next_look: Instant,
    /// Processor time of each running thread when it was first examined, by thread id.
    ticks_before: HashMap<u32, u64>,
}

impl SequenceGap {
    /// How long the merge has been stuck at the same number.
    pub(crate) fn age(&self) -> Duration {
        self.open
            .as_ref()
            .map_or(Duration::ZERO, |open| open.since.elapsed())
    }

    /// Examines the gap. Call this while the merge is stuck, after copying everything that was published. If the awaited
    /// numbers can be skipped, returns the number up to which that is known.
    pub(crate) fn look(
        &mut self,
        merger: &mut Merger,
        wire: &Wire,
        wire_processes: &WireProcesses,
    ) -> Option<u64> {
        let now = Instant::now();
        let awaited = merger.awaited();
        let open = match &mut self.open {
            Some(open) if open.awaited == awaited => open,
            other => other.insert(OpenGap {
                awaited,
                since: now,
                next_look: now + GRACE,
                ticks_before: HashMap::new(),
            }),
        };
        if now < open.next_look {
            return None;
        }
        open.next_look = now + INTERVAL;
        // Checked first: a child that is not newborn any more has a slot, which `discover` finds.
        let patient = now - open.since < NEWBORN_PATIENCE;
        if patient && wire.has_births() && merger.has_newborn(wire_processes) {
            return None;
        }
        // A thread that drew a number below `drawn` already had a live slot then, so `discover` finds it.
        let drawn = wire.drawn();
        merger.discover(wire, wire_processes);
        nobody_publishes(merger, wire, &mut open.ticks_before).then_some(drawn)
    }

    /// Call this when the merge has made progress.
    pub(crate) fn clear(&mut self) {
        self.open = None;
    }
}

fn nobody_publishes(
    merger: &mut Merger,
    wire: &Wire,
    ticks_before: &mut HashMap<u32, u64>,
) -> bool {
    let mut nobody = true;
    for channel in merger
        .channels()
        .filter(|channel| channel.state == ChannelState::Empty)
    {
        let Some(slot) = channel.slot else { continue };
        let owner = channel.stream.owner;
        let could = match owner.activity() {
            Activity::Gone => {
                channel.abandoned = true;
                false
            }
            _ if wire.slot(slot).forking.load(SeqCst) != 0 => true,
            Activity::Asleep => wire.slot(slot).waiting.load(SeqCst) != 0,
            Activity::Active { cpu_ticks } => {
                cpu_ticks
                    < ticks_before
                        .entry(owner.tid)
                        .or_insert(cpu_ticks)
                        .saturating_add(TICKS)
            }
        };
        // Checked last: a number that the thread had drawn before the check above is published by now.
        let has_more = wire.published(slot, channel.stream.taken()) != Ok(0);
        nobody &= !could && !has_more;
    }
    nobody
}
