//! Translates the addresses of each process to offsets in files, with a cache of the mappings used last.

use brownout_trace::{Address, AddressSpace, FileId, FileRange, Mapping, ProcessId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A cached mapping.
#[derive(Clone, Copy)]
struct Window {
    start: u64,
    /// Cut so that no offset overflows.
    len: u64,
    file: FileId,
    offset: u64,
}

impl Window {
    const EMPTY: Window = Window {
        start: 0,
        len: 0,
        file: FileId(0),
        offset: 0,
    };

    #[inline]
    fn find(&self, addr: Address, len: u64) -> Option<FileRange> {
        let skipped = addr.0.wrapping_sub(self.start);
        (skipped < self.len).then(|| FileRange {
            file: self.file,
            offset: self.offset + skipped,
            len: len.min(self.len - skipped),
        })
    }
}

/// The address spaces of all processes.
#[derive(Default)]
pub(crate) struct AddressSpaces {
    spaces: FxHashMap<ProcessId, AddressSpace>,
    /// Mappings of `current`, those used last first.
    windows: [Window; 4],
    current: ProcessId,
}

impl Default for Window {
    fn default() -> Self {
        Window::EMPTY
    }
}

impl AddressSpaces {
    /// The file bytes behind the longest prefix of `len` bytes at `addr` that lies in one mapping.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        process: ProcessId,
        addr: Address,
        len: u64,
    ) -> Option<FileRange> {
        self.switch_to(process);
        let range = self.resolve_again(addr, len);
        range.or_else(|| self.look_up(process, addr, len))
    }

    /// The file bytes behind `len` bytes at `addr`, if there are any and all of them lie in one mapping.
    #[inline]
    pub(crate) fn resolve_whole(
        &mut self,
        process: ProcessId,
        addr: Address,
        len: u64,
    ) -> Option<FileRange> {
        let range = self.resolve(process, addr, len);
        range.filter(|range| range.len == len && len > 0)
    }

    /// Like [`resolve`](Self::resolve), if it is in the mapping of the [current](Self::switch_to) process that was used last.
    #[inline]
    pub(crate) fn resolve_again(&self, addr: Address, len: u64) -> Option<FileRange> {
        self.windows[0].find(addr, len)
    }

    /// The process that [`switch_to`](Self::switch_to) made the current one.
    #[inline]
    pub(crate) fn current(&self) -> ProcessId {
        self.current
    }

    /// Makes a process the current one.
    #[inline]
    pub(crate) fn switch_to(&mut self, process: ProcessId) {
        if process != self.current {
            self.forget_windows();
            self.current = process;
        }
    }

    #[inline(never)]
    fn look_up(&mut self, process: ProcessId, addr: Address, len: u64) -> Option<FileRange> {
        for at in 1..self.windows.len() {
            if let Some(range) = self.windows[at].find(addr, len) {
                self.windows.swap(at, at - 1);
                return Some(range);
            }
        }
        let mapping = self.spaces.get(&process)?.mapping_at(addr)?;
        self.windows.rotate_right(1);
        self.windows[0] = Window {
            start: mapping.addr.0,
            len: mapping.len.min(u64::MAX - mapping.offset),
            file: mapping.file,
            offset: mapping.offset,
        };
        self.windows[0].find(addr, len)
    }

    fn forget_windows(&mut self) {
        self.windows = [Window::EMPTY; 4];
    }

    /// The file bytes behind all mapped parts of a range.
    pub(crate) fn resolve_all(
        &self,
        process: ProcessId,
        addr: Address,
        len: u64,
    ) -> Vec<FileRange> {
        let (from, to) = (addr.0, addr.0.saturating_add(len));
        let space = self.spaces.get(&process);
        let mappings = space.into_iter().flat_map(AddressSpace::mappings);
        mappings
            .filter_map(|mapping| {
                let start = mapping.addr.0.max(from);
                let end = mapping.addr.0.saturating_add(mapping.len).min(to);
                let len = end.checked_sub(start).filter(|&len| len > 0)?;
                Some(FileRange {
                    file: mapping.file,
                    offset: mapping.offset.checked_add(start - mapping.addr.0)?,
                    len,
                })
            })
            .collect()
    }

    pub(crate) fn map(&mut self, process: ProcessId, mapping: Mapping) -> Vec<FileRange> {
        let replaced = self.resolve_all(process, mapping.addr, mapping.len);
        self.forget_windows();
        self.spaces.entry(process).or_default().map(mapping);
        self.unreachable(replaced)
    }

    pub(crate) fn unmap(&mut self, process: ProcessId, addr: Address, len: u64) -> Vec<FileRange> {
        let removed = self.resolve_all(process, addr, len);
        self.forget_windows();
        self.spaces.entry(process).or_default().unmap(addr, len);
        self.unreachable(removed)
    }

    /// Moves or resizes a mapping, as `mremap` does.
    pub(crate) fn remap(
        &mut self,
        process: ProcessId,
        old: Range<u64>,
        new: Range<u64>,
    ) -> Vec<FileRange> {
        let (old_len, new_len) = (old.end - old.start, new.end - new.start);
        let mut removed = self.resolve_all(process, Address(old.start), old_len);
        removed.extend(self.resolve_all(process, Address(new.start), new_len));
        self.forget_windows();
        let space = self.spaces.entry(process).or_default();
        space.remap(Address(old.start), old_len, Address(new.start), new_len);
        self.unreachable(removed)
    }

    pub(crate) fn fork(&mut self, parent: ProcessId, child: ProcessId) {
        let space = self.spaces.get(&parent).cloned().unwrap_or_default();
        self.spaces.insert(child, space);
    }

    /// All mappings of a process are gone.
    pub(crate) fn end(&mut self, process: ProcessId) -> Vec<FileRange> {
        let all = self.resolve_all(process, Address(0), u64::MAX);
        self.forget_windows();
        self.spaces.remove(&process);
        self.unreachable(all)
    }

    /// The parts of `ranges` that no process has mapped any more.
    fn unreachable(&self, ranges: Vec<FileRange>) -> Vec<FileRange> {
        let mut left = ranges;
        let mappings = self.spaces.values().flat_map(AddressSpace::mappings);
        for mapping in mappings {
            if left.is_empty() {
                break;
            }
            let mapped = mapping.offset..mapping.offset.saturating_add(mapping.len);
            left = left
                .into_iter()
                .flat_map(|range| {
                    if range.file == mapping.file {
                        without(range, &mapped)
                    } else {
                        [Some(range), None]
                    }
                })
                .flatten()
                .collect();
        }
        left
    }
}

