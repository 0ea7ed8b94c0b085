//! Unwind tables of a module (`.eh_frame`), read where the target has them in memory.
//!
//! The table of contents `.eh_frame_hdr` is found through the program headers. Static executables of
//! some toolchains, Debian's gcc among them, have `.eh_frame` but no `.eh_frame_hdr`: nothing that is
//! mapped shows where it is. Then the read-only segments are searched for it, once.

use crate::arch::instruments::unwind::registers::{GPRS, gpr_of_dwarf};
use crate::instruments::unwind::Memory;
use crate::instruments::unwind::expression::{Expression, MAX_BYTES};
use crate::instruments::unwind::rule::{Cfa, UnwindRule, ValueLocation, Wide};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gimli::{
    BaseAddresses, CfaRule, CommonInformationEntry, EhFrame, EhFrameOffset, EndianSlice,
    LittleEndian, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Which frame description covers an address, for one module.
pub(crate) struct FrameTable {
    /// The segment that holds the descriptions.
    segment: Span,
    index: Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    addr: u64,
    len: usize,
}

enum Index {
    /// A sorted table in the module: pairs of 32-bit offsets from the header.
    Header { header: u64, table: Span },
    /// A sorted table of our own: where the code starts, and where in the segment its description is.
    Own(Vec<(u64, usize)>),
}

impl FrameTable {
    /// The table of the module whose file is mapped at `base`; `None` if there is none to be found.
    pub fn find(base: u64, mem: &impl Memory) -> Option<Self> {
        let segments = Segments::read(base, mem)?;
        Self::by_header(&segments, mem).or_else(|| Self::by_search(&segments, mem))
    }

    fn by_header(segments: &Segments, mem: &impl Memory) -> Option<Self> {
        const COUNT_BYTES: usize = 12;
        /// Encodings that all linkers use: eh_frame relative to here, a 32-bit count, and a table of
        /// 32-bit offsets from the header.
        const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let header = segments.eh_frame_hdr?;
        let head = mem.slice(header, COUNT_BYTES)?;
        if head.get(..4)? != USUAL {
            return None;
        }
        let eh_frame = header
            .wrapping_add(4)
            .wrapping_add_signed(i64::from(u32_at(head, 4)?.cast_signed()));
        let len = usize::try_from(u32_at(head, 8)?).ok()?.checked_mul(8)?;
        let table = Span {
            addr: header.wrapping_add(COUNT_BYTES as u64),
            len,
        };
        mem.slice(table.addr, table.len)?;
        let segment = segments
            .loaded
            .iter()
            .find(|s| s.span.contains(eh_frame))?
            .span;
        Some(Self {
            segment,
            index: Index::Header { header, table },
        })
    }

    fn by_search(segments: &Segments, mem: &impl Memory) -> Option<Self> {
        segments
            .loaded
            .iter()
            .filter(|s| !s.writable)
            .find_map(|s| {
                let bytes = mem.slice(s.span.addr, s.span.len)?;
                let found = search(bytes, s.span.addr);
                (!found.is_empty()).then_some(Self {
                    segment: s.span,
                    index: Index::Own(found),
                })
            })
    }

    /// Offset in the segment of the description that covers `pc`, if any does.
    fn lookup(&self, pc: u64, mem: &impl Memory) -> Option<usize> {
        match &self.index {
            Index::Header { header, table } => {
                let bytes = mem.slice(table.addr, table.len)?;
                let wanted = i32::try_from(pc.wrapping_sub(*header).cast_signed()).ok()?;
                let start = |entry: usize| Some(u32_at(bytes, entry * 8)?.cast_signed());
                let (mut low, mut high) = (0, bytes.len() / 8);
                while low < high {
                    let middle = low.midpoint(high);
                    if start(middle)? <= wanted {
                        low = middle + 1
                    } else {
                        high = middle
                    }
                }
                let offset = u32_at(bytes, low.checked_sub(1)? * 8 + 4)?.cast_signed();
                let addr = header.wrapping_add_signed(i64::from(offset));
                usize::try_from(addr.checked_sub(self.segment.addr)?).ok()
            }
            Index::Own(table) => {
                let after = table.partition_point(|&(start, _)| start <= pc);
                table.get(after.checked_sub(1)?).map(|&(_, offset)| offset)
            }
        }
    }
}

impl Span {
    fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.addr) < self.len as u64
    }
}

