//! Pointers that become guaranteed, for the rule `unpersisted-target`.
//!
//! A store whose value may be a pointer gets a [mark](StoreMarks): the value is compared with the ranges in which addresses and
//! offsets of this run can lie when the store is made. What points to memory that is mapped only later is not a pointer then.
//! When a marked store becomes guaranteed, it waits for the end of the fence or system call that guarantees it:
//! [`targets`](super::targets) then looks for stores into what it points to.

use brownout_model::{
    Access, LINE, LineRef, LineSlot, LiveStore, PmAddress, StoreKind, ThreadSlot,
};
use brownout_trace::Address;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::follower::effects::first_bytes;
use crate::follower::offsets::Offsets;
use crate::follower::store_marks::StoreMarks;
use crate::follower::targets::SuspectPointer;
use crate::rule_inputs::StoreTag;
use crate::site_keys::{ActingSite, SiteKey};

/// Smaller numbers are not taken for offsets: what lies at the beginning of a file is its header.
const FIRST_OFFSET: u64 = 64;

/// Offsets are multiples of this. Allocators align objects so; most other numbers are not.
const ALIGNMENT: u64 = 16;

/// The most pointers that wait for a fence of their thread, and the most object identifiers that wait to be
/// guaranteed. A program that flushes with `clflush` may never fence. What is given up is [counted](Pointers::not_judged).
const MOST_WAITING: usize = 1024;

/// How the target is found from the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerKind {
    /// An address, or an offset in the file.
    Word,
    /// The second half of a libpmemobj object identifier: an offset behind a number that identifies the pool.
    ObjectId,
}

/// A guaranteed store whose value may be a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    pub(crate) kind: PointerKind,
    pub(crate) value: u64,
    /// Where it is stored.
    pub(crate) location: PmAddress,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    /// The thread that stored it.
    pub(crate) thread: ThreadSlot,
    /// What guaranteed it.
    pub(crate) by: Access,
    /// No other store to its line was guaranteed with it.
    pub(crate) is_alone: bool,
}

/// The pointers of a run.
pub(crate) struct Pointers {
    /// Mapped addresses: the lowest, and the distance to the highest.
    lowest: u64,
    span: u64,
    /// How many multiples of [`ALIGNMENT`] from [`FIRST_OFFSET`] on are offsets that a mapping reaches.
    offsets: u64,
    /// The store that was guaranteed last: its line, offset in the line and value.
    last_line: LineSlot,
    last_start: u8,
    last_value: u64,
    /// The line of the pointer that was noted last.
    noted: LineSlot,
    /// Those that were guaranteed since the last fence of their thread.
    pub(crate) guaranteed: Vec<Pointer>,
    /// Object identifiers that were stored by one instruction: the offset, by the time of the store.
    object_ids: FxHashMap<u64, u64>,
    /// Pointers that were guaranteed before their targets.
    pub(crate) suspects: Vec<SuspectPointer>,
    /// Pointers among them that are offsets, and which numbers are none.
    pub(crate) numbers: Offsets,
    /// The stores that were reported as targets.
    pub(crate) reported: FxHashSet<SiteKey>,
    /// How many pointers were given up because too many others were waiting.
    pub(crate) not_judged: u64,
}

impl Pointers {
    pub(crate) fn new() -> Self {
        Pointers {
            lowest: 0,
            span: 0,
            offsets: 0,
            last_line: LineSlot::NONE,
            last_start: 0,
            last_value: 0,
            noted: LineSlot::NONE,
            guaranteed: Vec::new(),
            object_ids: FxHashMap::default(),
            suspects: Vec::new(),
            numbers: Offsets::default(),
            reported: FxHashSet::default(),
            not_judged: 0,
        }
    }

    /// From now on, addresses of `len` bytes that are mapped at `addr`, and their offsets from `offset` on, may be
    /// pointers.
    pub(crate) fn mapped(&mut self, addr: Address, len: u64, offset: u64) {
        let end = self.lowest.saturating_add(self.span);
        let mapped_end = addr.0.saturating_add(len);
        if self.span == 0 {
            (self.lowest, self.span) = (addr.0, len);
        } else {
            self.lowest = self.lowest.min(addr.0);
            self.span = end.max(mapped_end) - self.lowest;
        }
        let reached = offset.saturating_add(len).saturating_sub(FIRST_OFFSET) / ALIGNMENT;
        self.offsets = self.offsets.max(reached);
    }

    /// Whether there are mappings that pointers may point to.
    pub(crate) fn are_followed(&self) -> bool {
        self.span > 0
    }

    /// Forgets the pointers that were judged.
    pub(crate) fn keep(&mut self, waiting: impl FnMut(&Pointer) -> bool) {
        self.guaranteed.retain(waiting);
        self.noted = LineSlot::NONE;
    }

    #[inline(always)]
    fn is_address(&self, value: u64) -> bool {
        value.wrapping_sub(self.lowest) < self.span
    }

    #[inline(always)]
    fn is_offset(&self, value: u64) -> bool {
        // Rotation makes what is not aligned large: one comparison decides.
        let aligned = value.rotate_right(ALIGNMENT.trailing_zeros());
        aligned.wrapping_sub(FIRST_OFFSET / ALIGNMENT) < self.offsets
    }

