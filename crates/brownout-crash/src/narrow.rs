//! Which stores make the difference between an image on which recovery passes and one on which it does not.
//!
//! Between the newest image before a failure that passed and the failing one lie some stores. The smallest part of them
//! without which recovery passes is *present* too early. Between the failing image and the next one that passes lie
//! others; the smallest part of them with which recovery passes is *absent*. Both are found by delta debugging
//! over groups of stores that one place in the program made in a row. Images tried on the way need not be ones that a
//! crash can leave: they only serve to point at source lines.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use brownout_report::ByteRange;
use brownout_trace::replay::Content;
use brownout_trace::{Address, Definitions, Event, EventIndex, EventKind};

use crate::bench::{Bench, BenchError, Circumstances};
use crate::campaign::{CrashError, Run, Symbols, Watcher};
use crate::cause::{Cause, Culprit};
use crate::failure_point::StackId;
use crate::image::{CrashImage, ImageBuilder, PersistentFiles};
use crate::minimize::minimize;
use crate::pool::Pool;
use crate::trial::Trial;
use crate::verdict::Verdict;

/// Recoveries that a search may take in each direction, and how many if each runs into its time limit.
const BUDGET: usize = 96;
const BUDGET_HUNG: usize = 16;
/// Stores that are kept in memory for one search in one direction; with more there is no search.
const MOST_STORES: usize = 1 << 18;
/// More places than this point at nothing.
const MOST_CULPRITS: usize = 6;
const GLANCE: Duration = Duration::from_millis(50);

