//! Shadow memory: the state of each accessed page of persistent memory, in arrays.
//!
//! Pages get state by regions of 256 KiB. Once the number of the region is known, the state of a page is one array access,
//! and nothing is allocated for a region that is accessed again. Where the live stores of a page are is needed at once for
//! every event, so these numbers have an array of their own, which stays in the processor's cache. The marks are
//! modified, and nothing waits for them.

use std::ops::{Index, IndexMut, Range};

use rustc_hash::FxHashMap;

use crate::address::{LINE, LINES_IN_PAGE, LineSlot, PAGE, PmAddress, SpaceId};
use crate::line_marks::{Mark, Marks, PageMarks};
use crate::live_stores::TableId;

const PAGES_IN_REGION: usize = 64;
/// Bytes in a region.
const REGION: u64 = PAGES_IN_REGION as u64 * PAGE;
/// The most regions, because line slots are 32-bit numbers and one is no line.
const MOST_REGIONS: usize = u32::MAX as usize / LINES_IN_PAGE / PAGES_IN_REGION;

#[derive(Clone)]
pub(crate) struct Shadow {
    live: Vec<TableId>,
    marks: Vec<PageMarks>,
    /// By number. A region that was dropped keeps its key until its number is used again.
    keys: Vec<RegionKey>,
    free: Vec<u32>,
    regions: FxHashMap<RegionKey, u32>,
    /// A direct-mapped cache of region numbers.
    recent: Vec<Option<(RegionKey, u32)>>,
    /// The page that was looked up last.
    last: Option<(SpaceId, u64, LineSlot)>,
}

/// Regions in the cache: 512 MiB of contiguous persistent memory.
const RECENT: usize = 2048;

/// Which part of persistent memory a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RegionKey {
    space: SpaceId,
    /// The offset of its first byte, in regions.
    position: u64,
}

impl RegionKey {
    #[inline]
    fn of_page(space: SpaceId, page: u64) -> Self {
        RegionKey {
            space,
            position: page / PAGES_IN_REGION as u64,
        }
    }

    #[inline]
    fn in_cache(self) -> usize {
        self.position as usize % RECENT
    }
}

/// The first line of page `page` in region number `region`.
#[inline]
fn first_line(region: u32, page: u64) -> LineSlot {
    let page = page as u32 % PAGES_IN_REGION as u32;
    LineSlot::first_of(region * PAGES_IN_REGION as u32 + page)
}

/// A line that an event affects.
#[derive(Clone, Copy, Debug)]
pub struct LineRef<'a> {
    keys: &'a [RegionKey],
    line: LineSlot,
    guaranteed_before: u32,
}

impl LineRef<'_> {
    /// The line.
    #[inline]
    pub fn slot(&self) -> LineSlot {
        self.line
    }

    /// How many stores to the line the same flush has guaranteed before this one.
    #[inline]
    pub fn guaranteed_before(&self) -> u32 {
        self.guaranteed_before
    }

    /// The same line, after the flush has guaranteed `count` stores.
    #[inline]
    pub(crate) fn after_guaranteeing(self, count: u32) -> Self {
        LineRef {
            guaranteed_before: count,
            ..self
        }
    }

    /// The address of the line's first byte.
    #[inline]
    pub fn address(&self) -> PmAddress {
        let page = self.line.page();
        let key = self.keys[page / PAGES_IN_REGION];
        let in_region = (page % PAGES_IN_REGION) as u64 * PAGE + self.line.number() as u64 * LINE;
        PmAddress {
            space: key.space,
            offset: key.position * REGION + in_region,
        }
    }
}

impl Shadow {
    pub(crate) fn new() -> Self {
        Shadow {
            live: Vec::new(),
            marks: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            regions: FxHashMap::default(),
            recent: vec![None; RECENT],
            last: None,
        }
    }

    /// The first line of a page, if the page has state.
    pub(crate) fn find(&self, space: SpaceId, page: u64) -> Option<LineSlot> {
        let region = *self.regions.get(&RegionKey::of_page(space, page))?;
        Some(first_line(region, page))
    }

    /// Like [`find`](Self::find), with a cache.
    #[inline]
    pub(crate) fn find_cached(&mut self, space: SpaceId, page: u64) -> Option<LineSlot> {
        match self.last {
            Some((last_space, last_page, slot)) if (last_space, last_page) == (space, page) => {
                Some(slot)
            }
            _ => self.find_uncached(space, page),
        }
    }

