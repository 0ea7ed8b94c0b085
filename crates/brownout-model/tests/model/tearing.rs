//! Stores that can tear between 8-byte words.

use std::collections::BTreeSet;

use brownout_model::{Profile, Tearing};

use crate::following::crashes;
use crate::program::Op::{Clwb, Fence, NonTemporal, Store};
use crate::program::{Step, X};

/// The first byte of each of the first four words, for each state after the last step.
fn words(profile: Profile, tearing: Tearing, steps: &[Step]) -> BTreeSet<[u8; 4]> {
    let states = crashes(profile, tearing, 1, steps)
        .pop()
        .unwrap_or_default();
    let word = |memory: &std::collections::BTreeMap<u64, u8>, at: u64| {
        memory.get(&(X + at * 8)).copied().unwrap_or(0)
    };
    states
        .iter()
        .map(|memory| [0, 1, 2, 3].map(|at| word(memory, at)))
        .collect()
}

fn value(byte: u8, words: usize) -> Vec<u8> {
    vec![byte; words * 8]
}

#[test]
fn a_store_is_whole_unless_tearing_is_enabled() {
    let steps = [(0, Store(X, value(1, 2)))];
    assert_eq!(
        words(Profile::ADR, Tearing::Whole, &steps),
        BTreeSet::from([[0; 4], [1, 1, 0, 0]])
    );
    assert_eq!(
        words(Profile::ADR, Tearing::Words, &steps),
        BTreeSet::from([[0; 4], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]])
    );
}

#[test]
fn only_the_last_store_of_the_sequence_is_torn() {
    let steps = [(0, Store(X, value(1, 2))), (0, Store(X, value(2, 2)))];
    assert_eq!(
        words(Profile::ADR, Tearing::Words, &steps),
        BTreeSet::from([
            [0, 0, 0, 0],
            [0, 1, 0, 0],
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [1, 2, 0, 0],
            [2, 1, 0, 0],
            [2, 2, 0, 0],
        ])
    );
}

#[test]
fn a_guaranteed_store_is_whole() {
    let steps = [(0, Store(X, value(1, 4))), (0, Clwb(X)), (0, Fence)];
    assert_eq!(
        words(Profile::ADR, Tearing::Words, &steps),
        BTreeSet::from([[1; 4]])
    );
}

#[test]
fn a_non_temporal_store_can_tear() {
    let steps = [(0, NonTemporal(X, value(1, 2)))];
    assert_eq!(words(Profile::EADR, Tearing::Words, &steps).len(), 4);
    assert_eq!(words(Profile::EADR, Tearing::Whole, &steps).len(), 2);
}

#[test]
fn a_word_is_never_torn() {
    // An unaligned store covers two words.
    let steps = [(0, Store(X + 4, vec![1; 8]))];
    let states = crashes(Profile::ADR, Tearing::Words, 1, &steps)
        .pop()
        .unwrap_or_default();
    let lengths: BTreeSet<usize> = states.iter().map(|memory| memory.len()).collect();
    assert_eq!(lengths, BTreeSet::from([0, 4, 8]));
}
