//! What recovery reads narrows the possible crash states.

use brownout_model::{PmAddress, Profile, Source, Tearing};

use crate::following::{Follower, SPACE};
use crate::program::Op::{Clflush, Fence};
use crate::program::{Op, X, X2, nt_store, store};

/// Executes the steps in one thread.
fn after(steps: &[Op]) -> Follower {
    let mut follower = Follower::new(Profile::ADR, 1);
    steps.iter().for_each(|op| follower.step(&(0, op.clone())));
    follower
}

const LINE_OF_X: PmAddress = PmAddress {
    space: SPACE,
    offset: X,
};

#[test]
fn a_byte_can_come_from_each_store_that_is_not_settled() {
    let follower = after(&[
        store(X, 1),
        Clflush(X),
        store(X, 2),
        store(X2, 1),
        store(X, 3),
    ]);
    let mut states = follower.tracker.crash_states(Tearing::Whole);
    let unit = states.unit_mut(LINE_OF_X).expect("X is not settled");
    assert_eq!(
        unit.sources(X),
        [Source::Settled, Source::Part(0), Source::Part(2)]
    );
    assert_eq!(unit.sources(X2), [Source::Settled, Source::Part(1)]);
    assert_eq!(unit.sources(X + 1), [Source::Settled]);
    assert_eq!(unit.interval(), 0..=3);
}

#[test]
fn reading_one_byte_narrows_the_others_of_its_line() {
    let follower = after(&[store(X, 1), store(X2, 1), store(X, 2), store(X2, 2)]);
    let mut states = follower.tracker.crash_states(Tearing::Whole);
    let unit = states.unit_mut(LINE_OF_X).expect("X is not settled");
    // X reads 2, so X2 is 1 or 2. Then X2 reads 1.
    unit.choose(X, Source::Part(2));
    assert_eq!(unit.interval(), 3..=4);
    assert_eq!(unit.sources(X2), [Source::Part(1), Source::Part(3)]);
    unit.choose(X2, Source::Part(1));
    assert_eq!(unit.interval(), 3..=3);
    assert_eq!(unit.sources(X2), [Source::Part(1)]);
    assert_eq!(states.count(), Some(1));
}

#[test]
fn non_temporal_stores_are_narrowed_independently() {
    let follower = after(&[nt_store(X, 1), store(X, 2), nt_store(X2, 1)]);
    let mut states = follower.tracker.crash_states(Tearing::Whole);
    let unit = states.unit_mut(LINE_OF_X).expect("X is not settled");
    assert_eq!(unit.states().len(), 8);
    unit.choose(X, Source::Part(0));
    assert_eq!(unit.interval(), 0..=0);
    assert_eq!(unit.sources(X2), [Source::Settled, Source::Part(2)]);
    assert_eq!(unit.states().len(), 2);
}

#[test]
fn contradictory_choices_leave_no_state() {
    let follower = after(&[store(X, 1), store(X2, 1)]);
    let mut states = follower.tracker.crash_states(Tearing::Whole);
    let unit = states.unit_mut(LINE_OF_X).expect("X is not settled");
    unit.choose(X, Source::Settled);
    unit.choose(X2, Source::Part(1));
    assert!(!unit.is_possible());
    assert_eq!(unit.states(), []);
    assert_eq!(states.iter().count(), 0);
}

#[test]
fn a_guaranteed_store_hides_older_stores() {
    // Fenced, but newer than a cached store to the same byte that is not flushed.
    let follower = after(&[store(X, 1), nt_store(X, 2), Fence]);
    for tearing in [Tearing::Whole, Tearing::Words] {
        let mut states = follower.tracker.crash_states(tearing);
        let unit = states.unit_mut(LINE_OF_X).expect("X is not settled");
        assert_eq!(unit.sources(X), [Source::Part(1)]);
    }
}

#[test]
fn with_tearing_words_differ_by_at_most_one_store() {
    let wide = |value| Op::Store(X, vec![value; 16]);
    let follower = after(&[wide(1), wide(2), wide(3)]);
    let mut states = follower.tracker.crash_states(Tearing::Words);
    let unit = states.unit_mut(LINE_OF_X).expect("X is not settled");
    unit.choose(X, Source::Part(1));
    assert_eq!(
        unit.sources(X2),
        [Source::Part(0), Source::Part(1), Source::Part(2)]
    );
    unit.choose(X2, Source::Part(0));
    assert_eq!(unit.states().len(), 1);
}

#[test]
fn a_settled_line_has_nothing_to_narrow() {
    let follower = after(&[store(X, 1), Clflush(X)]);
    let mut states = follower.tracker.crash_states(Tearing::Whole);
    assert!(states.unit_mut(LINE_OF_X).is_none());
    assert_eq!(states.count(), Some(1));
}
