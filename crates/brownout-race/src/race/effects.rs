//! Loads, stores, flushes, fences and syncs take effect.

use std::ops::Range;

use brownout_model::{
    Access, ByteMask, FlushEffect, LINE, PAGE, PmAddress, SpaceId, StoreKind, line_parts,
};
use brownout_trace::{Address, Definitions, FileId, FileRange, FlushKind, ProcessId, Sync};

use super::{RaceDetector, pm_address};
use crate::address_cache::AddressCache;
use crate::lifetimes::{Knowledge, StoreTag};
use crate::lines::{LineNumber, Lines};
use crate::observations::{DependentId, ObservedLoad};
use crate::sites::{AccessOwner, RaceSite, TargetCode};
use crate::threads::PendingLoad;

/// Loads of a thread without a store in between that may still turn out harmless.
const PENDING_LOADS: usize = 4096;
/// How far behind its beginning an object of unknown size is assumed to reach.
const UNKNOWN_OBJECT: u64 = 256;

impl<C: TargetCode> RaceDetector<C> {
    pub(super) fn load(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        bytes: &[u8],
        definitions: &Definitions,
    ) {
        let value = bytes.first_chunk::<8>().copied().map(u64::from_le_bytes);
        let value = value.filter(|_| bytes.len() == 8);
        let len = bytes.len() as u64;
        self.read(by, site, (process, addr), len, value, definitions);
    }

    /// A thread reads bytes; `value` is what it has read, if that can be a pointer.
    pub(super) fn read(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        len: u64,
        value: Option<u64>,
        definitions: &Definitions,
    ) {
        let is_data = self.is_data(by, site);
        let Some(range) = self.addresses.resolve(process, addr, len, definitions) else {
            return;
        };
        self.knowledge.threads[by.thread].has_accessed = true;
        if self.knowledge.forced.has_waits() && self.sites.forced_roles(site).load {
            self.knowledge.forced.loaded(by.thread);
        }
        let tainted = !self.knowledge.threads[by.thread].taints.is_empty();
        let target = match value {
            Some(value) if tainted => self.target(process, range.file, value, definitions),
            _ => None,
        };
        if let Some(target) = target {
            let thread = &mut self.knowledge.threads[by.thread];
            thread.taints.loaded_pointer(range, target);
        }
        for (offset, bytes, _) in line_parts(range.offset, range.len) {
            let address = pm_address(range.file, offset);
            let line = self.knowledge.lines.number(address);
            let seen = self.knowledge.lines.load(line, by.thread, bytes);
            self.publication.seen(line, seen, &mut self.knowledge.lines);
            if !is_data {
                continue;
            }
            let at = (address, bytes);
            let lost = self.observe_unpersisted(by, site, at, (process, value), definitions);
            let thread = &mut self.knowledge.threads[by.thread];
            if tainted && let Some(value) = value {
                let durable = bytes.without(lost);
                thread.taints.read_again(line, durable, value);
            }
            let kept = match self.knowledge.removes_initialisation {
                true => bytes.without(self.knowledge.lines.initialised_by(line, by.thread)),
                false => bytes,
            };
            if !kept.is_empty() {
                let thread = &mut self.knowledge.threads[by.thread];
                thread.pending.push(PendingLoad {
                    line,
                    bytes: kept,
                    site,
                    clock: thread.clock,
                    locks: thread.held.now(),
                    ends: thread.ends_in(line),
                    time: by.time,
                    flushed: false,
                });
            }
        }
        if self.knowledge.threads[by.thread].pending.len() > PENDING_LOADS {
            self.knowledge.settle_loads(by.thread);
        }
    }

