//! Finding watched functions in the symbol tables of a file.
//!
//! Files of any size are read in pieces into one small buffer. The names are read first. Most files hold none of
//! the names, and nothing else is read of them. The symbols are searched only if a name was found.
//!
//! What it can miss: functions of files without section headers; those of stripped files that are not
//! exported; functions that the compiler inlined or gave another name (`f.constprop.0`).

use crate::instruments::calls::table::WatchedFunctions;
use alloc::vec;
use alloc::vec::Vec;

const PAGE: u64 = crate::memory::PAGE;
const SECTION_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SYMBOL: usize = 24;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const PT_LOAD: u32 = 1;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
/// Bytes read at a time: a multiple of the size of symbols and headers, longer than any name.
const PIECE: usize = 48 << 10;
/// Sections and segments that are looked at, at most.
const MAX_HEADERS: u64 = 1 << 16;

/// Code of a file in memory.
#[derive(Clone, Copy, Debug)]
pub struct MappedCode {
    pub start: u64,
    pub len: u64,
    /// Offset in the file of what is at `start`.
    pub offset: u64,
}

/// A function that was found: its address in memory and its number in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub address: u64,
    pub function: u32,
    /// Bytes of its code, if the file says that.
    pub size: u64,
}

/// Reads the file at an offset into a buffer; the number of bytes read.
pub trait ReadAt: Fn(&mut [u8], u64) -> usize {}
impl<F: Fn(&mut [u8], u64) -> usize> ReadAt for F {}

/// The watched functions whose code lies in `mapping` of the file that `read` reads.
pub fn find(read: &impl ReadAt, mapping: &MappedCode, table: &WatchedFunctions) -> Vec<Found> {
    let mut found = Vec::new();
    let Some(headers) = Headers::read(read) else {
        return found;
    };
    let Some(bias) = headers.bias(read, mapping) else {
        return found;
    };
    let mut buffer = vec![0; PIECE];
    for section in headers.symbol_tables(read, &mut buffer) {
        let Some(names) = headers.section(read, u64::from(section.link)) else {
            continue;
        };
        let wanted = wanted_names(read, &names, table, &mut buffer);
        if !wanted.is_empty() {
            symbols_named(read, &section, &wanted, &mut buffer, |symbol, function| {
                let address = u64_at(symbol, 8).wrapping_add(bias);
                let size = u64_at(symbol, 16);
                if address.wrapping_sub(mapping.start) < mapping.len {
                    found.push(Found {
                        address,
                        function,
                        size,
                    });
                }
            });
        }
    }
    found
}

/// A name that is wanted: where in the table of names it is, and the function's number.
struct Wanted {
    offset: u32,
    function: u32,
}

/// Where the names of watched functions are. Linkers let a name share the end of a longer one, so they may
/// begin anywhere. A version that follows an `@` is no part of the name.
fn wanted_names(
    read: &impl ReadAt,
    section: &Section,
    table: &WatchedFunctions,
    buffer: &mut [u8],
) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let longest = table.longest_name();
    let mut at = 0;
    while at < section.size {
        let want = (section.size - at).min(buffer.len() as u64) as usize;
        let got = read(&mut buffer[..want], section.offset.wrapping_add(at));
        let piece = &buffer[..got.min(want)];
        for place in 0..piece.len() {
            let text = &piece[place..];
            if !table.may_open(text) {
                continue;
            }
            for function in table.named_at_start_of(text) {
                let offset = at + place as u64;
                if let Ok(offset) = u32::try_from(offset) {
                    wanted.push(Wanted { offset, function });
                }
            }
        }
        if piece.len() < want || at + want as u64 >= section.size {
            break;
        }
        // What is cut off at the end of this piece is whole in the next.
        at += (want - longest - 1) as u64;
    }
    wanted.sort_unstable_by_key(|name| (name.offset, name.function));
    wanted.dedup_by_key(|name| (name.offset, name.function));
    wanted
}

