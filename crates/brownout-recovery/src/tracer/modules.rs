//! The files that contain a process's code, and their unwind tables.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};
use rustix::process::Pid;

/// Code that is not from a file but has unwind tables.
const VDSO: &str = "[vdso]";

/// A part of a process's memory that is mapped from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    pub range: Range<u64>,
    pub offset: u64,
    pub path: PathBuf,
    is_executable: bool,
}

/// A section and its address in the file's address space.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// The parts of a file that unwinding needs.
#[derive(Debug, Default)]
pub struct UnwindTables {
    pub eh_frame: Section,
    pub eh_frame_header: Option<Section>,
    pub text: u64,
    pub build_id: Vec<u8>,
    /// The range in the file and the address of each loaded segment.
    segments: Vec<(Range<u64>, u64)>,
}

impl UnwindTables {
    /// The address of what the file contains at an offset.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|(range, _)| range.contains(&offset))
            .map(|(range, address)| address + (offset - range.start))
    }

    fn read<'a>(data: impl ReadRef<'a>) -> object::Result<Self> {
        let file = object::File::parse(data)?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            let bytes = section.data().ok()?.to_vec();
            let address = section.address();
            Some(Section { address, bytes })
        };
        Ok(Self {
            eh_frame: section(".eh_frame").unwrap_or_default(),
            eh_frame_header: section(".eh_frame_hdr"),
            text: file
                .section_by_name(".text")
                .map_or(0, |text| text.address()),
            build_id: file.build_id()?.unwrap_or_default().to_vec(),
            segments: file
                .segments()
                .map(|segment| {
                    let (start, length) = segment.file_range();
                    (start..start + length, segment.address())
                })
                .collect(),
        })
    }
}

/// Unwind tables of files, kept from one failure to the next. A file is identified by its path, size and modification
/// time.
#[derive(Debug, Default)]
pub struct ModuleCache {
    files: HashMap<(PathBuf, u64, i64, i64), Rc<UnwindTables>>,
}

impl ModuleCache {
    fn of_file(&mut self, path: &Path) -> io::Result<Rc<UnwindTables>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let key = (
            path.to_owned(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
        );
        if let Some(known) = self.files.get(&key) {
            return Ok(Rc::clone(known));
        }
        let cache = ReadCache::new(file);
        let tables = Rc::new(UnwindTables::read(&cache).map_err(io::Error::other)?);
        self.files.insert(key, Rc::clone(&tables));
        Ok(tables)
    }
}

/// A process's memory.
#[derive(Debug)]
pub struct AddressSpace {
    memory: File,
    mappings: Vec<CodeMapping>,
}

impl AddressSpace {
    pub fn of(process: Pid) -> io::Result<Self> {
        let directory = PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()));
        let maps = fs::read_to_string(directory.join("maps"))?;
        Ok(Self {
            memory: File::open(directory.join("mem"))?,
            mappings: maps.lines().filter_map(parse).collect(),
        })
    }

    pub fn read(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The mapping at an address.
    pub fn mapping_at(&self, address: u64) -> Option<&CodeMapping> {
        self.mappings
            .iter()
            .find(|mapping| mapping.range.contains(&address))
    }

    pub fn is_code(&self, address: u64) -> bool {
        self.mapping_at(address)
            .is_some_and(|mapping| mapping.is_executable)
    }

    /// The unwind tables for code of a mapping.
    pub fn tables(
        &self,
        mapping: &CodeMapping,
        cache: &mut ModuleCache,
    ) -> io::Result<Rc<UnwindTables>> {
        if mapping.path != Path::new(VDSO) {
            return cache.of_file(&mapping.path);
        }
        let length = usize::try_from(mapping.range.end - mapping.range.start);
        let mut bytes = vec![0; length.map_err(io::Error::other)?];
        self.memory.read_exact_at(&mut bytes, mapping.range.start)?;
        let tables = UnwindTables::read(bytes.as_slice()).map_err(io::Error::other)?;
        Ok(Rc::new(tables))
    }
}

/// A line of `/proc/PID/maps`: range, rights, offset, device, inode, path. `None` if no file is mapped.
fn parse(line: &str) -> Option<CodeMapping> {
    let mut rest = line;
    let mut field = || {
        let (field, after) = rest.trim_start().split_once(' ')?;
        rest = after;
        Some(field)
    };
    let (start, end) = field()?.split_once('-')?;
    let rights = field()?;
    let offset = field()?;
    let (_device, _inode) = (field()?, field()?);
    let path = rest.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    if !path.starts_with('/') && path != VDSO {
        return None;
    }
    Some(CodeMapping {
        range: u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        path: PathBuf::from(path),
        is_executable: rights.contains('x'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_describes_a_mapping() {
        let line = "7f00-7f80 r-xp 00002000 fe:00 42                         /usr/lib/with space.so (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!(mapping.range, 0x7f00..0x7f80);
        assert_eq!((mapping.offset, mapping.is_executable), (0x2000, true));
        assert_eq!(mapping.path, Path::new("/usr/lib/with space.so"));
        assert_eq!(parse("7f00-7f80 rw-p 00000000 00:00 0 "), None);
        assert_eq!(
            parse("7f00-7f80 rw-p 00000000 00:00 0                   [stack]"),
            None
        );
    }

    #[test]
    fn the_tables_of_this_program_are_found_once() {
        let mut cache = ModuleCache::default();
        let this = std::env::current_exe().unwrap();
        let tables = cache.of_file(&this).unwrap();
        assert!(!tables.eh_frame.bytes.is_empty() && tables.eh_frame_header.is_some());
        assert!(Rc::ptr_eq(&tables, &cache.of_file(&this).unwrap()));
    }
}