    /// Notes which stores of other threads a load reads that a crash could lose now. Returns their bytes.
    fn observe_unpersisted(
        &mut self,
        by: Access,
        site: RaceSite,
        (address, bytes): (PmAddress, ByteMask),
        (process, value): (ProcessId, Option<u64>),
        definitions: &Definitions,
    ) -> ByteMask {
        let Some(slot) = self.tracker.known_line(address) else {
            return ByteMask::NONE;
        };
        if self.tracker.live_bytes(slot).and(bytes).is_empty() {
            return ByteMask::NONE;
        }
        let live = self.tracker.live(slot);
        let read: Vec<_> = live
            .filter(|store| store.thread != by.thread && store.tag.is_data)
            .filter(|store| !store.bytes.and(bytes).is_empty())
            .map(|store| (store.time, store.tag.site, store.bytes.and(bytes)))
            .collect();
        if read.is_empty() {
            return ByteMask::NONE;
        }
        let lost = read
            .iter()
            .fold(ByteMask::NONE, |lost, read| lost.or(read.2));
        let file = FileId(address.space.0);
        let target = value.and_then(|value| self.target(process, file, value, definitions));
        let line = self.knowledge.lines.number(address);
        let is_forced_load = self.sites.forced_roles(site).load;
        for (source, store_site, bytes) in read {
            if is_forced_load && self.sites.forced_roles(store_site).store {
                let (start, len) = bytes.runs().next().unwrap_or((0, 0));
                let offset = address.offset + start;
                let range = FileRange { file, offset, len };
                self.knowledge.forced.read(source, by, range);
            }
            self.knowledge.observations.read(source);
            let thread = &mut self.knowledge.threads[by.thread];
            let load = ObservedLoad {
                pair: (store_site, site),
                line,
                bytes,
                source,
                time: by.time,
                value,
                target,
                flushed: false,
            };
            thread.taints.add(&load);
            thread.observed.push(load);
        }
        lost
    }

    /// What a loaded value points to: it is an address in a mapping, or an offset in the file that it was loaded from.
    fn target(
        &mut self,
        process: ProcessId,
        file: FileId,
        value: u64,
        definitions: &Definitions,
    ) -> Option<FileRange> {
        // Small numbers, and the header of a pool, are no objects.
        if value < PAGE || !value.is_multiple_of(8) {
            return None;
        }
        let space = definitions.process(process)?.address_space();
        if let Some(range) = space.resolve(Address(value), UNKNOWN_OBJECT) {
            return Some(range);
        }
        let is_offset = space.mappings().any(|mapping| {
            mapping.file == file
                && (mapping.offset..mapping.offset.saturating_add(mapping.len)).contains(&value)
        });
        is_offset.then_some(FileRange {
            file,
            offset: value,
            len: UNKNOWN_OBJECT,
        })
    }

    /// Whether what an instruction accesses is data of the user.
    fn is_data(&self, by: Access, site: RaceSite) -> bool {
        self.sites.owner(site) == AccessOwner::User
            && !self.knowledge.threads[by.thread].is_in_lock_function()
    }

