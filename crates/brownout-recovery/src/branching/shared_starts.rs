//! What recoveries on images that come one by one share: what is known about what recovery does, and whether it pays to use it.
//!
//! Recovery that passes under the engine, or is known to pass because an earlier one has read the same bytes, is believed to pass
//! natively. The first ones are checked, and then one after twice as many each time. If a check fails, or recovery does something else
//! after it has read the same bytes, nothing of this is believed any more.
//!
//! It also ends if recovery uses the time or random numbers, if it cannot be copied more often than it can, or if native recoveries
//! take less time.
//!
//! Can miss: a recovery that passes under the engine and fails natively, between two checks.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use brownout_trace::replay::{Content, PAGE};

use super::branches::MOST_FAILURES;
use super::question_tree::QuestionTree;
use super::{BranchingError, CommonStart, SharedTree, lock};
use crate::ByteRanges;

/// The questions that a tree may have: some ten megabytes.
const MOST_QUESTIONS: usize = 1 << 18;
/// Starts that are remembered at the same time.
const MOST_STARTS: usize = 16;
/// So many recoveries that pass are checked at first.
const FIRST_CHECKS: u64 = 3;
/// After so many recoveries it is decided again whether it pays.
const WINDOW: u32 = 32;
/// The share of the time of native recoveries that others may take.
const MOST_TIME: f64 = 0.8;

/// What recoveries share.
#[derive(Debug)]
pub struct SharedStarts {
    /// The bytes of each persistent file that differ between images.
    differing: Arc<[ByteRanges]>,
    /// Whether they go on even if it does not pay.
    is_forced: bool,
    is_over: AtomicBool,
    state: Mutex<State>,
}

/// How often recoveries on images did not have to be run from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedStartCounts {
    /// Copies of a process that had waited.
    pub copies: u64,
    /// Recoveries that were not run, because an earlier one had read the same bytes.
    pub known_paths: u64,
    /// Those of both that were run natively, too, as a check.
    pub checked: u64,
    /// Why recoveries were run from the beginning, and how often.
    pub run_anew: BTreeMap<String, u64>,
    /// Why all others were run from the beginning. Completes the sentence "recovery is run anew because …".
    pub ended: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    by_start: HashMap<CommonStart, Known>,
    counts: SharedStartCounts,
    /// Whether something that was believed may be wrong.
    is_contradicted: bool,
    /// Recoveries that were believed to pass.
    believed: u64,
    successes: u32,
    failures: u32,
    window: Window,
}

/// What is known about recoveries with one start.
#[derive(Debug)]
struct Known {
    tree: SharedTree,
    /// The last image that differs from the others only in bytes that may differ.
    last: Vec<Option<Content>>,
}

/// What the last recoveries took, and what native ones would have taken in their place.
#[derive(Debug, Default)]
struct Window {
    recoveries: u32,
    spent: Duration,
    saved: Duration,
}

