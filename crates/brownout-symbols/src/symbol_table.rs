//! Function names from `.symtab` and `.dynsym`, for code without debug information.

use object::{Object as _, ObjectSymbol as _, SymbolKind};

use crate::elf::ElfFile;
use brownout_names::demangle;

/// The functions of a module, by address.
#[derive(Default)]
pub(crate) struct SymbolTable {
    /// Sorted by address; at most one per address.
    functions: Vec<Function>,
}

struct Function {
    address: u64,
    /// 0 if unknown; the function then ends where the next one starts.
    size: u64,
    mangled: Box<str>,
}

impl SymbolTable {
    /// Reads both tables: a stripped library still has the dynamic table.
    pub(crate) fn of(file: &ElfFile) -> Self {
        let Ok(elf) = file.parse() else {
            return Self::default();
        };
        let mut functions: Vec<Function> = elf
            .symbols()
            .chain(elf.dynamic_symbols())
            .filter(|symbol| symbol.is_definition())
            .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label))
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                Some(Function {
                    address: symbol.address(),
                    size: symbol.size(),
                    mangled: name.into(),
                })
            })
            .collect();
        // Of several symbols at one address, the one with a size is the function; the others are labels.
        // The sort is stable, so the first of several functions is used.
        functions.sort_by_key(|function| (function.address, function.size == 0));
        functions.dedup_by_key(|function| function.address);
        Self { functions }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// All functions: address, size and demangled name. A function of unknown size extends to the next one.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (u64, u64, String)> {
        let next = self.functions.iter().skip(1).map(Some).chain([None]);
        (self.functions.iter().zip(next)).map(|(function, next)| {
            let until_next = next.map_or(1, |next| next.address - function.address);
            let size = if function.size == 0 {
                until_next
            } else {
                function.size
            };
            let plain = function.mangled.split('@').next().unwrap_or_default();
            (function.address, size, demangle(plain))
        })
    }

    /// The demangled name of the function at `address`, and the offset in it.
    pub(crate) fn find(&self, address: u64) -> Option<(String, u64)> {
        let (symbol, offset) = self.symbol_at(address)?;
        Some((demangle(symbol), offset))
    }

    /// Like [`find`](Self::find), with the mangled name.
    pub(crate) fn symbol_at(&self, address: u64) -> Option<(&str, u64)> {
        let after = self
            .functions
            .partition_point(|function| function.address <= address);
        let function = self.functions[..after].last()?;
        let offset = address - function.address;
        if function.size != 0 && offset >= function.size {
            return None;
        }
        // Remove the version, as in `memcpy@@GLIBC_2.14`.
        let plain = function.mangled.split('@').next().unwrap_or_default();
        Some((plain, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(functions: &[(u64, u64, &str)]) -> SymbolTable {
        SymbolTable {
            functions: functions
                .iter()
                .map(|&(address, size, name)| Function {
                    address,
                    size,
                    mangled: name.into(),
                })
                .collect(),
        }
    }

    #[test]
    fn an_address_between_functions_belongs_to_neither() {
        let symbols = table(&[(0x10, 8, "a"), (0x20, 0, "b")]);
        assert_eq!(symbols.find(0x0f), None);
        assert_eq!(symbols.find(0x17), Some(("a".to_owned(), 7)));
        assert_eq!(symbols.find(0x18), None);
        assert_eq!(symbols.find(0x2000), Some(("b".to_owned(), 0x1fe0)));
    }

    #[test]
    fn symbol_versions_are_dropped() {
        let symbols = table(&[(0x10, 8, "memcpy@@GLIBC_2.14")]);
        assert_eq!(symbols.find(0x10), Some(("memcpy".to_owned(), 0)));
    }
}
