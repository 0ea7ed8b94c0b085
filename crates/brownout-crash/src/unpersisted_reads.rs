//! `unpersisted-read`: loads of recovery that can read from several stores, of which one is late (Jaaru, ASPLOS'21, §4, "Debugging
//! support").
//!
//! A deviation from Jaaru, which flags every load that can read from several stores: a store in flight is what each commit store is for a
//! moment, and is not reported. A store is late if [`store_facts`] says so, or if recovery also reads a later store of the same
//! thread, which a crash can keep without it. To find the load, recovery runs once more after a crash that loses the store.
//!
//! Can miss: reads other than by loads, and what recovery does only after crashes that were not explored. Never reports a store
//! that was durable at the crash, or a load that always reads the same bytes.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use brownout_model::{Profile, ReadSource};
use brownout_recovery::RunnerPool;
use brownout_report::{ByteRange, Evidence, Finding, FindingId, Frame, SourceState, Sources};

use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::explained_read::{ExplainedRead, ExplainedSource, STORE, settled_source};
use crate::explanation::{HUNG_PART, earliest_store};
use crate::failure_point::StackId;
use crate::findings::{line_of as source_line, stack};
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;
use crate::possible_reads::{FoundLoad, PossibleRead, PossibleReads, ReadExaminer};
use crate::progress::ProgressObserver;
use crate::recorded_run::RecordedRun;
use crate::recovery_loads::{LoadsRun, ObservedCrash, observe_loads};
use crate::rules::UNPERSISTED_READ;
use crate::several_stores::SourcedRead;
use crate::store_facts::{AskedBytes, AskedStore, FoundStores, StoreFacts, line_of, store_facts};
use crate::symbols::Symbols;
use crate::token::Token;

/// What was found.
#[derive(Debug, Default)]
pub struct UnpersistedReads {
    pub findings: Vec<Finding>,
    /// Whether all reads were looked at.
    pub is_complete: bool,
}

/// Finds the loads that read late stores, with a finding for each pair. `token` gives the token of a crash.
pub fn unpersisted_reads(
    run: &RecordedRun,
    (files, profile): (&PersistentFiles, Profile),
    possible: &PossibleReads,
    time_limit: Duration,
    pool: &mut RunnerPool<LoadsRun>,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
    token: impl Fn(&CrashPoint, Option<Operation>) -> Token,
) -> Result<UnpersistedReads, CrashError> {
    let asked = possible.reads.iter().flat_map(PossibleRead::stores);
    let bytes = possible.reads.iter().map(PossibleRead::asked_bytes);
    let (asked, bytes) = (asked.collect(), bytes.collect());
    let facts = store_facts(run, profile, &asked, &bytes, symbols, || observer.stop())?;
    let Some(facts) = facts else {
        return Ok(UnpersistedReads::default());
    };
    let mut reads: Vec<&PossibleRead> = possible.reads.iter().collect();
    reads.retain(|read| read.is_reported(&facts));
    // A run shows the loads of all reads on its way, so the longest ways come first.
    reads.sort_by_key(|read| std::cmp::Reverse(read.number));
    let crashes: Vec<ObservedCrash> = reads
        .iter()
        .map(|read| ObservedCrash {
            point: read.point.clone(),
            operation: read.operation,
            // It may loop on what it reads.
            time_limit: time_limit / HUNG_PART,
        })
        .collect();
    let mut examiner = ReadExaminer::new(possible, &reads);
    let is_through = observe_loads(
        run,
        (files, profile),
        &crashes,
        &mut examiner,
        pool,
        observer,
    )?;
    let is_complete = is_through && examiner.waiting.is_empty();
    let mut pairs = FoundPairs::default();
    for load in examiner.found {
        let FoundLoad {
            read,
            stack,
            sourced,
        } = load;
        let late: Vec<_> = read
            .reported(&facts)
            .filter(|(store, known)| {
                known.is_late || read.sees_later(store.store, &sourced, &facts)
            })
            .map(|(store, known)| (store, *known))
            .collect();
        if !stack.is_empty() && !late.is_empty() {
            let load = symbols.recovery_frames(&stack);
            let token = token(&read.point, read.operation);
            read.findings((&load, &late), &facts, files, symbols, &token, &mut pairs);
        }
    }
    Ok(UnpersistedReads {
        findings: pairs.findings,
        is_complete,
    })
}

/// The findings so far: one for each pair of a store and a load.
#[derive(Default)]
struct FoundPairs {
    findings: Vec<Finding>,
    numbers: HashMap<FindingId, usize>,
    sources: Option<Sources>,
}