    #[inline(never)]
    fn find_uncached(&mut self, space: SpaceId, page: u64) -> Option<LineSlot> {
        let key = RegionKey::of_page(space, page);
        let region = match self.recent[key.in_cache()] {
            Some((recent, region)) if recent == key => region,
            _ => {
                let region = *self.regions.get(&key)?;
                self.recent[key.in_cache()] = Some((key, region));
                region
            }
        };
        let slot = first_line(region, page);
        self.last = Some((space, page, slot));
        Some(slot)
    }

    /// The first line of a page, which gets state if it has none.
    #[inline]
    pub(crate) fn touch(&mut self, space: SpaceId, page: u64) -> LineSlot {
        match self.find(space, page) {
            Some(slot) => slot,
            None => self.add(space, page),
        }
    }

    #[cold]
    fn add(&mut self, space: SpaceId, page: u64) -> LineSlot {
        let key = RegionKey::of_page(space, page);
        let region = match self.free.pop() {
            Some(region) => {
                self.keys[region as usize] = key;
                region
            }
            None => {
                let region = self.keys.len();
                assert!(
                    region < MOST_REGIONS,
                    "too much persistent memory is in use at the same time (limit: 256 GiB)"
                );
                self.keys.push(key);
                let pages = self.keys.len() * PAGES_IN_REGION;
                self.live.resize(pages, TableId::default());
                self.marks.resize(pages, PageMarks::default());
                region as u32
            }
        };
        self.regions.insert(key, region);
        first_line(region, page)
    }

    /// The address of a line.
    #[inline]
    pub(crate) fn address(&self, line: LineSlot) -> PmAddress {
        let keys = &self.keys;
        LineRef {
            keys,
            line,
            guaranteed_before: 0,
        }
        .address()
    }

    /// Whether a line has a mark.
    #[inline]
    pub(crate) fn has_mark(&self, line: LineSlot, mark: Mark) -> bool {
        self.marks[line.page()].has(line.number(), mark)
    }

    /// The marks of a line.
    #[inline]
    pub(crate) fn marks(&mut self, line: LineSlot) -> Marks<'_> {
        self.marks[line.page()].of(line.number())
    }

    /// The state of a line's page, and a reference to the line for its address.
    #[inline]
    pub(crate) fn split(&mut self, line: LineSlot) -> (&mut TableId, &mut PageMarks, LineRef<'_>) {
        let keys = &self.keys;
        (
            &mut self.live[line.page()],
            &mut self.marks[line.page()],
            LineRef {
                keys,
                line,
                guaranteed_before: 0,
            },
        )
    }

    /// The pages with live stores that contain bytes of `range`, in order: offset and first line.
    pub(crate) fn live_pages_in(&self, space: SpaceId, range: Range<u64>) -> Vec<(u64, LineSlot)> {
        if range.is_empty() {
            return Vec::new();
        }
        let pages = range.start / PAGE..=(range.end - 1) / PAGE;
        let positions = range.start / REGION..=(range.end - 1) / REGION;
        let regions = if positions.end() - positions.start() < 8 {
            let look = |position| {
                let key = RegionKey { space, position };
                Some((key, *self.regions.get(&key)?))
            };
            positions.filter_map(look).collect()
        } else {
            self.regions_where(|key| key.space == space && positions.contains(&key.position))
        };
        let found = self.live_pages_of(regions);
        let found = found.map(|(address, first)| (address.offset, first));
        found
            .filter(|(offset, _)| pages.contains(&(offset / PAGE)))
            .collect()
    }

    /// All pages with live stores, in order.
    pub(crate) fn live_pages(&self) -> Vec<(PmAddress, LineSlot)> {
        self.live_pages_of(self.regions_where(|_| true)).collect()
    }

    /// Regions with state and their numbers, in order.
    fn regions_where(&self, wanted: impl Fn(RegionKey) -> bool) -> Vec<(RegionKey, u32)> {
        let all = self.regions.iter().map(|(key, region)| (*key, *region));
        let mut found: Vec<(RegionKey, u32)> = all.filter(|(key, _)| wanted(*key)).collect();
        found.sort_unstable();
        found
    }

    /// The pages of regions that have live stores.
    fn live_pages_of(
        &self,
        regions: Vec<(RegionKey, u32)>,
    ) -> impl Iterator<Item = (PmAddress, LineSlot)> {
        let pages = 0..PAGES_IN_REGION as u64;
        let lines = regions.into_iter().flat_map(move |(_, region)| {
            let pages = pages.clone();
            pages.map(move |page| first_line(region, page))
        });
        lines
            .filter(|&line| !self[line].is_empty())
            .map(|line| (self.address(line), line))
    }

    /// The number of pages with state.
    pub(crate) fn len(&self) -> usize {
        self.regions.len() * PAGES_IN_REGION
    }

    /// Drops the state of regions without live stores and marks.
    pub(crate) fn forget_idle(&mut self) {
        self.last = None;
        self.recent.fill(None);
        self.regions.retain(|_, region| {
            let first = *region as usize * PAGES_IN_REGION;
            let pages = first..first + PAGES_IN_REGION;
            let is_idle = self.live[pages.clone()].iter().all(|page| page.is_empty())
                && self.marks[pages].iter().all(PageMarks::are_none);
            if is_idle {
                self.free.push(*region);
            }
            !is_idle
        });
    }
}

