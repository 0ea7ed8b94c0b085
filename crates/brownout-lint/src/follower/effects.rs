//! Stores, flushes and fences take effect.

use brownout_model::{
    Access, ByteMask, FlushEffect, LINE, LineSlot, Pending, PmAddress, StoreKind, ThreadSlot,
    line_parts,
};
use brownout_trace::{Address, FenceKind, FileRange, ProcessId, StoreFlavor};

use crate::attribution::{Attribution, Origin};
use crate::follower::line_marks::{self, DIRTY, NON_TEMPORAL};
use crate::follower::overwrites::NOTHING;
use crate::follower::store_marks::StoreMarks;
use crate::follower::thread::Ordered;
use crate::follower::{Follower, pm_address};
use crate::rule_inputs::{Fence, FlushWork, LineFlush, StoreTag, VolatileFlush, file};
use crate::site_keys::{ActingSite, SiteKey};

/// The part of a store that goes to one line.
#[derive(Clone, Copy)]
pub(crate) struct StorePart {
    pub(crate) line: LineSlot,
    /// Offset in the line, and length there.
    pub(crate) start: u8,
    pub(crate) len: u8,
    /// The first bytes, as a little-endian number.
    pub(crate) value: u64,
    pub(crate) kind: StoreKind,
    /// A transaction accounts for it.
    pub(crate) exempt: bool,
    /// How many events before it the last fence of its thread was; at most 255.
    pub(crate) since_fence: u8,
    pub(crate) marks: StoreMarks,
}

/// How a store is made.
#[derive(Clone, Copy)]
pub(crate) struct StoreAttributes {
    pub(crate) kind: StoreKind,
    /// By a locked instruction.
    pub(crate) locked: bool,
    /// User code that makes it in a transaction has to log it first.
    pub(crate) needs_log: bool,
}

impl StoreAttributes {
    pub(crate) const BY_KERNEL: StoreAttributes = StoreAttributes {
        kind: StoreKind::Cached,
        locked: false,
        needs_log: false,
    };

    #[inline]
    pub(crate) fn of_instruction(flavor: StoreFlavor, locked: bool) -> Self {
        StoreAttributes {
            kind: match flavor {
                StoreFlavor::NonTemporal | StoreFlavor::Direct => StoreKind::NonTemporal,
                _ => StoreKind::Cached,
            },
            locked,
            needs_log: flavor.is_cached(),
        }
    }
}

/// Up to eight bytes as a little-endian number.
#[inline]
pub(crate) fn first_bytes(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(chunk)
        }
    }
}

