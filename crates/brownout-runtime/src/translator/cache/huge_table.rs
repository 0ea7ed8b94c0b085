//! Puts the tables of branch targets on huge pages, for a process that forks often: a fork copies the page tables of all of it.
//!
//! Parts of the branch table become writable one by one, and each has been a mapping of its own since, even beside others: a fork copies
//! them one by one, too. So all that was written moves to one new mapping, which takes their place.

use super::table::{BASE, PIECE, end, hash_table, is_given_up, is_writable, make_writable};
use crate::memory::{self, HUGE_PAGE, PAGE};
use crate::sys::{self, is_err, linux};
use alloc::vec::Vec;
use core::ops::Range;

/// What was written of the table may lie so far apart in one mapping.
const LONGEST: u64 = 1 << 30;
const PAGES: usize = (HUGE_PAGE / PAGE) as usize;

/// Puts what was written of the branch table, and of the hash table, on huge pages.
pub fn collapse() {
    let hash = hash_table()..hash_table() + HUGE_PAGE;
    if present_pages(hash.start).contains(&true) {
        memory::collapse(hash.start);
    }
    if is_given_up() {
        return;
    }
    let first = BASE.next_multiple_of(HUGE_PAGE);
    let all = (first..end()).step_by(HUGE_PAGE as usize);
    let written: Vec<u64> = all
        .filter(|&start| start + HUGE_PAGE <= end() && pieces(start).any(is_writable))
        .collect();
    let (Some(&first), Some(&last)) = (written.first(), written.last()) else {
        return;
    };
    for &start in &written {
        // One mapping with the same rights throughout.
        pieces(start).for_each(make_writable);
    }
    let span = first..last + HUGE_PAGE;
    if span.end - span.start > LONGEST || !join(&span, &written) {
        written.iter().copied().for_each(memory::collapse);
    }
}

/// The pieces of the table in a huge page.
fn pieces(start: u64) -> impl Iterator<Item = u64> {
    (start..start + HUGE_PAGE).step_by(PIECE as usize)
}

/// Makes one mapping of a part of the table, with what was written on huge pages. False if there are none.
fn join(span: &Range<u64>, written: &[u64]) -> bool {
    let len = span.end - span.start;
    let place = memory::reserve(len + HUGE_PAGE).next_multiple_of(HUGE_PAGE);
    let prot = linux::PROT_READ | linux::PROT_WRITE;
    let flags = linux::MAP_PRIVATE
        | linux::MAP_ANONYMOUS
        | linux::MAP_NORESERVE
        | linux::MAP_FIXED_NOREPLACE;
    // SAFETY: the range was just reserved.
    if is_err(unsafe { sys::mmap(place, len, prot, flags, -1, 0) }) {
        return false;
    }
    advise(place, len, linux::MADV_HUGEPAGE);
    for &start in written {
        let to = place + (start - span.start);
        // SAFETY: in the new mapping.
        unsafe { (to as *mut u8).write_volatile(0) };
        if present_pages(to).contains(&false) {
            // SAFETY: nothing refers to the new mapping.
            unsafe { sys::munmap(place, len) };
            return false;
        }
        for (number, _) in present_pages(start)
            .iter()
            .enumerate()
            .filter(|(_, is)| **is)
        {
            let at = number as u64 * PAGE;
            // SAFETY: a page of the table, which is only written under the translator's lock, and one of the new mapping.
            unsafe {
                let (from, to) = ((start + at) as *const u8, (to + at) as *mut u8);
                core::ptr::copy_nonoverlapping(from, to, PAGE as usize);
            }
        }
    }
    // What is written from now on is sparse again.
    advise(place, len, linux::MADV_NOHUGEPAGE);
    let flags = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED;
    // SAFETY: takes the place of a part of the table with the same content; a thread that reads it meanwhile waits in the kernel.
    unsafe {
        let moved = crate::sys!(linux::__NR_mremap, place, len, len, flags, span.start);
        if is_err(moved) {
            sys::munmap(place, len);
        }
        !is_err(moved)
    }
}

/// Which pages of a huge page's size of memory are there.
fn present_pages(start: u64) -> [bool; PAGES] {
    let mut present = [0u8; PAGES];
    // SAFETY: the vector has one byte for each page.
    unsafe { crate::sys!(linux::__NR_mincore, start, HUGE_PAGE, present.as_mut_ptr()) };
    present.map(|page| page & 1 != 0)
}

fn advise(start: u64, len: u64, advice: u32) {
    // SAFETY: none of the advice changes what the memory holds.
    unsafe { crate::sys!(linux::__NR_madvise, start, len, advice) };
}
