//! The loop of a symbolic worker: takes a test case, replays its path, solves for the directions that it did not take, and runs what was
//! solved.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use brownout_recovery::SymbolicInput;
use brownout_symex::{
    Constraint, ConstraintKind, Model, PathConstraints, ReplayQuestions, ReplayedPath, Solution,
    Solver, VariableTable, replay,
};

use super::branches::UnsolvedCause;
use super::path_directions::{Direction, PathDirections, Prediction, path_hash};
use super::program_guide::is_own;
use super::search::{SearchState, UNGUIDED, Waiting};
use super::symbolic_bytes::{SymbolicBytes, SymbolicKind};
use super::{SearchOrder, SymbolicOptions, SymbolicSearch};
use crate::campaign::FuzzCampaign;
use crate::error::FuzzError;
use crate::feedback::Novelty;
use crate::image::{ImageId, ImageOrigin, StartImage};
use crate::start_strings::InputParts;
use crate::worker::{UntriedCase, Worker};

/// Turns of one path that are tried before another test case is taken.
const MOST_DIRECTIONS: usize = 64;
/// How long an idle worker waits for others.
const PAUSE: Duration = Duration::from_millis(20);
/// Crash images that are tried after each test case, and at a time if no test case waits.
const CRASHES_BETWEEN: usize = 2;
const CRASHES_AT_REST: usize = 16;
/// Bytes of each input that have the same variables in all workers.
const NUMBERED: u64 = 4096;
/// Bytes that are added at least when an input is made longer.
const GROWTH: usize = 16;
/// Shorter strings that the target is started with are tried with this length. The solver can end them earlier.
const LONG_STRING: usize = 16;

/// One symbolic worker.
pub struct SymbolicWorker<'a> {
    campaign: &'a FuzzCampaign,
    search: &'a SymbolicSearch,
    options: &'a SymbolicOptions,
    worker: Worker<'a>,
    variables: VariableTable,
    solver: Solver,
}

/// A path that was replayed, and what it belongs to.
struct Explored<'a> {
    waiting: &'a Waiting,
    content: &'a StartImage,
    inputs: &'a [SymbolicInput],
}

/// A choice at which the path could take another direction.
struct Candidate {
    prediction: Prediction,
    constraint: usize,
    priority: u64,
    is_fresh: bool,
    /// What the search knows it by once it was tried.
    key: u64,
}

impl<'a> SymbolicWorker<'a> {
    pub fn new(
        campaign: &'a FuzzCampaign,
        search: &'a SymbolicSearch,
        options: &'a SymbolicOptions,
        worker: Worker<'a>,
    ) -> Self {
        Self {
            campaign,
            search,
            options,
            worker,
            variables: numbered(options.sources.len()),
            solver: Solver::new(options.query_time),
        }
    }

    /// Solves until the campaign is over. It ends the campaign if nothing is left to try and no other kind of worker takes part.
    pub fn run(&mut self) -> Result<(), FuzzError> {
        while !self.campaign.is_over() {
            self.queue_cases();
            let taken = self.search.lock().take();
            if let Some(waiting) = taken {
                let explored = self.explore(&waiting);
                self.search.lock().finished();
                explored?;
                self.worker.try_put_off(CRASHES_BETWEEN)?;
            } else if !self.worker.try_put_off(CRASHES_AT_REST)? && !self.queue_image()? {
                self.rest();
            }
        }
        Ok(())
    }

    /// Nothing waits. Ends the campaign if that stays so.
    fn rest(&self) {
        let is_idle = self.search.lock().is_idle();
        let is_alone = self.options.workers >= self.campaign.options.jobs.max(1);
        if is_idle && is_alone && self.campaign.is_prepared() {
            self.search.lock().figures.is_exhausted = true;
            return self.campaign.stop();
        }
        thread::sleep(PAUSE);
    }

