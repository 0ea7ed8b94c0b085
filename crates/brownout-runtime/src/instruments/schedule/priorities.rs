//! Which thread is preferred, and when that changes: probabilistic concurrency testing (Burckhardt et al., "A Randomized
//! Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010, section 3).
//!
//! Each thread gets a random priority, and the one with the highest runs. At a few random steps, the running thread gets a
//! priority below those of all threads that have not been preempted. A bug that needs `d` ordering constraints is found with
//! a probability of at least 1/(n·k^(d-1)), given n threads and k steps, if `d - 1` of the preemptions are the right ones.
//!
//! Deviations: the number of preemptions is random, too, so that a sweep finds simple bugs quickly and deeper ones
//! eventually. A thread that waits in a loop gets the lowest priority of all, which the paper leaves to the program's yields.

use alloc::vec::Vec;

/// At most this number of preemptions.
const MOST_PREEMPTIONS: u64 = 4;
/// Priorities of threads that were not preempted are at least this; those of threads that were are at least [`PREEMPTED`].
const UNTOUCHED: u64 = 1 << 62;
const PREEMPTED: u64 = 1 << 61;

/// Numbers that a seed determines (SplitMix64).
#[derive(Clone, Debug)]
pub struct SeededNumbers(u64);

impl SeededNumbers {
    pub const fn new(seed: u64) -> SeededNumbers {
        SeededNumbers(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }
}

/// The priorities that a seed assigns, and the steps at which the running thread is preempted.
#[derive(Clone, Debug)]
pub struct Priorities {
    numbers: SeededNumbers,
    /// Steps at which the running thread is preempted, the next one last.
    preemptions: Vec<u64>,
    /// The lowest priority so far.
    lowest: u64,
}

impl Priorities {
    /// The priorities of a seed. Preemptions are distributed over `length` steps.
    pub fn new(seed: u64, length: u64) -> Priorities {
        let mut numbers = SeededNumbers::new(seed);
        let count = 1 + numbers.below(MOST_PREEMPTIONS);
        let mut preemptions: Vec<u64> = (0..count)
            .map(|_| 1 + numbers.below(length.max(1)))
            .collect();
        preemptions.sort_unstable_by(|a, b| b.cmp(a));
        preemptions.dedup();
        Priorities {
            numbers,
            preemptions,
            lowest: PREEMPTED,
        }
    }

    /// The priority of a new thread.
    pub fn of_new_thread(&mut self) -> u64 {
        UNTOUCHED + self.numbers.below(UNTOUCHED)
    }

    /// The step of the next preemption.
    pub fn next_preemption(&self) -> Option<u64> {
        self.preemptions.last().copied()
    }

    /// The new priority of a thread that is preempted at `step`; `None` if it is not.
    pub fn preempt(&mut self, step: u64) -> Option<u64> {
        self.preemptions.pop_if(|&mut at| at <= step)?;
        Some(PREEMPTED + self.numbers.below(PREEMPTED))
    }

    /// The new priority of a thread that lets all others run.
    pub fn of_yielding_thread(&mut self) -> u64 {
        self.lowest -= 1;
        self.lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_everything() {
        let run = |seed| {
            let mut priorities = Priorities::new(seed, 1000);
            let first: Vec<u64> = (0..4).map(|_| priorities.of_new_thread()).collect();
            (first, priorities.preemptions)
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn a_preempted_thread_yields_to_all_others_and_not_to_one_that_spins() {
        let mut priorities = Priorities::new(3, 10);
        let other = priorities.of_new_thread();
        let preempted = priorities.preempt(10).unwrap();
        let spinning = priorities.of_yielding_thread();
        assert!(spinning < preempted && preempted < other);
        assert!(priorities.of_yielding_thread() < spinning);
    }

    #[test]
    fn preemptions_happen_at_steps_of_the_run_and_once() {
        for seed in 0..200 {
            let mut priorities = Priorities::new(seed, 50);
            assert!((1..=4).contains(&priorities.preemptions.len()));
            while let Some(step) = priorities.next_preemption() {
                assert!((1..=50).contains(&step));
                assert_eq!(priorities.preempt(step - 1), None);
                assert!(priorities.preempt(step).is_some());
            }
        }
    }

    #[test]
    fn seeds_order_two_threads_in_both_ways() {
        let first_wins = |seed| {
            let mut priorities = Priorities::new(seed, 50);
            priorities.of_new_thread() > priorities.of_new_thread()
        };
        let wins = (0..100).filter(|&seed| first_wins(seed)).count();
        assert!((30..70).contains(&wins), "{wins}");
    }
}
