//! Mapping an ELF executable.

use crate::arch;
use crate::memory::{PAGE, page_down, page_up};
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::space::SPACE;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_GNU_STACK: u32 = 0x6474_e551;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const PROGRAM_HEADER: usize = 56;

/// Why a file is not something the engine can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel refuses to open it, with this error number.
    Open(u32),
    /// A script: the interpreter and its optional argument.
    Script {
        interpreter: Vec<u8>,
        argument: Option<Vec<u8>>,
    },
    /// Neither ELF nor a script.
    NotExecutable,
    /// An ELF file for another machine or of another word size.
    Foreign,
    /// A damaged ELF file.
    Damaged,
}

/// A segment to be mapped.
#[derive(Clone, Copy, Debug)]
struct Segment {
    flags: u32,
    offset: u64,
    addr: u64,
    file_size: u64,
    memory_size: u64,
}

/// What the headers of an executable say.
pub struct Headers {
    fixed: bool,
    entry: u64,
    phoff: u64,
    phnum: u16,
    segments: Vec<Segment>,
    pub interpreter: Option<CString>,
    executable_stack: bool,
}

/// A program mapped into memory.
pub struct Image {
    pub entry: u64,
    /// Address of the program headers.
    pub headers: u64,
    pub header_count: u64,
    /// Distance between addresses in the file and in memory.
    pub bias: u64,
    /// First address and length of the image.
    pub start: u64,
    pub len: u64,
    pub interpreter: Option<CString>,
    pub executable_stack: bool,
    /// Executable ranges: address, length, file offset.
    pub code: Vec<(u64, u64, u64)>,
}

/// Reads the headers of the file behind `fd`.
pub fn inspect(fd: i32) -> Result<Headers, Refusal> {
    let mut head = [0u8; 256];
    let got = sys::pread(fd, &mut head, 0);
    if is_err(got) {
        return Err(Refusal::Open((-(got as i64)) as u32));
    }
    let head = &head[..got as usize];
    if let Some(line) = head.strip_prefix(b"#!") {
        return Err(script(line));
    }
    if head.len() < 64 || !head.starts_with(b"\x7fELF") {
        return Err(Refusal::NotExecutable);
    }
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let u64_at = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    if head[4] != 2 || head[5] != 1 || u16_at(18) != arch::ELF_MACHINE {
        return Err(Refusal::Foreign);
    }
    let kind = u16_at(16);
    let (entry, phoff, phnum) = (u64_at(24), u64_at(32), u16_at(56));
    if !matches!(kind, ET_EXEC | ET_DYN) || usize::from(u16_at(54)) != PROGRAM_HEADER || phnum == 0
    {
        return Err(Refusal::Damaged);
    }
    let mut table = alloc::vec![0u8; usize::from(phnum) * PROGRAM_HEADER];
    if sys::pread(fd, &mut table, phoff) != table.len() as u64 {
        return Err(Refusal::Damaged);
    }
    let mut segments = Vec::new();
    let mut interpreter = None;
    let mut executable_stack = false;
    for header in table.chunks_exact(PROGRAM_HEADER) {
        let u32_at =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
        let u64_at =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
        let segment = Segment {
            flags: u32_at(4),
            offset: u64_at(8),
            addr: u64_at(16),
            file_size: u64_at(32),
            memory_size: u64_at(40),
        };
        match u32_at(0) {
            PT_LOAD => segments.push(checked(segment)?),
            PT_GNU_STACK => executable_stack = segment.flags & 1 != 0,
            PT_INTERP => interpreter = Some(read_interpreter(fd, &segment)?),
            _ => {}
        }
    }
    if segments.is_empty() {
        return Err(Refusal::Damaged);
    }
    Ok(Headers {
        fixed: kind == ET_EXEC,
        entry,
        phoff,
        phnum,
        segments,
        interpreter,
        executable_stack,
    })
}

fn checked(segment: Segment) -> Result<Segment, Refusal> {
    let end = segment.addr.checked_add(segment.memory_size);
    let congruent = segment.offset % PAGE == segment.addr % PAGE;
    let fits = segment.file_size <= segment.memory_size && end.is_some_and(|end| end < 1 << 47);
    if congruent && fits {
        Ok(segment)
    } else {
        Err(Refusal::Damaged)
    }
}

fn read_interpreter(fd: i32, segment: &Segment) -> Result<CString, Refusal> {
    if !(2..=4096).contains(&segment.file_size) {
        return Err(Refusal::Damaged);
    }
    let mut name = alloc::vec![0u8; segment.file_size as usize];
    if sys::pread(fd, &mut name, segment.offset) != segment.file_size {
        return Err(Refusal::Damaged);
    }
    CStr::from_bytes_until_nul(&name)
        .map(CString::from)
        .map_err(|_| Refusal::Damaged)
}

