//! What crash testing was asked to do.

use brownout_model::Tearing;
use serde::{Deserialize, Serialize};

use crate::crash_point::tearing_name;
use crate::failure_point::Granularity;
use crate::strategy::StrategyId;
use brownout_recovery::Recovery;

/// What distinguishes a trace from others, wherever it is copied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceIdentity {
    /// When the recording started, in nanoseconds since 1970.
    pub started: u64,
    /// The size of the trace.
    pub bytes: u64,
}

/// What decides the verdicts in a journal: results of different configurations must not be mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestConfiguration {
    /// Of the journal's format.
    pub version: u32,
    pub strategy: StrategyId,
    pub trace: TraceIdentity,
    pub patterns: Vec<String>,
    pub recovery: Recovery,
    pub granularity: Granularity,
    /// The persistency profile.
    pub profile: String,
    /// Whether stores are explored that persist in part.
    #[serde(with = "tearing_name")]
    pub tearing: Tearing,
    /// If the user gave a number.
    pub occurrences: Option<usize>,
    /// How many runs may crash in a row.
    pub depth: usize,
    pub after: Option<String>,
    pub operations: Vec<String>,
    /// Whether crashes are tried inside the creation of pools.
    #[serde(default)]
    pub from_start: bool,
    /// Functions, files and modules in which crashes are tried.
    pub within: Vec<String>,
    /// The time limit of a recovery in milliseconds, if the user gave one.
    pub time_limit: Option<u64>,
    /// Digest of the expected outputs.
    pub expected: String,
    /// Digest of the programs that the commands of recovery start.
    #[serde(default)]
    pub programs: String,
}