    /// Whether a store of 16 bytes is an object identifier.
    #[inline(never)]
    pub(crate) fn stored_pair(&mut self, time: u64, bytes: &[u8]) -> bool {
        let (pool, offset) = bytes.split_at(8);
        let offset = first_bytes(offset);
        let is_object_id = identifies_pool(first_bytes(pool)) && self.is_offset(offset);
        if is_object_id {
            if self.object_ids.len() == MOST_WAITING {
                self.not_judged += self.object_ids.len() as u64;
                self.object_ids.clear();
            }
            self.object_ids.insert(time, offset);
        }
        is_object_id
    }

    /// The marks of a store of eight bytes. A number that is no offset is marked unless its site is known to store such numbers;
    /// 0 and the largest number mean that there is no object.
    #[inline(always)]
    pub(crate) fn marks(&self, value: u64, site: ActingSite) -> StoreMarks {
        if self.is_address(value) || self.is_offset(value) {
            StoreMarks::POINTER
        } else if !site.stores_other_numbers && value.wrapping_add(1) > 1 {
            StoreMarks::OTHER_NUMBER
        } else {
            StoreMarks::NONE
        }
    }

    /// A store of the user's without marks becomes guaranteed.
    #[inline(always)]
    pub(crate) fn pass(&mut self, line: LineRef<'_>, store: &LiveStore<StoreTag>, by: Access) {
        if self.noted == line.slot() {
            self.note_neighbour(store, by);
        }
        self.remember(line, store);
    }

    /// A store of the user's becomes guaranteed.
    pub(crate) fn note(&mut self, line: LineRef<'_>, store: &LiveStore<StoreTag>, by: Access) {
        if self.noted == line.slot() {
            self.note_neighbour(store, by);
        }
        if store.tag.marks.contain(StoreMarks::POINTER) {
            self.note_plausible(line, store, by);
        }
        self.remember(line, store);
    }

    #[inline(always)]
    fn remember(&mut self, line: LineRef<'_>, store: &LiveStore<StoreTag>) {
        self.last_line = line.slot();
        self.last_start = store.tag.start;
        self.last_value = store.tag.value;
    }

    /// A store becomes guaranteed to the line of the pointer that was noted last.
    #[inline(never)]
    fn note_neighbour(&mut self, store: &LiveStore<StoreTag>, by: Access) {
        let tag = &store.tag;
        let is_half = tag.len == 8 && identifies_pool(tag.value);
        if let Some(before) = self.guaranteed.last_mut()
            && before.by == by
        {
            if is_half && u64::from(tag.start) + 8 == before.location.offset % LINE {
                before.kind = PointerKind::ObjectId;
            } else {
                before.is_alone = false;
            }
        }
    }

    /// A store becomes guaranteed that may be a pointer.
    fn note_plausible(&mut self, line: LineRef<'_>, store: &LiveStore<StoreTag>, by: Access) {
        let tag = &store.tag;
        // Each non-temporal store is guaranteed on its own.
        let beside_last = self.last_line == line.slot()
            && (line.guaranteed_before() > 0 || store.kind == StoreKind::NonTemporal);
        let is_object_id = beside_last
            && self.last_start + 8 == tag.start
            && identifies_pool(self.last_value)
            && self.is_offset(tag.value);
        let (kind, is_alone) = if is_object_id {
            (PointerKind::ObjectId, line.guaranteed_before() < 2)
        } else {
            (PointerKind::Word, !beside_last)
        };
        let location = line.address().offset + u64::from(tag.start);
        let pointer = (kind, tag.value, location);
        self.push(line, store, by, pointer, is_alone);
    }

    /// An object identifier that was stored by one instruction becomes guaranteed.
    pub(crate) fn note_object_id(
        &mut self,
        line: LineRef<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
    ) {
        if let Some(offset) = self.object_ids.remove(&store.time.0) {
            let location = line.address().offset + u64::from(store.tag.start) + 8;
            let is_alone = line.guaranteed_before() == 0;
            let pointer = (PointerKind::ObjectId, offset, location);
            self.push(line, store, by, pointer, is_alone);
        }
    }

    fn push(
        &mut self,
        line: LineRef<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
        (kind, value, location): (PointerKind, u64, u64),
        is_alone: bool,
    ) {
        if store.tag.exempt {
            return;
        }
        if self.guaranteed.len() == MOST_WAITING {
            // The oldest are most likely those of a thread that never fences.
            self.guaranteed.drain(..MOST_WAITING / 2);
            self.not_judged += MOST_WAITING as u64 / 2;
        }
        self.guaranteed.push(Pointer {
            kind,
            value,
            location: PmAddress {
                offset: location,
                ..line.address()
            },
            site: store.tag.site,
            time: store.time.0,
            thread: store.thread,
            by,
            is_alone,
        });
        self.noted = line.slot();
    }
}

/// Whether a word may be the number of a pool, which is random: neither a small number nor an address of the target.
#[inline]
fn identifies_pool(word: u64) -> bool {
    word >> 47 != 0
}
