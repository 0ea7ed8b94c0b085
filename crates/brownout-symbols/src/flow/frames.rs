//! Where the functions of a module start and end, and what the stack pointer is there: the tables that compilers emit for exceptions,
//! which stripped files have, too.
//!
//! A function that the compiler has split has several parts.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindContext,
    UnwindSection as _,
};
use object::{Object as _, ObjectSection as _};

use crate::elf::ElfFile;

/// A function, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameRange {
    pub(crate) code: Range<u64>,
    /// The register to which the call frame is relative at the first instruction, and how far it is.
    pub(crate) call_frame: (u16, i64),
}

/// All functions of a module, sorted.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    ranges: Vec<FrameRange>,
}

impl Frames {
    /// Empty if the file has no such table, or a damaged one.
    pub(crate) fn of(file: &ElfFile) -> Self {
        let ranges = read(file).unwrap_or_default();
        Self { ranges }
    }

    pub(crate) fn containing(&self, address: u64) -> Option<&FrameRange> {
        let after = self
            .ranges
            .partition_point(|range| range.code.start <= address);
        let found = &self.ranges[after.checked_sub(1)?];
        found.code.contains(&address).then_some(found)
    }
}

fn read(file: &ElfFile) -> Option<Vec<FrameRange>> {
    let elf = file.parse().ok()?;
    let section = elf.section_by_name(".eh_frame")?;
    let data = section.uncompressed_data().ok()?;
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = elf.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    let table = EhFrame::from(EndianSlice::new(&data, LittleEndian));
    let mut context = UnwindContext::new();
    let mut ranges = Vec::new();
    let mut entries = table.entries(&bases);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde = partial.parse(EhFrame::cie_from_offset).ok()?;
        let start = fde.initial_address();
        let row = fde.unwind_info_for_address(&table, &bases, &mut context, start);
        let Ok(CfaRule::RegisterAndOffset { register, offset }) = row.map(|row| row.cfa().clone())
        else {
            continue;
        };
        ranges.push(FrameRange {
            code: start..start.saturating_add(fde.len()),
            call_frame: (register.0, offset),
        });
    }
    ranges.sort_by_key(|range| range.code.start);
    Some(ranges)
}
