//! Custom oracles: checks of one program's own protocol, which no general rule can know (Agamotto §2.4.2.2).
//!
//! An [`Oracle`] is shown what the program does, with the stack of calls that led to it, and may ask
//! what of persistent memory would not survive a crash now. [`Declared`] is an oracle that needs no
//! code: it is written in `brownout.toml`.
//!
//! ```
//! use brownout_lint::oracle::{Action, Memory, Moment, Oracle, Violation};
//! use brownout_report::{Category, RuleInfo, Severity};
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
//!     summary: "the superblock is written a second time",
//!     explanation: "Only mkfs writes the superblock.",
//! };
//!
//! impl Oracle for SuperblockOnce {
//!     fn rule(&self) -> &'static RuleInfo {
//!         &RULE
//!     }
//!
//!     fn observe(&mut self, moment: &Moment<'_>, _: &Memory<'_>) -> Option<Violation> {
//!         let Action::Store { range, .. } = moment.action else { return None };
//!         let again = range.offset < 64 && std::mem::replace(&mut self.written, true);
//!         again.then(|| Violation::new("the superblock is written again"))
//!     }
//! }
//! ```
//!
//! Oracles are shown all stores, those of libraries too: the stack tells them apart. They see one run and
//! the order in which it happened to go.

mod consult;
mod declared;

use std::ops::Range;
use std::path::Path;

use brownout_model::{SpaceId, Tracker};
use brownout_report::RuleInfo;
use brownout_trace::{EventIndex, FenceKind, FileId, FileRange, ProcessId, ThreadId};

use crate::follower::guarantees::Watch;
use crate::site_keys::SiteId;

pub(crate) use consult::Oracles;
pub use declared::{Declared, Demand, FunctionPattern, PatternError, Region};

/// A check that belongs to one program.
pub trait Oracle {
    /// Under which name violations are reported, and how grave they are.
    fn rule(&self) -> &'static RuleInfo;

    /// Something is about to happen: `memory` is as it was before.
    fn observe(&mut self, moment: &Moment<'_>, memory: &Memory<'_>) -> Option<Violation>;
}

/// Something that a program does.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Moment<'a> {
    pub event: EventIndex,
    pub process: ProcessId,
    pub thread: ThreadId,
    /// The calls that led to it, innermost first.
    pub stack: &'a [Frame],
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

/// A level of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The file name of the program or library, without directories.
    pub module: String,
    pub function: Option<String>,
    /// The source file as the compiler was given it, and the line.
    pub source: Option<(String, u32)>,
}

/// A place in the program that an oracle was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlaceId(pub(crate) SiteId);

/// What is said when an oracle does not hold.
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

    /// Names another store that has to do with it; `role` is what it is called in the report.
    pub fn with(mut self, role: &'static str, store: Unpersisted) -> Self {
        self.related.push((role, store));
        self
    }
}

/// A store that a crash could lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpersisted {
    pub place: PlaceId,
    pub event: EventIndex,
    /// The cache line it went to, and how many of its bytes could be lost.
    pub line: u64,
    pub bytes: u32,
}

/// Persistent memory as a crash at this moment could leave it.
pub struct Memory<'a> {
    tracker: &'a Tracker<Watch>,
    oracles: &'a consult::Shown,
}

impl<'a> Memory<'a> {
    /// The files that are mapped or were, with their paths.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &'a Path)> + use<'a> {
        self.oracles.files()
    }

    /// The stores to bytes of `range` that are not guaranteed to be there after a crash, by place in the
    /// file.
    pub fn unpersisted(
        &self,
        file: FileId,
        range: Range<u64>,
    ) -> impl Iterator<Item = Unpersisted> + use<'a> {
        let tracker = self.tracker;
        let live = tracker.live_in(SpaceId(file.0), range);
        live.map(|(line, _, store)| Unpersisted {
            place: PlaceId(store.tag.site),
            event: EventIndex(store.time.0),
            line: line.offset,
            bytes: store.bytes.0.count_ones(),
        })
    }

    /// The calls that led to a store, innermost first.
    pub fn stack(&self, place: PlaceId) -> &'a [Frame] {
        self.oracles.stack(place.0)
    }
}
