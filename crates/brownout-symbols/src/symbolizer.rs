//! The interface of the crate: looks up the frames of code locations, each only once.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::debug_files::DebugDirectories;
use crate::module_file::ModuleFile;
use crate::{BuildId, ModuleProblem, SourceFrame};

/// A module that was added to a [`Symbolizer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(usize);

/// An offset in a module's file: the address, minus the start of the mapping, plus the mapping's offset in
/// the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileOffset(pub u64);

/// The code location to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Probe {
    /// The instruction that starts here.
    Instruction(FileOffset),
    /// The call that returns here.
    ReturnAddress(FileOffset),
}

/// The source line of a piece of a module's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLine {
    /// Offsets in the module's file.
    pub code: Range<u64>,
    pub file: PathBuf,
    pub line: u32,
}

/// A function of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFunction {
    /// Offsets in the module's file.
    pub code: Range<u64>,
    pub name: String,
}

/// Maps offsets in program files to source-level frames.
#[derive(Default)]
pub struct Symbolizer {
    directories: DebugDirectories,
    modules: Vec<ModuleFile>,
    frames: HashMap<(ModuleId, Probe), Arc<[SourceFrame]>>,
    callees: HashMap<(ModuleId, FileOffset), Option<Arc<str>>>,
    problems: Vec<ModuleProblem>,
}

impl Symbolizer {
    /// Searches `/usr/lib/debug` for separate debug files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches these directories for separate debug files.
    pub fn with_debug_directories(directories: Vec<PathBuf>) -> Self {
        Self {
            directories: DebugDirectories(directories),
            ..Self::default()
        }
    }

    /// Adds a module. The file is read when the first of its offsets is looked up. `build_id` is the recorded
    /// one: a file with another build-id is not used.
    pub fn add_module(&mut self, path: &Path, build_id: Option<&BuildId>) -> ModuleId {
        let known = self.modules.iter().position(|m| m.is(path, build_id));
        ModuleId(known.unwrap_or_else(|| {
            self.modules
                .push(ModuleFile::new(path.to_owned(), build_id.cloned()));
            self.modules.len() - 1
        }))
    }

    /// The frames at a code location, innermost first; never empty.
    ///
    /// # Panics
    /// If `module` came from another symbolizer.
    pub fn frames(&mut self, module: ModuleId, probe: Probe) -> Arc<[SourceFrame]> {
        let Self {
            directories,
            modules,
            frames,
            problems,
            ..
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

    /// The function called by the call that returns to `returns_to`. If it ended with a tail call, it differs
    /// from the function that was running. `None` for calls through pointers, and for functions of the module
    /// without a symbol.
    ///
    /// # Panics
    /// If `module` came from another symbolizer.
    pub fn callee(&mut self, module: ModuleId, returns_to: FileOffset) -> Option<Arc<str>> {
        let Self {
            directories,
            modules,
            callees,
            problems,
            ..
        } = self;
        let callee = callees.entry((module, returns_to)).or_insert_with(|| {
            let name = modules[module.0].callee(returns_to, directories, problems);
            name.map(Into::into)
        });
        callee.clone()
    }

    /// The symbol (mangled name) of the function that contains `line` of a source file whose path ends with
    /// `file`. `None` if the module has no code for that line or no debug information.
    pub fn function_at_line(&mut self, module: ModuleId, file: &Path, line: u32) -> Option<String> {
        self.modules[module.0].function_at_line(file, line, &self.directories, &mut self.problems)
    }

    /// The source line of each piece of a module's code, executed or not. Inlined code has the lines of the inlined
    /// function. Empty without debug information.
    ///
    /// # Panics
    /// If `module` came from another symbolizer.
    pub fn lines(&mut self, module: ModuleId) -> Vec<CodeLine> {
        self.modules[module.0].lines(&self.directories, &mut self.problems)
    }

    /// The functions of a module's symbol table, in the order of their addresses.
    ///
    /// # Panics
    /// If `module` came from another symbolizer.
    pub fn functions(&mut self, module: ModuleId) -> Vec<CodeFunction> {
        self.modules[module.0].functions(&self.directories, &mut self.problems)
    }

    /// The problems so far, in the order of occurrence.
    pub fn problems(&self) -> &[ModuleProblem] {
        &self.problems
    }
}
