//! Gives copies of a process the memory that they write much of on huge pages of their own.
//!
//! A fork shares all pages, and the kernel copies each one when it is first written: that takes longer than the copy itself, about a
//! hundred times as long for each byte as copying everything at once. Recoveries often set up some megabytes of memory before they first read
//! what a crash decides, and write all of it again afterwards. So copies count at their end, now and then, what they have written. Blocks
//! of which they have written much are *busy*. Copies that run to their end replace them by huge pages with the same content before they go on.
//! Other copies stop at a question, and would keep what they may never write. A process that is copied often puts its own busy blocks on
//! huge pages, so that a fork copies fewer entries of page tables.
//!
//! Only private memory without a file counts that can be read and written, and not that of the thread itself.
//!
//! Where huge pages are scarce, the system has to find or clear memory for them, and all this takes longer than it saves. It is then given up.
//!
//! What it can miss: memory that was written much only in copies that did not count. It costs time and nothing else.

use super::private_memory::{PAGES, joined, own_pages, parts_in, private_mappings};
use crate::lock::Lock;
use crate::memory::{self, HUGE_PAGE, PAGE, page_up};
use crate::sys::{self, Raw, is_err, linux};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Pages of a block that a copy has to write for the block to be busy: to copy all of it takes as long as half of them.
const MANY_PAGES: usize = 128;
/// So many blocks can be busy. Each process that waits has its own copy of them.
const MOST_BLOCKS: usize = 12;
/// So many copies count first, and then one after twice as many each time.
const FIRST_COUNTS: u32 = 4;
/// After so many copies at a question a process puts its own busy blocks on huge pages.
const MANY_COPIES: u32 = 3;

const UNKNOWN: u32 = 0;
const USEFUL: u32 = 1;
const USELESS: u32 = 2;
/// Nanoseconds that it takes at most to replace a block, unless the system has to find the memory first.
const LONG: u64 = 500_000;
/// If it takes long more often than once in so many times, it does not pay; a few times do not count.
const SELDOM: u32 = 20;
const FEW: u32 = 2;

/// The busy blocks, in memory that all copies share: the addresses are the same in each.
#[repr(C)]
struct Blocks {
    /// Copies that were made.
    made: AtomicU32,
    /// Blocks that were added.
    len: AtomicU32,
    /// Whether there are huge pages: one of [`UNKNOWN`], [`USEFUL`] and [`USELESS`].
    huge_pages: AtomicU32,
    /// Copies that have replaced their blocks, and those for which it took long.
    replaced: AtomicU32,
    slow: AtomicU32,
    starts: [AtomicU64; MOST_BLOCKS],
}

static BLOCKS: AtomicPtr<Blocks> = AtomicPtr::new(core::ptr::null_mut());
/// Where copies are made, before they are moved to where they belong; 0 before the first.
static WORKSHOP: AtomicU64 = AtomicU64::new(0);
/// Whether the process is a copy that counts what it writes.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// Whether the process is a copy that does not stop at questions.
static RUNS_TO_END: AtomicBool = AtomicBool::new(false);

/// What the process knows about its own memory.
static OWN: Lock<Own> = Lock::new(Own {
    copies: 0,
    seen: 0,
    on_huge_pages: Vec::new(),
    busy: Vec::new(),
});

struct Own {
    /// Copies that were made at the present question.
    copies: u32,
    /// How many blocks were known when `busy` was last determined at the present question.
    seen: usize,
    /// Where blocks begin that the process has put on huge pages.
    on_huge_pages: Vec<u64>,
    /// What the next copy replaces: maximal ranges of busy blocks as far as they can be.
    busy: Vec<Range<u64>>,
}

fn blocks() -> Option<&'static Blocks> {
    // SAFETY: null, or a mapping of that size that is never unmapped.
    unsafe { BLOCKS.load(Ordering::Relaxed).as_ref() }
}

/// Makes the memory that copies share. Without it, nothing is done.
pub fn create() {
    let flags = linux::MAP_SHARED | linux::MAP_ANONYMOUS | linux::MAP_FIXED_NOREPLACE;
    let prot = linux::PROT_READ | linux::PROT_WRITE;
    // SAFETY: NOREPLACE leaves anything that is already there alone.
    let raw = unsafe { sys::mmap(memory::reserve(PAGE), PAGE, prot, flags, -1, 0) };
    if !is_err(raw) {
        BLOCKS.store(raw as *mut Blocks, Ordering::Relaxed);
    }
}

/// The process is at a question. What it knew about its memory may no longer be so.
pub fn at_question() {
    let mut own = OWN.lock();
    own.copies = 0;
    own.seen = 0;
    own.busy.clear();
}

