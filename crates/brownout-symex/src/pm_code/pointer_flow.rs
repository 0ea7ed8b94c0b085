//! Follows pointers to persistent memory through the functions of a file, and finds the instructions that modify what they point to.
//!
//! Pointers come from calls of `mmap` (unless the mapping is known to be anonymous) and of functions that return where a pool is mapped
//! or an object is. A register that is computed from such a pointer is one, and so is what is loaded through one. They are followed through
//! registers, places on the stack, variables of the file, and arguments and results of calls within the file; calls through pointers may
//! reach each function whose address is taken. Functions are analysed again until nothing is added: what a function gets from one caller,
//! it returns to all.
//!
//! The analysis over-approximates what it follows. It can miss pointers that are kept in objects of ordinary memory, passed to functions of
//! other files or on the stack, or moved through vector registers, and it takes functions apart as symbols and unwind tables do.

use std::collections::VecDeque;

use brownout_libraries::{LIBRARIES, LibraryRole, MemoryEffect, is_pool_variable, memory_effect};
use rustc_hash::{FxHashMap, FxHashSet};

use super::elf::{Image, Symbols};
use super::{Found, PmOperationKind};
use crate::arch::{FunctionCode, PointerState};

/// What the name of an imported function says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportMeaning {
    pub returns_pm: bool,
    pub maps: bool,
    /// It modifies persistent memory or makes it durable, whatever its arguments are.
    pub is_operation: bool,
    /// The index of the argument that points to where it stores.
    pub stores_to: Option<u8>,
}

impl ImportMeaning {
    fn of(name: &str) -> Self {
        // With fortified headers, calls are of checking variants.
        let plain = name
            .strip_prefix("__")
            .and_then(|name| name.strip_suffix("_chk"));
        let plain = plain.unwrap_or(name);
        let stores_to = match memory_effect(plain) {
            Some(MemoryEffect::Stores { to, .. }) => Some(to),
            _ => None,
        };
        let effect = memory_effect(name);
        let of_library = LIBRARIES.iter().any(|library| {
            matches!(library.role, LibraryRole::Structures | LibraryRole::Carrier)
                && library
                    .prefixes
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
        });
        Self {
            returns_pm: effect == Some(MemoryEffect::ReturnsPersistent),
            maps: effect == Some(MemoryEffect::Maps),
            is_operation: of_library || effect == Some(MemoryEffect::Syncs),
            stores_to,
        }
    }
}

/// General registers, one bit for each number.
pub type RegisterSet = u32;

/// Something that concerns more than the function whose code has it.
#[derive(Clone, Copy, Debug)]
pub enum CodeEffect {
    Operation(u64, PmOperationKind),
    /// A variable of the file gets a pointer.
    Variable(u64),
    /// A function of the file is called, with these registers as pointers.
    Call(usize, RegisterSet),
    IndirectCall(RegisterSet),
    /// The result is a pointer.
    Returns,
}

/// What is known of all functions of a file.
pub struct FileFacts<'a> {
    pub slots: &'a FxHashMap<u64, String>,
    pub meanings: FxHashMap<&'a str, ImportMeaning>,
    /// The slot that a stub jumps through.
    pub stubs: FxHashMap<u64, u64>,
    /// Functions by the address at which they begin.
    pub entries: FxHashMap<u64, usize>,
    /// The registers that a call of each function does not keep.
    pub lost: Vec<RegisterSet>,
    /// Variables that may hold a pointer to persistent memory, and slots with the addresses of such variables.
    pub variables: FxHashSet<u64>,
}

impl FileFacts<'_> {
    pub fn meaning_of_slot(&self, slot: u64) -> Option<ImportMeaning> {
        let name = self.slots.get(&slot)?;
        self.meanings.get(name.as_str()).copied()
    }
}

/// What is known of a function.
#[derive(Clone, Default)]
struct FunctionFacts {
    /// The registers that may point to persistent memory when it is called.
    arguments: RegisterSet,
    returns_pm: bool,
    /// Places on the stack that may hold such a pointer: base register and displacement.
    places: FxHashSet<(u8, i64)>,
    callers: FxHashSet<usize>,
}

/// A function is analysed at most this often.
const MOST_ROUNDS: u32 = 24;

pub(super) fn analyse(image: &Image, symbols: Symbols) -> Found {
    let mut analysis = Analysis::new(image, &symbols);
    analysis.run();
    let mut operations = analysis.operations();
    // What calls a stub is the operation.
    operations.retain(|(pc, _)| !{ symbols.linkage.iter() }.any(|it| (it.0..it.1).contains(pc)));
    let links = analysis.links();
    Found {
        functions: symbols.functions,
        operations,
        links,
        exports: symbols.exports,
    }
}

struct Analysis<'a> {
    facts: FileFacts<'a>,
    code: Vec<FunctionCode>,
    functions: Vec<FunctionFacts>,
    address_taken: Vec<usize>,
    /// The registers with which calls through pointers pass pointers to persistent memory.
    passed: RegisterSet,
    stores: FxHashMap<u64, PmOperationKind>,
    waiting: VecDeque<usize>,
    is_waiting: Vec<bool>,
    rounds: Vec<u32>,
    /// Functions that load variables of the file.
    readers: FxHashMap<u64, Vec<usize>>,
}

