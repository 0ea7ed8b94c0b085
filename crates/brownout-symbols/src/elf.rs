//! A mapped ELF file: sections, segments and build-id.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use object::elf::{PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _};

use crate::sys::{SharedBytes, map_file};
use crate::{BuildId, ModuleProblem};

pub(crate) type Parsed<'data> = ElfFile64<'data, LittleEndian>;

/// A mapped file that is valid 64-bit little-endian ELF.
#[derive(Clone)]
pub(crate) struct ElfFile {
    path: PathBuf,
    map: Arc<Mmap>,
}

/// A loadable segment of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) file_offset: u64,
    pub(crate) size: u64,
    pub(crate) address: u64,
    pub(crate) executable: bool,
}

impl ElfFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ModuleProblem> {
        let map = map_file(path).map_err(|source| ModuleProblem::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let file = Self {
            path: path.to_owned(),
            map,
        };
        file.parse()?;
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Parses the headers; cheap enough to repeat wherever they are needed.
    pub(crate) fn parse(&self) -> Result<Parsed<'_>, ModuleProblem> {
        Parsed::parse(&self.map[..]).map_err(|source| ModuleProblem::NotElf {
            path: self.path.clone(),
            source,
        })
    }

    /// Also `None` if the note is damaged.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        let elf = self.parse().ok()?;
        BuildId::new(elf.build_id().ok()??)
    }

    /// Fails if the file is not the one that was recorded.
    pub(crate) fn require_build_id(&self, recorded: Option<&BuildId>) -> Result<(), ModuleProblem> {
        let found = self.build_id();
        match recorded {
            Some(recorded) if found.as_ref() != Some(recorded) => Err(ModuleProblem::Changed {
                path: self.path.clone(),
                recorded: recorded.clone(),
                found,
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn segments(&self) -> Result<Vec<Segment>, ModuleProblem> {
        let elf = self.parse()?;
        Ok(segments_of(&elf))
    }

    /// The content of a section, decompressed if necessary; empty if there is no such section.
    pub(crate) fn section(&self, name: &str) -> Result<SharedBytes, ModuleProblem> {
        let elf = self.parse()?;
        let Some(section) = elf.section_by_name(name) else {
            return Ok(SharedBytes::empty());
        };
        match section.uncompressed_data() {
            // An empty slice can have any address, so its range in the map is undefined.
            Ok(Cow::Borrowed([])) => Ok(SharedBytes::empty()),
            Ok(Cow::Borrowed(bytes)) => {
                let start = bytes.as_ptr().addr() - self.map.as_ptr().addr();
                Ok(SharedBytes::Mapped {
                    map: self.map.clone(),
                    range: start..start + bytes.len(),
                })
            }
            Ok(Cow::Owned(bytes)) => Ok(SharedBytes::Decompressed(bytes.into())),
            Err(source) => Err(ModuleProblem::DamagedSection {
                path: self.path.clone(),
                source,
            }),
        }
    }

    pub(crate) fn has_section(&self, name: &str) -> bool {
        self.parse()
            .is_ok_and(|elf| elf.section_by_name(name).is_some())
    }
}

fn segments_of(elf: &Parsed<'_>) -> Vec<Segment> {
    let endian = elf.endian();
    elf.elf_program_headers()
        .iter()
        .filter(|header| header.p_type(endian) == PT_LOAD)
        .map(|header| Segment {
            file_offset: header.p_offset(endian),
            size: header.p_filesz(endian),
            address: header.p_vaddr(endian),
            executable: header.p_flags(endian).contains(PF_X),
        })
        .collect()
}
