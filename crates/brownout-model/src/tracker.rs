//! The streaming interface of the model: processes events in the order of their effect, keeps the stores that are
//! not yet guaranteed, and notifies a [`PersistObserver`] when a store becomes guaranteed.
//!
//! Memory use depends on the stores that a crash could still lose, not on the number of events: pages without live
//! stores are dropped, and flushes without a fence are kept once per line. For an observer without
//! [history](PersistObserver::HISTORY), memory use per line is bounded, because only the latest store to each byte is
//! kept.

mod ranges;

use crate::address::{LINE, LineSlot, PAGE, PmAddress, SpaceId, ThreadSlot};
use crate::byte_mask::ByteMask;
use crate::line_marks::{Mark, Marks};
use crate::live_stores::{LiveStore, LiveStoresMut, Slab};
use crate::observer::{Access, FlushEffect, PersistObserver, StoreKind};
use crate::pending::{Pending, PendingList};
use crate::profile::{Profile, Wait};
use crate::shadow::Shadow;

/// Tracks which stores of an execution a crash can lose. The crate documentation has an example with an observer that counts.
///
/// A fence guarantees only what its own thread has flushed:
///
/// ```
/// use brownout_model::*;
///
/// struct Nobody;
///
/// impl PersistObserver for Nobody {
///     type Store = ();
///     type Flush = ();
///     const HISTORY: bool = false;
///
///     fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, _: &LiveStore<()>, _: Access) {}
/// }
///
/// let mut tracker = Tracker::<Nobody>::new(Profile::ADR);
/// let (one, other) = (tracker.add_thread(), tracker.add_thread());
/// let by = |thread, time| Access { thread, time: Time(time) };
/// let line = tracker.line(PmAddress { space: SpaceId(0), offset: 0 });
///
/// tracker.store(&mut Nobody, by(one, 1), line, ByteMask::range(0, 8), StoreKind::Cached, ());
/// tracker.flush(&mut Nobody, by(one, 2), line, FlushEffect::Deferred, ());
/// tracker.fence(&mut Nobody, by(other, 3));
/// assert_eq!(tracker.live_stores(), 1);
/// tracker.fence(&mut Nobody, by(one, 4));
/// assert_eq!(tracker.live_stores(), 0);
/// ```
pub struct Tracker<W: PersistObserver> {
    profile: Profile,
    pages: Shadow,
    live: Slab<W::Store>,
    threads: Vec<PendingList<W::Flush>>,
    /// The number of pages above which idle pages are dropped.
    page_limit: usize,
}

const FIRST_PAGE_LIMIT: usize = 4096;

// Derived, it would need an observer that can be cloned.
impl<W: PersistObserver> Clone for Tracker<W> {
    fn clone(&self) -> Self {
        Tracker {
            profile: self.profile,
            pages: self.pages.clone(),
            live: self.live.clone(),
            threads: self.threads.clone(),
            page_limit: self.page_limit,
        }
    }
}

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
            self.pages.forget_idle();
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
        self.pages.has_mark(line, mark)
    }

    /// The marks of a line.
    #[inline]
    pub fn marks(&mut self, line: LineSlot) -> Marks<'_> {
        self.pages.marks(line)
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
        let page = &mut self.pages[line];
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
        let (page, marks, at) = self.pages.split(line);
        let number = line.number();
        if store.guaranteed {
            observer.guaranteed(at, marks.of(number), &store, by);
            if !W::HISTORY || self.live.is_empty(*page, number) {
                observer.settled(at, &store);
                return;
            }
        }
        self.live.append(page, number, store);
    }

    /// Removes the bytes of a new store from older stores.
    fn overwrite(&mut self, observer: &mut W, line: LineSlot, newer: &mut LiveStore<W::Store>) {
        let (page, _, at) = self.pages.split(line);
        self.live.retain(page, line.number(), |older| {
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
            FlushEffect::Immediate => self.flush_now(observer, by, line),
            FlushEffect::Deferred => {
                let time = by.time;
                self.pend(by.thread, Pending::Flush { line, time, tag });
            }
        }
    }

    #[inline(never)]
    fn flush_now(&mut self, observer: &mut W, by: Access, line: LineSlot) {
        self.guarantee(observer, by, line, |store| {
            store.kind == StoreKind::Cached && store.time <= by.time
        });
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
            let mut stores = live.iter(pages[line], line.number());
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
        self.live.iter(self.pages[line], line.number())
    }

    /// Like [`live`](Self::live), with tags that may be modified.
    #[inline]
    pub fn live_mut(&mut self, line: LineSlot) -> LiveStoresMut<'_, W::Store> {
        self.live.iter_mut(self.pages[line], line.number())
    }

    /// The bytes of a line that are not settled.
    #[inline]
    pub fn live_bytes(&self, line: LineSlot) -> ByteMask {
        self.live.bytes(self.pages[line], line.number())
    }

    #[inline]
    fn has_live(&self, line: LineSlot) -> bool {
        !self.live.is_empty(self.pages[line], line.number())
    }

    /// The number of stores, or parts of stores in one line, that are not settled.
    pub fn live_stores(&self) -> usize {
        self.live.len()
    }

    /// The number of pages with state.
    pub fn pages(&self) -> usize {
        self.pages.len()
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
        let (page, marks, at) = self.pages.split(line);
        let mut waits = ByteMask::NONE;
        // Not in `at`: the processor stalls when fields that were written separately are copied as one.
        let mut guaranteed_before = 0;
        self.live.retain(page, line.number(), |store| {
            if !store.guaranteed && which(store) {
                store.guaranteed = true;
                let at = at.after_guaranteeing(guaranteed_before);
                observer.guaranteed(at, marks.of(line.number()), store, by);
                guaranteed_before += 1;
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
