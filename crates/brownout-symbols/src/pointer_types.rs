//! What an instruction stores to, and what a call passes: the interface to the analysis of functions.
//!
//! A pointer is described by what it points to, if that is known, and otherwise by where it comes from: a parameter of its
//! function, which the caller's code may describe, or an instruction.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use brownout_libraries::is_linked_c_library;
use object::{Object as _, ObjectSymbol as _, SymbolKind};

use crate::arch::PARAMETERS;
use crate::debug_files::DebugDirectories;
use crate::elf::{ElfFile, Segment};
use crate::flow::{self, Base, CodeModule, FunctionFlow, Value, gcd};
use crate::types::{DataTypeId, DataTypes, TypedModuleId};
use crate::{BuildId, FileOffset, ModuleProblem};

/// What a pointer is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointerBase {
    /// An object of a known type.
    Object(DataTypeId),
    /// The argument with this index, of the function that the instruction is in.
    Parameter(u8),
    /// Something that the code at this offset of the module's file computes, in this register or word of the stack.
    Code(FileOffset, u16),
}

/// An address: `offset` bytes, and some multiple of `stride` bytes, behind its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PointerValue {
    pub base: PointerBase,
    pub offset: i64,
    /// 0 if the offset is exact.
    pub stride: u64,
}

impl PointerValue {
    /// The address that is as far behind `other` as this one is behind its base.
    pub fn behind(self, other: Self) -> Self {
        Self {
            base: other.base,
            offset: self.offset.wrapping_add(other.offset),
            stride: gcd(self.stride, other.stride),
        }
    }
}

/// The function that a call calls, as far as the caller's code shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee<'a> {
    /// The function of the same module whose code starts here.
    Own(FileOffset),
    /// A function with this symbol, in this or another module.
    Imported(&'a str),
    /// It is computed.
    Unknown,
}

/// The pointers of programs.
#[derive(Default)]
pub struct PointerTypes {
    pub types: DataTypes,
    modules: HashMap<TypedModuleId, Option<LoadedModule>>,
    functions: HashMap<(TypedModuleId, u64), Arc<FunctionFlow>>,
    paths: HashMap<TypedModuleId, (std::path::PathBuf, Option<BuildId>)>,
    problems: Vec<ModuleProblem>,
}

struct LoadedModule {
    code: CodeModule,
    segments: Vec<Segment>,
    /// The addresses of functions that other modules can call by name.
    symbols: HashMap<String, u64>,
}

impl PointerTypes {
    /// Searches `/usr/lib/debug` for separate debug files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches these directories for separate debug files.
    pub fn with_debug_directories(directories: Vec<std::path::PathBuf>) -> Self {
        Self {
            types: DataTypes::with_debug_directories(DebugDirectories(directories)),
            ..Self::default()
        }
    }

    /// Adds a module; its file is read when needed. `build_id` is the recorded one: a file with another is not used.
    pub fn add_module(&mut self, path: &Path, build_id: Option<&BuildId>) -> TypedModuleId {
        let id = self.types.add_module(path, build_id);
        self.paths
            .entry(id)
            .or_insert_with(|| (path.to_owned(), build_id.cloned()));
        id
    }

    /// The address to which the instruction at `at` stores. `None` if it is unknown, or the instruction is.
    pub fn store(&mut self, module: TypedModuleId, at: FileOffset) -> Option<PointerValue> {
        let address = self.module(module)?.address_of(at)?;
        let (start, flow) = self.function(module, address)?;
        let value = *flow.stores.get(&address)?;
        self.shown(module, start, value)
    }

    /// The argument with index `parameter` of the call that returns to `returns_to`.
    pub fn argument(
        &mut self,
        module: TypedModuleId,
        returns_to: FileOffset,
        parameter: u8,
    ) -> Option<PointerValue> {
        let call = FileOffset(returns_to.0.checked_sub(1)?);
        let address = self.module(module)?.address_of(call)? + 1;
        let (start, flow) = self.function(module, address - 1)?;
        let registers = flow.calls.get(&address)?;
        let register = *PARAMETERS.get(usize::from(parameter))?;
        self.shown(module, start, registers[usize::from(register)])
    }

    /// The argument with index `parameter` that the function with the code at `into` was passed by the call that returns to
    /// `returns_to`. The function that was called may have passed it on, when it ended with a jump.
    pub fn passed(
        &mut self,
        module: TypedModuleId,
        returns_to: FileOffset,
        parameter: u8,
        into: (TypedModuleId, FileOffset),
    ) -> Option<PointerValue> {
        let start = self.function_start(into.0, into.1)?;
        let called = match self.callee(module, returns_to) {
            Callee::Own(called) => Some((module, called)),
            Callee::Imported(name) => {
                let name = name.to_owned();
                let found = self.module(into.0)?.symbol(&name);
                // The C library chooses among variants of these.
                if found.is_none() && !is_linked_c_library(&name, None) {
                    return None;
                }
                found.map(|called| (into.0, called))
            }
            Callee::Unknown => None,
        };
        match called {
            Some(called) if called != (into.0, start) => {
                let passed_on = self.passed_on(called, parameter)?;
                match passed_on.base {
                    PointerBase::Parameter(first) => {
                        let value = self.argument(module, returns_to, first)?;
                        Some(passed_on.behind(value))
                    }
                    _ => Some(passed_on),
                }
            }
            _ => self.argument(module, returns_to, parameter),
        }
    }

