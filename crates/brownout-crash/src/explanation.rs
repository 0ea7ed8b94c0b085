//! Explains a failed recovery by what it has read: the loads that could see several stores, which of the stores they saw, and which
//! flush or fence is missing (Jaaru, ASPLOS'21, §4, "Debugging support").
//!
//! Recovery runs once more on the failing image, under the engine, and its first reads are followed with the model
//! ([`several_stores`]). Shown are a few reads: those first that saw an older store than they could have, and then those next to
//! the failure.
//!
//! Can miss: failures that do not happen under the engine.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use brownout_model::{
    CrashTime, PossibleMemory, Profile, ReadSource, StoreHistory, StoreHistoryBuilder, Tearing,
    Time,
};
use brownout_recovery::{ByteRanges, RawFrame, RunnerPool, Verdict};
use brownout_report::{ByteRange, Frame, SourceState};
use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use crate::effect::effects;
use crate::error::CrashError;
use crate::explained_read::{ExplainedRead, ExplainedSource, Explanation, settled_source};
use crate::history_follower::{HistoryFollower, InitialContents};
use crate::persistent_files::PersistentFiles;
use crate::progress::ProgressObserver;
use crate::recorded_run::RecordedRun;
use crate::recovery_loads::{LoadExaminer, LoadsRun, ObservedCrash, ObservedLoads, observe_loads};
use crate::several_stores::{SourcedRead, several_stores};
use crate::store_facts::{AskedBytes, AskedStore, FoundStores, line_of, store_facts};
use crate::symbols::Symbols;
use crate::trial::Trial;

/// Reads and sources that are shown.
const MOST_READS: usize = 4;
const MOST_SOURCES: usize = 4;
/// A recovery that may not end is observed for this part of the usual time: it does nothing new any more.
pub(crate) const HUNG_PART: u32 = 4;

/// Explains failures, as far as they happen under the engine.
pub fn explain(
    run: &RecordedRun,
    (files, profile): (&PersistentFiles, Profile),
    failures: &[&Trial],
    time_limit: Duration,
    pool: &mut RunnerPool<LoadsRun>,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
) -> Result<Vec<Explanation>, CrashError> {
    let last = failures.iter().map(|trial| trial.point.event).max();
    let Some(last) = last else {
        return Ok(Vec::new());
    };
    let choices = failures
        .iter()
        .filter_map(|trial| trial.point.choice.as_ref());
    // A test has one tearing.
    let tearing = choices.map(|choice| choice.tearing).next();
    let tearing = tearing.unwrap_or(Tearing::Whole);
    let followed = FollowedStores::until(last, run, files, (profile, tearing), observer)?;
    let Some(stores) = followed else {
        return Ok(Vec::new());
    };
    let crashes: Vec<ObservedCrash> = failures
        .iter()
        .map(|trial| ObservedCrash {
            point: trial.point.clone(),
            operation: trial.operation,
            time_limit: match trial.verdict {
                Verdict::Hung => time_limit / HUNG_PART,
                _ => time_limit,
            },
        })
        .collect();
    let mut examiner = FailureExaminer {
        stores,
        failures,
        found: Vec::new(),
    };
    observe_loads(
        run,
        (files, profile),
        &crashes,
        &mut examiner,
        pool,
        observer,
    )?;
    let found = examiner.found;
    let (mut asked, mut bytes) = (BTreeSet::new(), BTreeSet::new());
    for (number, loads, _) in &found {
        for load in loads {
            load.ask(failures[*number].point.event, &mut asked, &mut bytes);
        }
    }
    // What was observed is worth one more pass, even if the time is over.
    let facts = store_facts(run, profile, &asked, &bytes, symbols, || {
        observer.interrupted()
    })?;
    let Some(facts) = facts else {
        return Ok(Vec::new());
    };
    let explanations = found.iter().map(|(number, loads, more)| {
        let point = &failures[*number].point;
        let reads = loads.iter();
        Explanation {
            explains: point.clone(),
            reads: reads
                .map(|load| load.explained(point.event, &facts, files, symbols))
                .collect(),
            more: *more,
        }
    });
    Ok(explanations.collect())
}

/// Finds the loads to show of each failure.
struct FailureExaminer<'t> {
    stores: FollowedStores,
    failures: &'t [&'t Trial],
    /// For failures, by number, the loads to show and how many others there are.
    found: Vec<(usize, Vec<LoadOfStores>, u64)>,
}

