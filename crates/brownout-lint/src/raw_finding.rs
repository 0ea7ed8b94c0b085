//! What the rules found, in terms of the trace.

use brownout_report::RuleInfo;
use brownout_trace::{AppPc, ContextId, EventIndex, FileId, ProcessId};

use crate::site_keys::SiteKey;

/// A finding before it is symbolised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFinding {
    pub rule: &'static RuleInfo,
    /// A sentence without a full stop.
    pub message: String,
    /// How often it occurred.
    pub count: u64,
    /// The event at which it first occurred.
    pub first: EventIndex,
    /// The site to look at first comes first.
    pub sites: Vec<RawSite>,
    /// The bytes concerned at the first occurrence.
    pub ranges: Vec<RawRange>,
    pub values: Vec<RawValue>,
    /// For each site of role `store`, since when its thread had executed no fence when it made the store. Empty if the rule does not
    /// know.
    pub unfenced_since: Vec<UnfencedSince>,
    /// The first sites of other findings of the rule that may have the same cause.
    pub related: Vec<SiteKey>,
}

/// Since when a thread had executed no fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfencedSince {
    /// The number of the thread, in the order in which threads first accessed persistent memory.
    pub thread: u32,
    /// It executed no fence after this event.
    pub event: u64,
}

/// An instruction, in its calling context, that is involved in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSite {
    /// What happened there: `store`, `flush`, `fence`, …
    pub role: &'static str,
    /// The key under which [`Attribution`](crate::Attribution) has seen it.
    pub key: SiteKey,
    pub process: ProcessId,
    pub pc: AppPc,
    pub context: ContextId,
    /// Its event at the first occurrence of the finding.
    pub event: EventIndex,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRange {
    pub file: FileId,
    pub offset: u64,
    pub len: u64,
}

/// Bytes that were stored; of long stores, the first ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// How many bytes there are.
    pub len: u64,
}
