//! Where persistent files are mapped, and which of their pages an execution may have changed.
//!
//! Files are mapped as the target asks for it: they are private to the sandbox in which it runs. The engine restores the pages that are
//! noted here before the next execution.
//!
//! What it can miss: stores by the elements of a scatter. The engine compares whole files from time to time.

use super::page::{note, page, persistent_paths};
use crate::memory::PAGE;
use crate::sys;
use crate::translator::context::Context;
use crate::translator::process;
use alloc::vec::Vec;
use brownout_ring::fuzz::{CHANGED_PAGES, FILE_PAGES, effect};
use core::sync::atomic::Ordering::{Relaxed, Release};

/// A mapping of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    pub start: u64,
    pub end: u64,
    /// Number of the persistent file; `None` if it is another one.
    pub file: Option<usize>,
    pub offset: u64,
}

static RANGES: crate::lock::Lock<Vec<MappedRange>> = crate::lock::Lock::new(Vec::new());

/// The mapping around an address.
pub fn find(address: u64) -> Option<MappedRange> {
    let ranges = RANGES.lock();
    let mut found = ranges
        .iter()
        .filter(|range| (range.start..range.end).contains(&address));
    found.next().copied()
}

/// Runs `fork` while the table is at rest.
pub fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
    let ranges = RANGES.lock();
    let result = fork();
    drop(ranges);
    result
}

/// Whether any of these addresses is in a mapping.
pub fn hold_any(addresses: &[u64]) -> bool {
    let ranges = RANGES.lock();
    let holds = |address: &u64| {
        ranges
            .iter()
            .any(|range| (range.start..range.end).contains(address))
    };
    addresses.iter().any(holds)
}

/// Whether there are mappings.
pub fn any() -> bool {
    !RANGES.lock().is_empty()
}

/// Adds a mapping in place of what was there.
pub fn add(range: MappedRange) {
    remove(range.start, range.end);
    RANGES.lock().push(range);
    refresh_all();
}

/// A range of addresses is no longer what it was.
pub fn remove(start: u64, end: u64) {
    let mut ranges = RANGES.lock();
    let hits = |range: &MappedRange| range.start < end && start < range.end;
    if !ranges.iter().any(hits) {
        return;
    }
    let before = core::mem::take(&mut *ranges);
    ranges.extend(
        before
            .into_iter()
            .flat_map(|range| {
                if !hits(&range) {
                    return [Some(range), None];
                }
                let part = |from: u64, to: u64| {
                    (from < to).then(|| MappedRange {
                        start: from,
                        end: to,
                        offset: range.offset + (from - range.start),
                        ..range
                    })
                };
                [part(range.start, start), part(end, range.end)]
            })
            .flatten(),
    );
    drop(ranges);
    refresh_all();
}

/// Start and length of the smallest range that holds all mappings.
fn hull() -> (u64, u64) {
    let ranges = RANGES.lock();
    let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
    let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    (start, end - start)
}

/// Gives a new thread the hull.
pub fn refresh(context: &mut Context) {
    let (start, len) = hull();
    context.areas.fuzz.hull_start = start;
    context.areas.fuzz.hull_len = len;
}

fn refresh_all() {
    let (start, len) = hull();
    process::for_each_thread(|context| {
        // SAFETY: word-sized stores to words that generated code reads afresh for each access. A thread in the middle of one may use the
        // old values, as it might have a moment earlier.
        unsafe {
            (&raw mut (*context).areas.fuzz.hull_start).write_volatile(start);
            (&raw mut (*context).areas.fuzz.hull_len).write_volatile(len);
        }
    });
}

/// Notes that `len` bytes from `address` on are about to be stored.
pub fn note_store(range: &MappedRange, address: u64, len: u64) {
    let Some(page) = page() else { return };
    let Some(file) = range.file else { return };
    let from = range.offset + (address - range.start);
    let last = (from + len.max(1) - 1) / PAGE;
    for number in from / PAGE..=last {
        let index = number as usize;
        if index >= FILE_PAGES {
            return note(effect::UNKNOWN_PAGES);
        }
        let word = &page.changed_bits[file][index / 64];
        let bit = 1 << (index % 64);
        if word.load(Relaxed) & bit != 0 {
            continue;
        }
        word.fetch_or(bit, Relaxed);
        let listed = page.changed_count.fetch_add(1, Relaxed) as usize;
        if listed >= CHANGED_PAGES {
            return note(effect::UNKNOWN_PAGES);
        }
        page.changed[listed].store((file as u64) << 32 | number, Release);
    }
}

/// The number of the persistent file that is open as `fd`.
pub fn persistent_file(fd: i32) -> Option<usize> {
    let mut buffer = [0u8; 4096];
    let path = sys::fd_path(fd, &mut buffer)?;
    persistent_paths().iter().position(|known| known == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapping_the_middle_of_a_mapping_leaves_both_ends() {
        let range = MappedRange {
            start: 0x1000,
            end: 0x5000,
            file: Some(0),
            offset: 0x10000,
        };
        RANGES.lock().push(range);
        remove(0x2000, 0x3000);
        let part = |start, end, offset| MappedRange {
            start,
            end,
            offset,
            ..range
        };
        let expected = [part(0x1000, 0x2000, 0x10000), part(0x3000, 0x5000, 0x12000)];
        assert_eq!(*RANGES.lock(), expected);
        assert_eq!(hull(), (0x1000, 0x4000));
        assert_eq!(find(0x2fff), None);
        remove(0, u64::MAX);
    }
}