impl LoadExaminer for FailureExaminer<'_> {
    /// The bytes at each path that were stored to.
    fn wanted(&self, holders: &[Option<FileId>]) -> Vec<ByteRanges> {
        let of_holder = |holder: &Option<FileId>| {
            let stored = holder.and_then(|file| self.stores.differing.get(&file));
            stored.cloned().unwrap_or_else(ByteRanges::exact)
        };
        holders.iter().map(of_holder).collect()
    }

    fn take(&mut self, number: usize, observed: ObservedLoads) {
        if observed.verdict.passed() {
            return;
        }
        let mut memory = self.stores.memory(self.failures[number].point.event);
        let reads = several_stores(&mut memory, &observed.holders, observed.reads());
        let (shown, more) = most_telling(by_load(reads, &observed));
        if !shown.is_empty() {
            self.found.push((number, shown, more));
        }
    }
}

/// All stores of a run up to an event.
struct FollowedStores {
    history: Arc<StoreHistory>,
    initial: Arc<InitialContents>,
    differing: FxHashMap<FileId, ByteRanges>,
}

impl FollowedStores {
    /// `None` if the observer stops it.
    fn until(
        last: u64,
        run: &RecordedRun,
        files: &PersistentFiles,
        (profile, tearing): (Profile, Tearing),
        observer: &mut dyn ProgressObserver,
    ) -> Result<Option<Self>, CrashError> {
        let history = StoreHistoryBuilder::new(profile, tearing);
        let mut follower = HistoryFollower::new(history, files);
        follower.changes.begin_exploring();
        let stop = || observer.stop();
        let is_through = run.walk_unless(stop, |event, definitions| {
            if event.index.0 >= last {
                return ControlFlow::Break(());
            }
            effects(event, definitions, &run.selection, &profile, |effect| {
                follower.apply(event, effect);
            });
            follower.observe_content(event);
            ControlFlow::Continue(())
        })?;
        Ok(is_through.then(|| Self {
            history: Arc::new(follower.history.finish()),
            initial: Arc::new(InitialContents::of(files)),
            differing: follower.changes.differing(None, profile.unit),
        }))
    }

    /// All memory that a crash before an event can leave.
    fn memory(&self, event: u64) -> PossibleMemory {
        let time = CrashTime {
            before: Time(event),
            states_log10: 0.0,
        };
        let initial = Arc::clone(&self.initial);
        PossibleMemory::new(initial, Arc::clone(&self.history), time)
    }
}

/// What one load has read from the same stores.
#[derive(Debug)]
struct LoadOfStores {
    stack: Vec<RawFrame>,
    first: SourcedRead,
    /// The number of its last read.
    last: usize,
    more_bytes: u64,
}

/// Puts together what one load has read from the same stores.
fn by_load(reads: Vec<SourcedRead>, observed: &ObservedLoads) -> Vec<LoadOfStores> {
    let mut loads: Vec<LoadOfStores> = Vec::new();
    for read in reads {
        let stack = &observed.loads[read.number].stack;
        let known = loads.iter_mut().find(|load| {
            load.stack == *stack
                && load.first.read.file == read.read.file
                && load.first.sources == read.sources
                && load.first.seen == read.seen
        });
        match known {
            Some(load) => {
                load.more_bytes += read.read.len;
                load.last = read.number;
            }
            None => loads.push(LoadOfStores {
                stack: stack.clone(),
                last: read.number,
                first: read,
                more_bytes: 0,
            }),
        }
    }
    loads
}

/// The loads to show, in order, and how many others there are.
fn most_telling(mut loads: Vec<LoadOfStores>) -> (Vec<LoadOfStores>, u64) {
    // Next to the failure first, but after those that saw an older store than they could have.
    loads.sort_by_key(|load| std::cmp::Reverse((load.saw_older(), load.last)));
    let more = loads.len().saturating_sub(MOST_READS) as u64;
    loads.truncate(MOST_READS);
    loads.sort_by_key(|load| load.first.number);
    (loads, more)
}

impl LoadOfStores {
    /// Whether the newest store that it could see is not what it saw.
    fn saw_older(&self) -> bool {
        let newest = self.first.sources.last();
        newest.is_some_and(|newest| !self.first.seen.contains(newest))
    }

    /// The sources to show, newest first: those that were seen, and the newest others.
    fn shown(&self) -> Vec<ReadSource> {
        let mut sources: Vec<ReadSource> = self.first.sources.iter().rev().copied().collect();
        sources.sort_by_key(|source| !self.first.seen.contains(source));
        sources.truncate(MOST_SOURCES);
        sources.sort_by(|a, b| b.cmp(a));
        sources
    }

    fn asked_store(&self, crash: u64, issued: Time) -> AskedStore {
        AskedStore {
            crash,
            store: issued.0,
            line: line_of(self.first.at),
        }
    }

    /// The bytes whose last store before the ones that can be lost is wanted.
    fn asked_bytes(&self) -> AskedBytes {
        let SourcedRead {
            at, read, sources, ..
        } = &self.first;
        AskedBytes {
            at: *at,
            len: read.len,
            before: earliest_store(sources).unwrap_or(u64::MAX),
        }
    }

