//! The part of ELF that the recorder needs: whether a file is a program for this machine, which dynamic loader it
//! requests, and its build-id.
//!
//! Files are read, not mapped: if a mapped file were truncated, reading it would end this process with SIGBUS.

use crate::arch::{ELF_MACHINE, ELF_MACHINE_32};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const MAGIC: [u8; 4] = *b"\x7fELF";
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const TYPE_EXEC: u16 = 2;
const TYPE_DYN: u16 = 3;
const SEGMENT_INTERP: u32 = 3;
const SEGMENT_NOTE: u32 = 4;
const NOTE_BUILD_ID: u32 = 3;

/// Longer segments are not read. No valid file has such a segment of the types needed here.
const LONGEST_SEGMENT: u64 = 64 << 10;

/// The kind of a file, determined by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A 64-bit program for this machine.
    Program,
    /// An ELF file for 32-bit processes, x32 included.
    ThirtyTwoBit,
    /// An ELF file for another machine, with the machine's ELF number.
    OtherMachine(u16),
    /// An ELF file that cannot be run: an object file or a core dump.
    NotExecutable,
    /// Something else.
    NotElf,
}

pub(crate) fn kind(start: &[u8]) -> Kind {
    if !start.starts_with(&MAGIC) {
        return Kind::NotElf;
    }
    let (Some(&class), Some(&endianness)) = (start.get(4), start.get(5)) else {
        return Kind::NotExecutable;
    };
    let half = |offset| match start.get(offset..offset + 2) {
        Some(&[low, high]) if endianness == LITTLE_ENDIAN => u16::from_le_bytes([low, high]),
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    let (file_type, machine) = (half(16), half(18));
    if !matches!(machine, ELF_MACHINE | ELF_MACHINE_32) || endianness != LITTLE_ENDIAN {
        Kind::OtherMachine(machine)
    } else if class != CLASS_64 || machine == ELF_MACHINE_32 {
        Kind::ThirtyTwoBit
    } else if start.len() < HEADER_BYTES || !matches!(file_type, TYPE_EXEC | TYPE_DYN) {
        Kind::NotExecutable
    } else {
        Kind::Program
    }
}

/// The dynamic loader that a program of [`Kind::Program`] requests.
pub(crate) fn interpreter(file: &File) -> io::Result<Option<PathBuf>> {
    let Some(mut bytes) = segments(file, SEGMENT_INTERP)?.into_iter().next() else {
        return Ok(None);
    };
    bytes.truncate(
        bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(bytes.len()),
    );
    Ok(Some(PathBuf::from(OsStr::from_bytes(&bytes))))
}

/// The build-id of a 64-bit ELF file; empty if it has none.
pub(crate) fn build_id(file: &File) -> io::Result<Vec<u8>> {
    let mut start = [0; HEADER_BYTES];
    file.read_exact_at(&mut start, 0)?;
    if kind(&start) != Kind::Program {
        return Ok(Vec::new());
    }
    let notes = segments(file, SEGMENT_NOTE)?;
    Ok(notes
        .iter()
        .find_map(|notes| build_id_in(notes))
        .unwrap_or_default()
        .to_vec())
}

fn build_id_in(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (head, rest) = notes.split_first_chunk::<12>()?;
        let name_len = word(head, 0) as usize;
        let content_len = word(head, 4) as usize;
        let name = rest.get(..name_len)?;
        let rest = rest.get(name_len.next_multiple_of(4)..)?;
        let content = rest.get(..content_len)?;
        if word(head, 8) == NOTE_BUILD_ID && name == b"GNU\0" {
            return Some(content);
        }
        notes = rest.get(content_len.next_multiple_of(4)..)?;
    }
}

/// The bytes of all segments of the given type.
fn segments(file: &File, wanted: u32) -> io::Result<Vec<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    let table = long(&header, 32);
    let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
    let mut bytes = vec![0; count * SEGMENT_BYTES];
    file.read_exact_at(&mut bytes, table)?;
    let mut found = Vec::new();
    for segment in bytes.as_chunks::<SEGMENT_BYTES>().0 {
        let len = long(segment, 32);
        if word(segment, 0) == wanted && len <= LONGEST_SEGMENT {
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, long(segment, 8))?;
            found.push(bytes);
        }
    }
    Ok(found)
}

fn word<const N: usize>(bytes: &[u8; N], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

fn long<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, endianness: u8, file_type: u16, machine: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&[class, endianness]);
        let half = |value: u16| {
            if endianness == LITTLE_ENDIAN {
                value.to_le_bytes()
            } else {
                value.to_be_bytes()
            }
        };
        bytes[16..18].copy_from_slice(&half(file_type));
        bytes[18..20].copy_from_slice(&half(machine));
        bytes
    }

    #[test]
    fn the_header_determines_whether_a_file_can_be_run() {
        assert_eq!(kind(&header(2, 1, TYPE_DYN, 62)), Kind::Program);
        assert_eq!(kind(&header(2, 1, TYPE_EXEC, 62)), Kind::Program);
        assert_eq!(kind(&header(1, 1, TYPE_EXEC, 3)), Kind::ThirtyTwoBit);
        assert_eq!(kind(&header(1, 1, TYPE_DYN, 62)), Kind::ThirtyTwoBit);
        assert_eq!(kind(&header(2, 1, TYPE_DYN, 183)), Kind::OtherMachine(183));
        assert_eq!(kind(&header(2, 2, TYPE_DYN, 22)), Kind::OtherMachine(22));
        assert_eq!(kind(&header(2, 1, 1, 62)), Kind::NotExecutable);
        assert_eq!(kind(&header(2, 1, TYPE_DYN, 62)[..40]), Kind::NotExecutable);
        assert_eq!(kind(b"#!/bin/sh"), Kind::NotElf);
        assert_eq!(kind(b""), Kind::NotElf);
    }

    #[test]
    fn a_build_id_is_found_after_other_notes() {
        let note = |name: &[u8], kind: u32, content: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((content.len() as u32).to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            for part in [name, content] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let notes = [
            note(b"GNU\0", 1, b"abi"),
            note(b"Go\0", 3, b"no"),
            note(b"GNU\0", 3, b"id"),
        ];
        assert_eq!(build_id_in(&notes.concat()), Some(&b"id"[..]));
        assert_eq!(build_id_in(&notes[0]), None);
        assert_eq!(build_id_in(&[0xff; 40]), None);
    }

    #[test]
    fn this_test_program_has_a_loader() {
        let file = File::open("/proc/self/exe").unwrap();
        let interpreter = interpreter(&file)
            .unwrap()
            .expect("tests are linked dynamically");
        assert!(interpreter.is_absolute());
        build_id(&file).unwrap();
    }
}
