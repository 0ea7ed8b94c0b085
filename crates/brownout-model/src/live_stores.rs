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

/// The table of the lists of one page, or none. Most pages have no live stores most of the time, so a page keeps
/// only this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableId(u32);

impl Default for TableId {
    fn default() -> Self {
        TableId(NIL)
    }
}

impl TableId {
    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> Self {
        TableId(number)
    }

    /// Whether no line of the page has live stores.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == NIL
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

#[derive(Clone, Debug)]
struct Table {
    lists: [LiveList; LINES_IN_PAGE],
    /// The lines with live stores, one bit each.
    used: u64,
}

/// The memory of live stores and their lists.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    stores: Vec<LiveStore<T>>,
    /// The first free entry, which links to the next.
    free: u32,
    count: usize,
    tables: Vec<Table>,
    free_tables: Vec<TableId>,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            stores: Vec::new(),
            free: NIL,
            count: 0,
            tables: Vec::new(),
            free_tables: Vec::new(),
        }
    }

    /// The number of live stores.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn list(&self, table: TableId, line: usize) -> LiveList {
        let table = self.tables.get(table.0 as usize);
        table.map_or(LiveList::EMPTY, |table| table.lists[line])
    }

    /// Whether line `line` of a page has no live stores.
    #[inline]
    pub(crate) fn is_empty(&self, table: TableId, line: usize) -> bool {
        self.list(table, line).head == NIL
    }

    /// All bytes of the live stores to line `line` of a page.
    #[inline]
    pub(crate) fn bytes(&self, table: TableId, line: usize) -> ByteMask {
        self.list(table, line).bytes
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
        let table = &mut self.tables[table.0 as usize];
        let list = &mut table.lists[line];
        if list.head == NIL {
            list.head = index;
            table.used |= 1 << line;
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
        self.tables.push(Table {
            lists: [LiveList::EMPTY; LINES_IN_PAGE],
            used: 0,
        });
        TableId(self.tables.len() as u32 - 1)
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
        let Some(table) = self.tables.get_mut(id.0 as usize) else {
            return;
        };
        let mut at = table.lists[line].head;
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
        table.lists[line] = kept;
        if kept.head == NIL {
            table.used &= !(1 << line);
            if table.used == 0 {
                self.free_tables.push(std::mem::take(id));
            }
        }
    }

    /// Calls `visit` for the stores to line `line` of a page in the order of issue.
    #[inline(always)]
    pub(crate) fn for_each(
        &mut self,
        table: TableId,
        line: usize,
        mut visit: impl FnMut(&mut LiveStore<T>),
    ) {
        let mut at = self.list(table, line).head;
        while let Some(store) = self.stores.get_mut(at as usize) {
            at = store.next;
            visit(store);
        }
    }

    /// The stores to line `line` of a page in the order of issue.
    pub(crate) fn iter(&self, table: TableId, line: usize) -> impl Iterator<Item = &LiveStore<T>> {
        let mut at = self.list(table, line).head;
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
        assert_eq!(slab.tables.len(), 1, "memory is reused");
    }
}
