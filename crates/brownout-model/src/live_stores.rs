//! The stores that are not yet guaranteed: a list per line in the order of issue, in memory that is reused. A page
//! has a table of lists only while one of its lines has live stores.

use crate::address::{LINES_IN_PAGE, ThreadSlot, Time};
use crate::byte_mask::ByteMask;
use crate::observer::{Access, StoreKind};

/// The index of no store.
const NIL: u32 = u32::MAX;

/// A store, or the part of a store in one line, that a crash may lose.
#[derive(Clone, Copy, Debug)]
pub struct LiveStore<T> {
    /// When the store was issued; all parts of a store have the same time.
    pub time: Time,
    /// The bytes stored. Without [history](crate::PersistObserver::HISTORY), bytes that a later store
    /// overwrites are removed.
    pub bytes: ByteMask,
    /// The thread that stored.
    pub thread: ThreadSlot,
    /// How the store travels to memory.
    pub kind: StoreKind,
    /// Whether the store is guaranteed. It is then kept only because an earlier store to the same bytes is
    /// not guaranteed.
    pub guaranteed: bool,
    pub(crate) next: u32,
    /// What the observer keeps with the store.
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

/// The table of the lists of one page. Most pages have no live stores most of the time, so a page keeps only this id, and
/// all pages without live stores have the same table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableId(u32);

impl TableId {
    /// The table without stores, which never changes.
    const EMPTY: TableId = TableId(0);

    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> Self {
        TableId(number)
    }

    /// Whether no line of the page has live stores.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// The index of the list of line `line`.
    #[inline]
    fn list(self, line: usize) -> usize {
        self.0 as usize * LINES_IN_PAGE + line
    }
}

#[derive(Clone, Copy, Debug)]
struct LiveList {
    head: u32,
    tail: u32,
    /// The union of the bytes of all stores in the list.
    bytes: ByteMask,
}

impl LiveList {
    const EMPTY: LiveList = LiveList {
        head: NIL,
        tail: NIL,
        bytes: ByteMask::NONE,
    };
}

/// The live stores to a line in the order of issue, whose tags may be modified.
#[derive(Debug)]
pub struct LiveStoresMut<'a, T> {
    stores: &'a mut [LiveStore<T>],
    at: u32,
}

impl<T> LiveStoresMut<'_, T> {
    /// The kind, time and tag of the next store.
    #[expect(
        clippy::should_implement_trait,
        reason = "an Iterator's items cannot borrow from it"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<(StoreKind, Time, &mut T)> {
        let store = self.stores.get_mut(self.at as usize)?;
        self.at = store.next;
        Some((store.kind, store.time, &mut store.tag))
    }
}