    /// Queues the test cases that the corpus has got since the last time.
    fn queue_cases(&self) {
        let mut state = self.search.lock();
        let shared = self.campaign.lock();
        let cases = shared.corpus.cases();
        let new = cases.get(state.cases_seen..).unwrap_or_default();
        for case in new {
            // The search knows what was solved.
            let origin = shared.images.origin(case.image);
            if let Some(ImageOrigin::Solved { .. }) = origin {
                continue;
            }
            if state.is_new(&case.input, case.image, &[]) || case.parent.is_none() {
                let rank = state.rank((UNGUIDED, true), case.novelty, 0);
                state.push(Waiting {
                    input: case.input.clone(),
                    image: case.image,
                    solved_bytes: Vec::new(),
                    parent: Some(case.number),
                    bound: 0,
                    prediction: None,
                    goal: None,
                    is_continued: false,
                    rank,
                });
            }
        }
        state.cases_seen = cases.len();
    }

    /// Queues the seeds on an image on which they were not tried. False if there is none.
    fn queue_image(&mut self) -> Result<bool, FuzzError> {
        let next = {
            let mut state = self.search.lock();
            let shared = self.campaign.lock();
            let mut left = shared
                .images
                .ids()
                .get(state.images_seen..)
                .unwrap_or_default()
                .iter();
            let is_solved =
                |id| matches!(shared.images.origin(id), Some(ImageOrigin::Solved { .. }));
            let next = left.find(|&&id| {
                state.images_seen += 1;
                !is_solved(id)
            });
            next.copied()
        };
        let Some(image) = next else {
            return Ok(false);
        };
        let Some(content) = self.worker.image(image)? else {
            return Ok(true);
        };
        for seed in self.campaign.seeds() {
            let is_new = self.search.lock().is_new(&seed, image, &[]);
            if self.campaign.is_over() || !is_new {
                continue;
            }
            let trial = UntriedCase::solved(seed.clone(), image, content.clone(), None);
            let novelty = self.worker.try_out(trial)?;
            let mut state = self.search.lock();
            let rank = state.rank((UNGUIDED, true), novelty, 0);
            state.push(Waiting {
                input: seed,
                image,
                solved_bytes: Vec::new(),
                parent: None,
                bound: 0,
                prediction: None,
                goal: None,
                is_continued: false,
                rank,
            });
        }
        Ok(true)
    }

    /// Runs a test case symbolically, and solves for the directions that it did not take.
    fn explore(&mut self, waiting: &Waiting) -> Result<(), FuzzError> {
        let Some(content) = self.worker.image(waiting.image)? else {
            return Ok(());
        };
        let content = content.with_bytes(&waiting.solved_bytes);
        let inputs = self.inputs(&content);
        self.campaign.executions.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let recorded = self.worker.record_path(&content, &waiting.input, &inputs)?;
        let Some(recorded) = recorded else {
            return Ok(());
        };
        let record_time = started.elapsed();
        let observation = &recorded.observation;
        let most_read = Cell::new(0);
        let own: Vec<_> = observation.modules.iter().filter(|it| is_own(it)).collect();
        let is_own_code = |pc: u64| {
            let offsets = own
                .iter()
                .map(|module| (pc.wrapping_sub(module.address), module.len));
            { offsets }.any(|(offset, len)| offset < len)
        };
        let (sources, files) = (&self.options.sources, self.campaign.files());
        let is_symbolic = |source: u32, offset: u64| {
            let input = inputs.get(source as usize);
            if input == Some(&SymbolicInput::Input) {
                most_read.set(most_read.get().max(offset + 1));
            }
            input.is_some_and(|input| is_symbolic(sources, input, offset, &files))
        };
        let started = Instant::now();
        let questions = ReplayQuestions {
            is_symbolic: &is_symbolic,
            is_own: &is_own_code,
            stop: &|| self.campaign.is_over(),
        };
        let path = replay(&recorded.records, &mut self.variables, questions);
        let replay_time = started.elapsed();
        let mut state = self.search.lock();
        state.guide.observe(observation);
        let figures = &mut state.figures;
        figures.record_time += record_time;
        figures.replay_time += replay_time;
        figures.executions += 1;
        let is_cut_off = path.as_ref().is_ok_and(|path| path.is_cut_off);
        figures.cut_off += u64::from(observation.is_cut_off || observation.timed_out || is_cut_off);
        figures.other_processes += u64::from(observation.other_processes);
        let Ok(path) = path else {
            figures.damaged += 1;
            return Ok(());
        };
        state.guide.learn(&path);
        let directions = PathDirections::of(&path);
        let followed = waiting
            .prediction
            .map(|prediction| directions.follows(&prediction));
        note(&mut state, &path, followed);
        if let Some(goal) = waiting.goal {
            state.branches.replayed(goal);
        }
        state.learn_directions(&directions);
        let is_new = state.is_new_path(path_hash(directions.hash(), waiting.image.0 as u64));
        if !is_new && !waiting.is_continued {
            return Ok(());
        }
        let bound = match followed {
            Some(false) => 0,
            _ => waiting.bound,
        };
        let order = self.options.order;
        let candidates = candidates(
            &mut state,
            &path,
            &directions,
            (bound, waiting.image),
            order,
        );
        drop(state);
        let explored = Explored {
            waiting,
            content: &content,
            inputs: &inputs,
        };
        if let Some(left) = self.solve(&explored, path, &directions, candidates)? {
            self.put_off(waiting, bound, left);
        }
        if waiting.rank.generation() == 0 {
            self.lengthen(waiting, most_read.get());
        }
        Ok(())
    }

