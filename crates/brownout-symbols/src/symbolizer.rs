//! The crate's front: modules in, frames out, each place looked up once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::debug_files::DebugDirectories;
use crate::module_file::ModuleFile;
use crate::{BuildId, ModuleProblem, SourceFrame};

/// A module known to a [`Symbolizer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(usize);

/// A place in a module's file: the address less where the mapping starts, plus the mapping's offset
/// in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileOffset(pub u64);

/// What to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Probe {
    /// The instruction that starts here.
    Instruction(FileOffset),
    /// The call that returns here.
    ReturnAddress(FileOffset),
}

/// Turns places in program files into source-level frames.
#[derive(Default)]
pub struct Symbolizer {
    directories: DebugDirectories,
    modules: Vec<ModuleFile>,
    frames: HashMap<(ModuleId, Probe), Arc<[SourceFrame]>>,
    problems: Vec<ModuleProblem>,
}

impl Symbolizer {
    /// Looks for separate debug files below `/usr/lib/debug`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for separate debug files below these directories instead.
    pub fn with_debug_directories(directories: Vec<PathBuf>) -> Self {
        Self {
            directories: DebugDirectories(directories),
            ..Self::default()
        }
    }

    /// Makes a module known; the file is read when the first of its places is looked up. `build_id`
    /// is the one that was recorded: a file that has another one now is not used.
    pub fn add_module(&mut self, path: &Path, build_id: Option<&BuildId>) -> ModuleId {
        let known = self.modules.iter().position(|m| m.is(path, build_id));
        ModuleId(known.unwrap_or_else(|| {
            self.modules
                .push(ModuleFile::new(path.to_owned(), build_id.cloned()));
            self.modules.len() - 1
        }))
    }

    /// The calls at a place, innermost first; never empty.
    ///
    /// # Panics
    /// If `module` came from another symbolizer.
    pub fn frames(&mut self, module: ModuleId, probe: Probe) -> Arc<[SourceFrame]> {
        let Self {
            directories,
            modules,
            frames,
            problems,
        } = self;
        frames
            .entry((module, probe))
            .or_insert_with(|| {
                modules[module.0]
                    .frames(probe, directories, problems)
                    .into()
            })
            .clone()
    }

    /// The function that is called by the call which returns to `returns_to`. It is another than the
    /// one that was then running if it ended with a jump. `None` for calls through pointers, and for functions of the
    /// module itself that have no symbol.
    ///
    /// # Panics
    /// If `module` came from another symbolizer.
    pub fn callee(&mut self, module: ModuleId, returns_to: FileOffset) -> Option<String> {
        self.modules[module.0].callee(returns_to, &self.directories, &mut self.problems)
    }

    /// The symbol of the function that holds `line` of a source file whose path ends with `file`: its name as
    /// linkers have it. `None` if the module has no code from there, or no debug information.
    pub fn function_at_line(&mut self, module: ModuleId, file: &Path, line: u32) -> Option<String> {
        self.modules[module.0].function_at_line(file, line, &self.directories, &mut self.problems)
    }

    /// What has gone wrong so far, in the order in which it did.
    pub fn problems(&self) -> &[ModuleProblem] {
        &self.problems
    }
}