impl FoundPairs {
    fn add(&mut self, mut finding: Finding) {
        let sources = self.sources.get_or_insert_with(Sources::on_disk);
        finding.identify(sources);
        match self.numbers.get(&finding.id) {
            Some(&number) => self.findings[number].count += 1,
            None => {
                self.numbers.insert(finding.id.clone(), self.findings.len());
                self.findings.push(finding);
            }
        }
    }
}

impl PossibleRead {
    /// The stores that the load can read, newest first. The last one of its sources is what is read if all others are lost.
    fn stores(&self) -> impl Iterator<Item = AskedStore> {
        let sources = self.sources.iter().rev();
        sources.filter_map(|source| match source {
            ReadSource::Settled => None,
            ReadSource::Store { issued, .. } => Some(AskedStore {
                crash: self.crash.before.0,
                store: issued.0,
                line: line_of(self.at),
            }),
        })
    }

    /// Whether a store is what is read if all others are lost.
    fn is_oldest(&self, store: &AskedStore) -> bool {
        matches!(self.sources.first(), Some(ReadSource::Store { issued, .. }) if issued.0 == store.store)
    }

    fn asked_bytes(&self) -> AskedBytes {
        AskedBytes {
            at: self.at,
            len: self.read.len,
            before: earliest_store(&self.sources).unwrap_or(u64::MAX),
        }
    }

    /// The stores that the crash can lose, as far as they are known.
    fn reported<'f>(
        &self,
        found: &'f FoundStores,
    ) -> impl Iterator<Item = (AskedStore, &'f StoreFacts)> {
        let losable = self.stores().filter(|store| !self.is_oldest(store));
        losable.filter_map(|store| {
            let facts = found.facts.get(&store)?;
            Some((store, facts))
        })
    }

    /// Whether recovery reads a later store of the same thread, too: it has seen one, or can see one after it.
    fn sees_later(&self, store: u64, reads: &[SourcedRead], found: &FoundStores) -> bool {
        let is_later = |source: &ReadSource| match source {
            ReadSource::Settled => false,
            ReadSource::Store { issued, .. } => {
                let threads = [store, issued.0].map(|event| found.threads.get(&event));
                issued.0 > store && threads[0].is_some() && threads[0] == threads[1]
            }
        };
        reads
            .iter()
            .any(|other| match other.position.cmp(&self.number) {
                Ordering::Less => other.seen.iter().all(is_later),
                Ordering::Equal => false,
                Ordering::Greater => other.sources.iter().any(is_later),
            })
    }

    /// Whether one of them may have to be reported.
    fn is_reported(&self, found: &FoundStores) -> bool {
        let mut reported = self.reported(found);
        reported.any(|(_, facts)| facts.is_late || facts.has_later)
    }

    /// What is read if all stores are lost that can be.
    fn oldest(&self, found: &FoundStores, symbols: &mut dyn Symbols) -> ExplainedSource {
        let store = self.stores().find(|store| self.is_oldest(store));
        let known = store.and_then(|store| Some((store, *found.facts.get(&store)?)));
        match known {
            Some((store, facts)) => source(store, facts, true, symbols),
            None => {
                let last = found.last.get(&self.asked_bytes());
                settled_source(last.copied(), true, symbols)
            }
        }
    }

    /// Adds a finding for each late store that the load can read.
    fn findings(
        &self,
        (load, late): (&[Frame], &[(AskedStore, StoreFacts)]),
        found: &FoundStores,
        files: &PersistentFiles,
        symbols: &mut dyn Symbols,
        token: &Token,
        out: &mut FoundPairs,
    ) {
        let range = ByteRange {
            file: files.paths()[self.read.file].to_string_lossy().into_owned(),
            offset: self.read.offset,
            len: self.read.len,
        };
        for &(store, facts) in late {
            let lost = source(store, facts, false, symbols);
            let message = format!(
                "recovery reads this store at {}, and a crash can lose it: {}",
                short_line(load),
                missing(facts.state)
            );
            let mut stacks = vec![stack(STORE, &lost.store)];
            let oldest = self.oldest(found, symbols);
            let explained = ExplainedRead {
                load: load.to_vec(),
                range: range.clone(),
                more_bytes: 0,
                more_sources: self.sources.len().saturating_sub(2) as u64,
                sources: vec![lost, oldest],
            };
            let evidence = Evidence {
                ranges: vec![range.clone()],
                events: vec![store.store],
                open_reads: vec![explained.as_open_read(&mut stacks)],
                ..Evidence::default()
            };
            let mut finding = Finding::new(&UNPERSISTED_READ, message, stacks, evidence);
            finding.replay = Some(token.to_string());
            out.add(finding);
        }
    }
}

