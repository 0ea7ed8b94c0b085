//! The functions of a file by name: those that can be called by a symbol, and those that only debug information knows
//! because the compiler has inlined or removed them.
//!
//! Can miss: inlined functions of units in `.dwo` and `.dwp` files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gimli::{AttributeValue, Reader as _};
use object::read::elf::ProgramHeader as _;
use object::{Object as _, ObjectSymbol as _, SymbolKind, elf::PT_INTERP};

use crate::ModuleProblem;
use crate::debug_files::DebugDirectories;
use crate::dwarf::{self, DebugReader};
use crate::elf::ElfFile;

/// The symbols of all functions that the file itself defines, without their versions. For C++ and Rust they are mangled.
pub fn function_symbols(path: &Path) -> Result<BTreeSet<String>, ModuleProblem> {
    let file = ElfFile::open(path)?;
    let elf = file.parse()?;
    let symbols = elf.symbols().chain(elf.dynamic_symbols());
    let names = symbols
        .filter(|symbol| symbol.is_definition())
        .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label))
        .filter_map(|symbol| symbol.name().ok()?.split('@').next().map(str::to_owned))
        .filter(|name| !name.is_empty());
    Ok(names.collect())
}

/// The names of all functions in the debug information of a file, whether the file has code for them or not: the symbol if
/// it is known, otherwise the name in the source with its scopes.
pub fn debug_functions(path: &Path) -> Result<BTreeSet<String>, ModuleProblem> {
    let file = ElfFile::open(path)?;
    let directories = DebugDirectories::default();
    let debug_file = directories.debug_file(&file);
    let Some(dwarf) = dwarf::load(&file, debug_file.as_ref(), &directories)? else {
        return Ok(BTreeSet::new());
    };
    names_in(&dwarf).map_err(|source| dwarf::damaged(path, source))
}

fn names_in(dwarf: &gimli::Dwarf<DebugReader>) -> gimli::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let text = |value: Option<AttributeValue<DebugReader>>| -> gimli::Result<Option<String>> {
            let Some(value) = value else {
                return Ok(None);
            };
            let text = dwarf.attr_string(&unit, value)?;
            Ok(Some(text.to_string_lossy()?.into_owned()))
        };
        // The namespaces and types around the entry, with their depths.
        let mut scopes: Vec<(isize, String)> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            scopes.retain(|(outer, _)| *outer < depth);
            match entry.tag() {
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_structure_type => {
                    let name = text(entry.attr_value(gimli::DW_AT_name))?;
                    scopes.push((depth, name.unwrap_or_default()));
                }
                gimli::DW_TAG_subprogram => {
                    if let Some(symbol) = text(entry.attr_value(gimli::DW_AT_linkage_name))? {
                        names.insert(symbol);
                    } else if let Some(name) = text(entry.attr_value(gimli::DW_AT_name))? {
                        let scopes = scopes.iter().map(|(_, scope)| scope.as_str());
                        let path: Vec<&str> = scopes.chain([name.as_str()]).collect();
                        names.insert(path.join("::"));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(names)
}

/// The program that loads the libraries of an executable; `None` if it is linked statically or is no executable.
pub fn interpreter(path: &Path) -> Option<PathBuf> {
    let file = ElfFile::open(path).ok()?;
    let elf = file.parse().ok()?;
    let headers = elf.elf_program_headers().iter();
    let data = headers
        .filter(|header| header.p_type(elf.endian()) == PT_INTERP)
        .find_map(|header| header.interpreter(elf.endian(), file.bytes()).ok()?)?;
    let text = std::str::from_utf8(data).ok()?;
    Some(PathBuf::from(text))
}