/// The process is about to be copied.
pub fn before_copy() {
    let Some(blocks) = blocks() else { return };
    let known = known_blocks(blocks);
    let mut own = OWN.lock();
    own.copies += 1;
    let is_often = own.copies == MANY_COPIES;
    if known.is_empty() || own.seen == known.len() && !is_often {
        return;
    }
    own.seen = known.len();
    let mappings = private_mappings();
    let mut busy: Vec<Range<u64>> = known
        .iter()
        .flat_map(|&start| parts_in(start..start + HUGE_PAGE, &mappings))
        .collect();
    busy.sort_by_key(|range| range.start);
    if blocks.huge_pages.load(Ordering::Relaxed) == UNKNOWN {
        let found = if has_huge_pages() { USEFUL } else { USELESS };
        blocks.huge_pages.store(found, Ordering::Relaxed);
        if found == USELESS {
            return;
        }
    }
    for range in busy.iter().filter(|_| is_often) {
        if !own.on_huge_pages.contains(&range.start) {
            replace(range, true);
            own.on_huge_pages.push(range.start);
        }
    }
    own.busy = joined(busy);
}

/// The process is a copy that was just made. If it answers all questions itself, it runs to its end.
pub fn in_copy(runs_to_end: bool) {
    let Some(blocks) = blocks() else { return };
    let number = blocks.made.fetch_add(1, Ordering::Relaxed);
    let counts = number < FIRST_COUNTS || number.is_power_of_two();
    COUNTS.store(counts, Ordering::Relaxed);
    RUNS_TO_END.store(runs_to_end, Ordering::Relaxed);
    let mut own = OWN.lock();
    if !runs_to_end {
        own.on_huge_pages.clear();
    } else if !own.busy.is_empty() {
        let before = processor_time();
        own.busy.iter().for_each(|range| replace(range, true));
        let took = processor_time().saturating_sub(before);
        let bytes: u64 = own.busy.iter().map(|range| range.end - range.start).sum();
        note_time(blocks, took, bytes.div_ceil(HUGE_PAGE));
    }
}

/// Notes what it took to replace blocks. It is given up if it takes long too often: huge pages are scarce then.
fn note_time(blocks: &Blocks, took: u64, count: u64) {
    let replaced = blocks.replaced.fetch_add(1, Ordering::Relaxed) + 1;
    if took > count * LONG {
        let slow = blocks.slow.fetch_add(1, Ordering::Relaxed) + 1;
        if slow > FEW + replaced / SELDOM {
            blocks.huge_pages.store(USELESS, Ordering::Relaxed);
        }
    }
}

/// The processor time of the thread, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = [0u64; 2];
    let clock = linux::CLOCK_THREAD_CPUTIME_ID;
    // SAFETY: the kernel writes a structure of that size.
    unsafe { crate::sys!(linux::__NR_clock_gettime, clock, time.as_mut_ptr()) };
    time[0] * 1_000_000_000 + time[1]
}

/// The process is about to end: counts what it has written since it was made.
pub fn at_end() {
    if COUNTS.load(Ordering::Relaxed) {
        count(&private_mappings());
    }
}

/// The process is about to unmap memory: counts what it has written there.
pub fn before_unmap(start: u64, len: u64) {
    if COUNTS.load(Ordering::Relaxed) && len >= MANY_PAGES as u64 * PAGE {
        let unmapped = start..start.saturating_add(page_up(len));
        let mappings = private_mappings();
        let parts: Vec<Range<u64>> = parts_in(unmapped, &mappings).collect();
        count(&parts);
    }
}

/// Maps new memory for the target on huge pages where it is known that copies write much of it; `None` if it is to be mapped as
/// usual.
pub fn map(args: [u64; 6]) -> Option<Raw> {
    const PRIVATE: u64 = (linux::MAP_PRIVATE | linux::MAP_ANONYMOUS) as u64;
    const RIGHTS: u64 = (linux::PROT_READ | linux::PROT_WRITE) as u64;
    let [address, len, rights, flags, ..] = args;
    let is_usual = address == 0 && rights == RIGHTS && flags == PRIVATE;
    let runs_to_end = RUNS_TO_END.load(Ordering::Relaxed);
    let blocks = blocks().filter(|_| runs_to_end);
    let known = blocks.map(known_blocks).unwrap_or_default();
    if !is_usual || len < MANY_PAGES as u64 * PAGE || known.is_empty() {
        return None;
    }
    // SAFETY: the target's own call, which replaces nothing.
    let raw = unsafe { sys::syscall(linux::__NR_mmap, args) };
    if !is_err(raw) {
        let mapping = raw..raw + page_up(len);
        let parts = known
            .iter()
            .flat_map(|&start| parts_in(start..start + HUGE_PAGE, core::slice::from_ref(&mapping)));
        parts.for_each(|part| replace(&part, false));
    }
    Some(raw)
}

