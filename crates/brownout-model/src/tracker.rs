//! The streaming interface of the model: processes events in the order of their effect, keeps the stores that are
//! not yet guaranteed, and notifies a [`PersistObserver`] when a store becomes guaranteed.
//!
//! Memory use depends on the stores that a crash could still lose, not on the number of events: pages without live
//! stores are dropped, and flushes without a fence are kept once per line. For an observer without
//! [history](PersistObserver::HISTORY), memory use per line is bounded, because only the latest store to each byte is
//! kept.

use std::ops::Range;

use crate::address::{LINE, LineSlot, PAGE, PmAddress, SpaceId, ThreadSlot, Time};
use crate::byte_mask::ByteMask;
use crate::crash_states::CrashStates;
use crate::line_marks::{Mark, Marks, PageMarks};
use crate::live_stores::{LiveStore, Slab, TableId};
use crate::pending::{Pending, PendingList};
use crate::profile::{Profile, Wait};
use crate::shadow::{LineRef, Shadow};
use crate::unit_states::Tearing;

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
    /// Whether to keep stores that are completely overwritten by later ones. [`CrashStates`] need them, because
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
    );

    /// `store` is guaranteed, and so are all earlier stores to the same bytes: every later crash keeps it unless
    /// it is overwritten. Stores to a byte settle in the order of issue.
    fn settled(&mut self, line: LineRef<'_>, store: &LiveStore<Self::Store>) {
        let _ = (line, store);
    }
}

/// The state of a page and its lines. Two fit in a cache line.
#[derive(Default)]
#[repr(align(32))]
struct PageState {
    marks: PageMarks,
    live: TableId,
}

/// Tracks which stores of an execution a crash can lose. The crate documentation has an example.
pub struct Tracker<W: PersistObserver> {
    profile: Profile,
    pages: Shadow<PageState>,
    live: Slab<W::Store>,
    threads: Vec<PendingList<W::Flush>>,
    /// The number of pages above which idle pages are dropped.
    page_limit: usize,
}

const FIRST_PAGE_LIMIT: usize = 4096;

impl<W: PersistObserver> Tracker<W> {
    /// A tracker for a machine of this kind, without threads and stores.
    pub fn new(profile: Profile) -> Self {
        Tracker {
            profile,
            pages: Shadow::new(),
            live: Slab::new(),
            threads: Vec::new(),
            page_limit: FIRST_PAGE_LIMIT,
        }
    }

    /// The profile that the tracker uses.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Adds a thread.
    pub fn add_thread(&mut self) -> ThreadSlot {
        self.threads.push(PendingList::new());
        ThreadSlot(self.threads.len() as u32 - 1)
    }

    /// The line that contains `address`. May drop the state of other pages without live stores and marks, which
    /// invalidates their slots.
    #[inline]
    pub fn line(&mut self, address: PmAddress) -> LineSlot {
        match self.find_line(address) {
            Some(line) => line,
            None => {
                let first = self.new_page(address.space, address.offset / PAGE);
                first.in_page(address.offset % PAGE / LINE)
            }
        }
    }

    #[cold]
    fn new_page(&mut self, space: SpaceId, page: u64) -> LineSlot {
        if self.pages.len() >= self.page_limit {
            self.pages
                .forget(|page| page.live.is_empty() && page.marks.are_none());
            self.page_limit = FIRST_PAGE_LIMIT.max(self.pages.len() * 2);
        }
        self.pages.touch(space, page)
    }

    /// The line that contains `address`, if its page has state. Caches the page, which speeds up lookups nearby.
    #[inline]
    pub fn find_line(&mut self, address: PmAddress) -> Option<LineSlot> {
        let first = self
            .pages
            .find_cached(address.space, address.offset / PAGE)?;
        Some(first.in_page(address.offset % PAGE / LINE))
    }

    /// The line that contains `address`, if its page has state.
    pub fn known_line(&self, address: PmAddress) -> Option<LineSlot> {
        let first = self.pages.find(address.space, address.offset / PAGE)?;
        Some(first.in_page(address.offset % PAGE / LINE))
    }