    /// The inputs of the target that are symbolic on this image.
    fn inputs(&self, content: &StartImage) -> Vec<SymbolicInput> {
        let files = self.campaign.files();
        let mut inputs = Vec::new();
        for source in &self.options.sources {
            let input = match &source.kind {
                SymbolicKind::Stdin | SymbolicKind::File(_) => SymbolicInput::Input,
                SymbolicKind::Start(string) => SymbolicInput::Start(string.clone()),
                SymbolicKind::Image(path) => {
                    let Some(number) = files.iter().position(|file| file == path) else {
                        continue;
                    };
                    // A file that does not exist has no bytes.
                    if !content.files.get(number).is_some_and(Option::is_some) {
                        continue;
                    }
                    SymbolicInput::Persistent(number)
                }
            };
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
        // Which files exist depends on the image; the others keep their numbers.
        inputs.sort_by_key(|input| matches!(input, SymbolicInput::Persistent(_)));
        inputs
    }

    /// Solves for the candidates in their order, and runs what was solved, until another test case has a better direction or there were
    /// many. The priority of the first one that was left out, if there is one.
    fn solve(
        &mut self,
        explored: &Explored<'_>,
        path: ReplayedPath,
        directions: &PathDirections,
        candidates: Vec<Candidate>,
    ) -> Result<Option<u64>, FuzzError> {
        let ReplayedPath {
            dag, constraints, ..
        } = path;
        let holds = constraints.iter().map(|constraint| constraint.holds);
        let campaign = self.campaign;
        let stop = || campaign.is_over();
        let mut queries = PathConstraints::new(dag, holds.collect(), &stop);
        let mut tried = 0;
        for mut candidate in candidates {
            if self.campaign.is_over() {
                return Ok(None);
            }
            {
                let mut state = self.search.lock();
                if state.was_tried(candidate.key) {
                    continue;
                }
                // In a random order, nothing is better.
                let is_guided = self.options.order != SearchOrder::Random;
                let has_better = is_guided && state.has_better(candidate.priority);
                if tried == MOST_DIRECTIONS || has_better {
                    return Ok(Some(candidate.priority));
                }
                state.is_untried(candidate.key);
                let made = &directions.directions()[candidate.prediction.number];
                candidate.is_fresh = state.freshen(made.direction.other(), made.other_bucket);
            }
            tried += 1;
            let before = self.solver.statistics;
            let solution = self.solver.negate(&mut queries, candidate.constraint);
            let mut state = self.search.lock();
            state.figures.add_solver(&before, &self.solver.statistics);
            let constraint = &constraints[candidate.constraint];
            let (model, is_exact) = match solution {
                Solution::Exact(model) => (model, true),
                Solution::Optimistic(model) => (model, false),
                Solution::TimedOut => {
                    state.branches.note(constraint, UnsolvedCause::TimedOut);
                    continue;
                }
                Solution::Impossible(core) => {
                    let core = core.into_iter().map(|at| &constraints[at]);
                    state.branches.note(constraint, impossible(core));
                    continue;
                }
            };
            state.figures.solved += 1;
            state.figures.optimistic += u64::from(!is_exact);
            drop(state);
            self.run_solved(explored, &candidate, constraint, (&model, is_exact))?;
        }
        Ok(None)
    }

    /// Runs a solved input, and queues it.
    fn run_solved(
        &mut self,
        explored: &Explored<'_>,
        candidate: &Candidate,
        constraint: &Constraint,
        (model, is_exact): (&Model, bool),
    ) -> Result<(), FuzzError> {
        let Explored {
            waiting,
            content,
            inputs,
        } = explored;
        let mut parts = InputParts::split(&waiting.input, self.options.strings().count());
        let mut solved_bytes = waiting.solved_bytes.clone();
        for &(variable, value) in model {
            let (source, offset) = self.variables.byte(variable);
            if let Some(&SymbolicInput::Persistent(file)) = inputs.get(source as usize) {
                solved_bytes.retain(|&(known, at, _)| (known, at) != (file, offset));
                solved_bytes.push((file, offset, value));
            }
            let part = match inputs.get(source as usize) {
                Some(SymbolicInput::Input) => Some(&mut parts.rest),
                Some(SymbolicInput::Start(string)) => {
                    let number = self.options.strings().position(|known| known == string);
                    number.and_then(|number| parts.strings.get_mut(number))
                }
                _ => None,
            };
            if let Some(byte) = part.and_then(|part| part.get_mut(offset as usize)) {
                *byte = value;
            }
        }
        let input = parts.join();
        solved_bytes.sort_unstable();
        let is_new = (self.search.lock()).is_new(&input, waiting.image, &solved_bytes);
        if !is_new {
            return Ok(());
        }
        let has_solved_image = solved_bytes != waiting.solved_bytes;
        let content = match has_solved_image {
            true => content.with_bytes(&solved_bytes),
            false => (*content).clone(),
        };
        let mut trial = UntriedCase::solved(input.clone(), waiting.image, content, waiting.parent);
        if !solved_bytes.is_empty() {
            trial = trial.on_solved_image();
        }
        let novelty = self.worker.try_out(trial)?;
        let mut state = self.search.lock();
        state.branches.await_solved(constraint.pc);
        let rank = state.rank(
            (candidate.priority, candidate.is_fresh),
            novelty,
            waiting.rank.generation().saturating_add(1),
        );
        state.push(Waiting {
            input,
            image: waiting.image,
            solved_bytes,
            parent: waiting.parent,
            bound: match is_exact {
                true => candidate.prediction.number + 1,
                false => 0,
            },
            prediction: is_exact.then_some(candidate.prediction),
            goal: Some(constraint.pc),
            is_continued: false,
            rank,
        });
        Ok(())
    }

    /// Queues a test case again for the directions that were not tried.
    fn put_off(&self, waiting: &Waiting, bound: usize, priority: u64) {
        let mut state = self.search.lock();
        let rank = state.rank(
            (priority, false),
            Novelty::Nothing,
            waiting.rank.generation(),
        );
        state.push(Waiting {
            bound,
            prediction: None,
            goal: None,
            is_continued: true,
            rank,
            ..waiting.clone()
        });
    }

    /// Queues an input that was read to its end with more bytes, and strings with more characters.
    fn lengthen(&self, waiting: &Waiting, read: u64) {
        let mut parts = InputParts::split(&waiting.input, self.options.strings().count());
        for value in &mut parts.strings {
            if value.len() < LONG_STRING {
                value.resize(LONG_STRING, b'A');
            }
        }
        let len = parts.rest.len();
        let longer = (len + len.max(GROWTH)).min(self.options.longest_input);
        if read as usize >= len && len > 0 && longer > len {
            let ends_line = parts.rest.last() == Some(&b'\n');
            parts.rest.resize(longer, b'A');
            if ends_line && let Some(last) = parts.rest.last_mut() {
                *last = b'\n';
            }
        }
        let input = parts.join();
        let mut state = self.search.lock();
        if state.is_new(&input, waiting.image, &waiting.solved_bytes) {
            let rank = state.rank((0, false), Novelty::Nothing, 0);
            state.push(Waiting {
                input,
                rank,
                bound: 0,
                prediction: None,
                goal: None,
                is_continued: false,
                ..waiting.clone()
            });
        }
    }
}

/// The variables of the first bytes of each input, numbered alike for all workers: hashes of expressions depend on that.
fn numbered(inputs: usize) -> VariableTable {
    let mut variables = VariableTable::default();
    for offset in 0..NUMBERED {
        for input in 0..inputs as u32 {
            variables.variable(input, offset);
        }
    }
    variables
}

/// Whether a byte of an input is symbolic.
fn is_symbolic(
    sources: &[SymbolicBytes],
    input: &SymbolicInput,
    offset: u64,
    files: &[PathBuf],
) -> bool {
    let is_of = |source: &&SymbolicBytes| match (&source.kind, input) {
        (SymbolicKind::Stdin | SymbolicKind::File(_), SymbolicInput::Input) => true,
        (SymbolicKind::Start(string), SymbolicInput::Start(known)) => string == known,
        (SymbolicKind::Image(path), SymbolicInput::Persistent(number)) => {
            files.get(*number) == Some(path)
        }
        _ => false,
    };
    { sources.iter().filter(is_of) }.any(|source| source.contains(offset))
}

/// Why no input takes a branch that contradicts these constraints.
fn impossible<'c>(core: impl Iterator<Item = &'c Constraint>) -> UnsolvedCause {
    let is_concretised =
        |constraint: &Constraint| matches!(constraint.kind, ConstraintKind::Concretised(_));
    match { core }.any(is_concretised) {
        true => UnsolvedCause::Concretised,
        false => UnsolvedCause::Impossible,
    }
}