/// The blocks that are busy.
fn known_blocks(blocks: &Blocks) -> Vec<u64> {
    if blocks.huge_pages.load(Ordering::Relaxed) == USELESS {
        return Vec::new();
    }
    let len = blocks.len.load(Ordering::Acquire) as usize;
    let starts = blocks.starts[..len.min(MOST_BLOCKS)].iter();
    starts.map(|start| start.load(Ordering::Relaxed)).collect()
}

/// Finds the blocks of some mappings of which the process has written much since it was made.
fn count(mappings: &[Range<u64>]) {
    let Some(blocks) = blocks() else { return };
    let fd = sys::open(c"/proc/self/pagemap", linux::O_RDONLY | linux::O_CLOEXEC);
    if is_err(fd) {
        return;
    }
    for mapping in mappings {
        let mut start = mapping.start - mapping.start % HUGE_PAGE;
        while start < mapping.end {
            let part = start.max(mapping.start)..(start + HUGE_PAGE).min(mapping.end);
            if own_pages(fd as i32, &part) >= MANY_PAGES {
                add(blocks, start);
            }
            start += HUGE_PAGE;
        }
    }
    sys::close(fd as i32);
}

fn add(blocks: &Blocks, start: u64) {
    let len = blocks.len.load(Ordering::Acquire) as usize;
    let known = blocks.starts[..len.min(MOST_BLOCKS)].iter();
    let is_known = known
        .into_iter()
        .any(|known| known.load(Ordering::Relaxed) == start);
    // One process runs at a time.
    if let Some(free) = blocks.starts.get(len).filter(|_| !is_known) {
        free.store(start, Ordering::Relaxed);
        blocks.len.store(len as u32 + 1, Ordering::Release);
    }
}

/// Maps huge pages where copies are made, if the system has some.
fn map_workshop(room: u64) -> Option<u64> {
    let prot = linux::PROT_READ | linux::PROT_WRITE;
    let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_FIXED_NOREPLACE;
    let place = workshop();
    // SAFETY: the place is reserved for this, and NOREPLACE leaves anything that is there alone.
    unsafe {
        if is_err(sys::mmap(place, room, prot, flags, -1, 0)) {
            return None;
        }
        crate::sys!(linux::__NR_madvise, place, room, linux::MADV_HUGEPAGE);
    }
    Some(place)
}

/// Whether the first store to a huge page that was mapped makes all of it present.
fn has_huge_pages() -> bool {
    let Some(place) = map_workshop(HUGE_PAGE) else {
        return false;
    };
    let mut present = [0u8; PAGES];
    // SAFETY: just mapped, and used by nobody else; the kernel writes a byte for each page.
    unsafe {
        (place as *mut u8).write_volatile(0);
        let to = present.as_mut_ptr();
        crate::sys!(linux::__NR_mincore, place, HUGE_PAGE, to);
        sys::munmap(place, HUGE_PAGE);
    }
    present.iter().all(|page| page & 1 != 0)
}

/// Puts a range of private memory on huge pages that no other process has: with its content, unless it is new.
fn replace(range: &Range<u64>, has_content: bool) {
    let shift = range.start % HUGE_PAGE;
    let len = range.end - range.start;
    let room = (shift + len).next_multiple_of(HUGE_PAGE);
    let Some(place) = map_workshop(room) else {
        return;
    };
    // SAFETY: the range is private memory of the target that can be read, and the new mapping is as large;
    // it takes the place of the range with the same content and the same rights, and the only thread is here.
    unsafe {
        let (from, to) = (range.start as *const u8, (place + shift) as *mut u8);
        if has_content {
            core::ptr::copy_nonoverlapping(from, to, len as usize);
        } else {
            // Makes the first huge page present, and there is only one.
            to.write_volatile(0);
        }
        let flags = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED;
        let moved = crate::sys!(linux::__NR_mremap, to, len, len, flags, from);
        if is_err(moved) || len < room {
            sys::munmap(place, room);
        }
    }
}

/// Where copies are made: addresses for all blocks.
fn workshop() -> u64 {
    let place = WORKSHOP.load(Ordering::Relaxed);
    if place != 0 {
        return place;
    }
    let room = (MOST_BLOCKS as u64 + 1) * HUGE_PAGE;
    let place = memory::reserve(room + HUGE_PAGE).next_multiple_of(HUGE_PAGE);
    WORKSHOP.store(place, Ordering::Relaxed);
    place
}
