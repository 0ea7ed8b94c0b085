//! Why a function that an option names has no calls in a run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brownout_libraries::is_library_module;
use brownout_names::{FunctionPattern, demangle, nearest};
use brownout_symbols::{debug_functions, function_symbols};
use brownout_trace::{Definitions, Process};

use super::continuation::quoted;

/// Who recorded the run: it decides what the user can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedBy {
    /// This command, which watched the function.
    ThisCommand,
    /// An earlier `brownout record`, perhaps without watching the function.
    AnEarlierCommand,
}

/// Why no call matches a pattern, and what to do. `directory` is that in which the target was started.
pub fn why_never_called(
    pattern: &FunctionPattern,
    definitions: &Definitions,
    directory: &Path,
    recorded_by: RecordedBy,
) -> String {
    let modules = modules(definitions, directory);
    for module in &modules {
        let symbols = function_symbols(module).unwrap_or_default();
        let symbol = symbols.iter().find(|symbol| pattern.matches_symbol(symbol));
        if let Some(symbol) = symbol {
            let mut watched = definitions.functions();
            let was_watched = watched.any(|(_, name)| name == symbol);
            return not_called(pattern.text(), symbol, module, recorded_by, was_watched);
        }
    }
    let inlining = modules.iter().find(|module| {
        let functions = debug_functions(module).unwrap_or_default();
        functions.iter().any(|name| pattern.matches_symbol(name))
    });
    if let Some(module) = inlining {
        return format!(
            "the compiler has inlined this function in `{}`, or removed it, so there are no calls to record; \
             prevent that with `__attribute__((noinline))`, or name a function that calls it",
            module.display()
        );
    }
    not_found(pattern.text(), &modules)
}

fn not_called(
    name: &str,
    symbol: &str,
    module: &Path,
    recorded_by: RecordedBy,
    was_watched: bool,
) -> String {
    let module = module.display();
    if was_watched {
        return format!("the function is in `{module}`, but was never called in this run");
    }
    match recorded_by {
        RecordedBy::ThisCommand => format!(
            "the function is in `{module}`, which is not the program that was started, so its calls were not recorded; \
             give its symbol `{symbol}`"
        ),
        RecordedBy::AnEarlierCommand => format!(
            "the function is in `{module}`, but its calls are not in the trace, which was recorded without --watch {}",
            quoted(name)
        ),
    }
}

fn not_found(name: &str, modules: &[PathBuf]) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for module in modules.iter().filter(|module| !is_library(module)) {
        let symbols = function_symbols(module).unwrap_or_default();
        names.extend(symbols.iter().map(|symbol| demangle(symbol)));
    }
    let near = nearest(name, names.iter().map(String::as_str));
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let absent = "no module of the program has a function with this name";
    match &near[..] {
        [] => absent.to_owned(),
        near => format!("{absent}; similar: {}", near.join(", ")),
    }
}

/// The files of all modules of a run.
fn modules(definitions: &Definitions, directory: &Path) -> Vec<PathBuf> {
    let mut modules: Vec<PathBuf> = Vec::new();
    for module in definitions.processes().flat_map(Process::modules) {
        let path = directory.join(&module.path);
        if !modules.contains(&path) {
            modules.push(path);
        }
    }
    modules
}

fn is_library(module: &Path) -> bool {
    let name = module.file_name().and_then(|name| name.to_str());
    name.is_some_and(is_library_module)
}
