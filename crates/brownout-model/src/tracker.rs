//! The streaming face of the model: takes events in the order of their effect, holds what is not
//! guaranteed, and tells a [`PersistObserver`] what becomes so.
//!
//! What is held follows the stores that a crash could still lose, not the number of events: lines are
//! forgotten when nothing of them is live, and flushes that no fence follows are held once for each line.
//! A observer without [history](PersistObserver::HISTORY) makes that a fixed bound per line, as only the latest
//! store to each byte counts for it.

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
    /// Through the cache, as part of its line's sequence.
    Cached,
    /// Past the cache, on its own.
    NonTemporal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushKind {
    /// `clflush`: takes effect at once.
    Immediate,
    /// `clflushopt`, `clwb`: takes effect at the next fence of its thread.
    Deferred,
}

/// Who does something, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub thread: ThreadSlot,
    pub time: Time,
}

/// Is told what happens to stores, and says what to remember of them.
pub trait PersistObserver {
    /// Remembered of each store.
    type Store: Copy;
    /// Remembered of each flush that waits for a fence.
    type Flush: Copy;
    /// Keep stores that are wholly overwritten by later ones: a crash may still show them.
    const HISTORY: bool;

    /// `store` is guaranteed from `by.time` on, by what `by.thread` did then.
    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        marks: Marks<'_>,
        store: &LiveStore<Self::Store>,
        by: Access,
    );

    /// Some `bytes` of `older`, which is not guaranteed, are overwritten by `newer`. Only without history.
    fn overwritten(
        &mut self,
        line: LineRef<'_>,
        older: &LiveStore<Self::Store>,
        newer: &mut LiveStore<Self::Store>,
        bytes: ByteMask,
    );

    /// `store` is guaranteed, and so are all before it to the same bytes: it belongs to what every
    /// crash from now on leaves. Stores to a byte settle in the order of issue.
    fn settled(&mut self, line: LineRef<'_>, store: &LiveStore<Self::Store>) {
        let _ = (line, store);
    }
}

/// What is known of a page and its lines. Two fill a cache line.
#[derive(Default)]
#[repr(align(32))]
struct PageState {
    marks: PageMarks,
    live: TableId,
}

/// Follows an execution.
pub struct Tracker<W: PersistObserver> {
    profile: Profile,
    pages: Shadow<PageState>,
    live: Slab<W::Store>,
    threads: Vec<PendingList<W::Flush>>,
    /// Pages past which idle ones are looked for.
    page_limit: usize,
}

const FIRST_PAGE_LIMIT: usize = 4096;

