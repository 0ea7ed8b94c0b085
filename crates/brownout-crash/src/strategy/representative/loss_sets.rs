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

/// For each chain, how many of its stores are present.
pub(super) type Kept = Vec<usize>;

/// The states to try, the most different from program order first. `seed` decides which samples are taken.
pub(super) fn states(chains: &[Chain], seed: u64) -> Vec<Kept> {
    let full: Kept = chains.iter().map(|chain| chain.stores.len()).collect();
    let mut states = separating(&full);
    let count = full.iter().try_fold(1_u128, |count, &stores| {
        count.checked_mul(stores as u128 + 1)
    });
    match count.filter(|&count| count <= ALL) {
        Some(_) => states.extend(all(&full)),
        None => {
            states.extend(samples(&full, seed));
            states.push(full);
        }
    }
    let mut known = std::collections::HashSet::new();
    states.retain(|state| known.insert(state.clone()));
    states
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
    let mut next = |below: usize| {
        state = xorshift::next(state);
        (state % below as u64) as usize
    };
    let mut sample = || full.iter().map(|&stores| next(stores + 1)).collect();
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
        let tried = states(&chains(&[1, 1, 1]), 0);
        assert_eq!(tried.len(), 8);
        let in_one_line = states(&chains(&[2, 1]), 0);
        assert_eq!(in_one_line.len(), 6);
    }

    #[test]
    fn of_every_two_stores_each_appears_without_the_other() {
        let lengths: Vec<u64> = (0..37).map(|chain| 1 + chain % 3).collect();
        let tried = states(&chains(&lengths), 5);
        assert!(tried.len() <= 12 + 1 + SAMPLES + 1, "{}", tried.len());
        for one in 0..lengths.len() {
            for other in (0..lengths.len()).filter(|&other| other != one) {
                let stores = lengths[one] as usize;
                let separates = |state: &Kept| state[one] == stores && state[other] == 0;
                assert!(tried[..12].iter().any(separates), "{one} without {other}");
            }
        }
    }

    #[test]
    fn without_chains_there_is_program_order() {
        assert_eq!(states(&[], 0), [Kept::new()]);
    }
}
