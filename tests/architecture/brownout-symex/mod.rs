//! What replay and the analysis of code must know about an architecture.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::path::{ReplayQuestions, ReplayedPath};
use crate::pm_code::{CodeEffect, FileFacts, RegisterSet};
use crate::pm_guide::CodeStep;
use crate::recording::Damaged;
use crate::variables::VariableTable;

/// What ELF files for this processor say, and what messages call it.
pub const ARCHITECTURE: object::Architecture = object::Architecture::Unknown;
pub const ARCHITECTURE_NAME: &str = "another processor";

/// Decodes the code of a function that is at an address.
pub fn control_flow(_address: u64, _code: &[u8]) -> Vec<CodeStep> {
    missing()
}

/// Replays the records of a path.
pub fn replay(
    _records: &[u8],
    _variables: &mut VariableTable,
    _questions: ReplayQuestions<'_>,
) -> Result<ReplayedPath, Damaged> {
    missing()
}

/// The registers that may point to persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerState;

impl PointerState {
    pub fn new(_registers: RegisterSet) -> Self {
        missing()
    }
}

/// The instructions of a function.
pub struct FunctionCode;

impl FunctionCode {
    pub fn new(_address: u64, _code: &[u8]) -> Self {
        missing()
    }

    /// The registers that calls of the function do not keep.
    pub fn lost_registers(&self) -> RegisterSet {
        missing()
    }

    /// Instructions that concern persistent memory whatever their operands are.
    pub fn pm_instructions(&self) -> impl Iterator<Item = u64> {
        nothing()
    }

    /// Jumps and calls through slots: where they are, and the slots.
    pub fn uses_of_slots(&self) -> impl Iterator<Item = (u64, u64)> {
        nothing()
    }

    /// Stubs of imported functions.
    pub fn stubs<'a>(
        &'a self,
        _slots: &'a FxHashMap<u64, String>,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        nothing()
    }

    /// Addresses that the code computes.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        nothing()
    }

    /// Variables that the code accesses.
    pub fn variables(&self) -> impl Iterator<Item = u64> {
        nothing()
    }

    /// Follows pointers from the start of the function on.
    pub fn follow(
        &self,
        _start: PointerState,
        _facts: &FileFacts<'_>,
        _returns: &dyn Fn(usize) -> bool,
        _any_returns: bool,
        _places: &mut FxHashSet<(u8, i64)>,
        _effects: &mut Vec<CodeEffect>,
    ) {
        missing()
    }
}

fn nothing<T>() -> std::iter::Empty<T> {
    missing()
}

fn missing() -> ! {
    panic!("an architecture supplies this")
}
