//! What is known about a store at a crash that can lose it: the calls that led to it, and which flush or fence is missing.
//!
//! A store is *late* if it is never guaranteed in the whole run, or if a later store of its thread was guaranteed before the crash
//! and it was not. If its thread has made later stores that are not guaranteed either, a crash can lose it and keep them.
//! Otherwise it is in flight: a commit store that its thread has just made.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use brownout_model::{
    Access, LINE, LineRef, LiveStore, Marks, PersistObserver, PmAddress, Profile, SpaceId,
    StoreKind, ThreadSlot, Time, Tracker, line_parts,
};
use brownout_report::SourceState;
use brownout_trace::{Definitions, Event};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effect::{Effect, Threads, effects};
use crate::error::CrashError;
use crate::failure_point::StackId;
use crate::recorded_run::RecordedRun;
use crate::symbols::Symbols;

/// A store that a crash can lose, in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskedStore {
    /// The event before which the crash is.
    pub crash: u64,
    /// The event of the store.
    pub store: u64,
    /// The start of the line.
    pub line: PmAddress,
}

/// What is known about a store at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    pub stack: Option<StackId>,
    pub state: SourceState,
    /// Where it was flushed, if only a fence is missing.
    pub flush: Option<StackId>,
    pub is_late: bool,
    /// Whether its thread has made another store before the crash.
    pub has_later: bool,
}

/// Bytes whose last store before an event is wanted: what a crash leaves that loses the later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskedBytes {
    pub at: PmAddress,
    pub len: u64,
    pub before: u64,
}

/// What one pass over the trace has found.
#[derive(Debug, Default)]
pub struct FoundStores {
    pub facts: FxHashMap<AskedStore, StoreFacts>,
    /// The threads of the asked stores.
    pub threads: FxHashMap<u64, ThreadSlot>,
    /// The event and the calls; absent if nothing was stored.
    pub last: FxHashMap<AskedBytes, (u64, Option<StackId>)>,
}

/// Finds what is asked about stores; `None` if `stop` ends it.
pub fn store_facts(
    run: &RecordedRun,
    profile: Profile,
    asked: &BTreeSet<AskedStore>,
    bytes: &BTreeSet<AskedBytes>,
    symbols: &mut dyn Symbols,
    stop: impl FnMut() -> bool,
) -> Result<Option<FoundStores>, CrashError> {
    let mut follower = Follower::new(profile, asked, bytes);
    let mut crashes = asked.iter().peekable();
    let is_through = run.walk_unless(stop, |event, definitions| {
        while let Some(asked) = crashes.next_if(|asked| asked.crash <= event.index.0) {
            follower.note(asked);
        }
        symbols.observe(event, definitions);
        effects(event, definitions, &run.selection, &profile, |effect| {
            follower.apply(event, definitions, effect, symbols);
        });
        ControlFlow::Continue(())
    })?;
    if !is_through {
        return Ok(None);
    }
    for asked in crashes {
        follower.note(asked);
    }
    Ok(Some(follower.finish()))
}

/// The event and the thread of a store.
type Tag = (u64, ThreadSlot);

/// Notes what becomes guaranteed.
#[derive(Default)]
struct StoreGuarantees {
    /// For each thread, the last of its stores that is guaranteed.
    latest: FxHashMap<ThreadSlot, u64>,
    /// For each asked store, in a line, whether it is guaranteed.
    wanted: FxHashMap<(u64, PmAddress), bool>,
    /// Stores whose bytes were replaced by other means: nothing is left to guarantee.
    replaced: FxHashSet<u64>,
}

impl PersistObserver for StoreGuarantees {
    type Store = Tag;
    type Flush = ();
    const HISTORY: bool = true;

    fn guaranteed(&mut self, line: LineRef<'_>, _: Marks<'_>, store: &LiveStore<Tag>, _: Access) {
        let (event, thread) = store.tag;
        let latest = self.latest.entry(thread).or_default();
        *latest = event.max(*latest);
        if let Some(is_guaranteed) = self.wanted.get_mut(&(event, line.address())) {
            *is_guaranteed = true;
        }
    }
}

/// An asked store, in one line.
#[derive(Clone, Copy, Debug)]
struct KnownStore {
    stack: Option<StackId>,
    thread: ThreadSlot,
    kind: StoreKind,
    flush: Option<Option<StackId>>,
}

struct Follower {
    tracker: Tracker<StoreGuarantees>,
    guarantees: StoreGuarantees,
    threads: Threads,
    profile: Profile,
    /// The last store of each thread.
    last_stores: FxHashMap<ThreadSlot, u64>,
    known: FxHashMap<(u64, PmAddress), KnownStore>,
    /// The asked stores of each line that were made.
    in_line: FxHashMap<PmAddress, Vec<u64>>,
    asked_bytes: BTreeMap<PmAddress, Vec<AskedBytes>>,
    found: FoundStores,
}