/// Adds a path to the figures.
fn note(state: &mut SearchState, path: &ReplayedPath, followed: Option<bool>) {
    state.branches.learn(&path.constraints);
    let first = path.mismatches.first().map(|mismatch| {
        let place = state.guide.place(mismatch.pc);
        format!("{} after the instruction of {place}", mismatch.what)
    });
    let figures = &mut state.figures;
    figures.steps += path.steps;
    figures.symbolic_steps += path.symbolic_steps;
    figures.mismatches += path.mismatches.len() as u64;
    figures.first_mismatch = figures.first_mismatch.take().or(first);
    for (cause, count) in &path.concretised {
        *figures.concretised.entry(cause.clone()).or_default() += count;
    }
    figures.sent += path.sent;
    figures.overwritten += path.overwritten;
    match followed {
        Some(true) => figures.followed += 1,
        Some(false) => figures.diverged += 1,
        None => {}
    }
}

/// The directions of a path that were not tried, in the order in which they are to be.
fn candidates(
    state: &mut SearchState,
    path: &ReplayedPath,
    directions: &PathDirections,
    (bound, image): (usize, ImageId),
    order: SearchOrder,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (number, made) in directions.directions().iter().enumerate().skip(bound) {
        let Direction { pc, way } = made.direction;
        let key = [pc, way, image.0 as u64];
        let key = key.into_iter().fold(made.before, path_hash);
        if state.was_tried(key) {
            continue;
        }
        let is_fresh = state.is_fresh(made.direction.other(), made.other_bucket);
        candidates.push(Candidate {
            prediction: Prediction {
                number,
                direction: made.direction,
                before: made.before,
            },
            constraint: made.constraint,
            priority: match order {
                SearchOrder::Pm => state.guide.priority(&path.constraints[made.constraint]),
                SearchOrder::Coverage => u64::from(is_fresh),
                SearchOrder::Random => random_priority(key),
            },
            is_fresh,
            key,
        });
    }
    candidates.sort_by_key(|candidate| std::cmp::Reverse((candidate.priority, candidate.is_fresh)));
    candidates
}

/// A priority that has nothing to do with the program, and is the same in each run.
fn random_priority(key: u64) -> u64 {
    // `UNGUIDED` is no priority of a direction.
    path_hash(path_hash(key, 0x5eed), key) >> 1
}
