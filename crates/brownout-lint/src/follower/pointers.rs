//! Pointers that become guaranteed, for the rule `unpersisted-target`.
//!
//! Every store that becomes guaranteed passes [`note`](Pointers::note), so that function only compares the value with the
//! ranges in which addresses and offsets of this run can lie. What looks like a pointer waits for the end of the fence or
//! system call that guarantees it: [`targets`](super::targets) then looks for stores into what it points to.

use brownout_model::{Access, LINE, LineRef, LineSlot, LiveStore, PmAddress, ThreadSlot};
use brownout_trace::Address;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::follower::effects::first_bytes;
use crate::follower::targets::Suspect;
use crate::rule_inputs::StoreTag;
use crate::site_keys::SiteKey;

/// Smaller numbers are not taken for offsets: what lies at the beginning of a file is its header.
const FIRST_OFFSET: u64 = 64;

/// The most pointers that wait for a fence of their thread, and the most object identifiers that wait to be
/// guaranteed. A program that flushes with `clflush` may never fence.
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
    /// How many other stores to its line were guaranteed with it.
    pub(crate) companions: u32,
}

/// The store that was guaranteed last.
#[derive(Clone, Copy)]
struct Last {
    line: Option<LineSlot>,
    time: u64,
    value: u64,
    start: u8,
    len: u8,
    /// The user's stores to this line that were guaranteed at this time, including this one.
    in_line: u32,
}

/// The pointers of a run.
pub(crate) struct Pointers {
    /// Mapped addresses: the lowest, and the distance to the highest.
    lowest: u64,
    span: u64,
    /// No offset that a mapping reaches is higher.
    highest_offset: u64,
    last: Last,
    /// Those that were guaranteed since the last fence of their thread.
    pub(crate) guaranteed: Vec<Pointer>,
    /// Object identifiers that were stored by one instruction: the offset, by the time of the store.
    object_ids: FxHashMap<u64, u64>,
    /// Pointers that were guaranteed before their targets.
    pub(crate) suspects: Vec<Suspect>,
    /// The stores that were reported as targets.
    pub(crate) reported: FxHashSet<SiteKey>,
}

impl Pointers {
    pub(crate) fn new() -> Self {
        Pointers {
            lowest: 0,
            span: 0,
            highest_offset: 0,
            last: Last {
                line: None,
                time: 0,
                value: 0,
                start: 0,
                len: 0,
                in_line: 0,
            },
            guaranteed: Vec::new(),
            object_ids: FxHashMap::default(),
            suspects: Vec::new(),
            reported: FxHashSet::default(),
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
        let reached = offset.saturating_add(len);
        self.highest_offset = self.highest_offset.max(reached);
    }

    /// Whether there are mappings that pointers may point to.
    pub(crate) fn are_followed(&self) -> bool {
        self.span > 0
    }

    #[inline(always)]
    fn is_address(&self, value: u64) -> bool {
        value.wrapping_sub(self.lowest) < self.span
    }

    #[inline(always)]
    fn is_offset(&self, value: u64) -> bool {
        value.is_multiple_of(8) && value < self.highest_offset && value >= FIRST_OFFSET
    }

    /// A store of 16 bytes is made; it may be an object identifier.
    #[inline(never)]
    pub(crate) fn stored_pair(&mut self, time: u64, bytes: &[u8]) {
        let (pool, offset) = bytes.split_at(8);
        let offset = first_bytes(offset);
        if identifies_pool(first_bytes(pool)) && self.is_offset(offset) {
            if self.object_ids.len() == MOST_WAITING {
                self.object_ids.clear();
            }
            self.object_ids.insert(time, offset);
        }
    }

    /// A store of the user's becomes guaranteed.
    #[inline(always)]
    pub(crate) fn note(&mut self, line: LineRef<'_>, store: &LiveStore<StoreTag>, by: Access) {
        let tag = &store.tag;
        let slot = Some(line.slot());
        let together = self.last.line == slot && self.last.time == by.time.0;
        let in_line = if together { self.last.in_line + 1 } else { 1 };
        let plausible = self.is_address(tag.value) || self.is_offset(tag.value);
        if plausible || !self.guaranteed.is_empty() || !self.object_ids.is_empty() {
            self.note_plausible(line, store, by, in_line);
        }
        self.last = Last {
            line: slot,
            time: by.time.0,
            value: tag.value,
            start: tag.start,
            len: tag.len,
            in_line,
        };
    }

    /// A store becomes guaranteed that may be a pointer, or be next to one.
    #[inline(never)]
    fn note_plausible(
        &mut self,
        line: LineRef<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
        in_line: u32,
    ) {
        let tag = &store.tag;
        let address = line.address();
        if let Some(before) = self.guaranteed.last_mut() {
            let same_line = before.location.space == address.space
                && before.location.offset / LINE == address.offset / LINE;
            if same_line && before.by == by {
                let halves = address.offset + u64::from(tag.start) + 8 == before.location.offset;
                if halves && tag.len == 8 && identifies_pool(tag.value) {
                    before.kind = PointerKind::ObjectId;
                } else {
                    before.companions += 1;
                }
            }
        }
        let (kind, value, skipped) = match tag.len {
            8 if self.is_address(tag.value) || self.is_offset(tag.value) => {
                let last = &self.last;
                let halves = in_line > 1 && last.len == 8 && last.start + 8 == tag.start;
                let kind = if halves && identifies_pool(last.value) {
                    PointerKind::ObjectId
                } else {
                    PointerKind::Word
                };
                (kind, tag.value, 0)
            }
            16 => match self.object_ids.remove(&store.time.0) {
                Some(offset) => (PointerKind::ObjectId, offset, 8),
                None => return,
            },
            _ => return,
        };
        if tag.exempt || self.guaranteed.len() == MOST_WAITING {
            return;
        }
        let halves = u32::from(kind == PointerKind::ObjectId && skipped == 0);
        self.guaranteed.push(Pointer {
            kind,
            value,
            location: PmAddress {
                offset: address.offset + u64::from(tag.start) + skipped,
                ..address
            },
            site: tag.site,
            time: store.time.0,
            thread: store.thread,
            by,
            companions: in_line - 1 - halves,
        });
    }
}

/// Whether a word may be the number of a pool, which is random: neither a small number nor an address of the target.
#[inline]
fn identifies_pool(word: u64) -> bool {
    word >> 47 != 0
}