/// Calls `found` with each function symbol that has one of the names.
fn symbols_named(
    read: &impl ReadAt,
    section: &Section,
    wanted: &[Wanted],
    buffer: &mut [u8],
    mut found: impl FnMut(&[u8], u32),
) {
    let mut at = 0;
    while at < section.size {
        let want = (section.size - at).min(buffer.len() as u64) as usize;
        let got = read(&mut buffer[..want], section.offset.wrapping_add(at));
        for symbol in buffer[..got.min(want)].chunks_exact(SYMBOL) {
            let name = u32_at(symbol, 0);
            let first = wanted.partition_point(|wanted| wanted.offset < name);
            for Wanted { function, .. } in wanted[first..].iter().take_while(|w| w.offset == name) {
                let defined = symbol[6..8] != [0, 0];
                if defined && matches!(symbol[4] & 15, STT_NOTYPE | STT_FUNC) {
                    found(symbol, *function);
                }
            }
        }
        if got < want {
            return;
        }
        at += want as u64;
    }
}

/// What the head of an ELF file says.
struct Headers {
    program_headers: u64,
    segments: u64,
    section_headers: u64,
    sections: u64,
}

struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

impl Section {
    /// The section with this header.
    fn of(header: &[u8]) -> Section {
        Section {
            kind: u32_at(header, 4),
            offset: u64_at(header, 24),
            size: u64_at(header, 32),
            link: u32_at(header, 40),
        }
    }
}

impl Headers {
    fn read(read: &impl ReadAt) -> Option<Headers> {
        let mut head = [0u8; 64];
        if read(&mut head, 0) != head.len() || !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let u16_at = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
        if u16_at(54) != PROGRAM_HEADER || u16_at(58) != SECTION_HEADER {
            return None;
        }
        let mut headers = Headers {
            program_headers: u64_at(&head, 32),
            segments: u16_at(56),
            section_headers: u64_at(&head, 40),
            sections: u16_at(60),
        };
        if headers.sections == 0 && headers.section_headers != 0 {
            // More than fit the field: their number is in the first of them.
            headers.sections = 1;
            headers.sections = headers.section(read, 0)?.size.min(MAX_HEADERS);
        }
        Some(headers)
    }

    fn symbol_tables(&self, read: &impl ReadAt, buffer: &mut [u8]) -> Vec<Section> {
        let mut tables = Vec::new();
        let size = self.sections * SECTION_HEADER;
        let mut at = 0;
        while at < size {
            let want = (size - at).min(buffer.len() as u64) as usize;
            let got = read(&mut buffer[..want], self.section_headers.wrapping_add(at));
            let headers = buffer[..got.min(want)].chunks_exact(SECTION_HEADER as usize);
            let is_table = |section: &Section| matches!(section.kind, SHT_SYMTAB | SHT_DYNSYM);
            tables.extend(headers.map(Section::of).filter(is_table));
            if got < want {
                break;
            }
            at += want as u64;
        }
        tables
    }

    fn section(&self, read: &impl ReadAt, index: u64) -> Option<Section> {
        let mut header = [0u8; SECTION_HEADER as usize];
        let at = self.section_headers.checked_add(index * SECTION_HEADER)?;
        if index >= self.sections || read(&mut header, at) != header.len() {
            return None;
        }
        Some(Section::of(&header))
    }

    /// The distance from addresses in the file to those of the mapping.
    fn bias(&self, read: &impl ReadAt, mapping: &MappedCode) -> Option<u64> {
        for index in 0..self.segments {
            let mut header = [0u8; PROGRAM_HEADER as usize];
            let at = self.program_headers.checked_add(index * PROGRAM_HEADER)?;
            if read(&mut header, at) != header.len() {
                return None;
            }
            let (offset, addr, size) =
                (u64_at(&header, 8), u64_at(&header, 16), u64_at(&header, 32));
            let executable = header[4] & 1 != 0;
            let start = offset & !(PAGE - 1);
            let inside = mapping.offset.wrapping_sub(start) < size.saturating_add(offset - start);
            if u32_at(&header, 0) == PT_LOAD && executable && inside {
                let in_file = addr.wrapping_add(mapping.offset.wrapping_sub(offset));
                return Some(mapping.start.wrapping_sub(in_file));
            }
        }
        None
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests;