impl<A: Attribution> Follower<A> {
    /// Cuts a store into its parts, one for each line.
    pub(crate) fn store(
        &mut self,
        by: Access,
        site: ActingSite,
        (process, addr): (ProcessId, Address),
        bytes: &[u8],
        attributes: StoreAttributes,
    ) {
        let (mut addr, mut bytes) = (addr, bytes);
        // Almost always once.
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let Some(range) = self.addresses.resolve(process, addr, len) else {
                return;
            };
            let (now, later) = bytes.split_at(range.len as usize);
            let thread = &mut self.guarantees.threads[by.thread.index()];
            thread.file = Some(range.file);
            let since_fence = thread.since_fence(by.time.0);
            let exempt = thread.transaction.is_in_user_code()
                && self.store_in_transaction((by, site), process, range, now, attributes);
            let marks = self.pair_marks(by, now);
            for (offset, bytes, before) in line_parts(range.offset, range.len) {
                self.store_counts.count(range.file);
                let part = StorePart {
                    line: self.tracker.line(pm_address(range.file, offset)),
                    start: bytes.first() as u8,
                    len: bytes.0.count_ones() as u8,
                    value: first_bytes(&now[before as usize..]),
                    kind: attributes.kind,
                    exempt,
                    since_fence,
                    marks,
                };
                self.store_part(by, site, part);
            }
            addr = Address(addr.0.wrapping_add(range.len));
            bytes = later;
        }
    }

    /// The marks of a store that is made now, as far as they depend on more than eight of its bytes.
    #[inline(always)]
    pub(crate) fn pair_marks(&mut self, by: Access, bytes: &[u8]) -> StoreMarks {
        if bytes.len() == 16 && self.guarantees.pointers.stored_pair(by.time.0, bytes) {
            StoreMarks::OBJECT_ID
        } else {
            StoreMarks::NONE
        }
    }

    pub(crate) fn flush(
        &mut self,
        by: Access,
        site: ActingSite,
        range: FileRange,
        kind: FlushEffect,
    ) {
        let address = pm_address(range.file, range.offset - range.offset % LINE);
        let line = self.tracker.line(address);
        self.flush_line(by, site, (line, address), kind);
    }

    #[inline(always)]
    pub(crate) fn store_part(&mut self, by: Access, site: ActingSite, part: StorePart) {
        let StorePart {
            line,
            start,
            len,
            value,
            kind,
            exempt,
            since_fence,
            marks,
        } = part;
        let bytes = ByteMask::range(start.into(), len.into());
        let mut marks = marks.with(site.marks);
        if len == 8 {
            marks.set(self.guarantees.pointers.marks(value, site));
        }
        let tag = || StoreTag {
            value,
            site: site.key,
            live_since: by.time.0,
            overwrote: NOTHING,
            start,
            len,
            since_fence,
            exempt,
            flushed: false,
            marks,
        };
        self.tracker
            .store_with(&mut self.guarantees, by, line, bytes, kind, tag);
        match kind {
            StoreKind::Cached => self.tracker.marks(line).set(DIRTY),
            StoreKind::NonTemporal => {
                self.tracker.marks(line).set(NON_TEMPORAL);
                self.non_temporal(by, site.key, line);
            }
        }
    }

    /// A non-temporal store waits for a fence from now on.
    #[inline(never)]
    fn non_temporal(&mut self, by: Access, site: SiteKey, line: LineSlot) {
        if !self.tracker.profile().needs_fences() {
            return;
        }
        let thread = &mut self.guarantees.threads[by.thread.index()];
        thread.waiting += 1;
        let before = thread.last_non_temporal.replace((line, site));
        let sites = &self.guarantees.sites;
        self.persists_by_instruction |= sites.origin(site) != Origin::CLibrary;
        let same = |(other, of): (LineSlot, SiteKey)| other == line && sites.is_one_copy(of, site);
        let counts = thread.ordering == 0 || !before.is_some_and(same);
        if counts && sites.is_users(site) {
            thread.begin(Ordered {
                role: "store",
                site,
                time: by.time.0,
                line: self.tracker.address(line),
            });
        }
    }

    /// Flushes the line that starts at `address`.
    #[inline(always)]
    pub(crate) fn flush_line(
        &mut self,
        by: Access,
        site: ActingSite,
        (line, address): (LineSlot, PmAddress),
        kind: FlushEffect,
    ) {
        self.persists_by_instruction = true;
        let work = self.work(by, line);
        self.tracker
            .flush(&mut self.guarantees, by, line, kind, site.key);
        line_marks::flush(self.tracker.marks(line));
        let thread = &mut self.guarantees.threads[by.thread.index()];
        thread.file = Some(file(address));
        if thread.transaction.is_in_user_code() {
            thread.transaction.flushed(address);
        }
        if kind == FlushEffect::Deferred {
            thread.waiting += 1;
            let works = matches!(work, FlushWork::Stores { .. } | FlushWork::Other);
            if works && site.is_users() {
                thread.begin(Ordered {
                    role: "flush",
                    site: site.key,
                    time: by.time.0,
                    line: address,
                });
            }
        }
        self.guarantees.rules.flush(&LineFlush {
            time: by.time.0,
            site: site.key,
            origin: site.origin,
            line: address,
            work,
        });
    }

    /// What a flush of the line by this thread finds to persist. From now on its stores are flushed.
    #[inline(always)]
    fn work(&mut self, by: Access, line: LineSlot) -> FlushWork {
        let sites = &self.guarantees.sites;
        // In variables of their own: an enum that is built step by step would be copied each time.
        let nothing = (SiteKey::NONE, 0);
        let (mut count, mut first, mut last) = (0, nothing, nothing);
        let mut last_copies = false;
        let mut non_temporal = nothing;
        let mut flushed_before = false;
        let mut live = self.tracker.live_mut(line);
        while let Some((kind, time, tag)) = live.next() {
            let (site, time) = (tag.site, time.0);
            if kind == StoreKind::NonTemporal {
                if non_temporal == nothing {
                    non_temporal = (site, time);
                }
            } else if tag.flushed {
                flushed_before = true;
            } else {
                tag.flushed = true;
                let copies = tag.marks.contain(StoreMarks::COPY);
                if count == 0 {
                    (count, first) = (1, (site, time));
                } else {
                    let is_one = last_copies && copies && sites.have_one_caller(last.0, site);
                    count += u16::from(!is_one);
                }
                (last, last_copies) = ((site, time), copies);
            }
        }
        if self.tracker.has_mark(line, DIRTY) {
            if count > 0 {
                FlushWork::Stores { count, first, last }
            } else {
                FlushWork::Other
            }
        } else if non_temporal != nothing && self.tracker.has_mark(line, NON_TEMPORAL) {
            let (store, time) = non_temporal;
            FlushWork::NonTemporal { store, time }
        } else if flushed_before && !self.has_flushed(by.thread, line) {
            FlushWork::Other
        } else {
            FlushWork::Nothing
        }
    }

    /// Whether a flush of the line by this thread is waiting for a fence.
    fn has_flushed(&self, thread: ThreadSlot, line: LineSlot) -> bool {
        let mut pending = self.tracker.pending(thread).iter().rev();
        pending
            .any(|pending| matches!(pending, Pending::Flush { line: other, .. } if *other == line))
    }

    pub(crate) fn flush_volatile(&mut self, by: Access, site: SiteKey, kind: FlushEffect) {
        let guarantees = &mut self.guarantees;
        if kind == FlushEffect::Deferred {
            guarantees.threads[by.thread.index()].waiting += 1;
        }
        let time = by.time.0;
        let flush = VolatileFlush { time, site };
        guarantees.rules.volatile_flush(&guarantees.sites, &flush);
    }

    #[inline]
    pub(crate) fn fence(&mut self, by: Access, site: ActingSite, kind: FenceKind) {
        if kind == FenceKind::Locked {
            return self.locked(by, site.key);
        }
        let thread = &self.guarantees.threads[by.thread.index()];
        let fence = Fence {
            time: by.time.0,
            site: site.key,
            origin: site.origin,
            kind,
            awaited: thread.waiting > 0,
            ordered: thread.ordering,
            examples: &thread.examples,
            file: thread.file,
        };
        self.guarantees.rules.fence(&fence);
        self.real_fence(by, site.key);
    }

    /// A fence, or a locked store to a candidate, which is a fence first.
    #[inline]
    pub(crate) fn real_fence(&mut self, by: Access, site: SiteKey) {
        self.tracker.fence(&mut self.guarantees, by);
        let thread = &mut self.guarantees.threads[by.thread.index()];
        thread.waiting = 0;
        thread.fenced(site, by.time.0);
        let came_first = !thread.accidental.are_none();
        self.judge_pointers(by, site);
        if came_first {
            self.really_fenced(by);
        }
    }
}