    /// What a function passes to the function that it jumps to at its end, if that is always the same.
    fn passed_on(
        &mut self,
        (module, start): (TypedModuleId, FileOffset),
        parameter: u8,
    ) -> Option<PointerValue> {
        let address = self.module(module)?.address_of(start)?;
        let (start, flow) = self.function(module, address)?;
        let register = usize::from(*PARAMETERS.get(usize::from(parameter))?);
        let (first, rest) = flow.tail_calls.split_first()?;
        let is_same = rest.iter().all(|other| other[register] == first[register]);
        let value = is_same.then_some(first[register])?;
        self.shown(module, start, value)
    }

    /// The function that the call that returns to `returns_to` calls.
    pub fn callee(&mut self, module: TypedModuleId, returns_to: FileOffset) -> Callee<'_> {
        let found = self.module(module).and_then(|module| {
            let call = FileOffset(returns_to.0.checked_sub(1)?);
            let address = module.address_of(call)? + 1;
            let imports = &module.code.imports;
            if let Some(name) = imports.callee(address) {
                return Some(Callee::Imported(name));
            }
            let target = imports.target(address)?;
            Some(Callee::Own(module.offset_of(target)?))
        });
        found.unwrap_or(Callee::Unknown)
    }

    /// Where the function with the code at `at` starts.
    pub fn function_start(&mut self, module: TypedModuleId, at: FileOffset) -> Option<FileOffset> {
        let module = self.module(module)?;
        let address = module.address_of(at)?;
        let range = module.code.frames.containing(address)?;
        let start = range.code.start;
        module.offset_of(start)
    }

    /// Problems with files, one of each file.
    pub fn problems(&self) -> impl Iterator<Item = &ModuleProblem> {
        let is_new = |problem: &&ModuleProblem| {
            !(self.problems.iter()).any(|known| known.path() == problem.path())
        };
        let others = self.types.problems().iter().filter(is_new);
        self.problems.iter().chain(others)
    }

    fn module(&mut self, id: TypedModuleId) -> Option<&LoadedModule> {
        let Self {
            modules,
            paths,
            problems,
            ..
        } = self;
        let loaded = modules.entry(id).or_insert_with(|| {
            let (path, build_id) = paths.get(&id)?;
            LoadedModule::load(path, build_id.as_ref()).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        });
        loaded.as_ref()
    }

    /// The analysed function with the code at `address`, and its start.
    fn function(&mut self, id: TypedModuleId, address: u64) -> Option<(u64, Arc<FunctionFlow>)> {
        let module = self.modules.get(&id)?.as_ref()?;
        let range = module.code.frames.containing(address)?;
        let start = range.code.start;
        let types = &mut self.types;
        let flow = self
            .functions
            .entry((id, start))
            .or_insert_with(|| Arc::new(flow::analyse(&module.code, id, types, range)));
        Some((start, flow.clone()))
    }

    fn shown(&mut self, id: TypedModuleId, start: u64, value: Value) -> Option<PointerValue> {
        let parameter = |register| PARAMETERS.iter().position(|&known| known == register);
        let base = match value.base {
            Base::Object(ty) => PointerBase::Object(ty),
            Base::Unknown {
                at,
                register,
                factor: 1,
            } if at == start => PointerBase::Parameter(parameter(register)? as u8),
            Base::Unknown {
                at,
                register,
                factor: 1,
            } => PointerBase::Code(self.module(id)?.offset_of(at)?, register),
            Base::Number | Base::Frame | Base::Identifier(_) | Base::Unknown { .. } => return None,
        };
        Some(PointerValue {
            base,
            offset: value.offset,
            stride: value.stride,
        })
    }
}

impl LoadedModule {
    /// `None` for what is not a file.
    fn load(path: &Path, build_id: Option<&BuildId>) -> Result<Option<Self>, ModuleProblem> {
        if path.to_string_lossy().starts_with('[') {
            return Ok(None);
        }
        let file = ElfFile::open(path)?;
        file.require_build_id(build_id)?;
        let segments = file.segments()?;
        Ok(Some(Self {
            code: CodeModule::of(&file, &segments),
            segments,
            symbols: exported_functions(&file)?,
        }))
    }

    fn symbol(&self, name: &str) -> Option<FileOffset> {
        self.offset_of(*self.symbols.get(name)?)
    }

    fn address_of(&self, FileOffset(offset): FileOffset) -> Option<u64> {
        let code = self.segments.iter().filter(|segment| segment.executable);
        code.filter_map(|segment| {
            let within = offset.checked_sub(segment.file_offset)?;
            (within < segment.size).then(|| segment.address.checked_add(within))?
        })
        .next()
    }

    fn offset_of(&self, address: u64) -> Option<FileOffset> {
        let code = self.segments.iter().filter(|segment| segment.executable);
        code.filter_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.size).then(|| segment.file_offset.checked_add(within))?
        })
        .next()
        .map(FileOffset)
    }
}

fn exported_functions(file: &ElfFile) -> Result<HashMap<String, u64>, ModuleProblem> {
    let elf = file.parse()?;
    let functions = elf.dynamic_symbols().filter(|symbol| {
        // What chooses among several functions has another kind.
        symbol.is_definition() && symbol.kind() == SymbolKind::Text
    });
    let named = functions.filter_map(|symbol| {
        let name = symbol.name().ok()?.split('@').next()?;
        Some((name.to_owned(), symbol.address()))
    });
    Ok(named.collect())
}