impl<'a> Analysis<'a> {
    fn new(image: &Image, symbols: &'a Symbols) -> Self {
        let code: Vec<FunctionCode> = { symbols.functions.iter() }
            .map(|&(start, end)| FunctionCode::new(start, image.bytes(start, end).unwrap_or(&[])))
            .collect();
        let entries: FxHashMap<u64, usize> = { symbols.functions.iter().enumerate() }
            .map(|(index, it)| (it.0, index))
            .collect();
        let names = symbols.slots.values();
        let meanings = names
            .map(|name| (name.as_str(), ImportMeaning::of(name)))
            .collect();
        let pools = symbols
            .slots
            .iter()
            .filter(|(_, name)| is_pool_variable(name));
        let mut facts = FileFacts {
            slots: &symbols.slots,
            meanings,
            stubs: FxHashMap::default(),
            entries,
            lost: code.iter().map(FunctionCode::lost_registers).collect(),
            variables: pools.map(|(slot, _)| *slot).collect(),
        };
        let mut address_taken: FxHashSet<usize> = symbols
            .held
            .iter()
            .filter_map(|address| facts.entries.get(address).copied())
            .collect();
        let mut readers: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        for (index, function) in code.iter().enumerate() {
            facts.stubs.extend(function.stubs(&symbols.slots));
            let taken = function.addresses();
            address_taken.extend(taken.filter_map(|address| facts.entries.get(&address).copied()));
            for variable in function.variables() {
                readers.entry(variable).or_default().push(index);
            }
        }
        let count = code.len();
        Self {
            facts,
            functions: vec![FunctionFacts::default(); count],
            address_taken: address_taken.into_iter().collect(),
            passed: 0,
            stores: FxHashMap::default(),
            waiting: (0..count).collect(),
            is_waiting: vec![true; count],
            rounds: vec![0; count],
            readers,
            code,
        }
    }

    fn wait_for(&mut self, function: usize) {
        if !std::mem::replace(&mut self.is_waiting[function], true) {
            self.waiting.push_back(function);
        }
    }

    fn run(&mut self) {
        while let Some(function) = self.waiting.pop_front() {
            self.is_waiting[function] = false;
            if self.rounds[function] < MOST_ROUNDS {
                self.rounds[function] += 1;
                self.analyse(function);
            }
        }
    }

    fn analyse(&mut self, function: usize) {
        let mut places = std::mem::take(&mut self.functions[function].places);
        let start = PointerState::new(self.functions[function].arguments);
        loop {
            let before = places.len();
            let mut effects = Vec::new();
            let returns = |callee: usize| self.functions[callee].returns_pm;
            let any_returns =
                { self.address_taken.iter() }.any(|&it| self.functions[it].returns_pm);
            self.code[function].follow(
                start,
                &self.facts,
                &returns,
                any_returns,
                &mut places,
                &mut effects,
            );
            effects
                .into_iter()
                .for_each(|effect| self.apply(function, effect));
            // What is stored to a place late in a loop is read from it early.
            if places.len() == before {
                break;
            }
        }
        self.functions[function].places = places;
    }

    fn apply(&mut self, function: usize, effect: CodeEffect) {
        match effect {
            CodeEffect::Operation(pc, kind) => {
                self.stores.insert(pc, kind);
            }
            CodeEffect::Variable(address) => {
                if self.facts.variables.insert(address) {
                    let readers = self.readers.get(&address).cloned().unwrap_or_default();
                    readers.into_iter().for_each(|reader| self.wait_for(reader));
                }
            }
            CodeEffect::Call(callee, arguments) => {
                self.functions[callee].callers.insert(function);
                self.pass(callee, arguments);
            }
            CodeEffect::IndirectCall(arguments) => {
                if arguments & !self.passed != 0 {
                    self.passed |= arguments;
                    for callee in self.address_taken.clone() {
                        self.pass(callee, arguments);
                    }
                }
            }
            CodeEffect::Returns => {
                if !std::mem::replace(&mut self.functions[function].returns_pm, true) {
                    let callers = self.functions[function].callers.clone();
                    callers.into_iter().for_each(|caller| self.wait_for(caller));
                }
            }
        }
    }

    fn pass(&mut self, callee: usize, arguments: RegisterSet) {
        let known = &mut self.functions[callee].arguments;
        if arguments & !*known != 0 {
            *known |= arguments;
            self.wait_for(callee);
        }
    }

    fn operations(&self) -> Vec<(u64, PmOperationKind)> {
        let mut found = self.stores.clone();
        for function in &self.code {
            let plain = function.pm_instructions();
            found.extend(plain.map(|pc| (pc, PmOperationKind::Instruction)));
        }
        let mut operations: Vec<_> = found.into_iter().collect();
        operations.sort_unstable();
        operations
    }

    /// Jumps and calls through the slots of imported functions.
    fn links(&self) -> Vec<(u64, String)> {
        let uses = self.code.iter().flat_map(FunctionCode::uses_of_slots);
        uses.filter_map(|(pc, slot)| Some((pc, self.facts.slots.get(&slot)?.clone())))
            .collect()
    }
}
