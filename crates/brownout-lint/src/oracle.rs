//! Custom oracles: checks of one program's own protocol, which no general rule can know (Agamotto §2.4.2.2).
//!
//! An [`Oracle`] sees each [`OracleStep`] of the target with the stack of calls that led to it, and may ask
//! which stores a crash could lose at that point. [`Declared`] is an oracle that needs no
//! code: it is written in `brownout.toml`.
//!
//! ```
//! use brownout_lint::oracle::{Action, Memory, Oracle, OracleStep, Violation};
//! use brownout_report::{Category, RuleInfo, RulePolicy, Severity};
//!
//! /// The superblock, the first 64 bytes of the pool, is written once.
//! struct SuperblockOnce {
//!     written: bool,
//! }
//!
//! static RULE: RuleInfo = RuleInfo {
//!     id: "superblock-once",
//!     severity: Severity::Bug,
//!     category: Category::Atomicity,
//!     pedantic: false,
//!     policy: RulePolicy::NONE,
//!     summary: "the superblock is written a second time",
//!     explanation: "Only mkfs writes the superblock.",
//! };
//!
//! impl Oracle for SuperblockOnce {
//!     fn rule(&self) -> &'static RuleInfo {
//!         &RULE
//!     }
//!
//!     fn observe(&mut self, step: &OracleStep<'_>, _: &Memory<'_>) -> Option<Violation> {
//!         let Action::Store { range, .. } = step.action else { return None };
//!         let again = range.offset < 64 && std::mem::replace(&mut self.written, true);
//!         again.then(|| Violation::new("the superblock is written again"))
//!     }
//! }
//! ```
//!
//! Oracles see all stores, including those of libraries: the stack distinguishes them. They see one run, in the
//! order in which it happened.

mod consult;
mod declared;

use std::ops::Range;
use std::path::Path;

use brownout_model::{SpaceId, Tracker};
use brownout_report::RuleInfo;
use brownout_trace::{EventIndex, FenceKind, FileId, FileRange, ProcessId, ThreadId};

use crate::follower::guarantees::Guarantees;
use crate::site_keys::SiteKey;

pub use brownout_names::FunctionPattern;
pub(crate) use consult::{Consultation, Oracles};
pub use declared::{Declared, Demand, Region};

/// A check that belongs to one program.
pub trait Oracle {
    /// The name and severity under which violations are reported.
    fn rule(&self) -> &'static RuleInfo;

    /// A step is about to take effect: `memory` is the state before it.
    fn observe(&mut self, step: &OracleStep<'_>, memory: &Memory<'_>) -> Option<Violation>;
}

/// A store, flush or fence of the target.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OracleStep<'a> {
    pub event: EventIndex,
    pub process: ProcessId,
    pub thread: ThreadId,
    /// The calls that led to it, innermost first.
    pub stack: &'a [OracleFrame],
    pub action: Action<'a>,
}

#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Action<'a> {
    /// `bytes` are stored to `range` of the file at `path`.
    Store {
        range: FileRange,
        path: &'a Path,
        bytes: &'a [u8],
    },
    /// The cache line that holds `range` is flushed.
    Flush {
        range: FileRange,
        path: &'a Path,
    },
    Fence {
        kind: FenceKind,
    },
}

/// A frame of a stack, as oracles see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OracleFrame {
    /// The file name of the program or library, without directories.
    pub module: String,
    pub function: Option<String>,
    /// The source file as the compiler was given it, and the line.
    pub source: Option<(String, u32)>,
}

/// What an oracle reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    message: String,
    related: Vec<(&'static str, Unpersisted)>,
}

impl Violation {
    /// `message` is a sentence without a full stop.
    pub fn new(message: impl Into<String>) -> Self {
        Violation {
            message: message.into(),
            related: Vec::new(),
        }
    }

    /// Adds another store that is involved; `role` is its name in the report.
    pub fn with(mut self, role: &'static str, store: Unpersisted) -> Self {
        self.related.push((role, store));
        self
    }
}

/// A store that a crash could lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpersisted {
    pub site: SiteKey,
    pub event: EventIndex,
    /// The offset of its cache line in the file, and how many of its bytes could be lost.
    pub line: u64,
    pub bytes: u32,
}

/// Which stores to persistent memory a crash could lose now.
pub struct Memory<'a> {
    tracker: &'a Tracker<Guarantees>,
    shown: &'a consult::Shown,
}

impl<'a> Memory<'a> {
    /// The files that are or were mapped, with their paths.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &'a Path)> + use<'a> {
        self.shown.files()
    }

    /// The stores to bytes of `range` that are not guaranteed to survive a crash, by offset in the
    /// file.
    pub fn unpersisted(
        &self,
        file: FileId,
        range: Range<u64>,
    ) -> impl Iterator<Item = Unpersisted> + use<'a> {
        let tracker = self.tracker;
        let live = tracker.live_in(SpaceId(file.0), range);
        live.map(|(line, _, store)| Unpersisted {
            site: store.tag.site,
            event: EventIndex(store.time.0),
            line: line.offset,
            bytes: store.bytes.0.count_ones(),
        })
    }

    /// The calls that led to a store, innermost first.
    pub fn stack(&self, site: SiteKey) -> &'a [OracleFrame] {
        self.shown.stack(site)
    }
}
