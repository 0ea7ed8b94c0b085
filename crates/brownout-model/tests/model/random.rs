//! Random programs: after every step, the model's crash states are exactly those that the reference machine can reach,
//! and its persist order is exactly the one that no reachable state contradicts.

use brownout_model::{LINE, PersistInterval, Profile, StoreKind, Tearing, Time};
use proptest::prelude::*;

use crate::following::{Follower, crashes};
use crate::machine::{self, is_store};
use crate::program::{Op, Step};

pub const THREADS: usize = 3;

/// Three lines: two neighbours in one sector, one elsewhere.
const LINES: [u64; 3] = [0, LINE, 8192];

fn address() -> impl Strategy<Value = u64> {
    (0..LINES.len(), 0..LINE / 8).prop_map(|(line, word)| LINES[line] + word % 2 * 8)
}

/// Stores of one to sixteen bytes, some of which cross into the next line.
fn bytes() -> impl Strategy<Value = (u64, Vec<u8>)> {
    let crossing = (Just(LINE - 8), Just(16_usize));
    let plain = (address(), prop_oneof![Just(1_usize), Just(8), Just(16)]);
    (prop_oneof![4 => plain, 1 => crossing], 1_u8..=9)
        .prop_map(|((offset, len), value)| (offset, vec![value; len]))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => bytes().prop_map(|(offset, bytes)| Op::Store(offset, bytes)),
        3 => bytes().prop_map(|(offset, bytes)| Op::NonTemporal(offset, bytes)),
        1 => bytes().prop_map(|(offset, bytes)| Op::Locked(offset, bytes)),
        1 => address().prop_map(Op::Clflush),
        4 => address().prop_map(Op::Clwb),
        3 => Just(Op::Fence),
        1 => address().prop_map(Op::Sync),
    ]
}

pub fn program(max: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..THREADS, op()), 1..=max)
}

pub fn profile() -> impl Strategy<Value = Profile> {
    (0..Profile::ALL.len()).prop_map(|at| Profile::ALL[at])
}

/// The time at which the follower issues the store of this step.
fn time(step: usize) -> Time {
    Time(step as u64 + 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn crash_states_are_those_of_the_machine(steps in program(8), profile in profile()) {
        let tracked = crashes(profile, Tearing::Whole, THREADS, &steps);
        let reached = machine::run(profile, Tearing::Whole, &steps);
        for (at, (tracked, reached)) in tracked.iter().zip(&reached).enumerate() {
            prop_assert_eq!(tracked, reached, "after {} steps under {}", at, profile.name);
        }
    }

    #[test]
    fn torn_crash_states_are_those_of_the_machine(steps in program(5), profile in profile()) {
        let tracked = crashes(profile, Tearing::Words, THREADS, &steps);
        let reached = machine::run(profile, Tearing::Words, &steps);
        for (at, (tracked, reached)) in tracked.iter().zip(&reached).enumerate() {
            prop_assert_eq!(tracked, reached, "after {} steps under {}", at, profile.name);
        }
    }

    #[test]
    fn persist_order_is_what_no_crash_contradicts(steps in program(8), profile in profile()) {
        let mut follower = Follower::new(profile, THREADS);
        steps.iter().for_each(|step| follower.step(step));
        let open = machine::open_pairs(profile, &steps);
        let stores: Vec<usize> = (0..steps.len()).filter(|&at| is_store(&steps[at].1)).collect();
        let intervals = follower.intervals();
        let parts = |step| {
            let mut parts: Vec<PersistInterval> = intervals.clone();
            parts.retain(|part| part.issued == time(step));
            if profile == Profile::MSYNC {
                // The disk does not distinguish kinds of stores.
                parts.iter_mut().for_each(|part| part.kind = StoreKind::Cached);
            }
            parts
        };
        for &first in &stores {
            for &second in stores.iter().filter(|&&second| second != first) {
                let (firsts, seconds) = (parts(first), parts(second));
                // The machine orders whole stores; a store that spans two units has no single interval.
                let whole = |parts: &[PersistInterval]| {
                    parts.iter().all(|part| part.unit == parts[0].unit)
                };
                if !whole(&firsts) || !whole(&seconds) {
                    continue;
                }
                let ordered = firsts[0].persists_before(&seconds[0]);
                prop_assert_eq!(ordered, !open.contains(&(first, second)), "{} {}", first, second);
            }
        }
    }
}
