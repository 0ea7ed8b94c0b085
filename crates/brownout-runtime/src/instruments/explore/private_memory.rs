//! The private memory of the target: where it is, and which of it no other process has.

use crate::arch::translator::thread_pointer;
use crate::memory::{self, HUGE_PAGE, PAGE};
use crate::sys::{self, is_err};
use crate::translator::cache;
use alloc::vec::Vec;
use core::ops::Range;

/// Pages of a huge page's size of memory.
pub const PAGES: usize = (HUGE_PAGE / PAGE) as usize;

/// The parts of a block that are in mappings.
pub fn parts_in(block: Range<u64>, mappings: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    mappings.iter().filter_map(move |mapping| {
        let part = mapping.start.max(block.start)..mapping.end.min(block.end);
        (part.start < part.end).then_some(part)
    })
}

/// Joins ranges in order that follow each other.
pub fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// The private mappings of the target without a file that can be read and written, as maximal ranges.
pub fn private_mappings() -> Vec<Range<u64>> {
    let thread = thread_pointer::current();
    let lines = sys::own_mappings();
    let lines = lines.split(|&byte| byte == b'\n');
    let ranges = lines.filter_map(private_range).filter(|range| {
        let is_own = memory::is_engine(range.start, range.end)
            || memory::is_alias(range.start)
            || cache::overlaps(range.start, range.end)
            || cache::table_overlaps(range.start, range.end);
        // The kernel may write to the structures of the thread at any time.
        !is_own && !range.contains(&thread)
    });
    joined(ranges.collect())
}

/// The range of a line of `/proc/self/maps`, if it is private memory without a file and a name that can be read and written.
fn private_range(line: &[u8]) -> Option<Range<u64>> {
    let mut words = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    let range = core::str::from_utf8(words.next()?).ok()?;
    let is_private = words.next()? == b"rw-p";
    let is_file = words.nth(2)? != b"0";
    if !is_private || is_file || words.next().is_some() {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// How many pages of a part of a block no other process has.
pub fn own_pages(fd: i32, part: &Range<u64>) -> usize {
    const PRESENT_AND_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
    let mut entries = [0u8; 8 * PAGES];
    let wanted = (part.end - part.start) / PAGE * 8;
    let got = sys::pread(fd, &mut entries[..wanted as usize], part.start / PAGE * 8);
    if is_err(got) {
        return 0;
    }
    let (words, _) = entries[..got as usize].as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words
        .filter(|word| word & PRESENT_AND_EXCLUSIVE == PRESENT_AND_EXCLUSIVE)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_without_a_file_is_found_by_its_line() {
        let line = b"560000021000-5600007fe000 rw-p 00000000 00:00 0 ";
        assert_eq!(
            private_range(line),
            Some(0x5600_0002_1000..0x5600_007f_e000)
        );
        for other in [
            &b"7ffff7403000-7ffff7702000 rw-p 00003000 00:f4 150  /dev/shm/pool"[..],
            b"7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0   [stack]",
            b"60000000-78000000 rwxp 00000000 00:00 0 ",
            b"311000000000-311000041000 rw-s 00000000 00:01 283887 /memfd:x (deleted)",
            b"",
        ] {
            assert_eq!(private_range(other), None);
        }
    }

    #[test]
    fn parts_of_blocks_are_joined_again() {
        let mappings = [0x1f_f000..0x60_0000, 0x70_0000..0x70_1000];
        let parts: Vec<_> = (0..8)
            .flat_map(|block| parts_in(block * HUGE_PAGE..(block + 1) * HUGE_PAGE, &mappings))
            .collect();
        assert_eq!(parts.first(), Some(&(0x1f_f000..0x20_0000)));
        assert_eq!(joined(parts), mappings);
    }
}
