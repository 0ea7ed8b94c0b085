//! What is remembered of each thread.

use brownout_model::{LineSlot, PmAddress};
use brownout_trace::{FileId, ProcessId};

use crate::follower::accidental_orders::AccidentalOrders;
use crate::site_keys::SiteKey;
use crate::transactions::Transaction;

/// A store and its time; time 0 is before all stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub(crate) time: u64,
    pub(crate) site: SiteKey,
}

impl Newest {
    const NOTHING: Newest = Newest {
        time: 0,
        site: SiteKey::NONE,
    };

    #[inline]
    pub(crate) fn raise(&mut self, time: u64, site: SiteKey) {
        if time > self.time {
            *self = Newest { time, site };
        }
    }
}

/// A flush or non-temporal store that the next fence orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    pub(crate) role: &'static str,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    /// The start of the line.
    pub(crate) line: PmAddress,
}

/// State of a thread.
#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) process: ProcessId,
    /// The time of the last fence, locked instruction or system call that wrote pages back.
    pub(crate) last_fence: u64,
    /// The newest store of the thread that one of its fences has guaranteed, and that fence.
    pub(crate) persisted: Newest,
    pub(crate) persisted_by: (SiteKey, u64),
    /// The same since the last fence.
    pub(crate) persisting: Newest,
    /// Deferred flushes and non-temporal stores since the last real fence, including flushes of volatile memory.
    pub(crate) waiting: u32,
    /// How many of these persist user data and were not ordered by a locked instruction.
    pub(crate) ordering: u32,
    pub(crate) examples: [Option<Ordered>; 2],
    pub(crate) last_non_temporal: Option<(LineSlot, SiteKey)>,
    pub(crate) accidental: AccidentalOrders,
    /// The file that the thread stored to or flushed last.
    pub(crate) file: Option<FileId>,
    pub(crate) transaction: Transaction,
    /// It has begun to exit, or its process has.
    pub(crate) leaving: bool,
    /// The rules have seen its end.
    pub(crate) ended: bool,
    /// It, or its process, ended by itself: it was not killed, nor was the recording stopped.
    pub(crate) completed: bool,
}

impl ThreadState {
    pub(crate) fn new(process: ProcessId) -> Self {
        ThreadState {
            process,
            last_fence: 0,
            persisted: Newest::NOTHING,
            persisted_by: (SiteKey::NONE, 0),
            persisting: Newest::NOTHING,
            waiting: 0,
            ordering: 0,
            examples: [None; 2],
            last_non_temporal: None,
            accidental: AccidentalOrders::default(),
            file: None,
            transaction: Transaction::default(),
            leaving: false,
            ended: false,
            completed: false,
        }
    }

    /// How many events before `time` its last fence was; at most 255.
    #[inline]
    pub(crate) fn since_fence(&self, time: u64) -> u8 {
        (time - self.last_fence).min(u8::MAX.into()) as u8
    }

    /// The next fence will order this, too.
    #[inline]
    pub(crate) fn begin(&mut self, ordered: Ordered) {
        if let Some(example) = self.examples.get_mut(self.ordering as usize) {
            *example = Some(ordered);
        }
        self.ordering = self.ordering.saturating_add(1);
    }

    /// A fence at `site` has taken effect.
    #[inline]
    pub(crate) fn fenced(&mut self, site: SiteKey, time: u64) {
        self.synced(site, time);
        self.ordering = 0;
    }

    /// A system call at `site` has written pages back; flushes are still pending.
    #[inline]
    pub(crate) fn synced(&mut self, site: SiteKey, time: u64) {
        self.last_fence = time;
        if self.persisting.time > self.persisted.time {
            self.persisted = self.persisting;
            self.persisted_by = (site, time);
        }
    }
}
