//! Shadow memory: the state of each accessed page of persistent memory, in one array.
//!
//! Pages are numbered. Once the number is known, the state is one array access, and nothing is allocated for a page
//! that is accessed again. Numbers are found through tables for regions of 2 MiB.

use std::ops::{Index, IndexMut, Range};

use rustc_hash::FxHashMap;

use crate::address::{LINE, LINES_IN_PAGE, LineSlot, PAGE, PmAddress, SpaceId};

const PAGES_IN_REGION: u64 = 512;
/// No page. A real page number is smaller, because line slots are 32-bit numbers.
const ABSENT: u32 = u32::MAX;

#[derive(Clone)]
pub(crate) struct Shadow<P> {
    states: Vec<P>,
    keys: Vec<PageKey>,
    free: Vec<u32>,
    regions: FxHashMap<(SpaceId, u64), u32>,
    /// A direct-mapped cache of region tables, indexed by region number.
    recent: Vec<(SpaceId, u64, u32)>,
    /// The page that was looked up last.
    last: Option<(SpaceId, u64, LineSlot)>,
    tables: Vec<[u32; PAGES_IN_REGION as usize]>,
}

/// Regions in the cache: 1 GiB of contiguous persistent memory.
const RECENT: usize = 512;

#[derive(Clone, Copy, Debug)]
struct PageKey {
    space: SpaceId,
    number: u64,
}

/// A line that an event affects. Its address is computed only on request, because that costs a memory access.
#[derive(Clone, Copy, Debug)]
pub struct LineRef<'a> {
    keys: &'a [PageKey],
    line: LineSlot,
    pub(crate) guaranteed_before: u32,
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

    /// The address of the line's first byte.
    #[inline]
    pub fn address(&self) -> PmAddress {
        let key = self.keys[self.line.page()];
        PmAddress {
            space: key.space,
            offset: key.number * PAGE + self.line.number() as u64 * LINE,
        }
    }
}

impl<P: Default> Shadow<P> {
    pub(crate) fn new() -> Self {
        Shadow {
            states: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            regions: FxHashMap::default(),
            recent: vec![(SpaceId(0), u64::MAX, ABSENT); RECENT],
            last: None,
            tables: Vec::new(),
        }
    }

    /// The first line of a page, if the page has state.
    pub(crate) fn find(&self, space: SpaceId, page: u64) -> Option<LineSlot> {
        let table = *self.regions.get(&(space, page / PAGES_IN_REGION))?;
        self.in_table(table, page)
    }

    #[inline]
    fn in_table(&self, table: u32, page: u64) -> Option<LineSlot> {
        let index = self.tables[table as usize][(page % PAGES_IN_REGION) as usize];
        (index != ABSENT).then(|| LineSlot::first_of(index))
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
        let region = page / PAGES_IN_REGION;
        let recent = self.recent[region as usize % RECENT];
        let table = if (recent.0, recent.1) == (space, region) {
            recent.2
        } else {
            let table = *self.regions.get(&(space, region))?;
            self.recent[region as usize % RECENT] = (space, region, table);
            table
        };
        let slot = self.in_table(table, page)?;
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
        let tables = &mut self.tables;
        let region = (space, page / PAGES_IN_REGION);
        let table = *self.regions.entry(region).or_insert_with(|| {
            tables.push([ABSENT; PAGES_IN_REGION as usize]);
            tables.len() as u32 - 1
        });
        let key = PageKey {
            space,
            number: page,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.keys[index as usize] = key;
                index
            }
            None => {
                let index = self.keys.len() as u32;
                assert!(
                    self.keys.len() < ABSENT as usize / LINES_IN_PAGE,
                    "too much persistent memory is in use at the same time (limit: 256 GiB)"
                );
                self.keys.push(key);
                self.states.push(P::default());
                index
            }
        };
        self.tables[table as usize][(page % PAGES_IN_REGION) as usize] = index;
        LineSlot::first_of(index)
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

    /// The state of a line's page, and a reference to the line for its address.
    #[inline]
    pub(crate) fn split(&mut self, line: LineSlot) -> (&mut P, LineRef<'_>) {
        let keys = &self.keys;
        (
            &mut self.states[line.page()],
            LineRef {
                keys,
                line,
                guaranteed_before: 0,
            },
        )
    }

