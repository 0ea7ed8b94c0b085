//! From the names that users give to the symbols that the engine watches.
//!
//! The engine looks symbols up in every module of every process. Here, demangled names and patterns are resolved to symbols of
//! the program and of the libraries that it is linked with. Can miss: demangled names of functions in libraries that are
//! loaded later, and in programs that the program runs; their symbols can be given instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_libraries::is_library_module;
use brownout_names::{FunctionPattern, NameMatch, demangle};
use brownout_symbols::{function_symbols, interpreter};

/// Namespaces whose functions are only meant if they are named.
const STANDARD_NAMESPACES: [&str; 5] = ["std::", "__gnu_cxx::", "core::", "alloc::", "<"];

/// The symbols that patterns stand for in a program and its libraries. A name that is found nowhere stands for itself.
pub fn watch_list<'p>(
    patterns: impl IntoIterator<Item = &'p FunctionPattern>,
    program: &Path,
) -> Vec<String> {
    let mut files = FilesOfProgram::new(program);
    let mut list: Vec<String> = Vec::new();
    for pattern in patterns {
        let mut symbols = files.symbols_of(pattern);
        if symbols.is_empty() {
            symbols.push(pattern.text().to_owned());
        }
        for symbol in symbols {
            if !list.contains(&symbol) {
                list.push(symbol);
            }
        }
    }
    list
}

/// The symbols of a program and of its libraries, in groups; each is read when it is first needed.
struct FilesOfProgram<'p> {
    program: &'p Path,
    groups: Vec<BTreeSet<String>>,
}

impl<'p> FilesOfProgram<'p> {
    /// The program; its own libraries; those that are known to brownout, such as the C library.
    const GROUPS: usize = 3;

    fn new(program: &'p Path) -> Self {
        let groups = Vec::new();
        Self { program, groups }
    }

    /// The best matches in the first group that has any.
    fn symbols_of(&mut self, pattern: &FunctionPattern) -> Vec<String> {
        for number in 0..Self::GROUPS {
            if number == self.groups.len() {
                self.read_next();
            }
            let found = best_matches(pattern, &self.groups[number]);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn read_next(&mut self) {
        // A file that cannot be read has no symbols for the engine either.
        let read = |files: &[PathBuf]| {
            let files = files.iter();
            files
                .filter_map(|file| function_symbols(file).ok())
                .flatten()
                .collect()
        };
        if self.groups.is_empty() {
            self.groups.push(read(&[self.program.to_owned()]));
            return;
        }
        let is_known = |file: &PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(is_library_module)
        };
        let (known, own): (Vec<PathBuf>, Vec<PathBuf>) =
            libraries(self.program).into_iter().partition(is_known);
        self.groups.push(read(&own));
        self.groups.push(read(&known));
    }
}

/// The symbols that match a pattern as a whole, or else those that it names without their scopes.
fn best_matches(pattern: &FunctionPattern, symbols: &BTreeSet<String>) -> Vec<String> {
    let matches: Vec<(NameMatch, &String)> = symbols
        .iter()
        .filter_map(|symbol| Some((pattern.match_of_symbol(symbol)?, symbol)))
        .filter(|(found, symbol)| *found == NameMatch::Whole || !is_standard(symbol))
        .collect();
    let best = matches.iter().map(|(found, _)| *found).max();
    let best = matches.iter().filter(|(found, _)| Some(*found) == best);
    best.map(|(_, symbol)| (*symbol).clone()).collect()
}

fn is_standard(symbol: &str) -> bool {
    let name = demangle(symbol);
    STANDARD_NAMESPACES
        .iter()
        .any(|space| name.starts_with(space) || name.contains(&format!(" {space}")))
}

/// The libraries that a program is linked with, as its dynamic loader lists them. The program itself does not run.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Some(loader) = interpreter(program) else {
        return Vec::new();
    };
    let output = Command::new(loader).arg("--list").arg(program).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let paths = text.lines().filter_map(|line| {
        let (_, path) = line.split_once("=>")?;
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(pattern: &str, symbols: &[&str]) -> Vec<String> {
        let symbols = symbols.iter().map(|&symbol| symbol.to_owned()).collect();
        best_matches(&FunctionPattern::new(pattern), &symbols)
    }

    #[test]
    fn whole_names_are_preferred_and_the_standard_library_is_not_meant() {
        // `kv::put(int)`, `put`, `std::ostream::put(char)`.
        let all = ["_ZN2kv3putEi", "put", "_ZNSo3putEc"];
        assert_eq!(best("put", &all), ["put"]);
        assert_eq!(best("put", &all[..1]), ["_ZN2kv3putEi"]);
        assert_eq!(best("put", &all[2..]), [""; 0]);
        assert_eq!(best("kv::put", &all), ["_ZN2kv3putEi"]);
        assert_eq!(
            best("p*", &["put", "pop", "main", "put.cold"]),
            ["pop", "put"]
        );
    }

    #[test]
    fn the_libraries_of_a_program_are_listed() {
        let this = std::env::current_exe().unwrap();
        let libraries = libraries(&this);
        let is_libc = |path: &PathBuf| path.to_string_lossy().contains("libc.so");
        assert!(libraries.iter().any(is_libc), "{libraries:?}");
    }

    #[test]
    fn a_name_that_is_found_nowhere_stands_for_itself() {
        let patterns = [FunctionPattern::new("no_such_function_anywhere")];
        let list = watch_list(&patterns, Path::new("/nonexistent"));
        assert_eq!(list, ["no_such_function_anywhere"]);
    }
}
