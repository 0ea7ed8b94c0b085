//! Workers that solve for inputs instead of mutating them (Agamotto, chapter 2 of Neal's dissertation).
//!
//! A symbolic worker takes a test case, runs it once while its path is recorded, and replays the path (`brownout-symex`). For each branch
//! that depends on the input it solves for an input that goes the other way, first for those that lead to most persistent memory. The
//! executor runs what was solved like any other input of the campaign, so that the corpus, images and examination are the same.
//!
//! | file | idea |
//! |---|---|
//! | `symbolic_bytes` | which bytes are symbolic |
//! | `search` | what symbolic workers share: the queue, and what was tried |
//! | `path_directions` | the directions of a path, and whether an input goes where it was solved to go |
//! | `program_guide` | the code of the program, and how much persistent memory it leads to |
//! | `branches` | which branches went both ways, and why others did not |
//! | `symbolic_worker` | the loop |
//!
//! Can miss: paths that differ by their interleaving; what the target does with symbolic bytes in other processes; branches on values that
//! replay has made concrete, which are counted.

mod branches;
mod path_directions;
mod program_guide;
mod search;
mod symbolic_bytes;
mod symbolic_worker;

pub use branches::{UnsolvedCause, UnsolvedCounts};
pub use program_guide::{OperationLine, PmProgress};
pub use search::SymbolicFigures;
pub use symbolic_bytes::{SourceError, SymbolicBytes, SymbolicKind};

pub(crate) use search::SymbolicSearch;
pub(crate) use symbolic_worker::SymbolicWorker;

use std::time::Duration;

use brownout_recovery::StartString;

/// Which directions are tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchOrder {
    /// Those that lead to most code which modifies persistent memory.
    #[default]
    Pm,
    /// Those that no path has taken that often.
    Coverage,
    /// Any.
    Random,
}

/// How symbolic workers search.
#[derive(Clone, Debug)]
pub struct SymbolicOptions {
    /// What is symbolic.
    pub sources: Vec<SymbolicBytes>,
    /// How many workers of the campaign are symbolic.
    pub workers: usize,
    /// How long one query of the solver may take.
    pub query_time: Duration,
    pub order: SearchOrder,
    /// Inputs that are read to their end are tried with more bytes, up to this length.
    pub longest_input: usize,
}

impl SymbolicOptions {
    /// The strings that inputs begin with.
    pub fn strings(&self) -> impl Iterator<Item = &StartString> {
        strings(&self.sources)
    }
}

/// The strings among symbolic sources, each once.
pub fn strings(sources: &[SymbolicBytes]) -> impl Iterator<Item = &StartString> {
    sources.iter().enumerate().filter_map(|(index, source)| {
        let is_first = || !sources[..index].iter().any(|it| it.kind == source.kind);
        match &source.kind {
            SymbolicKind::Start(string) if is_first() => Some(string),
            _ => None,
        }
    })
}
