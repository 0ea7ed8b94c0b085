//! The code of the target, and how much persistent memory it leads to (`brownout_symex::PmGuide`, Agamotto §2.4.3).
//!
//! The code of each module that a path has loaded is analysed (`brownout_symex::AnalysedFile`) and added to the guide, but for C libraries
//! and language runtimes: everything calls them, and what they copy and print is rarely persistent. Calls of libraries for persistent
//! memory, and of `msync`, are operations by their names, also in programs that are linked statically. What the analysis of a file has
//! found is kept in the results directory, and in memory for the modules of later paths.
//!
//! Can miss: code without symbols and unwind tables; stores that the analysis misses (see there), until a path has reached them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brownout_libraries::{FrameNames, Owner, is_library_module, is_sync_function};
use brownout_recovery::{LoadedModule, PathObservation};
use brownout_symbols::{FileOffset, ModuleId, Probe, Symbolizer};
use brownout_symex::{AnalysedFile, Constraint, ConstraintKind, PmGuide, ReplayedPath};

/// A source line with operations on persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationLine {
    /// `FILE:LINE`, or module and offset without debug information.
    pub place: String,
    pub is_reached: bool,
}

/// How much of what modifies persistent memory was reached, in the code of the program itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmProgress {
    pub known: usize,
    pub reached: usize,
}

/// The guide of a search, with the modules that it knows.
#[derive(Default)]
pub struct ProgramGuide {
    guide: PmGuide,
    /// The directory in which analyses are kept.
    analyses: Option<PathBuf>,
    symbolizer: Symbolizer,
    modules: Vec<(LoadedModule, ModuleId)>,
}

/// The role of a module for the guide.
fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let frame = FrameNames {
        module: &name,
        function: None,
        called: None,
        source: None,
    };
    // Libraries for persistent memory are not left out.
    is_library_module(&name) && !matches!(Owner::of(frame), Owner::Carrier | Owner::Library)
}

/// Whether a module is the program's own.
pub fn is_own(module: &LoadedModule) -> bool {
    let name = module.path.file_name().unwrap_or_default();
    !name.to_str().is_some_and(is_library_module)
}

fn modifies_pm(function: &str) -> bool {
    let frame = FrameNames {
        module: "",
        function: None,
        called: Some(function),
        source: None,
    };
    is_sync_function(function) || matches!(Owner::of(frame), Owner::Carrier | Owner::Library)
}

impl ProgramGuide {
    /// A guide that keeps what it finds in a directory.
    pub fn in_directory(analyses: PathBuf) -> Self {
        Self {
            analyses: Some(analyses),
            ..Self::default()
        }
    }

    /// Adds modules that are not known, and what a run has shown about persistent memory.
    pub fn observe(&mut self, observation: &PathObservation) {
        for module in &observation.modules {
            if !self.modules.iter().any(|(known, _)| known == module) {
                self.add_module(module);
            }
        }
        self.guide
            .add_operations(observation.operations.iter().copied());
        self.guide.add_calls(observation.calls.iter().copied());
    }

    fn add_module(&mut self, module: &LoadedModule) {
        let id = self.symbolizer.add_module(&module.path, None);
        self.modules.push((module.clone(), id));
        if is_left_out(&module.path) {
            return;
        }
        // What is no file that can be analysed, like the code that the kernel maps, is not a part of the program.
        let Ok(code) = AnalysedFile::of_file(&module.path, self.analyses.as_deref()) else {
            return;
        };
        let Some(bias) = code.load_bias(module.address, module.file_offset) else {
            return;
        };
        let symbolizer = &mut self.symbolizer;
        let mut is_operation = |returns_to: u64| {
            let at = returns_to
                .wrapping_sub(module.address)
                .wrapping_add(module.file_offset);
            let callee = symbolizer.callee(id, FileOffset(at));
            callee.is_some_and(|name| modifies_pm(&name))
        };
        self.guide.add_code(&code, bias, &mut is_operation);
    }

    /// A path was replayed.
    pub fn learn(&mut self, path: &ReplayedPath) {
        self.guide.learn(&path.executed, &path.indirect);
    }

    /// How much persistent memory going the other way at a constraint leads to.
    pub fn priority(&mut self, constraint: &Constraint) -> u64 {
        match constraint.kind {
            // A branch in a library that is left out decides what its caller does next.
            _ if !self.guide.contains(constraint.pc) => self.guide.priority(constraint.caller),
            ConstraintKind::Branch { other, .. } => self.guide.priority(other),
            _ => self.guide.priority(constraint.pc),
        }
    }

    /// How many operations of the program itself are known, and how many were reached.
    pub fn progress(&self) -> PmProgress {
        let own = self.guide.all_operations().filter(|(pc, _)| {
            let module = self.module_at(*pc);
            module.is_some_and(|(module, _)| is_own(module))
        });
        own.fold(PmProgress::default(), |progress, (_, reached)| PmProgress {
            known: progress.known + 1,
            reached: progress.reached + usize::from(reached),
        })
    }

    fn module_at(&self, pc: u64) -> Option<(&LoadedModule, ModuleId)> {
        let found = self.modules.iter().find(|(module, _)| {
            let offset = pc.checked_sub(module.address);
            offset.is_some_and(|offset| offset < module.len)
        });
        found.map(|(module, id)| (module, *id))
    }

    /// The source line of an instruction, or its module and offset.
    pub fn place(&mut self, pc: u64) -> String {
        let Some((module, id)) = self.module_at(pc) else {
            return format!("{pc:#x}");
        };
        let offset = pc - module.address + module.file_offset;
        let frames = self
            .symbolizer
            .frames(id, Probe::Instruction(FileOffset(offset)));
        // The innermost frame may be an intrinsic in a header of the compiler.
        let own = frames.iter().find_map(|frame| {
            let source = frame.source()?;
            let is_header = brownout_libraries::is_library_header(&source);
            (!is_header).then_some(source)
        });
        own.or_else(|| frames.first().and_then(|frame| frame.source()))
            .unwrap_or_else(|| {
                let name = self.module_at(pc).map(|(module, _)| module.path.clone());
                let name: PathBuf = name.unwrap_or_default();
                let name = name.file_name().unwrap_or_default().to_string_lossy();
                format!("{name}+{offset:#x}")
            })
    }

    /// The source lines of the program itself with operations, in the order of their names.
    pub fn lines(&mut self) -> Vec<OperationLine> {
        let all: Vec<(u64, bool)> = self.guide.all_operations().collect();
        let mut lines: BTreeMap<String, bool> = BTreeMap::new();
        for (pc, reached) in all {
            let module = self.module_at(pc);
            if module.is_some_and(|(module, _)| is_own(module)) {
                *lines.entry(self.place(pc)).or_default() |= reached;
            }
        }
        let lines = lines.into_iter();
        lines
            .map(|(place, is_reached)| OperationLine { place, is_reached })
            .collect()
    }
}
