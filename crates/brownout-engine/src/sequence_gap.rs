//! Deciding that a sequence number will never be published.
//!
//! A thread that is killed between drawing a number and publishing leaves a gap that holds up all
//! later records. The number may be given up when no thread can be in the middle of publishing it.
//! For each thread that has nothing published, that is known when it
//!
//! - has ended, or
//! - sleeps in a system call: between drawing and publishing a producer makes no call that sleeps,
//!   other than to wait for room in its ring, which [`brownout_ring::Slot::waiting`] shows, or
//! - has used more processor time since the gap was noticed than publishing could take.
//!
//! A thread whose published records have higher numbers cannot have it either: numbers rise within a
//! thread. A thread that is stopped (by `SIGSTOP`, a debugger) in that instant is waited for.

use crate::merge::{ChannelState, Merger};
use crate::slot_owner::Activity;
use crate::wire::Wire;
use crate::wire_processes::WireProcesses;
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A gap younger than this is left alone: nearly always a thread is about to publish.
const GRACE: Duration = Duration::from_millis(2);
/// How often an older gap is looked into.
const INTERVAL: Duration = Duration::from_millis(5);
/// Processor time, in ticks of 10 ms, after which a thread is past what it was doing.
const TICKS: u64 = 3;

/// Watches the gap that the merge is stuck at.
#[derive(Default)]
pub(crate) struct SequenceGap {
    open: Option<OpenGap>,
}

struct OpenGap {
    awaited: u64,
    since: Instant,
    next_look: Instant,
    /// Processor time of each running thread when it was first looked at, by thread id.
    ticks_before: HashMap<u32, u64>,
}

impl SequenceGap {
    /// How long the merge has been stuck at the same number.
    pub(crate) fn age(&self) -> Duration {
        self.open
            .as_ref()
            .map_or(Duration::ZERO, |open| open.since.elapsed())
    }

    /// To be called while the merge is stuck and after everything published was pulled. Says up to
    /// which number the awaited ones may be given up, if they may.
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
        // Who has drawn a number below `drawn` had a live slot before, which is discovered now.
        let drawn = wire.drawn();
        merger.discover(wire, wire_processes);
        nobody_publishes(merger, wire, &mut open.ticks_before).then_some(drawn)
    }

    /// To be called when the merge has got on.
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
            Activity::Asleep => wire.slot(slot).waiting.load(SeqCst) != 0,
            Activity::Active { cpu_ticks } => {
                cpu_ticks
                    < ticks_before
                        .entry(owner.tid)
                        .or_insert(cpu_ticks)
                        .saturating_add(TICKS)
            }
        };
        // Asked last: what the thread had drawn when it was looked at is published by now.
        let has_more = wire.published(slot, channel.stream.taken()) != Ok(0);
        nobody &= !could && !has_more;
    }
    nobody
}
