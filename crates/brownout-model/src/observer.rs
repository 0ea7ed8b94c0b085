//! What happens to persistent memory, and who is notified of its effects.

use crate::address::{ThreadSlot, Time};
use crate::byte_mask::ByteMask;
use crate::line_marks::Marks;
use crate::live_stores::LiveStore;
use crate::shadow::LineRef;

/// How a store travels to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// Through the cache, as part of the sequence of its unit.
    Cached,
    /// Past the cache, in no sequence.
    NonTemporal,
}

/// When a flush instruction takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushEffect {
    /// `clflush`: takes effect at once.
    Immediate,
    /// `clflushopt`, `clwb`: takes effect at the next fence of its thread.
    Deferred,
}

/// The thread and time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The thread that executes the instruction.
    pub thread: ThreadSlot,
    /// The position in the order of all events.
    pub time: Time,
}

/// Is notified of what happens to stores, and defines what the tracker keeps with them.
pub trait PersistObserver {
    /// Kept with each store.
    type Store: Copy;
    /// Kept with each flush that waits for a fence.
    type Flush: Copy;
    /// Whether to keep stores that are completely overwritten by later ones. [`CrashStates`](crate::CrashStates) need them, because
    /// a crash may still expose them.
    const HISTORY: bool;

    /// `store` is guaranteed from `by.time` on, because of an action of `by.thread`.
    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        marks: Marks<'_>,
        store: &LiveStore<Self::Store>,
        by: Access,
    );

    /// `newer` overwrites `bytes` of `older`, which is not guaranteed. Called only without history.
    fn overwritten(
        &mut self,
        line: LineRef<'_>,
        older: &LiveStore<Self::Store>,
        newer: &mut LiveStore<Self::Store>,
        bytes: ByteMask,
    ) {
        let _ = (line, older, newer, bytes);
    }

    /// `store` is guaranteed, and so are all earlier stores to the same bytes: every later crash keeps it unless
    /// it is overwritten. Stores to a byte settle in the order of issue.
    fn settled(&mut self, line: LineRef<'_>, store: &LiveStore<Self::Store>) {
        let _ = (line, store);
    }
}
