//! The stores that are not guaranteed yet: for each line a list in the order of issue, in memory that
//! is used again.

use crate::place::{ByteMask, ThreadSlot, Time};
use crate::tracker::StoreKind;

/// No store.
pub(crate) const NIL: u32 = u32::MAX;

/// A store, or the part of one that falls into one line, that a crash may lose.
#[derive(Clone, Copy, Debug)]
pub struct LiveStore<T> {
    /// When it was issued; all parts of a store have the same time.
    pub time: Time,
    /// What is left of it: without history, bytes that later stores cover are taken away.
    pub bytes: ByteMask,
    pub thread: ThreadSlot,
    pub kind: StoreKind,
    /// Guaranteed, but after an earlier store to the line that is not: kept for the order in which they
    /// were issued.
    pub guaranteed: bool,
    pub(crate) next: u32,
    /// What the caller wants to know of it.
    pub tag: T,
}

/// The live stores of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveList {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    /// All bytes of all stores in the list.
    pub(crate) bytes: ByteMask,
}

impl Default for LiveList {
    fn default() -> Self {
        LiveList {
            head: NIL,
            tail: NIL,
            bytes: ByteMask::NONE,
        }
    }
}

impl LiveList {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NIL
    }
}

/// Room for live stores.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    stores: Vec<LiveStore<T>>,
    free: u32,
    count: usize,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            stores: Vec::new(),
            free: NIL,
            count: 0,
        }
    }

    /// Number of live stores.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn append(&mut self, list: &mut LiveList, mut store: LiveStore<T>) {
        store.next = NIL;
        let index = self.free;
        let index = if index == NIL {
            assert!(
                self.stores.len() < NIL as usize,
                "more than four billion stores are not persistent at once"
            );
            self.stores.push(store);
            self.stores.len() as u32 - 1
        } else {
            let slot = &mut self.stores[index as usize];
            self.free = slot.next;
            *slot = store;
            index
        };
        self.count += 1;
        if list.tail == NIL {
            list.head = index;
        } else {
            self.stores[list.tail as usize].next = index;
        }
        list.tail = index;
        list.bytes = list.bytes.or(store.bytes);
    }

    /// Goes through a list and keeps the stores for which `keep` says so; it may change them.
    #[inline]
    pub(crate) fn retain(
        &mut self,
        list: &mut LiveList,
        mut keep: impl FnMut(&mut LiveStore<T>) -> bool,
    ) {
        let mut left = LiveList::default();
        let mut at = list.head;
        while at != NIL {
            let store = &mut self.stores[at as usize];
            let next = store.next;
            if keep(store) {
                store.next = NIL;
                left.bytes = left.bytes.or(store.bytes);
                if left.tail == NIL {
                    left.head = at;
                } else {
                    self.stores[left.tail as usize].next = at;
                }
                left.tail = at;
            } else {
                store.next = self.free;
                self.free = at;
                self.count -= 1;
            }
            at = next;
        }
        *list = left;
    }

    /// The stores of a list in the order of issue.
    pub(crate) fn iter(&self, list: LiveList) -> impl Iterator<Item = &LiveStore<T>> {
        let mut at = list.head;
        std::iter::from_fn(move || {
            let store = self.stores.get(at as usize)?;
            at = store.next;
            Some(store)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(time: u64) -> LiveStore<()> {
        LiveStore {
            time: Time(time),
            bytes: ByteMask::range(time, 1),
            thread: ThreadSlot(0),
            kind: StoreKind::Cached,
            guaranteed: false,
            next: NIL,
            tag: (),
        }
    }

    fn times(slab: &Slab<()>, list: LiveList) -> Vec<u64> {
        slab.iter(list).map(|store| store.time.0).collect()
    }

    #[test]
    fn lists_share_room_and_keep_their_order() {
        let mut slab = Slab::new();
        let (mut one, mut other) = (LiveList::default(), LiveList::default());
        for time in 0..6 {
            let list = if time % 2 == 0 { &mut one } else { &mut other };
            slab.append(list, store(time));
        }
        slab.retain(&mut one, |store| store.time != Time(4));
        assert_eq!(one.bytes, ByteMask(0b101));
        slab.retain(&mut other, |store| store.time == Time(3));
        assert_eq!(times(&slab, one), [0, 2]);
        assert_eq!(times(&slab, other), [3]);
        for time in 6..9 {
            slab.append(&mut one, store(time));
        }
        assert_eq!(times(&slab, one), [0, 2, 6, 7, 8]);
        assert_eq!(slab.stores.len(), 6, "room is used again");
        assert_eq!(slab.len(), 6);
    }
}