/// Where the live stores of a line's page are.
impl Index<LineSlot> for Shadow {
    type Output = TableId;

    #[inline]
    fn index(&self, line: LineSlot) -> &TableId {
        &self.live[line.page()]
    }
}

impl IndexMut<LineSlot> for Shadow {
    #[inline]
    fn index_mut(&mut self, line: LineSlot) -> &mut TableId {
        &mut self.live[line.page()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: SpaceId = SpaceId(0);
    const OTHER: SpaceId = SpaceId(1);

    #[test]
    fn each_page_has_separate_state() {
        let mut shadow = Shadow::new();
        let far = u64::MAX / PAGE;
        for (number, (space, page)) in [(FILE, 0), (FILE, 600), (OTHER, 0), (FILE, far)]
            .into_iter()
            .enumerate()
        {
            let line = shadow.touch(space, page).in_page(63);
            assert!(shadow[line].is_empty() && !shadow.has_mark(line, Mark::First));
            shadow[line] = TableId::numbered(number as u32 + 1);
            shadow.marks(line).set(Mark::First);
            let offset = page * PAGE + 63 * LINE;
            assert_eq!(shadow.address(line), PmAddress { space, offset });
        }
        assert_eq!(shadow.find(OTHER, 600), None);
    }

    #[test]
    fn live_pages_of_a_range_are_in_order() {
        let mut shadow = Shadow::new();
        for (space, page) in [
            (FILE, 9000),
            (FILE, 5),
            (FILE, 4),
            (FILE, 700),
            (FILE, 0),
            (OTHER, 5),
        ] {
            let line = shadow.touch(space, page);
            shadow[line] = TableId::numbered(1);
        }
        shadow.touch(FILE, 6);
        let pages = |range| {
            let found = shadow.live_pages_in(FILE, range).into_iter();
            found.map(|(offset, _)| offset / PAGE).collect::<Vec<_>>()
        };
        assert_eq!(pages(0..u64::MAX), [0, 4, 5, 700, 9000]);
        assert_eq!(pages(4 * PAGE..7 * PAGE), [4, 5]);
        assert_eq!(pages(5 * PAGE - 1..5 * PAGE), [4]);
        assert_eq!(pages(5 * PAGE..5 * PAGE), [0; 0]);
        assert_eq!(shadow.live_pages().len(), 6);
    }

    #[test]
    fn idle_regions_are_dropped_and_their_memory_is_reused() {
        let mut shadow = Shadow::new();
        let kept = shadow.touch(FILE, 1);
        shadow.marks(kept).set(Mark::Second);
        let beside = shadow.touch(FILE, 2);
        let idle = shadow.touch(FILE, 200);
        assert_eq!(shadow.find_cached(FILE, 200), Some(idle));
        shadow.forget_idle();
        assert_eq!(shadow.find_cached(FILE, 200), None);
        assert_eq!(shadow.len(), PAGES_IN_REGION);
        assert_eq!(shadow.find(FILE, 200), None);
        assert_eq!(shadow.find(FILE, 1), Some(kept));
        assert_eq!(shadow.find(FILE, 2), Some(beside));
        assert_eq!(shadow.touch(OTHER, 200), idle);
        assert_eq!(shadow.address(idle).space, OTHER);
    }
}
