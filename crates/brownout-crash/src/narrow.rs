//! Narrowing: which stores make the difference between an image on which recovery passes and one on which it does not.
//!
//! Between the newest image before a failure that passed and the failing one lie some stores. First the search finds the
//! last store before which recovery still passes: it tries images of prefixes of the run, backwards from the failing one
//! in ever longer steps and then by halving. From there to the failing image it finds, by delta debugging, the smallest
//! set of stores without which recovery passes: these are *present* too early. In the same way, forwards, it finds the
//! next store with which recovery passes again, and the smallest set of stores up to there that suffices: these are
//! *absent*. For a failure with a [choice](crate::Choice) it searches the absent stores among those that the image has
//! lost. Before each of these searches, the stores in question that lint names are tried: if they make the difference, no others are
//! searched. Consecutive stores of one calling context count as one. The images tried in delta debugging need not be ones
//! that a crash can leave: they only serve to point at source lines. If recovery was interrupted, its own stores are searched
//! ([`inside`]).

mod between;
mod inside;
mod search;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use brownout_report::ByteRange;
use brownout_trace::EventIndex;

use crate::cause::{Cause, Culprit};
use crate::crash_point::{Choice, common_profile};
use crate::error::CrashError;
use crate::findings::line_of;
use crate::image::{CrashImage, ImageBuilder, LostBytes, TornBytes};
use crate::operation::Operations;
use crate::persistent_files::PersistentFiles;
use crate::progress::{ProgressObserver, must_stop};
use crate::recorded_run::RecordedRun;
use crate::recovery_environment::CrashSituation;
use crate::suspect::SuspectSite;
use crate::symbols::Symbols;
use crate::trial::{Trial, passed_in_order};
use between::{Between, Change, Unit};
use brownout_names::FunctionPattern;
use brownout_recovery::RunnerPool;
use brownout_recovery::Verdict;
use inside::{FoundInside, RecoveryCulprit};
pub use inside::{InterruptedChain, interrupt};
use search::Search;

/// Recoveries that a search may run in each direction, and how many if each runs out of time.
const BUDGET: usize = 96;
const BUDGET_HUNG: usize = 16;
/// One failure to explain.
#[derive(Debug)]
struct Question {
    trial: Trial,
    /// The newest image in program order before the failure that passed; the start of the run if none did.
    good: EventIndex,
    /// The failure.
    bad: EventIndex,
    /// The next image in program order that passes; `None` if that is the one without a crash.
    next: Option<EventIndex>,
    good_image: Option<CrashImage>,
    bad_image: Option<CrashImage>,
    /// With a choice: the stores before the failure that are not in its image.
    lost: Vec<LostBytes>,
    /// What its image has of stores that are torn.
    torn: Vec<TornBytes>,
    before: Arc<Between>,
    after: Arc<Between>,
}

impl Question {
    /// Whether the stores of recovery are searched, and not those of the target.
    fn is_inside_recovery(&self) -> bool {
        !self.trial.point.interruptions.is_empty()
    }

    fn choice(&self) -> Option<&Choice> {
        self.trial.point.choice.as_ref()
    }
}

/// What a search found: numbers of units.
#[derive(Debug)]
pub struct Narrowed {
    question: usize,
    present: Vec<usize>,
    absent: Vec<usize>,
    /// If recovery was interrupted, what was found among its own stores.
    inside: Option<FoundInside>,
    tests: u64,
}

/// The stores that findings of lint name.
pub type SuspectedStores = HashSet<SuspectSite>;

/// Searches for the causes of some failures. `trials` are all trials of the test, `functions` those that perform operations.
pub fn narrow(
    run: &RecordedRun,
    files: &PersistentFiles,
    (failures, trials, suspected): (Vec<Trial>, &[Trial], &SuspectedStores),
    functions: &[FunctionPattern],
    time_limit: Duration,
    pool: &mut RunnerPool<Narrowed>,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
) -> Result<Vec<Cause>, CrashError> {
    let mut questions = ask(failures, trials);
    let trace = (run, files);
    if !collect(
        trace,
        &mut questions,
        (functions, suspected),
        symbols,
        observer,
    )? {
        return Ok(Vec::new());
    }
    let shared = Arc::new(files.clone());
    let stopped = Arc::new(AtomicBool::new(false));
    for (number, question) in questions.iter().enumerate() {
        submit(number, question, (&shared, &stopped), time_limit, pool);
    }
    let mut causes = Vec::new();
    while !pool.is_idle() && !observer.stop() {
        if let Some(narrowed) = pool.collect() {
            let narrowed = narrowed?;
            let question = &questions[narrowed.question];
            causes.push(cause(question, &narrowed, files, symbols));
            observer.explained(causes.len(), questions.len());
        }
    }
    // Searches that are running have no result any more.
    stopped.store(true, Ordering::Relaxed);
    Ok(causes)
}

