//! The stores that are not guaranteed yet: for each line a list in the order of issue, in memory that
//! is used again.

use crate::place::{ByteMask, ThreadSlot, Time};
use crate::tracker::{Access, StoreKind};

/// No store.
const NIL: u32 = u32::MAX;

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

impl<T> LiveStore<T> {
    #[inline]
    pub(crate) fn new(
        by: Access,
        bytes: ByteMask,
        kind: StoreKind,
        guaranteed: bool,
        tag: T,
    ) -> Self {
        LiveStore {
            time: by.time,
            bytes,
            thread: by.thread,
            kind,
            guaranteed,
            next: NIL,
            tag,
        }
    }
}

/// The number of a line's list of live stores. Most lines have none at most times, so that all a line
/// keeps is this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListId(u32);

impl Default for ListId {
    fn default() -> Self {
        ListId(NIL)
    }
}

impl ListId {
    /// Whether the line has no live stores.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == NIL
    }
}

#[derive(Clone, Copy, Debug)]
struct LiveList {
    head: u32,
    tail: u32,
    /// All bytes of all stores in the list.
    bytes: ByteMask,
}

/// Room for live stores and their lists.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    stores: Vec<LiveStore<T>>,
    lists: Vec<LiveList>,
    /// The first free store, and the first free list, each of which names the next.
    free: u32,
    free_list: u32,
    count: usize,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            stores: Vec::new(),
            lists: Vec::new(),
            free: NIL,
            free_list: NIL,
            count: 0,
        }
    }

    /// Number of live stores.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// All bytes of a list.
    #[inline]
    pub(crate) fn bytes(&self, list: ListId) -> ByteMask {
        let list = self.lists.get(list.0 as usize);
        list.map_or(ByteMask::NONE, |list| list.bytes)
    }

    /// Adds a store, whose `next` is [`NIL`], to a list.
    #[inline]
    pub(crate) fn append(&mut self, id: &mut ListId, store: LiveStore<T>) {
        let bytes = store.bytes;
        let index = match self.stores.get_mut(self.free as usize) {
            Some(slot) => {
                let index = std::mem::replace(&mut self.free, slot.next);
                *slot = store;
                index
            }
            None => {
                let index = self.stores.len();
                assert!(
                    index < NIL as usize,
                    "more than four billion stores are not persistent at once"
                );
                self.stores.push(store);
                index as u32
            }
        };
        self.count += 1;
        if id.is_empty() {
            *id = self.new_list(LiveList {
                head: index,
                tail: index,
                bytes,
            });
        } else {
            let list = &mut self.lists[id.0 as usize];
            self.stores[list.tail as usize].next = index;
            list.tail = index;
            list.bytes = list.bytes.or(bytes);
        }
    }

    #[inline]
    fn new_list(&mut self, list: LiveList) -> ListId {
        let index = self.free_list;
        match self.lists.get_mut(index as usize) {
            Some(free) => {
                self.free_list = free.head;
                *free = list;
                ListId(index)
            }
            None => {
                self.lists.push(list);
                ListId(self.lists.len() as u32 - 1)
            }
        }
    }

    /// Goes through a list and keeps the stores for which `keep` says so; it may change them.
    #[inline]
    pub(crate) fn retain(
        &mut self,
        id: &mut ListId,
        mut keep: impl FnMut(&mut LiveStore<T>) -> bool,
    ) {
        let Some(list) = self.lists.get_mut(id.0 as usize) else {
            return;
        };
        let mut at = list.head;
        let (mut head, mut tail, mut bytes) = (NIL, NIL, ByteMask::NONE);
        let (mut free, mut dropped) = (self.free, 0);
        while at != NIL {
            let store = &mut self.stores[at as usize];
            let next = store.next;
            if keep(store) {
                store.next = NIL;
                bytes = bytes.or(store.bytes);
                if tail == NIL {
                    head = at;
                } else {
                    self.stores[tail as usize].next = at;
                }
                tail = at;
            } else {
                store.next = free;
                free = at;
                dropped += 1;
            }
            at = next;
        }
        self.free = free;
        self.count -= dropped;
        *list = LiveList { head, tail, bytes };
        if head == NIL {
            list.head = self.free_list;
            self.free_list = id.0;
            *id = ListId::default();
        }
    }

    /// Shows `visit` the stores of a list in the order of issue.
    #[inline]
    pub(crate) fn for_each(&mut self, id: ListId, mut visit: impl FnMut(&mut LiveStore<T>)) {
        let list = self.lists.get(id.0 as usize);
        let mut at = list.map_or(NIL, |list| list.head);
        while let Some(store) = self.stores.get_mut(at as usize) {
            at = store.next;
            visit(store);
        }
    }

    /// The stores of a list in the order of issue.
    pub(crate) fn iter(&self, id: ListId) -> impl Iterator<Item = &LiveStore<T>> {
        let list = self.lists.get(id.0 as usize);
        let mut at = list.map_or(NIL, |list| list.head);
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

    fn times(slab: &Slab<()>, list: ListId) -> Vec<u64> {
        slab.iter(list).map(|store| store.time.0).collect()
    }

    #[test]
    fn lists_share_room_and_keep_their_order() {
        let mut slab = Slab::new();
        let (mut one, mut other) = (ListId::default(), ListId::default());
        for time in 0..6 {
            let list = if time % 2 == 0 { &mut one } else { &mut other };
            slab.append(list, store(time));
        }
        slab.retain(&mut one, |store| store.time != Time(4));
        assert_eq!(slab.bytes(one), ByteMask(0b101));
        slab.retain(&mut other, |store| store.time == Time(3));
        assert_eq!(times(&slab, one), [0, 2]);
        assert_eq!(times(&slab, other), [3]);
        for time in 6..9 {
            slab.append(&mut one, store(time));
        }
        assert_eq!(times(&slab, one), [0, 2, 6, 7, 8]);
        slab.retain(&mut other, |_| false);
        assert!(other.is_empty());
        assert_eq!(slab.bytes(other), ByteMask::NONE);
        slab.append(&mut other, store(9));
        assert_eq!(times(&slab, other), [9]);
        assert_eq!(slab.len(), 6);
        assert_eq!(
            (slab.stores.len(), slab.lists.len()),
            (6, 2),
            "room is used again"
        );
    }
}
