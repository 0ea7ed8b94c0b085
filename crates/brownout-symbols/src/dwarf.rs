//! Source lines and inlined calls from DWARF.
//!
//! addr2line does the lookup; this module loads the sections, the `dwz` supplement, and the split units on request
//! (from a `.dwp` package first, then from single `.dwo` files).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation as _, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackage, EndianReader, LittleEndian, Reader as _};

use crate::ModuleProblem;
use crate::debug_files::DebugDirectories;
use crate::elf::ElfFile;
use crate::sys::SharedBytes;
use brownout_names::demangle;

/// Reads the sections of debug information.
pub(crate) type DebugReader = EndianReader<LittleEndian, SharedBytes>;
type Reader = DebugReader;

/// The debug information of one module.
pub(crate) struct DebugInfo {
    /// The file that contains the main sections: the module or its debug file.
    path: PathBuf,
    context: Context<Reader>,
    split: SplitUnits,
}

/// The files of split units.
pub(crate) struct SplitUnits {
    /// The module's directory, which is searched for relocated `.dwo` files.
    module_directory: PathBuf,
    package: Option<DwarfPackage<Reader>>,
}

/// DWARF information about one, possibly inlined, call.
pub(crate) struct DwarfFrame {
    pub(crate) function: Option<String>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
}

impl DebugInfo {
    /// `None` if neither the module nor its debug file contains DWARF.
    pub(crate) fn load(
        module: &ElfFile,
        debug_file: Option<&ElfFile>,
        directories: &DebugDirectories,
    ) -> Result<Option<Self>, ModuleProblem> {
        let Some(file) = holder(module, debug_file) else {
            return Ok(None);
        };
        let dwarf = load_from(file, directories)?;
        let context = Context::from_dwarf(dwarf).map_err(|source| damaged(file.path(), source))?;
        Ok(Some(Self {
            path: file.path().to_owned(),
            context,
            split: SplitUnits::beside(&[module.path(), file.path()]),
        }))
    }

    /// The calls at `address`, innermost first; empty if DWARF does not cover it.
    pub(crate) fn frames(&self, address: u64) -> Result<Vec<DwarfFrame>, ModuleProblem> {
        self.look_up(address)
            .map_err(|source| damaged(&self.path, source))
    }

    /// The lowest address of code for `line` of a file whose path ends with `file`, or for the nearest of a few
    /// preceding lines: a line that only calls an inlined function has no code.
    pub(crate) fn address_of_line(
        &self,
        file: &Path,
        line: u32,
    ) -> Result<Option<u64>, ModuleProblem> {
        const NEAR: u32 = 8;
        let failed = |source| damaged(&self.path, source);
        let locations = self.context.find_location_range(0, u64::MAX);
        let near = locations
            .map_err(failed)?
            .filter_map(|(address, _, location)| {
                let before = line.checked_sub(location.line.filter(|&line| line != 0)?)?;
                let matches = location.file.map(Path::new)?.ends_with(file);
                (matches && before <= NEAR).then_some((before, address))
            });
        Ok(near.min().map(|(_, address)| address))
    }

    /// The source line of each piece of code: address, size, file and line.
    pub(crate) fn lines(&self) -> Result<Vec<(u64, u64, PathBuf, u32)>, ModuleProblem> {
        let locations = self.context.find_location_range(0, u64::MAX);
        let lines = locations
            .map_err(|source| damaged(&self.path, source))?
            .filter_map(|(address, size, location)| {
                let line = location.line.filter(|&line| line != 0)?;
                Some((address, size, PathBuf::from(location.file?), line))
            });
        Ok(lines.collect())
    }

    fn look_up(&self, address: u64) -> gimli::Result<Vec<DwarfFrame>> {
        let mut lookup = self.context.find_frames(address);
        let mut calls = loop {
            match lookup {
                LookupResult::Output(calls) => break calls?,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.split.load(&load)?);
                }
            }
        };
        let mut frames = Vec::new();
        while let Some(call) = calls.next()? {
            let function = match &call.function {
                Some(name) => Some(demangle(&name.raw_name()?)),
                None => None,
            };
            let location = call.location.as_ref();
            frames.push(DwarfFrame {
                function,
                file: location.and_then(|l| l.file).map(PathBuf::from),
                // DWARF's line 0 means "no line", column 0 "no column".
                line: location.and_then(|l| l.line).filter(|&line| line != 0),
                column: location
                    .and_then(|l| l.column)
                    .filter(|&column| column != 0),
            });
        }
        Ok(frames)
    }
}