/// Finds frame descriptions at an unknown address: by the look of what precedes them, and
/// by each of them leading to the next.
fn search(segment: &[u8], addr: u64) -> Vec<(u64, usize)> {
    let (section, bases) = section_at(segment, addr);
    let mut found = Vec::new();
    let mut at = 0;
    while at + 16 <= segment.len() {
        if is_cie(&segment[at..]) {
            let before = found.len();
            let end = follow(&section, &bases, segment, at, &mut found);
            if found.len() > before {
                at = end;
                continue;
            }
        }
        at += 4;
    }
    found.sort_unstable();
    found
}

/// Whether this looks like a common information entry, which every run of descriptions starts with.
fn is_cie(bytes: &[u8]) -> bool {
    // Its length, id 0, version 1, and an augmentation string that begins with "z".
    matches!(u32_at(bytes, 0), Some(8..=256))
        && u32_at(bytes, 4) == Some(0)
        && bytes.get(8) == Some(&1)
        && bytes.get(9) == Some(&b'z')
}

/// Adds the frame descriptions from `at` on to `found`; returns where they end.
fn follow<'a>(
    section: &EhFrame<Bytes<'a>>,
    bases: &BaseAddresses,
    segment: &[u8],
    mut at: usize,
    found: &mut Vec<(u64, usize)>,
) -> usize {
    let mut last_cie: Option<(usize, CommonInformationEntry<Bytes<'a>>)> = None;
    while let Some(length @ 1..0xffff_fff0) = u32_at(segment, at)
        && let Some(id) = segment.get(at + 4..).and_then(|rest| u32_at(rest, 0))
    {
        if id != 0 {
            let description =
                section.fde_from_offset(bases, EhFrameOffset(at), |section, bases, offset| {
                    match &last_cie {
                        Some((at, cie)) if *at == offset.0 => Ok(cie.clone()),
                        _ => {
                            let cie = section.cie_from_offset(bases, offset)?;
                            last_cie = Some((offset.0, cie.clone()));
                            Ok(cie)
                        }
                    }
                });
            match description {
                Ok(fde) if fde.len() > 0 => found.push((fde.initial_address(), at)),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        at += 4 + length as usize;
    }
    at.min(segment.len())
}

fn section_at(segment: &[u8], addr: u64) -> (EhFrame<Bytes<'_>>, BaseAddresses) {
    let mut section = EhFrame::new(segment, LittleEndian);
    section.set_address_size(8);
    (section, BaseAddresses::default().set_eh_frame(addr))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u64::from_le_bytes)
}

struct Segment {
    span: Span,
    writable: bool,
}

/// What the program headers of a module say, in addresses of this process.
struct Segments {
    loaded: Vec<Segment>,
    eh_frame_hdr: Option<u64>,
}

impl Segments {
    fn read(base: u64, mem: &impl Memory) -> Option<Self> {
        const EHDR_BYTES: usize = 64;
        const PHDR_BYTES: usize = 56;
        const PT_LOAD: u32 = 1;
        const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
        const PF_W: u32 = 2;
        let header = mem.slice(base, EHDR_BYTES)?;
        // 64 bits, little-endian.
        if header.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let offset = u64_at(header, 32)?;
        let entry_bytes = usize::from(u16::from_le_bytes([header[54], header[55]]));
        let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
        if entry_bytes != PHDR_BYTES {
            return None;
        }
        let table = mem.slice(base.wrapping_add(offset), PHDR_BYTES * count)?;
        let phdrs = || table.chunks_exact(PHDR_BYTES);
        // Where the file's first byte would be mapped if the file were loaded where it was linked.
        let linked_base = phdrs().find_map(|phdr| {
            (u32_at(phdr, 0)? == PT_LOAD && u64_at(phdr, 8)? == 0).then_some(u64_at(phdr, 16)?)
        })?;
        let bias = base.wrapping_sub(linked_base);
        let mut segments = Self {
            loaded: Vec::new(),
            eh_frame_hdr: None,
        };
        for phdr in phdrs() {
            let addr = u64_at(phdr, 16)?.wrapping_add(bias);
            match u32_at(phdr, 0)? {
                PT_LOAD => {
                    let len = usize::try_from(u64_at(phdr, 32)?).ok()?;
                    let writable = u32_at(phdr, 4)? & PF_W != 0;
                    segments.loaded.push(Segment {
                        span: Span { addr, len },
                        writable,
                    });
                }
                PT_GNU_EH_FRAME => segments.eh_frame_hdr = Some(addr),
                _ => {}
            }
        }
        Some(segments)
    }
}

/// Turns frame descriptions into rules; keeps the memory that takes from one to the next.
pub(crate) struct Evaluator {
    /// Made when first needed.
    context: Option<Box<UnwindContext<usize>>>,
}

impl Evaluator {
    pub const fn new() -> Self {
        Self { context: None }
    }

    /// The rule at `pc`; `None` if the tables have none, or are damaged.
    pub fn rule(&mut self, frames: &FrameTable, pc: u64, mem: &impl Memory) -> Option<UnwindRule> {
        let offset = frames.lookup(pc, mem)?;
        let segment = mem.slice(frames.segment.addr, frames.segment.len)?;
        let (section, bases) = section_at(segment, frames.segment.addr);
        let fde = section
            .fde_from_offset(&bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
            .ok()?;
        if !fde.contains(pc) {
            return None;
        }
        let context = self
            .context
            .get_or_insert_with(|| Box::new(UnwindContext::new()));
        let row = fde
            .unwind_info_for_address(&section, &bases, context, pc)
            .ok()?;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Cfa::Register(gpr_of_dwarf(*register)?, *offset)
            }
            CfaRule::Expression(expression) => cfa_of(copy(expression, &section)?),
        };
        let return_address = match row.register(fde.cie().return_address_register()) {
            None | Some(RegisterRule::Undefined) => return Some(UnwindRule::Outermost),
            Some(rule) => place(&rule, &section)?,
        };
        let mut wide = Wide {
            cfa,
            return_address,
            registers: [const { ValueLocation::Same }; GPRS],
            interrupted: fde.is_signal_trampoline(),
            certain: true,
        };
        for (register, rule) in row.registers() {
            if let Some(gpr) = gpr_of_dwarf(*register) {
                *wide.registers.get_mut(usize::from(gpr))? = place(rule, &section)?;
            }
        }
        Some(
            wide.to_plain()
                .map_or_else(|| UnwindRule::Wide(Arc::new(wide)), UnwindRule::Plain),
        )
    }
}

fn place(rule: &RegisterRule<usize>, section: &EhFrame<Bytes<'_>>) -> Option<ValueLocation> {
    Some(match rule {
        // A register without a value in the caller may have any value.
        RegisterRule::Undefined | RegisterRule::SameValue => ValueLocation::Same,
        RegisterRule::Offset(offset) => ValueLocation::AtCfa(*offset),
        RegisterRule::ValOffset(offset) => ValueLocation::Cfa(*offset),
        RegisterRule::Register(register) => ValueLocation::Register(gpr_of_dwarf(*register)?),
        RegisterRule::Expression(expression) => at_place(copy(expression, section)?),
        RegisterRule::ValExpression(expression) => {
            ValueLocation::Computed(copy(expression, section)?)
        }
        _ => return None,
    })
}

fn copy(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<Bytes<'_>>,
) -> Option<Box<Expression>> {
    let bytes = expression.get(section).ok()?.0.slice();
    (bytes.len() <= MAX_BYTES).then(|| Box::new(Expression(bytes.into())))
}

fn at_place(expression: Box<Expression>) -> ValueLocation {
    match expression.as_register() {
        Some((register, offset)) => ValueLocation::AtRegister(register, offset),
        None => ValueLocation::AtComputed(expression),
    }
}

fn cfa_of(expression: Box<Expression>) -> Cfa {
    match expression.as_loaded() {
        Some((register, offset, plus)) => Cfa::Loaded {
            register,
            offset,
            plus,
        },
        None => Cfa::Computed(expression),
    }
}
