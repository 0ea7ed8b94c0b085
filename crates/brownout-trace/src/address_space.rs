//! The file mappings of a process, updated by `mmap`, `munmap`, `mremap` and `mprotect`.

use std::collections::BTreeMap;

use crate::event::Mapping;
use crate::ids::{Address, FileId};

/// `PROT_WRITE` of Linux.
const PROT_WRITE: u32 = 2;

/// The mappings of one process. They never overlap.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    by_start: BTreeMap<u64, Mapping>,
}

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// The offset of the first byte in the file.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

impl AddressSpace {
    /// All mappings, ordered by address.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.by_start.values()
    }

    /// The mapping that contains `addr`.
    pub fn mapping_at(&self, addr: Address) -> Option<&Mapping> {
        let (_, mapping) = self.by_start.range(..=addr.0).next_back()?;
        (addr.0 - mapping.addr.0 < mapping.len).then_some(mapping)
    }

    /// The file range mapped at `addr`, at most `len` bytes long. It ends where the mapping ends.
    pub fn resolve(&self, addr: Address, len: u64) -> Option<FileRange> {
        let mapping = self.mapping_at(addr)?;
        let skipped = addr.0 - mapping.addr.0;
        Some(FileRange {
            file: mapping.file,
            offset: mapping.offset.checked_add(skipped)?,
            len: len.min(mapping.len - skipped),
        })
    }

    /// Adds a mapping. It replaces what was mapped there before.
    pub fn map(&mut self, mapping: Mapping) {
        let len = mapping.len.min(u64::MAX - mapping.addr.0);
        self.unmap(mapping.addr, len);
        if len > 0 {
            self.by_start
                .insert(mapping.addr.0, Mapping { len, ..mapping });
        }
    }

    /// Removes a range from all mappings in it.
    pub fn unmap(&mut self, addr: Address, len: u64) {
        self.take(addr, len);
    }

    /// Moves or resizes a mapping, like `mremap`. An `old_len` of 0 maps the same bytes a second time.
    pub fn remap(&mut self, old: Address, old_len: u64, new: Address, new_len: u64) {
        let pieces = if old_len == 0 {
            let mapping = self.mapping_at(old).copied();
            mapping
                .map(|mapping| part(&mapping, old.0, end(&mapping)))
                .into_iter()
                .collect()
        } else {
            self.take(old, old_len)
        };
        self.unmap(new, new_len);
        let count = pieces.len();
        for (number, mut piece) in pieces.into_iter().enumerate() {
            let shift = piece.addr.0 - old.0;
            let Some(room) = new_len.checked_sub(shift).filter(|&room| room > 0) else {
                break;
            };
            let Some(addr) = new.0.checked_add(shift) else {
                break;
            };
            piece.addr = Address(addr);
            // Growth maps more of the file at the end; `mremap` grows only one mapping.
            let grows = number + 1 == count;
            piece.len = if grows { room } else { piece.len.min(room) };
            self.map(piece);
        }
    }

    /// Changes whether the target can write to a range.
    pub fn protect(&mut self, addr: Address, len: u64, writable: bool) {
        for mut piece in self.take(addr, len) {
            piece.prot = if writable {
                piece.prot | PROT_WRITE
            } else {
                piece.prot & !PROT_WRITE
            };
            self.by_start.insert(piece.addr.0, piece);
        }
    }

    /// Removes a range and returns the mappings, or parts of mappings, that were in it.
    fn take(&mut self, addr: Address, len: u64) -> Vec<Mapping> {
        let (from, to) = (addr.0, addr.0.saturating_add(len));
        let mut taken = Vec::new();
        if from == to {
            return taken;
        }
        let first = self.mapping_at(addr).map_or(from, |mapping| mapping.addr.0);
        let starts: Vec<u64> = self
            .by_start
            .range(first..to)
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            let Some(mapping) = self.by_start.remove(&start) else {
                continue;
            };
            if start < from {
                self.by_start.insert(start, part(&mapping, start, from));
            }
            if end(&mapping) > to {
                self.by_start.insert(to, part(&mapping, to, end(&mapping)));
            }
            taken.push(part(&mapping, start.max(from), end(&mapping).min(to)));
        }
        taken
    }
}

fn end(mapping: &Mapping) -> u64 {
    mapping.addr.0.saturating_add(mapping.len)
}