    fn ask(&self, crash: u64, stores: &mut BTreeSet<AskedStore>, bytes: &mut BTreeSet<AskedBytes>) {
        for source in self.shown() {
            match source {
                ReadSource::Settled => {
                    bytes.insert(self.asked_bytes());
                }
                ReadSource::Store { issued, .. } => {
                    stores.insert(self.asked_store(crash, issued));
                }
            }
        }
    }

    fn explained(
        &self,
        crash: u64,
        found: &FoundStores,
        files: &PersistentFiles,
        symbols: &mut dyn Symbols,
    ) -> ExplainedRead {
        let SourcedRead {
            read,
            sources,
            seen,
            ..
        } = &self.first;
        let shown = self.shown();
        let more_sources = (sources.len() - shown.len()) as u64;
        let explained = shown.into_iter().map(|source| {
            let read = seen.contains(&source);
            match source {
                ReadSource::Settled => {
                    let last = found.last.get(&self.asked_bytes());
                    settled_source(last.copied(), read, symbols)
                }
                ReadSource::Store { issued, .. } => {
                    let facts = found.facts.get(&self.asked_store(crash, issued));
                    let mut frames = |stack| -> Vec<Frame> {
                        let known: Option<_> = stack;
                        known.map_or_else(Vec::new, |stack| symbols.frames(stack))
                    };
                    ExplainedSource {
                        event: Some(issued.0),
                        store: frames(facts.and_then(|facts| facts.stack)),
                        read,
                        state: facts.map_or(SourceState::NotFlushed, |facts| facts.state),
                        flush: frames(facts.and_then(|facts| facts.flush)),
                    }
                }
            }
        });
        let sources = explained.collect();
        ExplainedRead {
            load: symbols.recovery_frames(&self.stack),
            range: ByteRange {
                file: files.paths()[read.file].to_string_lossy().into_owned(),
                offset: read.offset,
                len: read.len,
            },
            more_bytes: self.more_bytes,
            sources,
            more_sources,
        }
    }
}

/// When the first of the stores that a crash can lose was issued.
pub(crate) fn earliest_store(sources: &BTreeSet<ReadSource>) -> Option<u64> {
    let issued = sources.iter().filter_map(|source| match source {
        ReadSource::Settled => None,
        ReadSource::Store { issued, .. } => Some(issued.0),
    });
    issued.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_model::PmAddress;
    use brownout_recovery::FirstRead;

    fn store(issued: u64) -> ReadSource {
        ReadSource::Store {
            run: 0,
            issued: Time(issued),
        }
    }

    fn load(number: usize, sources: &[ReadSource], seen: ReadSource) -> LoadOfStores {
        let read = FirstRead {
            file: 0,
            offset: 8 * number as u64,
            len: 8,
        };
        LoadOfStores {
            stack: Vec::new(),
            first: SourcedRead {
                number,
                position: number,
                read,
                at: PmAddress::default(),
                sources: sources.iter().copied().collect(),
                seen: BTreeSet::from([seen]),
            },
            last: number,
            more_bytes: 0,
        }
    }

    #[test]
    fn older_stores_and_then_the_end_of_the_path_are_shown() {
        let both = [ReadSource::Settled, store(3)];
        let mut loads: Vec<LoadOfStores> =
            (0..9).map(|number| load(number, &both, both[1])).collect();
        loads[1] = load(1, &both, both[0]);
        let (shown, more) = most_telling(loads);
        let numbers: Vec<usize> = shown.iter().map(|load| load.first.number).collect();
        assert_eq!((numbers, more), (vec![1, 6, 7, 8], 5));
    }

    #[test]
    fn of_many_stores_the_one_that_was_seen_is_shown() {
        let sources: Vec<ReadSource> = (1..=9).map(store).collect();
        let shown = load(0, &sources, store(2)).shown();
        assert_eq!(shown, [store(9), store(8), store(7), store(2)]);
    }

    #[test]
    fn reads_of_one_load_from_the_same_stores_are_one() {
        let observed = ObservedLoads {
            verdict: Verdict::Failed(1),
            holders: vec![Some(FileId(0))],
            loads: (0..3)
                .map(|number| crate::recovery_loads::ObservedLoad {
                    read: load(number, &[store(1)], store(1)).first.read,
                    bytes: vec![0; 8],
                    stack: Vec::new(),
                })
                .collect(),
        };
        let both = [ReadSource::Settled, store(3)];
        let reads = vec![
            load(0, &both, both[0]).first,
            load(1, &both, both[0]).first,
            load(2, &both, both[1]).first,
        ];
        let loads = by_load(reads, &observed);
        let seen: Vec<(usize, u64)> = loads
            .iter()
            .map(|load| (load.last, load.more_bytes))
            .collect();
        assert_eq!(seen, [(1, 8), (2, 0)]);
    }
}
