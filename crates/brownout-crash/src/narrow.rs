//! Which stores make the difference between an image on which recovery passes and one on which it does not.
//!
//! Between the newest image before a failure that passed and the failing one lie some stores. First the last store is
//! looked for before which recovery still passes: images of prefixes of the run are tried, backwards from the failing one in
//! ever longer steps and then by halves. From there to the failing image the smallest part of the stores is searched by
//! delta debugging without which recovery passes: it is *present* too early. In the same way, forwards, the
//! next store is found with which recovery passes again, and the smallest part of the stores up to there that suffices: it is
//! *absent*. Stores that one place in the program made in a row count as one. Images tried in delta debugging need not be
//! ones that a crash can leave: they only serve to point at source lines.

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
use crate::operation::{Operation, Operations};
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
    /// How far the workload was before these stores.
    operation: Operation,
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
    /// How far the workload was after all of them.
    operation: Operation,
    /// A file changed its length, or there were too many stores.
    untold: bool,
}

/// One failure to be explained.
#[derive(Debug)]
struct Question {
    trial: Trial,
    /// The newest image before that passed; if none did, that of a run which has done nothing yet.
    good: EventIndex,
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
    operation: Option<&str>,
    time_limit: Duration,
    pool: &mut Pool<Narrowed>,
    symbols: &mut impl Symbols,
    watcher: &mut impl Watcher,
) -> Result<Vec<Cause>, CrashError> {
    let mut questions = ask(failures, trials);
    collect(run, files, &mut questions, operation, symbols, watcher)?;
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
                good: EventIndex(place.checked_sub(1).map_or(0, |at| passed[at])),
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
    operation: Option<&str>,
    symbols: &mut impl Symbols,
    watcher: &mut impl Watcher,
) -> Result<(), CrashError> {
    let mut operations = Operations::new(operation);
    let last = questions
        .iter()
        .map(|question| question.next.unwrap_or(EventIndex(u64::MAX)))
        .max();
    let mut builder = ImageBuilder::new(files, &run.selection);
    run.walk(|event, definitions| {
        watcher.reading("collecting stores", event.index);
        symbols.observe(event, definitions);
        operations.observe(event, definitions);
        for question in &mut *questions {
            if question.good == event.index {
                question.good_image = Some(builder.image(definitions));
            }
            if question.bad == event.index {
                question.bad_image = Some(builder.image(definitions));
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
            between.take(event, operations.now(), definitions, files, symbols);
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
        operation: Operation,
        definitions: &Definitions,
        files: &PersistentFiles,
        symbols: &mut impl Symbols,
    ) {
        self.operation = operation;
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
            }
            | EventKind::Content {
                file,
                offset,
                bytes,
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
            EventKind::FileResize { file, .. } => {
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
            Some(unit) if unit.stack == stack && unit.operation == operation => {
                unit.changes.extend(changes);
            }
            _ => self.units.push(Unit {
                stack,
                operation,
                changes,
            }),
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
    let bad = question.bad_image.clone();
    let (before, after) = (question.before.clone(), question.after.clone());
    let hung = question.trial.verdict == Verdict::Hung;
    let circumstances = Circumstances {
        event: question.bad.0,
        operation: question.trial.operation,
        time_limit,
    };
    pool.submit(move |bench| {
        let mut search = Search {
            bench,
            circumstances,
            tests: 0,
            budget: if hung { BUDGET_HUNG } else { BUDGET },
        };
        let present = good
            .filter(|_| before.can_be_searched())
            .map(|image| search.present(&image, &before));
        let absent = bad
            .filter(|_| after.can_be_searched())
            .map(|image| search.absent(&image, &after));
        Ok(Narrowed {
            question: number,
            present: present.transpose()?.unwrap_or_default(),
            absent: absent.transpose()?.unwrap_or_default(),
            tests: search.tests,
        })
    });
}

/// Trying images to learn from them.
struct Search<'a> {
    bench: &'a mut Bench,
    /// Those of the failure.
    circumstances: Circumstances,
    tests: u64,
    budget: usize,
}

impl Search<'_> {
    /// The units before a failing image without which recovery passes.
    fn present(&mut self, good: &CrashImage, before: &Between) -> Result<Vec<usize>, BenchError> {
        let count = before.units.len();
        // Backwards from the failing image, to the last prefix of the run that passes.
        let (mut fails, mut step) = (count, 1);
        let mut passes = loop {
            let at = count.saturating_sub(step);
            if self.prefix_passes(good, before, at)? {
                break at;
            }
            if at == 0 {
                return Ok(Vec::new());
            }
            (fails, step) = (at, step * 2);
        };
        while fails - passes > 1 {
            let middle = passes.midpoint(fails);
            if self.prefix_passes(good, before, middle)? {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        let base = with_units(good, &before.units, 0..passes);
        // Of several answers the one about the newest stores.
        let window: Vec<usize> = (passes..count).rev().collect();
        let found = self.smallest(&window, |part| {
            let kept = (passes..count).filter(|unit| !part.contains(unit));
            with_units(&base, &before.units, kept)
        })?;
        Ok(found.unwrap_or_else(|| vec![passes]))
    }

    /// The units after a failing image with which recovery passes.
    fn absent(&mut self, bad: &CrashImage, after: &Between) -> Result<Vec<usize>, BenchError> {
        let count = after.units.len();
        let (mut fails, mut step) = (0, 1);
        let mut passes = loop {
            let at = step.min(count);
            if self.prefix_passes(bad, after, at)? {
                break at;
            }
            if at == count {
                return Ok(Vec::new());
            }
            (fails, step) = (at, step * 2);
        };
        while passes - fails > 1 {
            let middle = fails.midpoint(passes);
            if self.prefix_passes(bad, after, middle)? {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        let window: Vec<usize> = (0..passes).collect();
        let found = self.smallest(&window, |part| {
            let mut part = part.to_vec();
            part.sort_unstable();
            with_units(bad, &after.units, part.into_iter())
        })?;
        Ok(found.unwrap_or_else(|| vec![passes - 1]))
    }

    /// Whether recovery passes after the first `count` units, told of the operation that was under way then.
    fn prefix_passes(
        &mut self,
        base: &CrashImage,
        between: &Between,
        count: usize,
    ) -> Result<bool, BenchError> {
        let next = between.units.get(count);
        let operation = next.map_or(between.operation, |unit| unit.operation);
        let told = self.circumstances.operation.map(|_| operation);
        let circumstances = Circumstances {
            operation: told,
            ..self.circumstances.clone()
        };
        self.tests += 1;
        let image = with_units(base, &between.units, 0..count);
        self.bench.passes(&image, &circumstances)
    }

    /// The smallest part of `window` for which recovery passes on the image made from it, if that points at something.
    fn smallest(
        &mut self,
        window: &[usize],
        image: impl Fn(&[usize]) -> CrashImage,
    ) -> Result<Option<Vec<usize>>, BenchError> {
        let mut passes = |part: &[usize]| {
            self.tests += 1;
            self.bench.passes(&image(part), &self.circumstances)
        };
        // The whole leads to an image that passed, but recovery may have been told of another operation.
        if window.len() < 2 || !passes(window)? {
            return Ok(None);
        }
        let members = |part: &[usize]| part.iter().map(|&at| window[at]).collect::<Vec<_>>();
        let found = minimize(window.len(), self.budget, |part| passes(&members(part)))?;
        let mut part = members(&found.part);
        part.sort_unstable();
        Ok((part.len() <= MOST_CULPRITS).then_some(part))
    }
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