impl SplitUnits {
    /// Those of a module and its debug file, which may be the same.
    pub(crate) fn beside(paths: &[&Path]) -> Self {
        let module_directory = paths.first().and_then(|module| module.parent());
        Self {
            module_directory: module_directory.unwrap_or(Path::new("/")).to_owned(),
            package: paths.iter().copied().find_map(package_of),
        }
    }

    /// A split unit; `None` if its file is missing or from another compilation.
    pub(crate) fn load(
        &self,
        load: &SplitDwarfLoad<Reader>,
    ) -> gimli::Result<Option<Arc<Dwarf<Reader>>>> {
        if let Some(package) = &self.package
            && let Some(unit) = package.find_cu(load.dwo_id, &load.parent)?
        {
            return Ok(Some(Arc::new(unit)));
        }
        let Some(name) = &load.path else {
            return Ok(None);
        };
        let name = path_of(name)?;
        let compiled_in = match &load.comp_dir {
            Some(directory) => path_of(directory)?,
            None => PathBuf::new(),
        };
        let in_module_directory = name
            .file_name()
            .map(|name| self.module_directory.join(name));
        Ok([Some(compiled_in.join(&name)), in_module_directory]
            .into_iter()
            .flatten()
            .find_map(|path| dwo_unit(&path, load))
            .map(Arc::new))
    }
}

/// Which of a module and its debug file contains DWARF.
fn holder<'f>(module: &'f ElfFile, debug_file: Option<&'f ElfFile>) -> Option<&'f ElfFile> {
    [Some(module), debug_file]
        .into_iter()
        .flatten()
        .find(|file| file.has_section(".debug_info"))
}

/// The sections of a module's debug information; `None` if neither the module nor its debug file contains DWARF.
pub(crate) fn load(
    module: &ElfFile,
    debug_file: Option<&ElfFile>,
    directories: &DebugDirectories,
) -> Result<Option<Dwarf<DebugReader>>, ModuleProblem> {
    let file = holder(module, debug_file);
    file.map(|file| load_from(file, directories)).transpose()
}

fn load_from(
    file: &ElfFile,
    directories: &DebugDirectories,
) -> Result<Dwarf<DebugReader>, ModuleProblem> {
    let mut dwarf = Dwarf::load(|id| section(file, id.name()))?;
    if let Some(supplement) = directories.supplement(file) {
        dwarf.load_sup(|id| section(&supplement, id.name()))?;
    }
    Ok(dwarf)
}

pub(crate) fn damaged(path: &Path, source: gimli::Error) -> ModuleProblem {
    ModuleProblem::DamagedDebugInfo {
        path: path.to_owned(),
        source,
    }
}

fn section(file: &ElfFile, name: &str) -> Result<Reader, ModuleProblem> {
    Ok(EndianReader::new(file.section(name)?, LittleEndian))
}

fn dwo_section(file: &ElfFile, id: gimli::SectionId) -> Result<Reader, ModuleProblem> {
    match id.dwo_name() {
        Some(name) => section(file, name),
        None => Ok(EndianReader::new(SharedBytes::empty(), LittleEndian)),
    }
}

fn path_of(bytes: &Reader) -> gimli::Result<PathBuf> {
    Ok(PathBuf::from(OsStr::from_bytes(&bytes.to_slice()?)))
}

/// `program.dwp` for `program`. An unreadable package is ignored: the program's line table still gives lines, and
/// its symbols give names.
fn package_of(path: &Path) -> Option<DwarfPackage<Reader>> {
    let mut name = OsString::from(path);
    name.push(".dwp");
    let file = ElfFile::open(Path::new(&name)).ok()?;
    let empty = EndianReader::new(SharedBytes::empty(), LittleEndian);
    DwarfPackage::load(
        |id| dwo_section(&file, id).map_err(|_| gimli::Error::Io),
        empty,
    )
    .ok()
}

/// The unit in a `.dwo` file, unless it is from another compilation.
fn dwo_unit(path: &Path, load: &SplitDwarfLoad<Reader>) -> Option<Dwarf<Reader>> {
    let file = ElfFile::open(path).ok()?;
    let mut dwarf = Dwarf::load(|id| dwo_section(&file, id)).ok()?;
    let header = dwarf.units().next().ok()??;
    let unit = dwarf.unit(header).ok()?;
    if unit.dwo_id != Some(load.dwo_id) {
        return None;
    }
    dwarf.make_dwo(&load.parent);
    Some(dwarf)
}