    /// The address of a line.
    #[inline]
    pub fn address(&self, line: LineSlot) -> PmAddress {
        self.pages.address(line)
    }

    /// Whether a line has a mark. Lines start without marks. Pages with marked lines are not dropped.
    #[inline]
    pub fn has_mark(&self, line: LineSlot, mark: Mark) -> bool {
        self.pages[line].marks.has(line.number(), mark)
    }

    /// The marks of a line.
    #[inline]
    pub fn marks(&mut self, line: LineSlot) -> Marks<'_> {
        self.pages[line].marks.of(line.number())
    }

    /// Processes a store to `bytes` of a line.
    #[inline]
    pub fn store(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        bytes: ByteMask,
        kind: StoreKind,
        tag: W::Store,
    ) {
        self.store_with(observer, by, line, bytes, kind, || tag);
    }

    /// Like [`store`](Self::store), with a tag that is constructed in place.
    #[inline(always)]
    pub fn store_with(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        bytes: ByteMask,
        kind: StoreKind,
        tag: impl FnOnce() -> W::Store,
    ) {
        let wait = self.profile.wait(kind);
        let page = &mut self.pages[line].live;
        let overwrites =
            !W::HISTORY && !self.live.bytes(*page, line.number()).and(bytes).is_empty();
        if overwrites || wait == Wait::Nothing {
            self.store_over(observer, by, line, bytes, kind, tag());
        } else {
            let store = LiveStore::new(by, bytes, kind, false, tag());
            self.live.append(page, line.number(), store);
        }
        if wait == Wait::Fence {
            self.pend(
                by.thread,
                Pending::NonTemporal {
                    line,
                    time: by.time,
                },
            );
        }
    }

    /// A store that needs a notification: it overwrites live stores or is guaranteed at once.
    #[inline(never)]
    fn store_over(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        bytes: ByteMask,
        kind: StoreKind,
        tag: W::Store,
    ) {
        let wait = self.profile.wait(kind);
        let mut store = LiveStore::new(by, bytes, kind, wait == Wait::Nothing, tag);
        if !W::HISTORY {
            self.overwrite(observer, line, &mut store);
        }
        let (page, at) = self.pages.split(line);
        let number = line.number();
        if store.guaranteed {
            observer.guaranteed(at, page.marks.of(number), &store, by);
            if !W::HISTORY || self.live.is_empty(page.live, number) {
                observer.settled(at, &store);
                return;
            }
        }
        self.live.append(&mut page.live, number, store);
    }

    /// Removes the bytes of a new store from older stores.
    fn overwrite(&mut self, observer: &mut W, line: LineSlot, newer: &mut LiveStore<W::Store>) {
        let (page, at) = self.pages.split(line);
        self.live.retain(&mut page.live, line.number(), |older| {
            let covered = older.bytes.and(newer.bytes);
            if !covered.is_empty() {
                observer.overwritten(at, older, newer, covered);
                older.bytes = older.bytes.without(covered);
            }
            !older.bytes.is_empty()
        });
    }

    /// Processes a flush of a line.
    #[inline]
    pub fn flush(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        kind: FlushEffect,
        tag: W::Flush,
    ) {
        if !self.profile.needs_flushes() || !self.has_live(line) {
            return;
        }
        match kind {
            FlushEffect::Immediate => self.guarantee(observer, by, line, |store| {
                store.kind == StoreKind::Cached && store.time <= by.time
            }),
            FlushEffect::Deferred => {
                let time = by.time;
                self.pend(by.thread, Pending::Flush { line, time, tag });
            }
        }
    }

    #[inline]
    fn pend(&mut self, thread: ThreadSlot, pending: Pending<W::Flush>) {
        if self.threads[thread.index()].push(pending) {
            self.compact(thread);
        }
    }

    #[cold]
    fn compact(&mut self, thread: ThreadSlot) {
        let (pages, live) = (&self.pages, &self.live);
        self.threads[thread.index()].compact(|pending| {
            let line = pending.line();
            let mut stores = live.iter(pages[line].live, line.number());
            stores.any(|store| covers(pending, store))
        });
    }

    /// Processes a fence, which guarantees the pending flushes and non-temporal stores of the thread.
    #[inline]
    pub fn fence(&mut self, observer: &mut W, by: Access) {
        let thread = by.thread.index();
        if self.threads[thread].entries().is_empty() {
            return;
        }
        let pending = self.threads[thread].take();
        for entry in &pending {
            self.guarantee(observer, by, entry.line(), |store| covers(entry, store));
        }
        self.threads[thread].reuse(pending);
    }

    /// Processes a write-back by the kernel of the pages that contain bytes of `range`.
    pub fn write_back(&mut self, observer: &mut W, by: Access, space: SpaceId, range: Range<u64>) {
        for (_, first) in self.pages.pages_in(space, range) {
            for number in 0..PAGE / LINE {
                self.guarantee(observer, by, first.in_page(number), |_| true);
            }
        }
    }

    /// What the thread's next fence will guarantee. Stores to a line may have been guaranteed since: see
    /// [`live`](Self::live).
    #[inline]
    pub fn pending(&self, thread: ThreadSlot) -> &[Pending<W::Flush>] {
        self.threads[thread.index()].entries()
    }

    /// The threads added so far.
    pub fn threads(&self) -> impl Iterator<Item = ThreadSlot> + use<W> {
        (0..self.threads.len() as u32).map(ThreadSlot)
    }

    /// The stores to a line that are not settled, in the order of issue.
    pub fn live(&self, line: LineSlot) -> impl Iterator<Item = &LiveStore<W::Store>> {
        self.live.iter(self.pages[line].live, line.number())
    }

    /// Calls `visit` with the stores to a line that are not settled, in the order of issue. It may modify the
    /// tags.
    #[inline(always)]
    pub fn visit_live(
        &mut self,
        line: LineSlot,
        mut visit: impl FnMut(StoreKind, Time, &mut W::Store),
    ) {
        let page = self.pages[line].live;
        self.live.for_each(page, line.number(), |store| {
            visit(store.kind, store.time, &mut store.tag);
        });
    }

    /// The stores to bytes of `range` that are not settled, ordered by address, then by issue.
    pub fn live_in(
        &self,
        space: SpaceId,
        range: Range<u64>,
    ) -> impl Iterator<Item = (PmAddress, LineSlot, &LiveStore<W::Store>)> {
        let pages = self.pages.pages_in(space, range.clone()).into_iter();
        let lines = pages.flat_map(|(offset, first)| {
            (0..PAGE / LINE).map(move |number| (offset + number * LINE, first.in_page(number)))
        });
        lines.flat_map(move |(offset, line)| {
            let inside = bytes_in(offset, &range);
            let stores = self.live(line);
            stores
                .filter(move |store| !store.bytes.and(inside).is_empty())
                .map(move |store| (PmAddress { space, offset }, line, store))
        })
    }

    /// The bytes of a line that are not settled.
    #[inline]
    pub fn live_bytes(&self, line: LineSlot) -> ByteMask {
        self.live.bytes(self.pages[line].live, line.number())
    }

    #[inline]
    fn has_live(&self, line: LineSlot) -> bool {
        !self.live.is_empty(self.pages[line].live, line.number())
    }

    /// The number of stores, or parts of stores in one line, that are not settled.
    pub fn live_stores(&self) -> usize {
        self.live.len()
    }

    /// The number of pages with state.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Calls `visit` with every live store to bytes of `range`, ordered by address, then by issue. It returns
    /// whether to keep the store.
    pub fn retain(
        &mut self,
        space: SpaceId,
        range: Range<u64>,
        mut visit: impl FnMut(PmAddress, LineSlot, &mut LiveStore<W::Store>) -> bool,
    ) {
        for (offset, first) in self.pages.pages_in(space, range.clone()) {
            for number in 0..PAGE / LINE {
                let start = offset + number * LINE;
                let inside = bytes_in(start, &range);
                let line = first.in_page(number);
                if self.live_bytes(line).and(inside).is_empty() {
                    continue;
                }
                let address = self.address(line);
                let page = &mut self.pages[line].live;
                self.live.retain(page, line.number(), |store| {
                    store.bytes.and(inside).is_empty() || visit(address, line, store)
                });
            }
        }
    }

    /// Drops live stores to the bytes of `range`, which no longer exist or were replaced by other means. Calls `dropped` with
    /// the tag of each store of which no byte is left.
    pub fn discard(
        &mut self,
        space: SpaceId,
        range: Range<u64>,
        mut dropped: impl FnMut(&W::Store),
    ) {
        let gone = range.clone();
        self.retain(space, range, |address, _, store| {
            store.bytes = store.bytes.without(bytes_in(address.offset, &gone));
            if store.bytes.is_empty() {
                dropped(&store.tag);
            }
            !store.bytes.is_empty()
        });
    }

    /// The states that a crash at this time can leave. Needs [history](PersistObserver::HISTORY).
    pub fn crash_states(&self, tearing: Tearing) -> CrashStates<W::Store> {
        self.states_of(self.pages.all_pages(), tearing, |_| true)
    }

    /// Like [`crash_states`](Self::crash_states), of the units that contain bytes of `range` alone.
    pub fn crash_states_in(
        &self,
        space: SpaceId,
        range: Range<u64>,
        tearing: Tearing,
    ) -> CrashStates<W::Store> {
        let unit = self.profile.unit;
        let end = range.end.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        let units = range.start - range.start % unit..end;
        let pages = self.pages.pages_in(space, units.clone()).into_iter();
        let pages = pages.map(|(offset, first)| (PmAddress { space, offset }, first));
        self.states_of(pages, tearing, |line| units.contains(&line.offset))
    }

    fn states_of(
        &self,
        pages: impl IntoIterator<Item = (PmAddress, LineSlot)>,
        tearing: Tearing,
        wanted: impl Fn(PmAddress) -> bool,
    ) -> CrashStates<W::Store> {
        let lines = pages.into_iter().flat_map(|(address, first)| {
            (0..PAGE / LINE).map(move |number| {
                let offset = address.offset + number * LINE;
                (PmAddress { offset, ..address }, first.in_page(number))
            })
        });
        let live = lines
            .filter(|&(address, _)| wanted(address))
            .filter(|&(_, line)| self.has_live(line))
            .map(|(address, line)| (address, self.live(line)));
        CrashStates::new(&self.profile, tearing, live)
    }

    /// Guarantees the stores to a line that `which` accepts.
    #[inline]
    fn guarantee(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        which: impl Fn(&LiveStore<W::Store>) -> bool,
    ) {
        let (page, mut at) = self.pages.split(line);
        let mut waits = ByteMask::NONE;
        self.live.retain(&mut page.live, line.number(), |store| {
            if !store.guaranteed && which(store) {
                store.guaranteed = true;
                observer.guaranteed(at, page.marks.of(line.number()), store, by);
                at.guaranteed_before += 1;
            }
            // Without history no two live stores share a byte, so none has to wait for another.
            if store.guaranteed && (!W::HISTORY || waits.and(store.bytes).is_empty()) {
                observer.settled(at, store);
                return false;
            }
            waits = waits.or(store.bytes);
            true
        });
    }
}

/// Whether a fence after the pending operation guarantees the store.
#[inline]
fn covers<F, T>(pending: &Pending<F>, store: &LiveStore<T>) -> bool {
    match pending {
        Pending::Flush { time, .. } => store.kind == StoreKind::Cached && store.time <= *time,
        Pending::NonTemporal { time, .. } => {
            store.kind == StoreKind::NonTemporal && store.time == *time
        }
    }
}

/// The bytes of the line at `start` that are in `range`.
fn bytes_in(start: u64, range: &Range<u64>) -> ByteMask {
    let from = range.start.saturating_sub(start).min(LINE);
    let to = range.end.saturating_sub(start).min(LINE);
    ByteMask::range(from, to.saturating_sub(from))
}