/// A store that a read can see.
fn source(
    store: AskedStore,
    facts: StoreFacts,
    read: bool,
    symbols: &mut dyn Symbols,
) -> ExplainedSource {
    let mut frames = |stack: Option<StackId>| -> Vec<Frame> {
        stack.map_or_else(Vec::new, |stack| symbols.frames(stack))
    };
    ExplainedSource {
        event: Some(store.store),
        store: frames(facts.stack),
        read,
        state: facts.state,
        flush: frames(facts.flush),
    }
}

/// The source line without directories.
fn short_line(frames: &[Frame]) -> String {
    let line = source_line(frames);
    line.rsplit('/').next().unwrap_or(&line).to_owned()
}

/// What is missing.
fn missing(state: SourceState) -> &'static str {
    match state {
        SourceState::NotFenced => "it is not fenced in time",
        SourceState::NotSynced => "it is not synced in time",
        _ => "it is not flushed in time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use brownout_model::{CrashTime, PmAddress, StoreHistoryBuilder, Tearing, Time};
    use brownout_recovery::FirstRead;

    use crate::possible_reads::PathDigest;

    fn store(issued: u64) -> ReadSource {
        ReadSource::Store {
            run: 0,
            issued: Time(issued),
        }
    }

    /// A read at a position, and what it saw of what it could have seen.
    fn read(position: usize, sources: &[ReadSource], seen: ReadSource) -> SourcedRead {
        SourcedRead {
            number: position,
            position,
            read: FirstRead {
                file: 0,
                offset: 64 * position as u64,
                len: 8,
            },
            at: PmAddress::default(),
            sources: sources.iter().copied().collect(),
            seen: BTreeSet::from([seen]),
        }
    }

    fn possible(number: usize, sources: &[ReadSource]) -> PossibleRead {
        let crash = CrashTime {
            before: Time(9),
            states_log10: 0.0,
        };
        PossibleRead {
            point: CrashPoint::program_order(9),
            operation: None,
            crash,
            number,
            path: PathDigest::default(),
            read: read(number, sources, sources[0]).read,
            at: PmAddress::default(),
            sources: sources.iter().copied().collect(),
        }
    }

    /// Stores 1 to 4 of one thread and store 5 of another one.
    fn found() -> FoundStores {
        let mut history = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
        let [one, other] = [history.add_thread(), history.add_thread()];
        let mut found = FoundStores::default();
        found.threads.extend((1..=4).map(|event| (event, one)));
        found.threads.insert(5, other);
        found
    }

    #[test]
    fn a_store_is_late_if_recovery_has_seen_a_later_one_of_its_thread() {
        let data = [ReadSource::Settled, store(2)];
        let possible = possible(1, &data);
        let after = |flag: u64, seen: ReadSource| {
            let flag = read(0, &[ReadSource::Settled, store(flag)], seen);
            possible.sees_later(2, &[flag, read(1, &data, data[0])], &found())
        };
        assert!(after(3, store(3)));
        assert!(!after(3, ReadSource::Settled), "the later one was not seen");
        assert!(!after(1, store(1)), "it is an earlier one");
        assert!(!after(5, store(5)), "it is another thread's");
    }

    #[test]
    fn a_store_is_late_if_recovery_can_see_a_later_one_afterwards() {
        let data = [ReadSource::Settled, store(2)];
        let possible = possible(0, &data);
        let before = |sources: &[ReadSource]| {
            let reads = [read(0, &data, data[0]), read(1, sources, sources[0])];
            possible.sees_later(2, &reads, &found())
        };
        assert!(before(&[ReadSource::Settled, store(3)]));
        assert!(!before(&[ReadSource::Settled, store(1)]));
    }

    #[test]
    fn what_is_read_without_all_others_is_not_reported() {
        let mut found = found();
        let read = possible(0, &[store(1), store(2)]);
        for asked in read.stores() {
            let facts = StoreFacts {
                stack: None,
                state: SourceState::NotFlushed,
                flush: None,
                is_late: true,
                has_later: true,
            };
            found.facts.insert(asked, facts);
        }
        let reported: Vec<u64> = read
            .reported(&found)
            .map(|(store, _)| store.store)
            .collect();
        assert_eq!(reported, [2]);
    }
}
