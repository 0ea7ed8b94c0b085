//! What the rules found, in terms of the trace.

use brownout_report::RuleInfo;
use brownout_trace::{AppPc, ContextId, EventIndex, FileId, ProcessId};

/// A finding before symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFinding {
    pub rule: &'static RuleInfo,
    /// A sentence without a full stop.
    pub message: String,
    /// How often it was met.
    pub count: u64,
    /// Where it was met first.
    pub first: EventIndex,
    /// The place to look at first comes first.
    pub places: Vec<RawPlace>,
    /// The bytes concerned when it was met first.
    pub ranges: Vec<RawRange>,
    pub values: Vec<RawValue>,
}

/// A place in the program that has to do with a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPlace {
    /// What happened there: `store`, `flush`, `fence`, …
    pub role: &'static str,
    /// How many places [`Attribution`](crate::Attribution) was asked about before this one.
    pub number: usize,
    pub process: ProcessId,
    pub pc: AppPc,
    pub context: ContextId,
    /// The event, where the finding was met first.
    pub event: EventIndex,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRange {
    pub file: FileId,
    pub offset: u64,
    pub len: u64,
}

/// Bytes that were stored; of long stores the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}