/// The part of a mapping between two addresses inside it.
fn part(mapping: &Mapping, from: u64, to: u64) -> Mapping {
    Mapping {
        addr: Address(from),
        len: to - from,
        // Only a damaged trace has offsets near the end of the value range; they do not resolve.
        offset: mapping.offset.saturating_add(from - mapping.addr.0),
        ..*mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(addr: u64, len: u64, offset: u64) -> Mapping {
        Mapping {
            addr: Address(addr),
            len,
            file: FileId(1),
            offset,
            file_len: 0x10000,
            prot: 3,
            flags: 1,
            dax: false,
            snapshot: true,
        }
    }

    /// Address, length and offset of each mapping.
    fn layout(space: &AddressSpace) -> Vec<(u64, u64, u64)> {
        space
            .mappings()
            .map(|mapping| (mapping.addr.0, mapping.len, mapping.offset))
            .collect()
    }

    fn space(mappings: &[Mapping]) -> AddressSpace {
        let mut space = AddressSpace::default();
        for &mapping in mappings {
            space.map(mapping);
        }
        space
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut space = space(&[mapping(0x1000, 0x3000, 0)]);
        space.unmap(Address(0x2000), 0x1000);
        assert_eq!(
            layout(&space),
            [(0x1000, 0x1000, 0), (0x3000, 0x1000, 0x2000)]
        );
        assert_eq!(space.mapping_at(Address(0x2fff)), None);
        assert_eq!(
            space.resolve(Address(0x3ff8), 16),
            Some(FileRange {
                file: FileId(1),
                offset: 0x2ff8,
                len: 8
            })
        );
    }

    #[test]
    fn a_mapping_replaces_what_it_covers() {
        let space = space(&[mapping(0x1000, 0x2000, 0), mapping(0x2000, 0x2000, 0x8000)]);
        assert_eq!(
            layout(&space),
            [(0x1000, 0x1000, 0), (0x2000, 0x2000, 0x8000)]
        );
    }

    #[test]
    fn mremap_moves_and_grows() {
        let mut space = space(&[mapping(0x1000, 0x2000, 0x4000)]);
        space.remap(Address(0x1000), 0x2000, Address(0x9000), 0x5000);
        assert_eq!(layout(&space), [(0x9000, 0x5000, 0x4000)]);
    }

    #[test]
    fn mremap_shrinks_in_place() {
        let mut space = space(&[mapping(0x1000, 0x3000, 0)]);
        space.remap(Address(0x1000), 0x3000, Address(0x1000), 0x1000);
        assert_eq!(layout(&space), [(0x1000, 0x1000, 0)]);
    }

    #[test]
    fn mremap_moves_part_of_a_mapping() {
        let mut space = space(&[mapping(0x1000, 0x3000, 0)]);
        space.remap(Address(0x2000), 0x1000, Address(0x8000), 0x1000);
        assert_eq!(
            layout(&space),
            [
                (0x1000, 0x1000, 0),
                (0x3000, 0x1000, 0x2000),
                (0x8000, 0x1000, 0x1000)
            ]
        );
    }

    #[test]
    fn mremap_of_length_zero_maps_the_bytes_again() {
        let mut space = space(&[mapping(0x1000, 0x2000, 0)]);
        space.remap(Address(0x1000), 0, Address(0x8000), 0x2000);
        assert_eq!(layout(&space), [(0x1000, 0x2000, 0), (0x8000, 0x2000, 0)]);
    }

    #[test]
    fn mprotect_splits_at_its_ends() {
        let mut space = space(&[mapping(0x1000, 0x3000, 0)]);
        space.protect(Address(0x2000), 0x1000, false);
        let prot: Vec<u32> = space.mappings().map(|mapping| mapping.prot).collect();
        assert_eq!(prot, [3, 1, 3]);
    }

    #[test]
    fn the_end_of_the_address_range_does_not_wrap() {
        let mut space = space(&[mapping(u64::MAX - 0xfff, u64::MAX, u64::MAX - 8)]);
        assert_eq!(space.resolve(Address(u64::MAX - 1), 64), None);
        space.remap(
            Address(u64::MAX - 0xfff),
            u64::MAX,
            Address(u64::MAX - 1),
            u64::MAX,
        );
        space.unmap(Address(0), u64::MAX);
        assert_eq!(layout(&space), []);
    }
}
