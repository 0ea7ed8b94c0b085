//! What the analysis needs of an ELF file: executable segments, functions, and the slots through which other files' functions are called.
//!
//! Functions come from the symbol table, or from the dynamic one, and those that neither has from the unwind tables, which stripped files
//! keep. Stubs of the procedure linkage table count as functions.

use crate::arch::ARCHITECTURE;
use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection as _};
use object::elf::{FileHeader64, PF_X};
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget,
    SymbolKind,
};
use rustc_hash::FxHashMap;

/// The executable parts of a file.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub build_id: Option<Vec<u8>>,
    pub segments: Vec<Segment>,
}

/// An executable segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub address: u64,
    pub file_offset: u64,
    pub bytes: Vec<u8>,
}

/// Names and addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Start and end of each function, by address, without overlaps.
    pub functions: Vec<(u64, u64)>,
    /// Where the procedure linkage tables are.
    pub linkage: Vec<(u64, u64)>,
    pub exports: Vec<(String, u64)>,
    /// Imported symbols by the address of their slot.
    pub slots: FxHashMap<u64, String>,
    /// Addresses that data of the file holds.
    pub held: Vec<u64>,
}

type Elf<'a> = ElfFile<'a, FileHeader64<object::LittleEndian>>;

/// Longer parts are no functions.
const LONGEST_FUNCTION: u64 = 16 << 20;

pub(super) fn read(bytes: &[u8]) -> Result<(Image, Symbols), String> {
    let elf = Elf::parse(bytes).map_err(|error| error.to_string())?;
    if elf.architecture() != ARCHITECTURE {
        return Err(format!("it is for {:?}", elf.architecture()));
    }
    let endian = elf.endian();
    let executable = elf.elf_program_headers().iter().filter(|header| {
        header.p_type(endian) == object::elf::PT_LOAD && header.p_flags(endian).0 & PF_X.0 != 0
    });
    let segments = executable.filter_map(|header| {
        Some(Segment {
            address: header.p_vaddr(endian),
            file_offset: header.p_offset(endian),
            bytes: header.data(endian, bytes).ok()?.to_vec(),
        })
    });
    let image = Image {
        build_id: elf.build_id().ok().flatten().map(<[u8]>::to_vec),
        segments: segments.collect(),
    };
    let symbols = symbols(&elf, &image);
    Ok((image, symbols))
}

fn symbols(elf: &Elf<'_>, image: &Image) -> Symbols {
    let mut found = Symbols::default();
    let mut functions = Vec::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() == SymbolKind::Text && symbol.size() > 0 && symbol.is_definition() {
            functions.push((
                symbol.address(),
                symbol.address().saturating_add(symbol.size()),
            ));
        }
    }
    for symbol in elf.dynamic_symbols() {
        if symbol.is_definition()
            && symbol.kind() == SymbolKind::Text
            && let Ok(name) = symbol.name()
        {
            found.exports.push((name.to_owned(), symbol.address()));
        }
    }
    let stubs =
        { elf.sections() }.filter(|it| it.name().is_ok_and(|name| name.starts_with(".plt")));
    found.linkage = stubs
        .map(|it| (it.address(), it.address().saturating_add(it.size())))
        .collect();
    functions.extend(&found.linkage);
    functions.extend(unwind_ranges(elf));
    functions.retain(|&(start, end)| {
        start < end && end - start <= LONGEST_FUNCTION && image.bytes(start, end).is_some()
    });
    // The longest of those that begin at one address.
    functions.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    functions.dedup_by_key(|function| function.0);
    // Parts of functions have unwind tables and symbols of their own.
    for index in 1..functions.len() {
        let next = functions[index].0;
        functions[index - 1].1 = functions[index - 1].1.min(next);
    }
    found.functions = functions;
    slots(elf, &mut found);
    found.exports.sort();
    found
}

/// The ranges of code that the unwind tables describe.
fn unwind_ranges(elf: &Elf<'_>) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let Some(section) = elf.section_by_name(".eh_frame") else {
        return ranges;
    };
    let Ok(bytes) = section.data() else {
        return ranges;
    };
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let table = EhFrame::new(bytes, LittleEndian);
    let mut entries = table.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(described) =
                partial.parse(|table, bases, offset| table.cie_from_offset(bases, offset))
        {
            let start = described.initial_address();
            ranges.push((start, start.saturating_add(described.len())));
        }
    }
    ranges
}

fn slots(elf: &Elf<'_>, found: &mut Symbols) {
    let Some(relocations) = elf.dynamic_relocations() else {
        return;
    };
    let symbols = elf.dynamic_symbol_table();
    for (slot, relocation) in relocations {
        match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols
                    .as_ref()
                    .and_then(|it| it.symbol_by_index(index).ok());
                let Some(symbol) = symbol else { continue };
                if symbol.is_definition() {
                    found
                        .held
                        .push(symbol.address().wrapping_add_signed(relocation.addend()));
                }
                if let Ok(name) = symbol.name()
                    && !name.is_empty()
                {
                    found.slots.insert(slot, name.to_owned());
                }
            }
            RelocationTarget::Absolute => found.held.push(relocation.addend() as u64),
            _ => {}
        }
    }
}

impl Image {
    /// The code in a range of addresses.
    pub fn bytes(&self, start: u64, end: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|segment| {
            let from = usize::try_from(start.checked_sub(segment.address)?).ok()?;
            let to = usize::try_from(end.checked_sub(segment.address)?).ok()?;
            segment.bytes.get(from..to)
        })
    }
}