/// Stores of one place in the program, in a row.
#[derive(Clone, Debug)]
struct Unit {
    stack: Option<StackId>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Change {
    event: EventIndex,
    /// Number of the file.
    file: usize,
    offset: u64,
    bytes: Vec<u8>,
}

/// The stores between two images.
#[derive(Clone, Debug, Default)]
struct Between {
    units: Vec<Unit>,
    stores: usize,
    /// A file came, went or changed its length, or there were too many stores.
    untold: bool,
}

/// One failure to be explained.
#[derive(Debug)]
struct Question {
    trial: Trial,
    /// The newest image before that passed.
    good: Option<EventIndex>,
    bad: EventIndex,
    /// The next image that passes; the end if it is the uncrashed one.
    next: Option<EventIndex>,
    good_image: Option<CrashImage>,
    bad_image: Option<CrashImage>,
    before: Between,
    after: Between,
}

/// What a search found: numbers of units.
#[derive(Debug)]
pub struct Narrowed {
    question: usize,
    present: Vec<usize>,
    absent: Vec<usize>,
    tests: u64,
}

/// Looks for the causes of some failures. `trials` are all that were made.
pub fn narrow(
    run: &Run,
    files: &PersistentFiles,
    (failures, trials): (Vec<Trial>, &[Trial]),
    time_limit: Duration,
    pool: &mut Pool<Narrowed>,
    symbols: &mut impl Symbols,
    watcher: &mut impl Watcher,
) -> Result<Vec<Cause>, CrashError> {
    let mut questions = ask(failures, trials);
    collect(run, files, &mut questions, symbols, watcher)?;
    for (number, question) in questions.iter().enumerate() {
        submit(number, question, time_limit, pool);
    }
    let mut causes = Vec::new();
    while !pool.is_idle() && !watcher.stop() {
        if let Some(narrowed) = pool.collect(GLANCE) {
            let narrowed = narrowed?;
            let question = &questions[narrowed.question];
            causes.extend(cause(question, &narrowed, files, symbols));
        }
    }
    Ok(causes)
}

fn ask(failures: Vec<Trial>, trials: &[Trial]) -> Vec<Question> {
    let mut passed: Vec<u64> = trials
        .iter()
        .filter(|trial| trial.verdict.passed())
        .map(|trial| trial.event)
        .collect();
    passed.sort_unstable();
    failures
        .into_iter()
        .map(|trial| {
            let place = passed.partition_point(|&event| event < trial.event);
            Question {
                good: place.checked_sub(1).map(|at| EventIndex(passed[at])),
                bad: EventIndex(trial.event),
                next: passed.get(place).copied().map(EventIndex),
                trial,
                good_image: None,
                bad_image: None,
                before: Between::default(),
                after: Between::default(),
            }
        })
        .collect()
}

/// Reads the trace for the images and stores that the questions are about.
fn collect(
    run: &Run,
    files: &PersistentFiles,
    questions: &mut [Question],
    symbols: &mut impl Symbols,
    watcher: &mut impl Watcher,
) -> Result<(), CrashError> {
    let last = questions
        .iter()
        .map(|question| question.next.unwrap_or(EventIndex(u64::MAX)))
        .max();
    let mut builder = ImageBuilder::new(files, &run.selection);
    run.walk(|event, definitions| {
        watcher.reading("collecting stores", event.index);
        symbols.observe(event);
        for question in &mut *questions {
            if question.good == Some(event.index) {
                question.good_image = Some(builder.image(definitions));
            }
            if question.bad == event.index {
                question.bad_image = Some(builder.image(definitions));
            }
            let before = question.good.is_some_and(|good| good <= event.index);
            let after = question.next.is_none_or(|next| event.index < next);
            let between = if event.index >= question.bad && after {
                &mut question.after
            } else if event.index < question.bad && before {
                &mut question.before
            } else {
                continue;
            };
            between.take(event, definitions, files, symbols);
        }
        builder.apply(event, definitions);
        if last.is_none_or(|last| event.index >= last) || watcher.stop() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(())
}

impl Between {
    fn take(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        files: &PersistentFiles,
        symbols: &mut impl Symbols,
    ) {
        if self.untold {
            return;
        }
        let changes = match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                stored(event, addr, bytes, definitions, files)
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let known = definitions.file(file);
                let place = known.and_then(|known| files.place_of(&known.path));
                let change = place.map(|file| Change {
                    event: event.index,
                    file,
                    offset,
                    bytes: bytes.to_vec(),
                });
                change.into_iter().collect()
            }
            EventKind::FileResize { file, .. } | EventKind::Content { file, .. } => {
                let known = definitions.file(file);
                self.untold |= known.is_some_and(|known| files.place_of(&known.path).is_some());
                return;
            }
            _ => return,
        };
        if changes.is_empty() {
            return;
        }
        self.stores += 1;
        self.untold |= self.stores > MOST_STORES;
        let stack = symbols.stack(event, definitions);
        match self.units.last_mut() {
            Some(unit) if unit.stack == stack => unit.changes.extend(changes),
            _ => self.units.push(Unit { stack, changes }),
        }
    }

    fn can_be_searched(&self) -> bool {
        !self.untold && !self.units.is_empty()
    }
}

/// A store in terms of files; it may reach over the end of a mapping.
fn stored(
    event: &Event<'_>,
    addr: Address,
    bytes: &[u8],
    definitions: &Definitions,
    files: &PersistentFiles,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let Some(process) = definitions.process(event.process) else {
        return changes;
    };
    let (mut addr, mut rest) = (addr, bytes);
    while let Some(range) = process.address_space().resolve(addr, rest.len() as u64) {
        let (now, later) = rest.split_at(range.len as usize);
        let known = definitions.file(range.file);
        if let Some(file) = known.and_then(|known| files.place_of(&known.path)) {
            changes.push(Change {
                event: event.index,
                file,
                offset: range.offset,
                bytes: now.to_vec(),
            });
        }
        if later.is_empty() {
            break;
        }
        addr = Address(addr.0.wrapping_add(range.len));
        rest = later;
    }
    changes
}

fn submit(number: usize, question: &Question, time_limit: Duration, pool: &mut Pool<Narrowed>) {
    let good = question.good_image.clone();
    let good = good.filter(|_| question.before.can_be_searched());
    let bad = question.bad_image.clone();
    let bad = bad.filter(|_| question.after.can_be_searched());
    let (before, after) = (question.before.units.clone(), question.after.units.clone());
    let hung = question.trial.verdict == Verdict::Hung;
    let budget = if hung { BUDGET_HUNG } else { BUDGET };
    let circumstances = Circumstances {
        event: question.bad.0,
        operation: question.trial.operation,
        time_limit,
    };
    pool.submit(move |bench| {
        let mut tests = 0;
        // Without some of the stores that came before, and of several answers the one about the newest…
        let newest = before.len().saturating_sub(1);
        let present = good.map(|base| {
            let found = search(&before, budget, &mut tests, bench, &circumstances, |part| {
                let kept = (0..before.len()).filter(|unit| !part.contains(&(newest - unit)));
                with_units(&base, &before, kept)
            });
            found.map(|part| part.into_iter().rev().map(|unit| newest - unit).collect())
        });
        // …and with some of those that came after.
        let absent = bad.map(|base| {
            search(&after, budget, &mut tests, bench, &circumstances, |part| {
                with_units(&base, &after, part.iter().copied())
            })
        });
        Ok(Narrowed {
            question: number,
            present: present.transpose()?.unwrap_or_default(),
            absent: absent.transpose()?.unwrap_or_default(),
            tests,
        })
    });
}

/// The smallest part of `units` for which recovery passes on the image made from it; nothing if that does not point at
/// anything.
fn search(
    units: &[Unit],
    budget: usize,
    tests: &mut u64,
    bench: &mut Bench,
    circumstances: &Circumstances,
    image: impl Fn(&[usize]) -> CrashImage,
) -> Result<Vec<usize>, BenchError> {
    let mut passes = |part: &[usize]| {
        *tests += 1;
        bench.passes(&image(part), circumstances)
    };
    let all: Vec<usize> = (0..units.len()).collect();
    // It should, since the whole leads to an image that passed, but recovery may have been told of another operation.
    if !passes(&all)? {
        return Ok(Vec::new());
    }
    let found = minimize(units.len(), budget, passes)?;
    let telling = found.part.len() <= MOST_CULPRITS;
    Ok(if telling { found.part } else { Vec::new() })
}

fn with_units(
    base: &CrashImage,
    units: &[Unit],
    chosen: impl Iterator<Item = usize>,
) -> CrashImage {
    let mut image = base.clone();
    for unit in chosen {
        for change in &units[unit].changes {
            let file = image.files[change.file].get_or_insert_with(Content::default);
            file.write(change.offset, &change.bytes);
        }
    }
    image
}

fn cause(
    question: &Question,
    narrowed: &Narrowed,
    files: &PersistentFiles,
    symbols: &mut impl Symbols,
) -> Option<Cause> {
    let mut culprits = |between: &Between, chosen: &[usize]| -> Vec<Culprit> {
        chosen
            .iter()
            .map(|&unit| culprit(&between.units[unit], files, symbols))
            .collect()
    };
    let cause = Cause {
        cause_of: question.trial.event,
        present: culprits(&question.before, &narrowed.present),
        absent: culprits(&question.after, &narrowed.absent),
        stores: question.before.stores as u64,
        tests: narrowed.tests,
    };
    let found = !cause.present.is_empty() || !cause.absent.is_empty();
    found.then_some(cause)
}

fn culprit(unit: &Unit, files: &PersistentFiles, symbols: &mut impl Symbols) -> Culprit {
    Culprit {
        event: unit.changes.first().map_or(0, |change| change.event.0),
        stack: unit
            .stack
            .map_or_else(Vec::new, |stack| symbols.frames(stack)),
        ranges: ranges(unit, files),
    }
}

/// The bytes that a unit changes, neighbours joined.
fn ranges(unit: &Unit, files: &PersistentFiles) -> Vec<ByteRange> {
    let mut by_file: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    for change in &unit.changes {
        let end = change.offset + change.bytes.len() as u64;
        let ranges = by_file.entry(change.file).or_default();
        ranges.push((change.offset, end));
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