impl Follower {
    fn new(profile: Profile, asked: &BTreeSet<AskedStore>, bytes: &BTreeSet<AskedBytes>) -> Self {
        let mut guarantees = StoreGuarantees::default();
        for asked in asked {
            guarantees.wanted.insert((asked.store, asked.line), false);
        }
        let mut asked_bytes: BTreeMap<PmAddress, Vec<AskedBytes>> = BTreeMap::new();
        for &asked in bytes {
            let line = line_of(asked.at);
            asked_bytes.entry(line).or_default().push(asked);
        }
        Self {
            tracker: Tracker::new(profile),
            guarantees,
            threads: Threads::default(),
            profile,
            last_stores: FxHashMap::default(),
            known: FxHashMap::default(),
            in_line: FxHashMap::default(),
            asked_bytes,
            found: FoundStores::default(),
        }
    }

    fn apply(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        effect: Effect<'_>,
        symbols: &mut dyn Symbols,
    ) {
        let by = Access {
            thread: self.threads.of(event, || self.tracker.add_thread()),
            time: Time(event.index.0),
        };
        let mut stack = || symbols.stack(event, definitions);
        match effect {
            Effect::Fence => self.tracker.fence(&mut self.guarantees, by),
            Effect::Flush { at, effect } => {
                for store in self.in_line.get(&line_of(at)).into_iter().flatten() {
                    if let Some(known) = self.known.get_mut(&(*store, line_of(at))) {
                        known.flush = Some(stack());
                    }
                }
                let line = self.tracker.line(at);
                self.tracker
                    .flush(&mut self.guarantees, by, line, effect, ());
            }
            Effect::WriteBack { space, range } => {
                self.tracker
                    .write_back(&mut self.guarantees, by, space, range);
            }
            Effect::Store { at, bytes, kind } => {
                self.note_stored(event, at, bytes.len() as u64, &mut stack);
                self.last_stores.insert(by.thread, event.index.0);
                for (offset, mask, _) in line_parts(at.offset, bytes.len() as u64) {
                    let line = line_of(PmAddress { offset, ..at });
                    let key = (event.index.0, line);
                    if self.guarantees.wanted.contains_key(&key) {
                        let known = KnownStore {
                            stack: stack(),
                            thread: by.thread,
                            kind,
                            flush: None,
                        };
                        self.known.insert(key, known);
                        self.found.threads.insert(key.0, by.thread);
                        self.in_line.entry(line).or_default().push(key.0);
                    }
                    let slot = self.tracker.line(line);
                    let tag = (event.index.0, by.thread);
                    let guarantees = &mut self.guarantees;
                    self.tracker.store(guarantees, by, slot, mask, kind, tag);
                }
            }
            Effect::Replace { at, bytes } => {
                self.note_stored(event, at, bytes.len() as u64, &mut stack);
                let end = at.offset.saturating_add(bytes.len() as u64);
                self.discard(at.space, at.offset..end);
            }
            Effect::Remove { space, range } => self.discard(space, range),
        }
    }

    fn discard(&mut self, space: SpaceId, range: Range<u64>) {
        let replaced = &mut self.guarantees.replaced;
        self.tracker.discard(space, range, |&(event, _)| {
            replaced.insert(event);
        });
    }

    /// Notes the last store to bytes that are asked for.
    fn note_stored(
        &mut self,
        event: &Event<'_>,
        at: PmAddress,
        len: u64,
        stack: &mut dyn FnMut() -> Option<StackId>,
    ) {
        let end = at.offset.saturating_add(len);
        let last = PmAddress { offset: end, ..at };
        for asked in self
            .asked_bytes
            .range(line_of(at)..last)
            .flat_map(|(_, asked)| asked)
        {
            let asked_end = asked.at.offset + asked.len;
            let is_stored = asked.at.offset < end && at.offset < asked_end;
            if is_stored && event.index.0 < asked.before {
                self.found.last.insert(*asked, (event.index.0, stack()));
            }
        }
    }

    /// Notes what is known at the crash.
    fn note(&mut self, asked: &AskedStore) {
        let Some(known) = self.known.get(&(asked.store, asked.line)) else {
            return;
        };
        let state = match (known.kind, known.flush) {
            _ if !self.profile.needs_fences() => SourceState::NotSynced,
            (StoreKind::NonTemporal, _) | (_, Some(_)) => SourceState::NotFenced,
            _ => SourceState::NotFlushed,
        };
        let latest = self.guarantees.latest.get(&known.thread);
        let facts = StoreFacts {
            stack: known.stack,
            state,
            flush: known.flush.flatten(),
            is_late: latest.is_some_and(|&latest| latest > asked.store),
            has_later: self.last_stores[&known.thread] > asked.store,
        };
        self.found.facts.insert(*asked, facts);
    }

    fn finish(mut self) -> FoundStores {
        for (asked, facts) in &mut self.found.facts {
            let is_guaranteed = self.guarantees.wanted[&(asked.store, asked.line)];
            let is_replaced = self.guarantees.replaced.contains(&asked.store);
            facts.is_late |= !is_guaranteed && !is_replaced;
        }
        self.found
    }
}

/// The start of the line with this byte.
pub fn line_of(at: PmAddress) -> PmAddress {
    PmAddress {
        offset: at.offset - at.offset % LINE,
        ..at
    }
}