/// The memory of live stores and their lists.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    stores: Vec<LiveStore<T>>,
    /// The first free entry, which links to the next.
    free: u32,
    count: usize,
    /// The lists of all tables, one table after the other.
    lists: Vec<LiveList>,
    /// For each table, the lines with live stores, one bit each.
    used: Vec<u64>,
    free_tables: Vec<TableId>,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            stores: Vec::new(),
            free: NIL,
            count: 0,
            lists: vec![LiveList::EMPTY; LINES_IN_PAGE],
            used: vec![0],
            free_tables: Vec::new(),
        }
    }

    /// The number of live stores.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether line `line` of a page has no live stores.
    #[inline]
    pub(crate) fn is_empty(&self, table: TableId, line: usize) -> bool {
        self.lists[table.list(line)].head == NIL
    }

    /// All bytes of the live stores to line `line` of a page.
    #[inline]
    pub(crate) fn bytes(&self, table: TableId, line: usize) -> ByteMask {
        self.lists[table.list(line)].bytes
    }

    /// Adds a store, whose `next` is [`NIL`], to those of line `line` of a page.
    #[inline(always)]
    pub(crate) fn append(&mut self, table: &mut TableId, line: usize, store: LiveStore<T>) {
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
                    "too many stores are not persistent at the same time (limit: 4 billion)"
                );
                self.stores.push(store);
                index as u32
            }
        };
        self.count += 1;
        if table.is_empty() {
            *table = self.new_table();
        }
        let list = &mut self.lists[table.list(line)];
        if list.head == NIL {
            list.head = index;
            self.used[table.0 as usize] |= 1 << line;
        } else {
            self.stores[list.tail as usize].next = index;
        }
        list.tail = index;
        list.bytes = list.bytes.or(bytes);
    }

    #[inline]
    fn new_table(&mut self) -> TableId {
        match self.free_tables.pop() {
            Some(table) => table,
            None => self.add_table(),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_table(&mut self) -> TableId {
        let tables = self.used.len();
        self.used.push(0);
        self.lists
            .resize((tables + 1) * LINES_IN_PAGE, LiveList::EMPTY);
        TableId(tables as u32)
    }

    /// Keeps only the stores to line `line` of a page for which `keep` returns `true`. `keep` may modify
    /// them.
    #[inline]
    pub(crate) fn retain(
        &mut self,
        id: &mut TableId,
        line: usize,
        mut keep: impl FnMut(&mut LiveStore<T>) -> bool,
    ) {
        let list = &mut self.lists[id.list(line)];
        let mut at = list.head;
        if at == NIL {
            return;
        }
        let mut kept = LiveList::EMPTY;
        let (mut free, mut dropped) = (self.free, 0);
        while let Some(store) = self.stores.get_mut(at as usize) {
            let next = store.next;
            if keep(store) {
                store.next = NIL;
                kept.bytes = kept.bytes.or(store.bytes);
                match self.stores.get_mut(kept.tail as usize) {
                    Some(tail) => tail.next = at,
                    None => kept.head = at,
                }
                kept.tail = at;
            } else {
                store.next = free;
                free = at;
                dropped += 1;
            }
            at = next;
        }
        self.free = free;
        self.count -= dropped;
        *list = kept;
        if kept.head == NIL {
            let used = &mut self.used[id.0 as usize];
            *used &= !(1 << line);
            if *used == 0 {
                self.free_tables.push(std::mem::take(id));
            }
        }
    }

    /// Like [`iter`](Self::iter), with tags that may be modified.
    #[inline]
    pub(crate) fn iter_mut(&mut self, table: TableId, line: usize) -> LiveStoresMut<'_, T> {
        LiveStoresMut {
            at: self.lists[table.list(line)].head,
            stores: &mut self.stores,
        }
    }

    /// The stores to line `line` of a page in the order of issue.
    pub(crate) fn iter(&self, table: TableId, line: usize) -> impl Iterator<Item = &LiveStore<T>> {
        let mut at = self.lists[table.list(line)].head;
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

    fn times(slab: &Slab<()>, table: TableId, line: usize) -> Vec<u64> {
        let stores = slab.iter(table, line);
        stores.map(|store| store.time.0).collect()
    }

    #[test]
    fn lists_share_memory_and_keep_their_order() {
        let mut slab = Slab::new();
        let mut page = TableId::default();
        for time in 0..6 {
            slab.append(&mut page, time as usize % 2, store(time));
        }
        slab.retain(&mut page, 0, |store| store.time != Time(4));
        assert_eq!(slab.bytes(page, 0), ByteMask(0b101));
        slab.retain(&mut page, 1, |store| store.time == Time(3));
        assert_eq!(times(&slab, page, 0), [0, 2]);
        assert_eq!(times(&slab, page, 1), [3]);
        for time in 6..9 {
            slab.append(&mut page, 0, store(time));
        }
        assert_eq!(times(&slab, page, 0), [0, 2, 6, 7, 8]);
        slab.retain(&mut page, 1, |_| false);
        assert!(slab.is_empty(page, 1));
        assert_eq!(slab.bytes(page, 1), ByteMask::NONE);
        slab.append(&mut page, 1, store(9));
        assert_eq!(times(&slab, page, 1), [9]);
        assert_eq!(slab.len(), 6);
        assert_eq!(slab.stores.len(), 6, "memory is reused");
    }

    #[test]
    fn a_page_without_live_stores_has_no_table() {
        let mut slab = Slab::new();
        let (mut one, mut other) = (TableId::default(), TableId::default());
        slab.append(&mut one, 0, store(0));
        slab.append(&mut one, 63, store(1));
        slab.retain(&mut one, 0, |_| false);
        assert!(!one.is_empty());
        slab.retain(&mut one, 63, |_| false);
        assert!(one.is_empty());
        slab.append(&mut other, 63, store(2));
        assert_eq!(times(&slab, other, 63), [2]);
        assert!(slab.is_empty(other, 0));
        assert_eq!(slab.used.len(), 2, "memory is reused");
    }
}
