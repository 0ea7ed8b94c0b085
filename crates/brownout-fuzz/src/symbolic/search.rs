//! What symbolic workers share: test cases that wait, what was tried, and figures.
//!
//! The search is generational: what is solved from a path takes another direction at one of its choices, and what is solved from that
//! differs behind it. A direction is tried once for each starting image and each sequence of directions before it. Test cases are taken in
//! the order of how much persistent memory their last direction leads to; those that lead to none come last and are not discarded. Among
//! equals, those come first whose executions have shown something new, then those with a direction that no path has made that often, so
//! that loops are entered one iteration further before everything else about the last one is tried.
//!
//! The directions of one path are tried only as long as no test case that waits has a better one. Then the path waits, too, with the
//! priority of its best direction that was not tried. Nobody knows the directions of seeds and of what other workers have found before
//! these are replayed: they take turns with the others.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use brownout_symex::SolverStatistics;
use rustc_hash::FxHashSet;

use super::branches::Branches;
use super::path_directions::{Direction, PathDirections, Prediction, path_hash};
use super::program_guide::ProgramGuide;
use crate::feedback::Novelty;
use crate::image::ImageId;

/// The priority of test cases that were not solved for a direction: seeds, and what other workers have found.
pub const UNGUIDED: u64 = u64::MAX;

/// A test case that waits to be executed symbolically.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub input: Vec<u8>,
    pub image: ImageId,
    /// Bytes of the image that were solved: the number of the file, the offset, and the byte.
    pub solved_bytes: Vec<(usize, u64, u8)>,
    /// The test case of the corpus that it comes from.
    pub parent: Option<u64>,
    /// Turns up to this number are not tried again.
    pub bound: usize,
    /// What it was solved for.
    pub prediction: Option<Prediction>,
    /// The instruction of the choice that it was solved for.
    pub goal: Option<u64>,
    /// Its path is known, but not all of its directions were tried.
    pub is_continued: bool,
    pub rank: Rank,
}

/// Which test case is taken next; greater is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// How much persistent memory its last direction leads to.
    pub priority: u64,
    /// What its execution has shown.
    pub novelty: Novelty,
    /// Whether its last direction was not taken before, or never that often on one path.
    pub is_fresh: bool,
    /// Earlier generations first, then earlier test cases.
    generation: std::cmp::Reverse<u32>,
    number: std::cmp::Reverse<u64>,
}

