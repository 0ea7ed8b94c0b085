//! When a crash is worth trying (Jaaru §4, "Injecting failures").
//!
//! A store adds to what a crash can leave; what makes stores guaranteed takes from it. Of all times between two such
//! narrowing operations, the last one has every state that the others have. A crash is therefore tried immediately before
//! each operation that narrows, and at the end. If nothing was stored since the last crash time, the states are among those
//! of that time, and no crash is tried.
//!
//! Caches that survive, and writes to the file, make a store itself narrow: the line cannot lose it any more.

use std::collections::BTreeMap;

use crate::address::Time;
use crate::unit_states::Tearing;

/// A time at which a crash can leave states that no other time shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrashTime {
    /// The crash happens immediately before the event at this time.
    pub before: Time,
    /// The decimal logarithm of the number of states that a crash at this time can leave. An eager enumeration (Yat)
    /// has to try all of them.
    pub states_log10: f64,
}

/// The decimal logarithm of the number of states that crashes at all of these times can leave.
pub fn states_log10(times: impl Iterator<Item = CrashTime> + Clone) -> f64 {
    sum_log10(times.map(|time| time.states_log10))
}

/// The decimal logarithm of the sum of numbers that are given by their logarithms.
fn sum_log10(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest
        + logs
            .map(|log| 10_f64.powf(log - largest))
            .sum::<f64>()
            .log10()
}

/// The decimal logarithm of the number of states of a unit, given how many parts stores of the sequence can be torn into, with how many
/// such stores there are, and how many stores or parts can be lost independently.
pub(super) fn unit_states_log10(
    steps: impl Iterator<Item = (u32, u32)> + Clone,
    optional: u32,
) -> f64 {
    // A store is the last one that is present in each state that has some of its parts and nothing later; one state has no store.
    let last = steps.map(|(parts, count)| states_of_step(parts) + f64::from(count).log10());
    sum_log10(last.chain([0.0])) + f64::from(optional) * 2_f64.log10()
}

/// The number of states of one unit, kept up to date as stores are issued and guaranteed.
#[derive(Clone, Debug, Default)]
pub(super) struct StateCount {
    /// The words of each store of the sequence that can be lost.
    steps: BTreeMap<Time, u32>,
    /// How many of these stores can be torn into so many parts. Their states are computed from it each time, because sums of powers of two
    /// leave a rest when terms are removed again.
    by_parts: BTreeMap<u32, u32>,
    /// How many stores, or words of them, can be lost independently.
    optional: u32,
}

impl StateCount {
    /// Changes the number of words of a store of the sequence that can be lost.
    pub(super) fn change_step(&mut self, tearing: Tearing, time: Time, change: i32) {
        let words = self.steps.entry(time).or_default();
        let parts = |words: u32| match tearing {
            Tearing::Whole => words.min(1),
            Tearing::Words => words,
        };
        let old = parts(*words);
        *words = words.saturating_add_signed(change);
        let new = parts(*words);
        if *words == 0 {
            self.steps.remove(&time);
        }
        change_count(&mut self.by_parts, old, -1);
        change_count(&mut self.by_parts, new, 1);
    }

    /// Changes the number of stores, or of their words, that can be lost independently.
    pub(super) fn change_optional(&mut self, change: i32) {
        self.optional = self.optional.saturating_add_signed(change);
    }

    pub(super) fn log10(&self) -> f64 {
        let steps = self.by_parts.iter();
        unit_states_log10(steps.map(|(&parts, &count)| (parts, count)), self.optional)
    }
}

/// Changes how many stores have so many parts, of which there is at least one.
fn change_count(by_parts: &mut BTreeMap<u32, u32>, parts: u32, change: i32) {
    if parts == 0 {
        return;
    }
    let count = by_parts.entry(parts).or_default();
    *count = count.saturating_add_signed(change);
    if *count == 0 {
        by_parts.remove(&parts);
    }
}

/// The decimal logarithm of the number of states in which a store of so many parts is the last one that is present, whole or torn.
fn states_of_step(parts: u32) -> f64 {
    // 2^n - 1, which is 2^n (1 - 2^-n): a store may have more parts than the powers of two that are floating-point numbers.
    let rest = -(-f64::from(parts)).exp2();
    f64::from(parts) * 2_f64.log10() + rest.ln_1p() / std::f64::consts::LN_10
}

/// A sum of logarithms from which a term can be removed again without a rest, because it is kept in fixed point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogSum(i64);

const FIXED_POINT: f64 = (1_u64 << 32) as f64;

impl LogSum {
    pub(super) fn replace(&mut self, old: f64, new: f64) {
        let fixed = |log: f64| (log * FIXED_POINT).round() as i64;
        self.0 += fixed(new) - fixed(old);
    }

    pub(super) fn log10(self) -> f64 {
        self.0 as f64 / FIXED_POINT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_logarithms_does_not_overflow() {
        let sum = sum_log10([400.0, 400.0].into_iter());
        assert!((sum - (400.0 + 2_f64.log10())).abs() < 1e-9);
        assert_eq!(sum_log10(std::iter::empty()), f64::NEG_INFINITY);
    }

    #[test]
    fn a_count_returns_to_one_state() {
        let mut count = StateCount::default();
        count.change_step(Tearing::Words, Time(1), 64);
        count.change_step(Tearing::Words, Time(2), 1);
        count.change_optional(3);
        // 2^64 - 1 ways to have at least some of the first store, one for the second, one for none.
        assert!((count.log10() - 67.0 * 2_f64.log10()).abs() < 1e-9);
        count.change_step(Tearing::Words, Time(1), -64);
        count.change_step(Tearing::Words, Time(2), -1);
        count.change_optional(-3);
        assert_eq!(count.log10(), 0.0);
    }

    #[test]
    fn a_store_of_many_words_has_a_finite_number_of_states() {
        let mut count = StateCount::default();
        for (time, words) in [(1, 128), (2, 128), (3, 5000)] {
            count.change_step(Tearing::Words, Time(time), words);
        }
        assert!((count.log10() - 5000.0 * 2_f64.log10()).abs() < 1e-9);
        count.change_step(Tearing::Words, Time(3), -5000);
        assert!((count.log10() - 129.0 * 2_f64.log10()).abs() < 1e-9);
        for time in [1, 2] {
            count.change_step(Tearing::Words, Time(time), -126);
        }
        // Three ways to have at least some of each store, one for none.
        assert!((count.log10() - 7_f64.log10()).abs() < 1e-9);
    }

    #[test]
    fn a_removed_term_leaves_no_rest() {
        let mut sum = LogSum::default();
        let terms = [0.1, 3.7, 12.25];
        terms.iter().for_each(|&term| sum.replace(0.0, term));
        assert!((sum.log10() - 16.05).abs() < 1e-8);
        terms.iter().for_each(|&term| sum.replace(term, 0.0));
        assert_eq!(sum, LogSum::default());
    }
}