impl SharedStarts {
    /// For images that differ only in these bytes of each persistent file. If `is_forced`, they are used even if native recoveries take
    /// less time.
    pub fn new(differing: Arc<[ByteRanges]>, is_forced: bool) -> Self {
        Self {
            differing,
            is_forced,
            is_over: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub fn counts(&self) -> SharedStartCounts {
        self.state().counts.clone()
    }

    /// Whether a verdict that no native recovery has given may be wrong.
    pub fn is_contradicted(&self) -> bool {
        self.state().is_contradicted
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn differing(&self) -> &[ByteRanges] {
        &self.differing
    }

    /// What is known about recoveries with this start, if there were some.
    pub(super) fn known_tree(&self, start: &CommonStart) -> Option<SharedTree> {
        let state = self.state();
        state
            .by_start
            .get(start)
            .map(|known| Arc::clone(&known.tree))
    }

    /// What is known about recoveries with this start; `None` if the image differs from others in other bytes than expected.
    pub(crate) fn tree(
        &self,
        start: &CommonStart,
        image: &[Option<Content>],
    ) -> Option<SharedTree> {
        let mut state = self.state();
        if let Some(known) = state.by_start.get_mut(start) {
            if !self.agree(&known.last, image) {
                return None;
            }
            known.last = image.to_vec();
            return Some(Arc::clone(&known.tree));
        }
        if state.by_start.len() >= MOST_STARTS {
            state.by_start.clear();
        }
        let tree = Arc::new(Mutex::new(QuestionTree::with_room_for(MOST_QUESTIONS)));
        let known = Known {
            tree: Arc::clone(&tree),
            last: image.to_vec(),
        };
        state.by_start.insert(start.clone(), known);
        Some(tree)
    }

    /// Whether images with files of the same lengths are equal but for bytes that may differ.
    fn agree(&self, one: &[Option<Content>], other: &[Option<Content>]) -> bool {
        let nothing = ByteRanges::exact();
        let files = one.iter().zip(other).enumerate();
        files.into_iter().all(|(number, files)| match files {
            (Some(one), Some(other)) => {
                let differing = self.differing.get(number).unwrap_or(&nothing);
                let mut pages = one.pages_unlike(other).into_iter();
                pages.all(|page| {
                    let start = page * PAGE as u64;
                    let others = differing.missing(start..start + PAGE as u64);
                    others.into_iter().all(|range| {
                        let mut bytes = [[0; PAGE]; 2];
                        let len = (range.end - range.start) as usize;
                        one.read(range.start, &mut bytes[0][..len]);
                        other.read(range.start, &mut bytes[1][..len]);
                        bytes[0][..len] == bytes[1][..len]
                    })
                })
            }
            _ => true,
        })
    }

    /// Recovery was not run, because how it ends is known.
    pub(crate) fn count_known(&self) {
        self.state().counts.known_paths += 1;
    }

    /// Recovery was run under the engine.
    pub(crate) fn count_run(&self, is_copy: bool) {
        let mut state = self.state();
        state.successes += 1;
        state.counts.copies += u64::from(is_copy);
    }

    /// Recovery could not be run in this way.
    pub(crate) fn failed(&self, error: &BranchingError) {
        let mut state = self.state();
        let reason = error.to_string();
        *state.counts.run_anew.entry(reason.clone()).or_default() += 1;
        state.failures += 1;
        state.is_contradicted |= matches!(error, BranchingError::Contradiction);
        if state.is_contradicted || state.failures >= MOST_FAILURES.max(state.successes) {
            self.end(&mut state, reason);
        }
    }

    /// An image differs from others in other bytes than expected.
    pub(crate) fn count_unexpected(&self) {
        let reason = "its image differs from others in bytes that were not expected";
        let mut state = self.state();
        *state.counts.run_anew.entry(reason.to_owned()).or_default() += 1;
    }

    /// Recovery has used something that is not the same in each run.
    pub(crate) fn uses_other_inputs(&self, inputs: &[String]) {
        let reason = format!("it uses {}", inputs.join(" and "));
        let mut state = self.state();
        *state.counts.run_anew.entry(reason.clone()).or_default() += 1;
        self.end(&mut state, reason);
    }

    /// A recovery is about to be believed to pass. Returns whether it has to be checked.
    pub(crate) fn wants_check(&self) -> bool {
        let mut state = self.state();
        state.believed += 1;
        let wanted = state.believed <= FIRST_CHECKS || state.believed.is_power_of_two();
        state.counts.checked += u64::from(wanted);
        wanted
    }

    /// Native recovery has ended in another way than was believed.
    pub(crate) fn contradict(&self, reason: String) {
        let mut state = self.state();
        state.is_contradicted = true;
        self.end(&mut state, reason);
    }

    /// A recovery took so much time, and saved a native one that would have taken `saved`.
    pub(crate) fn took(&self, spent: Duration, saved: Duration) {
        let mut state = self.state();
        let window = &mut state.window;
        window.recoveries += 1;
        window.spent += spent;
        window.saved += saved;
        if window.recoveries < WINDOW {
            return;
        }
        let pays = window.spent.as_secs_f64() <= MOST_TIME * window.saved.as_secs_f64();
        *window = Window::default();
        if !pays && !self.is_forced {
            self.end(&mut state, "that takes less time".to_owned());
        }
    }

    fn end(&self, state: &mut State, reason: String) {
        self.is_over.store(true, Ordering::Relaxed);
        state.counts.ended.get_or_insert(reason);
        state.by_start.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[(u64, u8)]) -> Vec<Option<Content>> {
        let mut content = Content::default();
        content.resize(3 * PAGE as u64);
        for &(at, byte) in bytes {
            content.write(at, &[byte]);
        }
        vec![Some(content), None]
    }

    fn start() -> CommonStart {
        CommonStart {
            lengths: vec![Some(3 * PAGE as u64), None],
            environment: Vec::new(),
        }
    }

    fn starts() -> SharedStarts {
        let mut differing = ByteRanges::exact();
        differing.insert(10..20);
        differing.insert(4090..4100);
        SharedStarts::new([differing, ByteRanges::exact()].into(), false)
    }

    #[test]
    fn images_may_differ_only_in_the_bytes_that_were_named() {
        let starts = starts();
        let tree = |bytes: &[(u64, u8)]| starts.tree(&start(), &content(bytes)).is_some();
        assert!(tree(&[(5, 1)]), "the first one says what is equal");
        assert!(tree(&[(5, 1), (10, 1), (4099, 1)]));
        assert!(tree(&[(5, 1), (19, 2)]));
        assert!(!tree(&[(5, 2), (19, 2)]));
        assert!(!tree(&[(5, 1), (20, 2)]));
        assert!(!tree(&[(5, 1), (9000, 2)]));
        assert!(tree(&[(5, 1), (4095, 3)]), "it still is");
    }

    #[test]
    fn the_first_recoveries_are_checked_and_then_fewer_and_fewer() {
        let starts = starts();
        let checked: Vec<u64> = (1..=70).filter(|_| starts.wants_check()).collect();
        assert_eq!(checked, [1, 2, 3, 4, 8, 16, 32, 64]);
        assert_eq!(starts.counts().checked, 8);
    }

    #[test]
    fn what_does_not_pay_ends_and_nothing_is_taken_back() {
        let millis = Duration::from_millis;
        let starts = starts();
        (0..2 * WINDOW).for_each(|_| starts.took(millis(1), millis(2)));
        assert!(!starts.is_over());
        (0..WINDOW).for_each(|_| starts.took(millis(1), millis(1)));
        assert!(starts.is_over() && !starts.is_contradicted());
        let forced = SharedStarts::new(Arc::default(), true);
        (0..WINDOW).for_each(|_| forced.took(millis(1), millis(0)));
        assert!(!forced.is_over());
    }

    #[test]
    fn recoveries_that_cannot_be_copied_end_it() {
        let starts = starts();
        let error = BranchingError::RunAnew("it makes the system call clone".to_owned());
        (1..MOST_FAILURES).for_each(|_| starts.failed(&error));
        assert!(!starts.is_over());
        starts.count_run(true);
        starts.failed(&error);
        assert!(starts.is_over() && !starts.is_contradicted());
        let counts = starts.counts();
        assert_eq!((counts.copies, counts.run_anew.len()), (1, 1));
        assert_eq!(
            counts.ended.as_deref(),
            Some("it makes the system call clone")
        );
    }

    #[test]
    fn a_contradiction_ends_it_at_once() {
        let starts = starts();
        starts.failed(&BranchingError::Contradiction);
        assert!(starts.is_over() && starts.is_contradicted());
    }
}
