//! The data types of programs, from DWARF, and the variables whose values have them.
//!
//! | file | idea |
//! |---|---|
//! | `graph` | types by structure: the same type of two units is one; fields by offset |
//! | `units` | the units of a module, read when needed |
//! | `unit_index` | what a unit defines: functions, globals, types by name |
//! | `reader` | a type from its entry |
//! | `function` | the variables of a function, and where their values are |
//! | `location` | location expressions and lists |
//!
//! Typedefs and qualifiers are stripped; a struct without a name has that of its typedef.
//!
//! Can miss: virtual base classes, whose offset is computed at run time; variables in locations that are computed.

mod function;
mod graph;
mod location;
mod reader;
mod unit_index;
mod units;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

pub(crate) use function::FunctionVariables;
use graph::TypeGraph;
pub use graph::{DataType, DataTypeId, FieldAt, Member, Shape};
pub(crate) use location::{FrameBase, Location};
use units::Units;

use crate::debug_files::DebugDirectories;
use crate::dwarf::damaged;
use crate::elf::ElfFile;
use crate::{BuildId, ModuleProblem};

/// A module of which types are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypedModuleId(pub(crate) u32);

/// An entry of debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryRef {
    pub(crate) module: TypedModuleId,
    pub(crate) unit: u32,
    pub(crate) offset: usize,
}

/// The types of all modules of a run.
#[derive(Default)]
pub struct DataTypes {
    directories: DebugDirectories,
    modules: Vec<TypedModule>,
    graph: TypeGraph,
    /// The type of each entry that was read; `None` for `void` and what has no size.
    by_entry: HashMap<EntryRef, Option<DataTypeId>>,
    /// Entries that are being read: a type that contains itself is damaged.
    reading: HashSet<EntryRef>,
    problems: Vec<ModuleProblem>,
}

struct TypedModule {
    path: PathBuf,
    build_id: Option<BuildId>,
    /// `None` until first needed, and then `None` inside if there is no debug information.
    units: Option<Option<Units>>,
}

impl DataTypes {
    /// Searches `/usr/lib/debug` for separate debug files.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_debug_directories(directories: DebugDirectories) -> Self {
        Self {
            directories,
            ..Self::default()
        }
    }

    /// Adds a module; its file is read when needed. `build_id` is the recorded one: a file with another is not used.
    pub fn add_module(&mut self, path: &Path, build_id: Option<&BuildId>) -> TypedModuleId {
        let is_known = |module: &TypedModule| {
            module.path.as_os_str() == path.as_os_str() && module.build_id.as_ref() == build_id
        };
        let known = self.modules.iter().position(is_known);
        let index = known.unwrap_or_else(|| {
            self.modules.push(TypedModule {
                path: path.to_owned(),
                build_id: build_id.cloned(),
                units: None,
            });
            self.modules.len() - 1
        });
        TypedModuleId(u32::try_from(index).expect("fewer than 2³² modules"))
    }

    /// A type.
    pub fn get(&self, id: DataTypeId) -> &DataType {
        self.graph.get(id)
    }

    /// The field of `ty` that holds all of `size` bytes at `offset`: the fields that lead to it, outermost first.
    pub fn path(&self, ty: DataTypeId, offset: u64, size: u64) -> Vec<FieldAt> {
        self.graph.path(ty, offset, size)
    }

    /// Whether an object of type `outer` has one of type `inner` at `offset`.
    pub fn contains(&self, outer: DataTypeId, offset: u64, inner: DataTypeId) -> bool {
        self.graph.contains(outer, offset, inner)
    }

    /// The fields that lead from an object of type `outer` to one of type `inner` at `offset`.
    pub fn path_to(
        &self,
        outer: DataTypeId,
        offset: u64,
        inner: DataTypeId,
    ) -> Option<Vec<FieldAt>> {
        self.graph.path_to(outer, offset, inner)
    }

    /// What a pointer points to, and the objects that identifiers of a persistent heap identify.
    pub fn pointee(&mut self, ty: DataTypeId) -> Option<DataTypeId> {
        let Shape::Pointer(target) = self.get(ty).shape else {
            return None;
        };
        self.type_at(target?)
    }

    /// The type with a name in the source, such as `struct`'s tag or `ns::class<int>`, of any unit of a module.
    pub fn named(&mut self, module: TypedModuleId, name: &str) -> Option<DataTypeId> {
        let found = self.units(module)?.definition(name);
        let entry = self.noted(module, found)??;
        self.type_at(EntryRef {
            module,
            unit: entry.0,
            offset: entry.1,
        })
    }

    /// The type of an entry. Problems are noted.
    pub(crate) fn type_at(&mut self, at: EntryRef) -> Option<DataTypeId> {
        let read = self.read(at);
        self.noted(at.module, read)?
    }

    /// The units of a module; `None` without debug information.
    pub(crate) fn units(&mut self, module: TypedModuleId) -> Option<&mut Units> {
        let Self {
            directories,
            modules,
            problems,
            ..
        } = self;
        let module = &mut modules[module.0 as usize];
        let units = module.units.get_or_insert_with(|| {
            load(&module.path, module.build_id.as_ref(), directories).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        });
        units.as_mut()
    }

    /// Notes a problem, once for each module.
    pub(crate) fn noted<T>(
        &mut self,
        module: TypedModuleId,
        result: gimli::Result<T>,
    ) -> Option<T> {
        let path = &self.modules[module.0 as usize].path;
        match result {
            Ok(found) => Some(found),
            Err(source) => {
                if !self.problems.iter().any(|known| known.path() == path) {
                    self.problems.push(damaged(path, source));
                }
                None
            }
        }
    }

    /// Problems with files, in the order of occurrence.
    pub fn problems(&self) -> &[ModuleProblem] {
        &self.problems
    }
}

fn load(
    path: &Path,
    build_id: Option<&BuildId>,
    directories: &DebugDirectories,
) -> Result<Option<Units>, ModuleProblem> {
    if path.to_string_lossy().starts_with('[') {
        return Ok(None);
    }
    let file = ElfFile::open(path)?;
    file.require_build_id(build_id)?;
    let debug_file = directories.debug_file(&file);
    Units::load(&file, debug_file.as_ref(), directories)
}