/// The kernel's reading of a `#!` line: an interpreter and at most one argument.
fn script(line: &[u8]) -> Refusal {
    let line = &line[..line.iter().position(|&b| b == b'\n').unwrap_or(line.len())];
    let line = line.trim_ascii();
    let cut = line
        .iter()
        .position(|b| matches!(b, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(cut);
    if interpreter.is_empty() {
        return Refusal::NotExecutable;
    }
    let argument = rest.trim_ascii();
    Refusal::Script {
        interpreter: interpreter.to_vec(),
        argument: (!argument.is_empty()).then(|| argument.to_vec()),
    }
}

/// Maps the file behind `fd` at the addresses it names, or low where it names none.
pub fn map(fd: i32) -> Result<Image, Refusal> {
    let headers = inspect(fd)?;
    let start = headers
        .segments
        .iter()
        .map(|s| page_down(s.addr))
        .min()
        .unwrap_or(0);
    let end = headers
        .segments
        .iter()
        .map(|s| page_up(s.addr + s.memory_size))
        .max()
        .unwrap_or(0);
    let bias = if headers.fixed {
        0
    } else {
        place(end - start).wrapping_sub(start)
    };
    let mut code = Vec::new();
    for segment in &headers.segments {
        map_segment(fd, segment, bias)?;
        if segment.flags & 1 != 0 {
            let addr = page_down(segment.addr.wrapping_add(bias));
            let stop = page_up(segment.addr.wrapping_add(bias) + segment.memory_size);
            code.push((addr, stop - addr, page_down(segment.offset)));
        }
    }
    let in_file = |s: &&Segment| (s.offset..s.offset + s.file_size).contains(&headers.phoff);
    let table = headers
        .segments
        .iter()
        .find(in_file)
        .map_or(0, |s| s.addr + (headers.phoff - s.offset));
    Ok(Image {
        entry: headers.entry.wrapping_add(bias),
        headers: table.wrapping_add(bias),
        header_count: u64::from(headers.phnum),
        bias,
        start: start.wrapping_add(bias),
        len: end - start,
        interpreter: headers.interpreter,
        executable_stack: headers.executable_stack,
        code,
    })
}

/// A place for a position-independent image: low if possible.
fn place(len: u64) -> u64 {
    let low = SPACE.lock().place_low(len);
    low.unwrap_or_else(|| {
        let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_NORESERVE;
        // SAFETY: a fresh reservation, over which the segments are mapped.
        unsafe { sys::mmap(0, len, linux::PROT_NONE, flags, -1, 0) }
    })
}

fn map_segment(fd: i32, segment: &Segment, bias: u64) -> Result<(), Refusal> {
    let mut prot = 0;
    for (bit, right) in [
        (4, linux::PROT_READ),
        (2, linux::PROT_WRITE),
        (1, linux::PROT_READ | linux::PROT_EXEC),
    ] {
        if segment.flags & bit != 0 {
            prot |= right;
        }
    }
    let addr = segment.addr.wrapping_add(bias);
    let (start, file_end, end) = (
        page_down(addr),
        page_up(addr + segment.file_size),
        page_up(addr + segment.memory_size),
    );
    let fixed = linux::MAP_PRIVATE | linux::MAP_FIXED;
    let file_end = if segment.file_size > 0 {
        file_end
    } else {
        start
    };
    // SAFETY: the image's own range: chosen free above, or named by an executable that was linked to
    // be there; the engine's memory lies where no executable is linked.
    unsafe {
        if segment.file_size > 0 {
            let raw = sys::mmap(
                start,
                file_end - start,
                prot,
                fixed,
                fd,
                page_down(segment.offset),
            );
            if is_err(raw) {
                return Err(Refusal::Open((-(raw as i64)) as u32));
            }
        }
        if end > file_end {
            let raw = sys::mmap(
                file_end,
                end - file_end,
                prot,
                fixed | linux::MAP_ANONYMOUS,
                -1,
                0,
            );
            if is_err(raw) {
                return Err(Refusal::Open((-(raw as i64)) as u32));
            }
        }
        let tail = addr + segment.file_size;
        if segment.memory_size > segment.file_size && segment.flags & 2 != 0 && file_end > tail {
            core::ptr::write_bytes(tail as *mut u8, 0, (file_end - tail) as usize);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_line_has_one_argument_at_most() {
        let expected = Refusal::Script {
            interpreter: b"/usr/bin/env".to_vec(),
            argument: Some(b"-S perl -w".to_vec()),
        };
        assert_eq!(script(b" /usr/bin/env -S perl -w \nrest"), expected);
        assert_eq!(
            script(b"/bin/sh\n"),
            Refusal::Script {
                interpreter: b"/bin/sh".to_vec(),
                argument: None
            }
        );
        assert_eq!(script(b"  \n"), Refusal::NotExecutable);
    }
}
