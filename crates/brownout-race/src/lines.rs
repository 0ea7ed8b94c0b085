//! Cache lines of persistent files, by number, and which of their bytes several threads can see.
//!
//! Initialisation removal (HawkSet §3.1.3): bytes that one thread alone has accessed are private to it. What it stores there and
//! makes durable before they become visible to another thread is no race, because no other thread can know of the bytes. By the
//! paper's rule they become visible when a second thread accesses them. Where objects are known, they become visible earlier, when a
//! pointer to them is visible, and private again when they are allocated anew: see [`publication`](crate::publication).
//!
//! Two more kinds of accesses are left out than in the paper. A store that its thread overwrites before the bytes become visible is none
//! either: nobody else can have read it. And what a thread loads from bytes that it has stored to, and nobody else has accessed, is its
//! own value.
//!
//! Can miss: a store that initialises, and is not durable when the memory is announced in a way that is not known.

use brownout_model::{ByteMask, PmAddress, ThreadSlot};
use rustc_hash::FxHashMap;

/// A line known to [`Lines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineNumber(pub(crate) u32);

/// Bytes of a line that one thread alone has accessed.
#[derive(Clone, Copy, Debug)]
struct PrivateBytes {
    owner: ThreadSlot,
    accessed: ByteMask,
    stored: ByteMask,
}

impl PrivateBytes {
    fn remove(&mut self, bytes: ByteMask) {
        self.accessed = self.accessed.without(bytes);
        self.stored = self.stored.without(bytes);
    }
}

/// Who has accessed the bytes of a line.
#[derive(Clone, Debug, Default)]
struct LineAccessors {
    /// Bytes that several threads can see.
    visible: ByteMask,
    /// The other bytes. Almost always of one thread.
    first: Option<PrivateBytes>,
    #[expect(clippy::box_collection, reason = "it is rare, and lines are many")]
    others: Option<Box<Vec<PrivateBytes>>>,
}

impl LineAccessors {
    fn private(&mut self) -> impl Iterator<Item = &mut PrivateBytes> {
        let others = self.others.iter_mut().flat_map(|others| others.iter_mut());
        self.first.iter_mut().chain(others)
    }

    /// Returns the bytes that become visible.
    fn access(&mut self, thread: ThreadSlot, bytes: ByteMask, stores: bool) -> ByteMask {
        let fresh = bytes.without(self.visible);
        if fresh.is_empty() {
            return ByteMask::NONE;
        }
        let mut seen = ByteMask::NONE;
        for private in self.private().filter(|private| private.owner != thread) {
            let both = private.accessed.and(fresh);
            private.remove(both);
            seen = seen.or(both);
        }
        self.visible = self.visible.or(seen);
        let own = fresh.without(seen);
        if !own.is_empty() {
            let stored = if stores { own } else { ByteMask::NONE };
            self.own(PrivateBytes {
                owner: thread,
                accessed: own,
                stored,
            });
        }
        seen
    }

    fn own(&mut self, bytes: PrivateBytes) {
        let known = self.private().find(|known| known.owner == bytes.owner);
        if let Some(known) = known {
            known.accessed = known.accessed.or(bytes.accessed);
            known.stored = known.stored.or(bytes.stored);
        } else if self.first.is_none() {
            self.first = Some(bytes);
        } else {
            self.others.get_or_insert_default().push(bytes);
        }
    }

    fn publish(&mut self, bytes: ByteMask) -> ByteMask {
        let fresh = bytes.without(self.visible);
        self.private().for_each(|private| private.remove(fresh));
        self.visible = self.visible.or(fresh);
        fresh
    }

    fn forget(&mut self, bytes: ByteMask) {
        self.private().for_each(|private| private.remove(bytes));
        self.visible = self.visible.without(bytes);
    }
}

/// All lines that were accessed.
#[derive(Default)]
pub(crate) struct Lines {
    numbers: FxHashMap<PmAddress, LineNumber>,
    addresses: Vec<PmAddress>,
    accessors: Vec<LineAccessors>,
    recent: Option<(PmAddress, LineNumber)>,
}

impl Lines {
    /// The line at `address`, which is that of its first byte.
    pub(crate) fn number(&mut self, address: PmAddress) -> LineNumber {
        if let Some((recent, line)) = self.recent
            && recent == address
        {
            return line;
        }
        let (addresses, accessors) = (&mut self.addresses, &mut self.accessors);
        let line = *self.numbers.entry(address).or_insert_with(|| {
            addresses.push(address);
            accessors.push(LineAccessors::default());
            LineNumber(addresses.len() as u32 - 1)
        });
        self.recent = Some((address, line));
        line
    }

    /// The line at `address`, if it was accessed.
    pub(crate) fn find(&self, address: PmAddress) -> Option<LineNumber> {
        self.numbers.get(&address).copied()
    }

    pub(crate) fn address(&self, line: LineNumber) -> PmAddress {
        self.addresses[line.0 as usize]
    }

    /// A thread loads bytes of a line. Returns those that become visible to several threads.
    pub(crate) fn load(&mut self, line: LineNumber, by: ThreadSlot, bytes: ByteMask) -> ByteMask {
        self.accessors[line.0 as usize].access(by, bytes, false)
    }

    /// A thread stores bytes of a line. Returns those that become visible to several threads.
    pub(crate) fn store(&mut self, line: LineNumber, by: ThreadSlot, bytes: ByteMask) -> ByteMask {
        self.accessors[line.0 as usize].access(by, bytes, true)
    }

    /// The bytes that a thread has stored to and no other thread can see: what it loads there is its own.
    pub(crate) fn initialised_by(&mut self, line: LineNumber, thread: ThreadSlot) -> ByteMask {
        let mut private = self.accessors[line.0 as usize].private();
        let own = private.find(|private| private.owner == thread);
        own.map_or(ByteMask::NONE, |own| own.stored)
    }

    /// The bytes of a line that several threads can see.
    pub(crate) fn visible(&self, line: LineNumber) -> ByteMask {
        self.accessors[line.0 as usize].visible
    }

    /// Bytes of a line become visible. Returns those that were not.
    pub(crate) fn publish(&mut self, line: LineNumber, bytes: ByteMask) -> ByteMask {
        self.accessors[line.0 as usize].publish(bytes)
    }

    /// Bytes of a line are as if they had never been accessed.
    pub(crate) fn forget(&mut self, line: LineNumber, bytes: ByteMask) {
        self.accessors[line.0 as usize].forget(bytes);
    }
}
