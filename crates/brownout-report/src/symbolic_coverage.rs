//! What symbolic execution has tried, reached and left: the object `symbolic` of `run.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What symbolic execution has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SymbolicCoverage {
    /// Different paths that were replayed, their instructions, and those of them that depend on the input.
    pub paths: u64,
    pub instructions: u64,
    pub symbolic_instructions: u64,
    /// Queries to the solver, those of them that were answered from memory, and those that ran out of time.
    pub queries: u64,
    pub queries_remembered: u64,
    pub queries_timed_out: u64,
    pub solver_seconds: f64,
    /// How long paths were recorded and replayed.
    pub record_seconds: f64,
    pub replay_seconds: f64,
    /// Inputs that were solved; those of them for which earlier branches were left out.
    pub solved: u64,
    pub solved_optimistically: u64,
    /// Solved inputs whose paths were compared with what they were solved for, and were as expected or not.
    pub followed: u64,
    pub diverged: u64,
    /// Values that replay has computed in another way than the processor: a fault of brownout.
    pub mismatches: u64,
    /// Recordings of paths that could not be read, and paths that were cut off.
    pub damaged: u64,
    pub cut_off: u64,
    /// Values that were made concrete because they are not modelled.
    pub concretised: u64,
    /// The same by cause: the mnemonic of an instruction, or what kind of value it is.
    pub concretised_by_cause: BTreeMap<String, u64>,
    /// Symbolic bytes that the program has written to files, pipes and sockets, from which they were not followed.
    pub sent: u64,
    /// Instructions of the program itself that modify persistent memory, as far as they are known, and those that were reached.
    pub operations_known: u64,
    pub operations_reached: u64,
    /// The source lines of those that were not reached.
    pub unreached: Vec<String>,
    /// Branches on the input that went both ways, and those that went one way, by cause.
    pub branches_both_ways: u64,
    pub branches_impossible: u64,
    pub branches_concretised: u64,
    pub branches_timed_out: u64,
    pub branches_diverged: u64,
    pub branches_not_tried: u64,
    /// Test cases that wait, and whether nothing was left to try.
    pub waiting: u64,
    pub exhausted: bool,
}