impl Rank {
    pub fn generation(&self) -> u32 {
        self.generation.0
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// Figures of the symbolic workers.
#[derive(Clone, Debug, Default)]
pub struct SymbolicFigures {
    /// Executions whose paths were replayed, and different paths among them.
    pub executions: u64,
    pub paths: u64,
    /// Instructions of these paths, and those with symbolic operands.
    pub steps: u64,
    pub symbolic_steps: u64,
    /// Paths that were cut off, by the time limit or because they are too long.
    pub cut_off: u64,
    pub queries: u64,
    pub remembered: u64,
    pub query_timeouts: u64,
    pub solver_time: Duration,
    /// How long paths were recorded and replayed.
    pub record_time: Duration,
    pub replay_time: Duration,
    /// Inputs that were solved, and those of them for which earlier branches were left out.
    pub solved: u64,
    pub optimistic: u64,
    /// Solved inputs that went where they were solved to go, and those that did not.
    pub followed: u64,
    pub diverged: u64,
    /// Values that replay computed in another way than the processor, and the first of them.
    pub mismatches: u64,
    pub first_mismatch: Option<String>,
    /// Recordings that could not be read.
    pub damaged: u64,
    /// Values that were made concrete, by cause.
    pub concretised: BTreeMap<String, u64>,
    /// Symbolic bytes that the target has written to files, pipes and sockets.
    pub sent: u64,
    /// Symbolic bytes that something else than the target has overwritten.
    pub overwritten: u64,
    /// Processes that read symbolic bytes and were not followed.
    pub other_processes: u64,
    /// Test cases that wait.
    pub waiting: usize,
    /// Whether nothing is left to try.
    pub is_exhausted: bool,
}

impl SymbolicFigures {
    /// Adds what a worker's solver has done since `before`.
    pub fn add_solver(&mut self, before: &SolverStatistics, now: &SolverStatistics) {
        self.queries += now.queries - before.queries;
        self.remembered += now.remembered - before.remembered;
        self.query_timeouts += now.timed_out - before.timed_out;
        self.solver_time += now.time.saturating_sub(before.time);
    }
}

/// What symbolic workers share.
#[derive(Default)]
pub struct SearchState {
    queue: BinaryHeap<Waiting>,
    /// Test cases whose directions are not known.
    unguided: BinaryHeap<Waiting>,
    /// Whether it is the turn of one of these.
    is_turn_of_unguided: bool,
    next: u64,
    /// Turns that were tried, paths that were seen, and test cases that were queued.
    tried: FxHashSet<u64>,
    paths: FxHashSet<u64>,
    queued: FxHashSet<u64>,
    /// Turns that were made or solved for, with how often on one path.
    directions: FxHashSet<(Direction, u8)>,
    /// Workers that have a test case.
    working: usize,
    /// Test cases of the corpus, and images, up to which all were queued.
    pub cases_seen: usize,
    pub images_seen: usize,
    pub guide: ProgramGuide,
    pub branches: Branches,
    pub figures: SymbolicFigures,
}

/// The state, behind its lock.
#[derive(Default)]
pub struct SymbolicSearch(Mutex<SearchState>);

impl SymbolicSearch {
    /// A search that keeps analyses of code in a directory.
    pub fn in_directory(analyses: PathBuf) -> Self {
        Self(Mutex::new(SearchState {
            guide: ProgramGuide::in_directory(analyses),
            ..SearchState::default()
        }))
    }

    pub fn lock(&self) -> MutexGuard<'_, SearchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SearchState {
    /// The rank of a test case that is queued now.
    pub fn rank(
        &mut self,
        (priority, is_fresh): (u64, bool),
        novelty: Novelty,
        generation: u32,
    ) -> Rank {
        self.next += 1;
        Rank {
            priority,
            novelty,
            is_fresh,
            generation: std::cmp::Reverse(generation),
            number: std::cmp::Reverse(self.next),
        }
    }

    /// Notes that a test case is about to be executed. False if it was before.
    pub fn is_new(
        &mut self,
        input: &[u8],
        image: ImageId,
        solved_bytes: &[(usize, u64, u8)],
    ) -> bool {
        let text = xxhash_rust::xxh3::xxh3_64(input);
        let bytes = solved_bytes.iter();
        let words = bytes.flat_map(|&(file, offset, byte)| [file as u64, offset, byte.into()]);
        let key = words.fold(path_hash(text, image.0 as u64), path_hash);
        self.queued.insert(key)
    }

    pub fn push(&mut self, waiting: Waiting) {
        match waiting.rank.priority {
            UNGUIDED => self.unguided.push(waiting),
            _ => self.queue.push(waiting),
        }
        self.count_waiting();
    }

    fn count_waiting(&mut self) {
        self.figures.waiting = self.queue.len() + self.unguided.len();
    }

    /// Whether a test case waits with a direction that has a higher priority.
    pub fn has_better(&self, priority: u64) -> bool {
        { self.queue.peek() }.is_some_and(|first| first.rank.priority > priority)
    }

    /// Takes the next test case. The worker has it until [`finished`](Self::finished).
    pub fn take(&mut self) -> Option<Waiting> {
        self.is_turn_of_unguided = !self.is_turn_of_unguided;
        let taken = match self.is_turn_of_unguided {
            true => self.unguided.pop().or_else(|| self.queue.pop()),
            false => self.queue.pop().or_else(|| self.unguided.pop()),
        };
        self.working += usize::from(taken.is_some());
        self.count_waiting();
        taken
    }

    pub fn finished(&mut self) {
        self.working = self.working.saturating_sub(1);
    }

    /// Whether no worker has a test case that could lead to others.
    pub fn is_idle(&self) -> bool {
        self.working == 0 && self.figures.waiting == 0
    }

    /// Notes a path on an image. False if it was seen before.
    pub fn is_new_path(&mut self, hash: u64) -> bool {
        let is_new = self.paths.insert(hash);
        self.figures.paths += u64::from(is_new);
        is_new
    }

    /// A path has these directions.
    pub fn learn_directions(&mut self, directions: &PathDirections) {
        let made = directions.directions().iter();
        self.directions
            .extend(made.map(|made| (made.direction, made.bucket)));
    }

    /// Whether a direction was never taken or solved for that often.
    pub fn is_fresh(&self, direction: Direction, bucket: u8) -> bool {
        !self.directions.contains(&(direction, bucket))
    }

    /// A direction is being solved for. Whether it was never before.
    pub fn freshen(&mut self, direction: Direction, bucket: u8) -> bool {
        self.directions.insert((direction, bucket))
    }

    /// Whether a direction was tried.
    pub fn was_tried(&self, hash: u64) -> bool {
        self.tried.contains(&hash)
    }

    /// Notes that a direction is about to be tried. False if it was before.
    pub fn is_untried(&mut self, hash: u64) -> bool {
        self.tried.insert(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(state: &mut SearchState, input: &[u8], priority: u64, novelty: Novelty) {
        let rank = state.rank((priority, false), novelty, 1);
        state.push(Waiting {
            input: input.to_vec(),
            image: ImageId(1),
            solved_bytes: Vec::new(),
            parent: None,
            bound: 0,
            prediction: None,
            goal: None,
            is_continued: false,
            rank,
        });
    }

    #[test]
    fn what_leads_to_persistent_memory_comes_first_and_nothing_is_discarded() {
        let mut state = SearchState::default();
        waiting(&mut state, b"none", 0, Novelty::Transition);
        waiting(&mut state, b"little", 1, Novelty::Nothing);
        waiting(&mut state, b"much", 16, Novelty::Nothing);
        waiting(&mut state, b"later", 16, Novelty::Nothing);
        waiting(&mut state, b"new", 16, Novelty::Code);
        let order: Vec<Vec<u8>> = std::iter::from_fn(|| state.take())
            .map(|waiting| waiting.input)
            .collect();
        assert_eq!(order, [&b"new"[..], b"much", b"later", b"little", b"none"]);
        assert!(!state.is_idle());
        (0..5).for_each(|_| state.finished());
        assert!(state.is_idle());
    }

    #[test]
    fn a_path_waits_while_another_has_a_better_direction() {
        let mut state = SearchState::default();
        assert!(!state.has_better(0));
        waiting(&mut state, b"seed", UNGUIDED, Novelty::Nothing);
        assert!(!state.has_better(0), "its directions are not known");
        waiting(&mut state, b"some", 16, Novelty::Nothing);
        assert!(state.has_better(0) && state.has_better(15) && !state.has_better(16));
    }

    #[test]
    fn what_was_not_replayed_takes_turns_with_what_was_solved() {
        let mut state = SearchState::default();
        for input in [b"1", b"2", b"3"] {
            waiting(&mut state, input, UNGUIDED, Novelty::Nothing);
        }
        waiting(&mut state, b"solved", 0, Novelty::Nothing);
        assert_eq!(state.figures.waiting, 4);
        let order: Vec<Vec<u8>> = std::iter::from_fn(|| state.take())
            .map(|waiting| waiting.input)
            .collect();
        assert_eq!(order, [&b"1"[..], b"solved", b"2", b"3"]);
    }

    #[test]
    fn a_test_case_is_queued_once_for_each_image() {
        let mut state = SearchState::default();
        assert!(state.is_new(b"a", ImageId(1), &[]) && state.is_new(b"a", ImageId(2), &[]));
        assert!(!state.is_new(b"a", ImageId(1), &[]));
        assert!(state.is_new(b"a", ImageId(1), &[(0, 8, 1)]));
    }
}