    pub(super) fn store(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        bytes: &[u8],
        kind: StoreKind,
        definitions: &Definitions,
    ) {
        let is_data = self.is_data(by, site);
        let is_lock = !is_data && self.sites.owner(site) != AccessOwner::Library;
        // What a thread has read can be the reason for what it stores; the word of a lock is no effect.
        if !is_lock {
            self.knowledge.settle_loads(by.thread);
        }
        let (mut addr, mut bytes) = (addr, bytes);
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let Some(range) = self.addresses.resolve(process, addr, len, definitions) else {
                return;
            };
            let (now, later) = bytes.split_at(range.len as usize);
            let Knowledge {
                threads,
                observations,
                lines,
                ..
            } = &mut self.knowledge;
            threads[by.thread].has_accessed = true;
            threads[by.thread].allocations.stored(addr, now);
            let thread = &threads[by.thread];
            let dependent = match is_lock || thread.taints.is_empty() {
                true => DependentId::default(),
                false => observations.stored(&thread.taints, range, now),
            };
            let tag = StoreTag {
                site,
                clock: thread.clock,
                locks: thread.held.now(),
                lock_clock: thread.held.clock(),
                seen: ByteMask::NONE,
                dependent,
                is_data,
            };
            for (offset, part, _) in line_parts(range.offset, range.len) {
                let address = pm_address(range.file, offset);
                let line = lines.number(address);
                let seen = lines.store(line, by.thread, part);
                self.publication.seen(line, seen, lines);
            }
            self.publication.stored(range, now, lines, |value| {
                let space = definitions.process(process)?.address_space();
                let target = space.resolve(Address(value), 1)?;
                Some(pm_address(target.file, target.offset))
            });
            for (offset, part, _) in line_parts(range.offset, range.len) {
                let line = self.tracker.line(pm_address(range.file, offset));
                self.tracker
                    .store(&mut self.knowledge, by, line, part, kind, tag);
            }
            if self.sites.forced_roles(site).store {
                self.knowledge.forced.stored(by.thread, by.time);
            }
            if is_data {
                self.counts.stores += 1;
            }
            addr = Address(addr.0.wrapping_add(range.len));
            bytes = later;
        }
    }

    pub(super) fn flush(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        kind: FlushKind,
        definitions: &Definitions,
    ) {
        let Some(range) = self.addresses.resolve(process, addr, 1, definitions) else {
            return;
        };
        let address = pm_address(range.file, range.offset - range.offset % LINE);
        let Knowledge { threads, lines, .. } = &mut self.knowledge;
        let thread = &mut threads[by.thread];
        let line = lines.find(address);
        if let Some(line) = line {
            for load in thread.pending.iter_mut().filter(|load| load.line == line) {
                load.flushed = true;
            }
            for load in thread.observed.iter_mut().filter(|load| load.line == line) {
                load.flushed = true;
            }
        }
        let effect = match kind {
            FlushKind::Clflush => FlushEffect::Immediate,
            _ => FlushEffect::Deferred,
        };
        self.knowledge.persisting = site;
        if let Some(line) = self.tracker.find_line(address) {
            self.tracker
                .flush(&mut self.knowledge, by, line, effect, ());
        }
        if effect == FlushEffect::Immediate {
            self.forgive(by, |_, flushed, _| Some(flushed) == line);
        }
    }

    pub(super) fn fence(&mut self, by: Access, site: RaceSite) {
        self.knowledge.persisting = site;
        self.tracker.fence(&mut self.knowledge, by);
        self.forgive(by, |_, _, flushed| flushed);
    }

    /// A system call takes bytes of a file away, or writes others in their place.
    pub(super) fn replace(
        &mut self,
        (by, site): (Access, RaceSite),
        file: FileId,
        bytes: Range<u64>,
    ) {
        let space = SpaceId(file.0);
        let live = self.tracker.live_in(space, bytes.clone());
        for (address, _, store) in live {
            let from = bytes.start.saturating_sub(address.offset).min(LINE);
            let to = bytes.end.saturating_sub(address.offset).min(LINE);
            let replaced = store.bytes.and(ByteMask::range(from, to - from));
            self.knowledge
                .replaced(address, store, replaced, (by, site));
        }
        self.tracker.discard(space, bytes, |_| {});
    }

    /// What a thread has read is durable now, before the thread has stored anything: that is no race. `is_durable` says whether, by the
    /// line and whether the thread has flushed it.
    fn forgive(&mut self, by: Access, is_durable: impl Fn(&Lines, LineNumber, bool) -> bool) {
        let Knowledge { threads, lines, .. } = &mut self.knowledge;
        let thread = &mut threads[by.thread];
        let is_durable = |line, flushed| is_durable(lines, line, flushed);
        thread
            .pending
            .retain(|load| !is_durable(load.line, load.flushed));
        let observed = &mut thread.observed;
        for load in observed.extract_if(.., |load| is_durable(load.line, load.flushed)) {
            thread.taints.remove(load.time);
        }
    }

    pub(super) fn sync(
        &mut self,
        (by, site): (Access, RaceSite),
        process: ProcessId,
        sync: Sync,
        definitions: &Definitions,
    ) {
        let ranges = match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous: false,
            } => AddressCache::resolve_all(process, addr, len, definitions),
            Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
                vec![FileRange {
                    file,
                    offset: 0,
                    len: u64::MAX,
                }]
            }
            // The others do not wait for all that is needed.
            _ => return,
        };
        self.knowledge.persisting = site;
        for range in ranges {
            let bytes = range.offset..range.offset.saturating_add(range.len);
            let space = SpaceId(range.file.0);
            self.tracker
                .write_back(&mut self.knowledge, by, space, bytes.clone());
            // The kernel writes whole pages.
            self.forgive(by, |lines, line, _| {
                let line = lines.address(line);
                let page = line.offset - line.offset % PAGE;
                line.space == space && page < bytes.end && bytes.start < page.saturating_add(PAGE)
            });
        }
    }
}