impl<W: PersistObserver> Tracker<W> {
    pub fn new(profile: Profile) -> Self {
        Tracker {
            profile,
            pages: Shadow::new(),
            live: Slab::new(),
            threads: Vec::new(),
            page_limit: FIRST_PAGE_LIMIT,
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Announces a thread.
    pub fn add_thread(&mut self) -> ThreadSlot {
        self.threads.push(PendingList::new());
        ThreadSlot(self.threads.len() as u32 - 1)
    }

    /// The line that holds `address`. Lines of which nothing is known, neither store nor note, may be forgotten.
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

    /// The line that holds `address`, if anything is known of it; for those who will ask for its neighbours.
    #[inline]
    pub fn find_line(&mut self, address: PmAddress) -> Option<LineSlot> {
        let first = self
            .pages
            .find_again(address.space, address.offset / PAGE)?;
        Some(first.in_page(address.offset % PAGE / LINE))
    }

    /// The line that holds `address`, if anything is known of it.
    pub fn known_line(&self, address: PmAddress) -> Option<LineSlot> {
        let first = self.pages.find(address.space, address.offset / PAGE)?;
        Some(first.in_page(address.offset % PAGE / LINE))
    }

    /// Where a line is.
    #[inline]
    pub fn address(&self, line: LineSlot) -> PmAddress {
        self.pages.address(line)
    }

    /// Whether a line has a mark. Lines begin with none; those with any are not forgotten.
    #[inline]
    pub fn has_mark(&self, line: LineSlot, mark: Mark) -> bool {
        self.pages[line].marks.has(line.number(), mark)
    }

    #[inline]
    pub fn marks(&mut self, line: LineSlot) -> Marks<'_> {
        self.pages[line].marks.of(line.number())
    }

    /// Stores to `bytes` of a line.
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

    /// As [`store`](Self::store), with a tag that is made where it is kept and not moved there.
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

    /// A store that others hear of: those whose bytes it takes, or the observer, as it is guaranteed.
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

    /// Takes what a new store covers away from older ones.
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

    /// Flushes a line.
    #[inline]
    pub fn flush(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        kind: FlushKind,
        tag: W::Flush,
    ) {
        if !self.profile.needs_flushes() || !self.has_live(line) {
            return;
        }
        match kind {
            FlushKind::Immediate => self.guarantee(observer, by, line, |store| {
                store.kind == StoreKind::Cached && store.time <= by.time
            }),
            FlushKind::Deferred => {
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

    /// A fence: what the thread has pending is guaranteed.
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

    /// The kernel wrote back the pages that hold bytes of `range`.
    pub fn write_back(&mut self, observer: &mut W, by: Access, space: SpaceId, range: Range<u64>) {
        for (_, first) in self.pages.pages_in(space, range) {
            for number in 0..PAGE / LINE {
                self.guarantee(observer, by, first.in_page(number), |_| true);
            }
        }
    }

    /// What the thread's next fence will guarantee. Entries may have become moot: see
    /// [`live`](Self::live).
    #[inline]
    pub fn pending(&self, thread: ThreadSlot) -> &[Pending<W::Flush>] {
        self.threads[thread.index()].entries()
    }

    /// The threads announced so far.
    pub fn threads(&self) -> impl Iterator<Item = ThreadSlot> + use<W> {
        (0..self.threads.len() as u32).map(ThreadSlot)
    }

    /// The stores to a line that are not settled, in the order of issue.
    pub fn live(&self, line: LineSlot) -> impl Iterator<Item = &LiveStore<W::Store>> {
        self.live.iter(self.pages[line].live, line.number())
    }

    /// Shows `visit` the stores to a line that are not settled, in the order of issue, and their tags, which
    /// it may change.
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

    /// The stores to bytes of `range` that are not settled, in the order of addresses, then of issue.
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

    /// Number of stores, or parts of them, that are not settled.
    pub fn live_stores(&self) -> usize {
        self.live.len()
    }

    /// Pages of 4 KiB that state is held for.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Shows `visit` every live store to a byte of `range`, in the order of addresses, then of issue; it
    /// says whether to keep it.
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

    /// The bytes of `range` are no more, or no longer those that were stored: what is live of them is
    /// dropped.
    pub fn discard(&mut self, space: SpaceId, range: Range<u64>) {
        let gone = range.clone();
        self.retain(space, range, |address, _, store| {
            store.bytes = store.bytes.without(bytes_in(address.offset, &gone));
            !store.bytes.is_empty()
        });
    }

    /// What a crash now can leave.
    pub fn crash_states(&self, tearing: Tearing) -> CrashStates<W::Store> {
        let lines = self
            .pages
            .all_pages()
            .into_iter()
            .flat_map(|(address, first)| {
                (0..PAGE / LINE).map(move |number| {
                    let offset = address.offset + number * LINE;
                    (PmAddress { offset, ..address }, first.in_page(number))
                })
            });
        let live = lines
            .filter(|&(_, line)| self.has_live(line))
            .map(|(address, line)| (address, self.live(line)));
        CrashStates::new(&self.profile, tearing, live)
    }

    /// Guarantees the stores of a line that `which` accepts.
    #[inline]
    fn guarantee(
        &mut self,
        observer: &mut W,
        by: Access,
        line: LineSlot,
        which: impl Fn(&LiveStore<W::Store>) -> bool,
    ) {
        let (page, at) = self.pages.split(line);
        let mut waits = ByteMask::NONE;
        self.live.retain(&mut page.live, line.number(), |store| {
            if !store.guaranteed && which(store) {
                store.guaranteed = true;
                observer.guaranteed(at, page.marks.of(line.number()), store, by);
            }
            // Without history no two live stores share a byte, so that none has to wait.
            if store.guaranteed && (!W::HISTORY || waits.and(store.bytes).is_empty()) {
                observer.settled(at, store);
                return false;
            }
            waits = waits.or(store.bytes);
            true
        });
    }
}

/// Whether a pending operation guarantees a store to its line once it is fenced.
#[inline]
fn covers<F, T>(pending: &Pending<F>, store: &LiveStore<T>) -> bool {
    match pending {
        Pending::Flush { time, .. } => store.kind == StoreKind::Cached && store.time <= *time,
        Pending::NonTemporal { time, .. } => {
            store.kind == StoreKind::NonTemporal && store.time == *time
        }
    }
}

/// The bytes of the line at `start` that lie in `range`.
fn bytes_in(start: u64, range: &Range<u64>) -> ByteMask {
    let from = range.start.saturating_sub(start).min(LINE);
    let to = range.end.saturating_sub(start).min(LINE);
    ByteMask::range(from, to.saturating_sub(from))
}
