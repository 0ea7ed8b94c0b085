//! Which stores of an update behaviour a crash loses.
//!
//! The stores to a unit are a chain: a crash keeps some of its first ones. A non-temporal store is a chain of its own. Chains are
//! independent, so all that a crash can leave of the behaviour is the product of their states. If these are too many, the first images are
//! ones in which, of every two stores in different chains, each is present once without the other: chains are numbered, and for each bit of
//! the numbers those with it are lost, and then those without it. After that come samples.

use brownout_trace::{EventIndex, FileId};

use crate::strategy::xorshift;

/// States that are all tried.
const ALL: u128 = 48;
/// Samples of more states.
const SAMPLES: usize = 24;

/// Stores that a crash keeps or loses in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) unit: (FileId, u64),
    /// Whether it is part of the sequence of the unit, and not a non-temporal store.
    pub(super) in_sequence: bool,
    /// Those that can be lost, in the order of issue.
    pub(super) stores: Vec<EventIndex>,
}

impl Chain {
    /// What is lost if the first `kept` stores are present.
    pub(super) fn lost(&self, kept: u16) -> &[EventIndex] {
        &self.stores[usize::from(kept)..]
    }
}

/// For each chain, how many of its stores are present. There are few enough for small numbers.
pub(super) type Kept = Vec<u16>;

/// The states to try.
#[derive(Debug)]
pub(super) struct States {
    /// The most different from program order first.
    pub(super) tried: Vec<Kept>,
    /// Whether there are others.
    pub(super) is_sample: bool,
}

/// The state with all stores.
pub(super) fn full(chains: &[Chain]) -> Kept {
    let stores = |chain: &Chain| u16::try_from(chain.stores.len()).unwrap_or(u16::MAX);
    chains.iter().map(stores).collect()
}

/// The states to try. `seed` decides which samples are taken.
pub(super) fn states(chains: &[Chain], seed: u64) -> States {
    let full = full(chains);
    let mut tried = separating(&full);
    let count = full.iter().try_fold(1_u128, |count, &stores| {
        count.checked_mul(u128::from(stores) + 1)
    });
    let is_sample = count.is_none_or(|count| count > ALL);
    if is_sample {
        tried.extend(samples(&full, seed));
        tried.push(full);
    } else {
        tried.extend(all(&full));
    }
    let mut known = std::collections::HashSet::new();
    tried.retain(|state| known.insert(state.clone()));
    States { tried, is_sample }
}

/// States in which, of every two chains, each is present without the other, and the one without any store.
fn separating(full: &Kept) -> Vec<Kept> {
    let bits = usize::BITS - full.len().saturating_sub(1).leading_zeros();
    let mut states = Vec::new();
    for bit in 0..bits {
        for lost in [0, 1] {
            let kept = full.iter().enumerate();
            let kept = kept.map(|(chain, &stores)| match chain >> bit & 1 == lost {
                true => 0,
                false => stores,
            });
            states.push(kept.collect());
        }
    }
    states.push(vec![0; full.len()]);
    states
}

fn all(full: &Kept) -> Vec<Kept> {
    let mut states = vec![Vec::new()];
    for &stores in full {
        let longer = states.iter().flat_map(|state: &Kept| {
            (0..=stores).map(|kept| {
                let mut state = state.clone();
                state.push(kept);
                state
            })
        });
        states = longer.collect();
    }
    states
}

fn samples(full: &Kept, seed: u64) -> Vec<Kept> {
    // Zero would be followed by zero.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        state = xorshift::next(state);
        (state % below) as u16
    };
    let mut sample = || {
        full.iter()
            .map(|&stores| next(u64::from(stores) + 1))
            .collect()
    };
    (0..SAMPLES).map(|_| sample()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chains(lengths: &[u64]) -> Vec<Chain> {
        let chains = lengths.iter().zip(0..).map(|(&stores, unit)| Chain {
            unit: (FileId(0), 64 * unit),
            in_sequence: true,
            stores: (0..stores)
                .map(|store| EventIndex(100 * unit + store))
                .collect(),
        });
        chains.collect()
    }

    /// Fig. 4.7: X.B, X.C and X.D after X.A is persisted; and Fig. 4.1, where two of them are in one line.
    #[test]
    fn all_states_of_a_small_behaviour_are_tried() {
        let found = states(&chains(&[1, 1, 1]), 0);
        assert_eq!((found.tried.len(), found.is_sample), (8, false));
        let in_one_line = states(&chains(&[2, 1]), 0);
        assert_eq!(in_one_line.tried.len(), 6);
    }

    #[test]
    fn what_has_more_states_than_are_tried_is_sampled() {
        let five_lines = states(&chains(&[1; 5]), 0);
        assert_eq!((five_lines.tried.len(), five_lines.is_sample), (32, false));
        let six_lines = states(&chains(&[1; 6]), 0);
        assert!(six_lines.tried.len() < 64 && six_lines.is_sample);
    }

    #[test]
    fn of_every_two_stores_each_appears_without_the_other() {
        let lengths: Vec<u64> = (0..37).map(|chain| 1 + chain % 3).collect();
        let States { tried, is_sample } = states(&chains(&lengths), 5);
        assert!(is_sample);
        assert!(tried.len() <= 12 + 1 + SAMPLES + 1, "{}", tried.len());
        for one in 0..lengths.len() {
            for other in (0..lengths.len()).filter(|&other| other != one) {
                let separates =
                    |state: &Kept| u64::from(state[one]) == lengths[one] && state[other] == 0;
                assert!(tried[..12].iter().any(separates), "{one} without {other}");
            }
        }
    }

    #[test]
    fn without_chains_there_is_program_order() {
        assert_eq!(states(&[], 0).tried, [Kept::new()]);
    }
}