fn ask(failures: Vec<Trial>, trials: &[Trial]) -> Vec<Question> {
    let passed = passed_in_order(trials);
    failures
        .into_iter()
        .map(|trial| {
            let at = passed.partition_point(|&event| event < trial.point.event);
            Question {
                good: EventIndex(at.checked_sub(1).map_or(0, |at| passed[at])),
                bad: EventIndex(trial.point.event),
                next: passed.get(at).copied().map(EventIndex),
                trial,
                good_image: None,
                bad_image: None,
                lost: Vec::new(),
                torn: Vec::new(),
                before: Arc::default(),
                after: Arc::default(),
            }
        })
        .collect()
}

/// Reads the trace for the images and stores that the questions need. Returns whether nothing stopped it.
fn collect(
    (run, files): (&RecordedRun, &PersistentFiles),
    questions: &mut [Question],
    (functions, suspected): (&[FunctionPattern], &SuspectedStores),
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
) -> Result<bool, CrashError> {
    let mut operations = Operations::new(functions);
    let last = questions
        .iter()
        .map(|question| question.next.unwrap_or(EventIndex(u64::MAX)))
        .max();
    let mut builder = ImageBuilder::new(files, &run.selection);
    let points = questions.iter().map(|question| &question.trial.point);
    if let Some(profile) = common_profile(points)? {
        builder = builder.with_states(profile);
    }
    let mut result = Ok(());
    let mut stopped = false;
    run.walk(|event, definitions| {
        observer.reading(event.index);
        symbols.observe(event, definitions);
        operations.observe(event, definitions);
        let is_suspected = suspected.contains(&SuspectSite::of(event));
        for question in &mut *questions {
            if question.good == event.index {
                question.good_image = Some(builder.image(definitions));
            }
            if question.bad == event.index {
                match question.choice() {
                    None => question.bad_image = Some(builder.image(definitions)),
                    Some(choice) => match builder.chosen(choice, event.index.0, definitions) {
                        Ok(chosen) => {
                            question.bad_image = Some(chosen.image);
                            if !question.is_inside_recovery() {
                                question.lost = chosen.lost;
                                question.torn = chosen.torn;
                            }
                        }
                        Err(error) => result = Err(error),
                    },
                }
            }
            if question.choice().is_some() || question.is_inside_recovery() {
                continue;
            }
            let before = question.good <= event.index;
            let after = question.next.is_none_or(|next| event.index < next);
            let between = if event.index >= question.bad && after {
                &mut question.after
            } else if event.index < question.bad && before {
                &mut question.before
            } else {
                continue;
            };
            // No search shares it yet.
            let Some(between) = Arc::get_mut(between) else {
                continue;
            };
            let now = (operations.now(), is_suspected);
            between.take(event, now, definitions, files, symbols);
        }
        builder.apply(event, definitions);
        stopped = must_stop(event.index, observer);
        if stopped || last.is_none_or(|last| event.index >= last) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    result?;
    if !stopped && questions.iter().any(|question| !question.lost.is_empty()) {
        stopped = !collect_lost(run, questions, suspected, symbols, observer)?;
    }
    Ok(!stopped)
}

/// Reads the trace once more for the calling contexts of lost stores. The search for what is absent then adds these stores
/// to the failing image. Returns whether nothing stopped it.
fn collect_lost(
    run: &RecordedRun,
    questions: &mut [Question],
    suspected: &SuspectedStores,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
) -> Result<bool, CrashError> {
    let stop = || observer.stop();
    run.walk_unless(stop, |event, definitions| {
        symbols.observe(event, definitions);
        for question in &mut *questions {
            let from = question
                .lost
                .partition_point(|lost| lost.event < event.index);
            let lost = question.lost[from..]
                .iter()
                .take_while(|lost| lost.event == event.index);
            let changes: Vec<Change> = lost.cloned().map(Change::from).collect();
            // The power fails when it did, with or without these stores.
            let operation = question.trial.operation.unwrap_or_default();
            // No search shares it yet.
            if let Some(after) = Arc::get_mut(&mut question.after).filter(|_| !changes.is_empty()) {
                let stack = symbols.stack(event, definitions);
                let is_suspected = suspected.contains(&SuspectSite::of(event));
                after.add(stack, (operation, is_suspected), changes);
            }
        }
        let last = questions.iter().map(|question| question.bad).max();
        if last.is_none_or(|last| event.index >= last) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

/// Lets a runner search for an answer, until `stopped` is set.
fn submit(
    number: usize,
    question: &Question,
    (files, stopped): (&Arc<PersistentFiles>, &Arc<AtomicBool>),
    time_limit: Duration,
    pool: &mut RunnerPool<Narrowed>,
) {
    let good = question.good_image.clone();
    let bad = question.bad_image.clone();
    let (before, after) = (Arc::clone(&question.before), Arc::clone(&question.after));
    let hung = question.trial.verdict == Verdict::Hung;
    let situation = CrashSituation {
        event: question.bad.0,
        operation: question.trial.operation,
        time_limit,
    };
    let interruptions = question.trial.point.interruptions.clone();
    let (files, stopped) = (Arc::clone(files), Arc::clone(stopped));
    pool.submit(move |runner| {
        let budget = if hung { BUDGET_HUNG } else { BUDGET };
        if let Some(last) = interruptions.last() {
            let mut narrowed = Narrowed {
                question: number,
                present: Vec::new(),
                absent: Vec::new(),
                inside: None,
                tests: 0,
            };
            let Some(image) = bad else {
                return Ok(narrowed);
            };
            let chain = interrupt(runner, &image, &interruptions, &situation, &files)?;
            // A recovery that does not do the same again has no cause that can be found.
            if let Ok(Some(chain)) = chain {
                let operation = situation.operation.unwrap_or_default();
                let mut search = Search::new(runner, situation, budget, &stopped);
                narrowed.inside = chain.search(&mut search, last, operation)?;
                narrowed.tests = search.tests();
            }
            return Ok(narrowed);
        }
        let mut search = Search::new(runner, situation, budget, &stopped);
        let present = good
            .filter(|_| before.is_whole())
            .map(|image| search.present(&image, &before));
        let absent = bad
            .filter(|_| after.has_stores())
            .map(|image| search.absent(&image, &after));
        Ok(Narrowed {
            question: number,
            present: present.transpose()?.unwrap_or_default(),
            absent: absent.transpose()?.unwrap_or_default(),
            inside: None,
            tests: search.tests(),
        })
    });
}

fn cause(
    question: &Question,
    narrowed: &Narrowed,
    files: &PersistentFiles,
    symbols: &mut dyn Symbols,
) -> Cause {
    if let Some(inside) = &narrowed.inside {
        let mut culprits = |found: &[RecoveryCulprit]| -> Vec<Culprit> {
            let found = found.iter();
            found
                .map(|culprit| Culprit {
                    event: culprit.changes.first().map_or(0, |change| change.event.0),
                    stack: symbols.recovery_frames(&culprit.frames),
                    ranges: ranges(changed(&culprit.changes), files),
                    persisted: ranges(persisted(&culprit.changes, &inside.torn), files),
                })
                .collect()
        };
        return Cause {
            cause_of: question.trial.point.clone(),
            present: culprits(&inside.present),
            absent: culprits(&inside.absent),
            stores: Some(inside.stores),
            lost_lines: Vec::new(),
            tests: narrowed.tests,
        };
    }
    let mut culprits = |between: &Between, chosen: &[usize]| -> Vec<Culprit> {
        chosen
            .iter()
            .map(|&unit| culprit(&between.units[unit], &question.torn, files, symbols))
            .collect()
    };
    Cause {
        cause_of: question.trial.point.clone(),
        present: culprits(&question.before, &narrowed.present),
        absent: culprits(&question.after, &narrowed.absent),
        stores: question
            .choice()
            .is_none()
            .then_some(question.before.stores as u64),
        lost_lines: lost_lines(question, symbols),
        tests: narrowed.tests,
    }
}

/// The source lines of the stores that the crash has lost.
fn lost_lines(question: &Question, symbols: &mut dyn Symbols) -> Vec<String> {
    if question.choice().is_none() {
        return Vec::new();
    }
    let stacks: HashSet<_> = question.after.units.iter().map(|unit| unit.stack).collect();
    let mut lines: Vec<String> = stacks
        .into_iter()
        .flatten()
        .map(|stack| line_of(&symbols.frames(stack)))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn culprit(
    unit: &Unit,
    torn: &[TornBytes],
    files: &PersistentFiles,
    symbols: &mut dyn Symbols,
) -> Culprit {
    Culprit {
        event: unit.changes.first().map_or(0, |change| change.event.0),
        stack: unit
            .stack
            .map_or_else(Vec::new, |stack| symbols.frames(stack)),
        ranges: ranges(changed(&unit.changes), files),
        persisted: ranges(persisted(&unit.changes, torn), files),
    }
}

/// The bytes that are changed.
fn changed(changes: &[Change]) -> impl Iterator<Item = (usize, u64, u64)> {
    let changes = changes.iter();
    changes.map(|change| (change.file, change.offset, change.bytes.len() as u64))
}

/// What is there of stores that are torn, of those that make these changes.
fn persisted(changes: &[Change], torn: &[TornBytes]) -> impl Iterator<Item = (usize, u64, u64)> {
    let is_of_these = |torn: &&TornBytes| changes.iter().any(|change| change.event == torn.event);
    let torn = torn.iter().filter(is_of_these);
    torn.map(|torn| (torn.file, torn.offset, torn.len))
}

/// Bytes of files, by file number, offset and length, with adjacent ranges joined.
fn ranges(
    bytes: impl Iterator<Item = (usize, u64, u64)>,
    files: &PersistentFiles,
) -> Vec<ByteRange> {
    let mut by_file: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    for (file, offset, len) in bytes {
        let ranges = by_file.entry(file).or_default();
        ranges.push((offset, offset + len));
    }
    let mut joined = Vec::new();
    let mut numbers: Vec<usize> = by_file.keys().copied().collect();
    numbers.sort_unstable();
    for number in numbers {
        let mut ranges = by_file.remove(&number).unwrap_or_default();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        let file = files.paths()[number].to_string_lossy().into_owned();
        joined.extend(ranges.into_iter().map(|(offset, end)| ByteRange {
            file: file.clone(),
            offset,
            len: end - offset,
        }));
    }
    joined
}