    /// The pages with state that contain bytes of `range`, in order: offset and first line.
    pub(crate) fn pages_in(&self, space: SpaceId, range: Range<u64>) -> Vec<(u64, LineSlot)> {
        let mut found = Vec::new();
        if range.is_empty() {
            return found;
        }
        let pages = range.start / PAGE..=(range.end - 1) / PAGE;
        let regions = pages.start() / PAGES_IN_REGION..=pages.end() / PAGES_IN_REGION;
        let mut touched: Vec<(u64, u32)> = if regions.end() - regions.start() < 8 {
            let look = |region| Some((region, *self.regions.get(&(space, region))?));
            regions.filter_map(look).collect()
        } else {
            let all = self.regions.iter();
            all.filter(|((other, region), _)| *other == space && regions.contains(region))
                .map(|((_, region), table)| (*region, *table))
                .collect()
        };
        touched.sort_unstable();
        for (region, table) in touched {
            let first = region * PAGES_IN_REGION;
            let from = first.max(*pages.start());
            let to = (first + PAGES_IN_REGION - 1).min(*pages.end());
            let wanted = (from - first) as usize..=(to - first) as usize;
            for (number, &index) in (from..).zip(&self.tables[table as usize][wanted]) {
                if index != ABSENT {
                    found.push((number * PAGE, LineSlot::first_of(index)));
                }
            }
        }
        found
    }

    /// All pages with state, in order.
    pub(crate) fn all_pages(&self) -> Vec<(PmAddress, LineSlot)> {
        let mut found = Vec::new();
        for ((space, region), table) in &self.regions {
            let first = region * PAGES_IN_REGION;
            for (number, &index) in (first..).zip(&self.tables[*table as usize]) {
                if index != ABSENT {
                    let address = PmAddress {
                        space: *space,
                        offset: number * PAGE,
                    };
                    found.push((address, LineSlot::first_of(index)));
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The number of pages with state.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() - self.free.len()
    }

    /// Drops the state of idle pages.
    pub(crate) fn forget(&mut self, idle: impl Fn(&P) -> bool) {
        self.last = None;
        for (address, first) in self.all_pages() {
            let state = &mut self.states[first.page()];
            if !idle(state) {
                continue;
            }
            *state = P::default();
            let page = address.offset / PAGE;
            let table = self.regions[&(address.space, page / PAGES_IN_REGION)];
            self.tables[table as usize][(page % PAGES_IN_REGION) as usize] = ABSENT;
            self.free.push(first.page() as u32);
        }
    }
}

/// The state of a line's page.
impl<P> Index<LineSlot> for Shadow<P> {
    type Output = P;

    #[inline]
    fn index(&self, line: LineSlot) -> &P {
        &self.states[line.page()]
    }
}

impl<P> IndexMut<LineSlot> for Shadow<P> {
    #[inline]
    fn index_mut(&mut self, line: LineSlot) -> &mut P {
        &mut self.states[line.page()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: SpaceId = SpaceId(0);
    const OTHER: SpaceId = SpaceId(1);

    #[test]
    fn each_page_has_separate_state() {
        let mut shadow: Shadow<u8> = Shadow::new();
        let far = u64::MAX / PAGE;
        for (number, (space, page)) in [(FILE, 0), (FILE, 600), (OTHER, 0), (FILE, far)]
            .into_iter()
            .enumerate()
        {
            let line = shadow.touch(space, page).in_page(63);
            shadow[line] += number as u8 + 1;
            assert_eq!(shadow[line], number as u8 + 1);
            let offset = page * PAGE + 63 * LINE;
            assert_eq!(shadow.address(line), PmAddress { space, offset });
        }
        assert_eq!(shadow.find(OTHER, 600), None);
    }

    #[test]
    fn pages_of_a_range_are_in_order() {
        let mut shadow: Shadow<u8> = Shadow::new();
        for page in [9000, 5, 4, 700, 0] {
            shadow.touch(FILE, page);
        }
        shadow.touch(OTHER, 5);
        let pages = |range| {
            let found = shadow.pages_in(FILE, range).into_iter();
            found.map(|(offset, _)| offset / PAGE).collect::<Vec<_>>()
        };
        assert_eq!(pages(0..u64::MAX), [0, 4, 5, 700, 9000]);
        assert_eq!(pages(4 * PAGE..6 * PAGE), [4, 5]);
        assert_eq!(pages(5 * PAGE - 1..5 * PAGE), [4]);
        assert_eq!(pages(5 * PAGE..5 * PAGE), [0; 0]);
    }

    #[test]
    fn idle_pages_are_dropped_and_their_memory_is_reused() {
        let mut shadow: Shadow<u8> = Shadow::new();
        let kept = shadow.touch(FILE, 1);
        shadow[kept] = 1;
        let idle = shadow.touch(FILE, 2);
        assert_eq!(shadow.find_cached(FILE, 2), Some(idle));
        shadow.forget(|&page| page == 0);
        assert_eq!(shadow.find_cached(FILE, 2), None);
        assert_eq!(shadow.len(), 1);
        assert_eq!(shadow.find(FILE, 2), None);
        assert_eq!(shadow.find(FILE, 1), Some(kept));
        assert_eq!(shadow.touch(OTHER, 7), idle);
        assert_eq!(shadow.address(idle).space, OTHER);
    }
}
