//! A pass over a trace: the [follower](crate::follower) shows the [rules](crate::rules) what happens, and the
//! [judge](crate::judge) decides at the end what is reported.

use std::convert::Infallible;
use std::ops::ControlFlow;

use brownout_model::Profile;
use brownout_trace::selection::{Patterns, Selection};
use brownout_trace::{
    Address, Definitions, Event, EventPosition, FenceKind, FileId, FlushKind, StoreFlavor,
    ThreadRun, Visitor,
};

use crate::attribution::Attribution;
use crate::follower::Follower;
use crate::judge::{EndedPass, Judge};
use crate::oracle::{Oracle, Oracles};
use crate::raw_finding::RawFinding;

/// Applies all rules to a trace, event by event.
pub struct Lint<A> {
    follower: Follower<A>,
    judge: Judge,
}

/// The result of linting a whole trace.
pub struct LintOutcome<A> {
    /// Which files are persistent memory.
    pub selection: Selection,
    /// By rule, then in the order in which they first occurred.
    pub findings: Vec<RawFinding>,
    /// Findings of other rules on the stores that findings of `unpersisted-target` name. They are worth reporting only if
    /// that rule is off.
    pub implied_by_pointers: Vec<RawFinding>,
    /// How many pointers the rule `unpersisted-target` gave up, because too many were waiting to be judged.
    pub pointers_not_judged: u64,
    /// The stores to each of them.
    pub files: Vec<FileStores>,
    /// The target syncs persistent files (`msync`, `fsync`), and uses no instruction to make stores durable that the profile looks at.
    pub relies_on_syncs: bool,
    /// As it was given to [`Lint::new`].
    pub attribution: A,
}

/// How many stores to a persistent file there were. A store counts once for each cache line that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStores {
    pub file: FileId,
    pub stores: u64,
    /// Stores of the user's code that never became guaranteed, nor did what overwrote them.
    pub never_guaranteed: u64,
    /// Whether system calls have written to it, too.
    pub is_written: bool,
}

impl<A: Attribution> Lint<A> {
    pub fn new(profile: Profile, attribution: A) -> Self {
        Lint {
            follower: Follower::new(profile, attribution),
            judge: Judge::default(),
        }
    }

    /// Adds checks of one program's own protocol.
    pub fn with_oracles(mut self, oracles: Vec<Box<dyn Oracle>>) -> Self {
        self.follower.oracles = Oracles::new(oracles);
        self
    }

    /// Takes the next event. `definitions` are those after it.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.judge.observe(event, definitions);
        self.follower.observe(event, definitions);
    }

    /// Ends the pass. Where patterns are given, they alone decide which files are persistent memory.
    pub fn end(self, definitions: &Definitions, patterns: Option<&Patterns>) -> EndedPass<A> {
        self.judge.end(self.follower, definitions, patterns)
    }

    /// Ends the pass without a second one.
    pub fn finish(self, definitions: &Definitions, patterns: Option<&Patterns>) -> LintOutcome<A> {
        self.end(definitions, patterns).finish(None)
    }
}

impl<A: Attribution> Visitor for Lint<A> {
    type Break = Infallible;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<Self::Break> {
        self.observe(event, definitions);
        ControlFlow::Continue(())
    }

    fn run(&mut self, run: &ThreadRun<'_>) {
        self.follower.begin_run(run, self.judge.needs_every_event());
    }

    #[inline(never)]
    fn store(
        &mut self,
        at: EventPosition,
        addr: Address,
        bytes: &[u8],
        flavor: StoreFlavor,
    ) -> bool {
        self.follower.store_fast(at, addr, bytes, flavor)
    }

    #[inline(never)]
    fn flush(&mut self, at: EventPosition, addr: Address, kind: FlushKind) -> bool {
        self.follower.flush_fast(at, addr, kind)
    }

    #[inline(never)]
    fn fence(&mut self, at: EventPosition, kind: FenceKind) -> bool {
        self.follower.fence_fast(at, kind)
    }
}
