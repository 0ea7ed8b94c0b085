//! The code of a module, and what it refers to by address.

use object::{Object as _, ObjectSymbol as _, SymbolKind};

use super::frames::Frames;
use crate::elf::{ElfFile, Segment};
use crate::imports::Imports;

/// The code of a module.
pub(crate) struct CodeModule {
    pub(crate) imports: Imports,
    pub(crate) frames: Frames,
    pub(crate) data: DataSymbols,
}

/// The symbols of variables, sorted by address.
pub(crate) struct DataSymbols(Vec<(u64, Box<str>)>);

impl DataSymbols {
    fn of(file: &ElfFile) -> Self {
        let Ok(elf) = file.parse() else {
            return Self(Vec::new());
        };
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let data = symbols.filter(|s| s.is_definition() && s.kind() == SymbolKind::Data);
        let named = data.filter_map(|symbol| {
            let name = symbol.name().ok()?.split('@').next()?;
            Some((symbol.address(), name.into()))
        });
        let mut known: Vec<(u64, Box<str>)> = named.collect();
        known.sort();
        known.dedup();
        Self(known)
    }

    /// The last symbol before or at an address.
    pub(super) fn before(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.0.get(after.checked_sub(1)?)?;
        Some((name, *start))
    }
}

impl CodeModule {
    pub(crate) fn of(file: &ElfFile, segments: &[Segment]) -> Self {
        Self {
            imports: Imports::of(file, segments),
            frames: Frames::of(file),
            data: DataSymbols::of(file),
        }
    }
}