/// The parts of `range` before and after `hole`.
fn without(range: FileRange, hole: &Range<u64>) -> [Option<FileRange>; 2] {
    let end = range.offset.saturating_add(range.len);
    let piece = |from: u64, to: u64| {
        (from < to).then(|| FileRange {
            file: range.file,
            offset: from,
            len: to - from,
        })
    };
    [
        piece(range.offset, end.min(hole.start)),
        piece(range.offset.max(hole.end), end),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProcessId = ProcessId(1);
    const TWO: ProcessId = ProcessId(2);

    fn mapping(addr: u64, offset: u64, len: u64) -> Mapping {
        Mapping {
            addr: Address(addr),
            len,
            file: FileId(7),
            offset,
            file_len: 0x10000,
            prot: 3,
            flags: 1,
            dax: false,
            snapshot: true,
        }
    }

    fn range(offset: u64, len: u64) -> FileRange {
        FileRange {
            file: FileId(7),
            offset,
            len,
        }
    }

    #[test]
    fn addresses_resolve_through_the_mappings_of_their_process() {
        let mut addresses = AddressSpaces::default();
        addresses.map(ONE, mapping(0x10000, 0x4000, 0x2000));
        addresses.map(TWO, mapping(0x10000, 0, 0x1000));
        for _ in 0..2 {
            let found = addresses.resolve(ONE, Address(0x10008), 16);
            assert_eq!(found, Some(range(0x4008, 16)));
            let found = addresses.resolve(TWO, Address(0x10ffc), 16);
            assert_eq!(found, Some(range(0xffc, 4)));
            assert_eq!(addresses.resolve(TWO, Address(0x11000), 1), None);
        }
        addresses.unmap(ONE, Address(0x10000), 0x1000);
        assert_eq!(addresses.resolve(ONE, Address(0x10008), 16), None);
        let found = addresses.resolve(ONE, Address(0x11008), 1);
        assert_eq!(found, Some(range(0x5008, 1)));
    }

    #[test]
    fn more_mappings_than_windows_are_all_found() {
        let mut addresses = AddressSpaces::default();
        for number in 0..9 {
            addresses.map(ONE, mapping(number << 20, number << 12, 0x1000));
        }
        for number in (0..9).chain((0..9).rev()) {
            let found = addresses.resolve(ONE, Address(number << 20), 8);
            assert_eq!(found, Some(range(number << 12, 8)));
        }
    }

    #[test]
    fn bytes_stay_reachable_until_the_last_mapping_is_gone() {
        let mut addresses = AddressSpaces::default();
        addresses.map(ONE, mapping(0x10000, 0, 0x4000));
        addresses.map(ONE, mapping(0x20000, 0x1000, 0x1000));
        let gone = addresses.unmap(ONE, Address(0x10000), 0x4000);
        assert_eq!(gone, [range(0, 0x1000), range(0x2000, 0x2000)]);
        addresses.fork(ONE, TWO);
        assert_eq!(addresses.end(ONE), []);
        assert_eq!(addresses.end(TWO), [range(0x1000, 0x1000)]);
    }

    #[test]
    fn moving_a_mapping_leaves_its_bytes_reachable() {
        let mut addresses = AddressSpaces::default();
        addresses.map(ONE, mapping(0x10000, 0, 0x4000));
        assert_eq!(addresses.remap(ONE, 0x10000..0x14000, 0x30000..0x34000), []);
        let gone = addresses.remap(ONE, 0x30000..0x34000, 0x30000..0x31000);
        assert_eq!(gone, [range(0x1000, 0x3000)]);
    }
}
