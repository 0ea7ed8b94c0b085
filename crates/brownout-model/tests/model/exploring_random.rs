//! Random programs and recoveries: lazy exploration shows exactly what running the recovery on every crash image shows, with one
//! run for each distinct sequence of reads.

use std::collections::BTreeSet;

use brownout_model::{LINE, Profile, ReadSource, Source, Tearing};
use proptest::prelude::*;

use crate::exploring::{
    Action, InnerCrash, Native, Reads, address, crashed, explore, explore_by_copies, history,
};
use crate::following::{Follower, Memory, crashes};
use crate::program::{Offset, Op, Step};

const THREADS: usize = 2;

/// Two neighbouring lines in one sector, one elsewhere.
const LINES: [u64; 3] = [0, LINE, 8192];

/// Accesses of one to sixteen bytes that overlap each other in many ways, some in two lines.
fn range() -> impl Strategy<Value = (Offset, u64)> {
    let aligned = (0..LINES.len(), 0..2_u64, 0..4_u32)
        .prop_map(|(line, word, width)| (LINES[line] + word * 8, 1 << width));
    let odd = (0..LINES.len(), 0..12_u64).prop_map(|(line, byte)| (LINES[line] + byte, 2));
    prop_oneof![
        6 => aligned,
        1 => odd,
        2 => (0..LINES.len()).prop_map(|line| (LINES[line], 16)),
        1 => Just((LINE - 4, 8)),
    ]
}

/// Bytes with few values, so that values recur, also in a part of the bytes.
fn bytes() -> impl Strategy<Value = (Offset, Vec<u8>)> {
    (range(), 0_u8..3, 0_u8..3).prop_map(|((offset, len), first, second)| {
        let value = |at| if 2 * at < len { first } else { second };
        (offset, (0..len).map(value).collect())
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => bytes().prop_map(|(offset, bytes)| Op::Store(offset, bytes)),
        3 => bytes().prop_map(|(offset, bytes)| Op::NonTemporal(offset, bytes)),
        1 => range().prop_map(|(offset, _)| Op::Clflush(offset)),
        3 => range().prop_map(|(offset, _)| Op::Clwb(offset)),
        2 => Just(Op::Fence),
        1 => range().prop_map(|(offset, _)| Op::Sync(offset)),
    ]
}

fn program(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let locked = bytes().prop_map(|(offset, bytes)| Op::Locked(offset, bytes));
    let op = prop_oneof![12 => op(), 1 => locked];
    proptest::collection::vec((0..THREADS, op), 1..=max)
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => range().prop_map(|(offset, len)| Action::Load(offset, len)),
        1 => Just(Action::Load(0, 2 * LINE)),
        2 => range().prop_map(|(offset, len)| Action::Follow(offset, len)),
        1 => range().prop_map(|(offset, _)| Action::StoreSum(offset)),
        1 => range().prop_map(|(offset, _)| Action::Increment(offset)),
        3 => op().prop_map(Action::Do),
        2 => (0_u8..3).prop_map(Action::SkipIf),
    ]
}

fn recovery(max: usize) -> impl Strategy<Value = Vec<(usize, Action)>> {
    proptest::collection::vec((0..THREADS, action()), 1..=max)
}

fn machine() -> impl Strategy<Value = (Profile, Tearing)> {
    let tearing = prop_oneof![Just(Tearing::Whole), Just(Tearing::Words)];
    (0..Profile::ALL.len(), tearing).prop_map(|(at, tearing)| (Profile::ALL[at], tearing))
}

/// Runs a program through the tracker.
fn follow(profile: Profile, steps: &[Step]) -> Follower {
    let mut follower = Follower::new(profile, THREADS);
    steps.iter().for_each(|step| follower.step(step));
    follower
}

/// Runs a recovery on each image: what it reads, and the crashes inside of it.
fn eager<'a>(
    (profile, tearing): (Profile, Tearing),
    images: impl IntoIterator<Item = &'a Memory>,
    actions: &[(usize, Action)],
) -> Vec<(Reads, Vec<InnerCrash>)> {
    let images = images.into_iter();
    images
        .map(|image| Native::run(profile, tearing, image, actions))
        .collect()
}

/// A run of recovery if everything is tried: when the runs before it crashed, what each recovery among them read up to its crash, and
/// what it reads itself.
type EagerRun = (Vec<u64>, Vec<Reads>, Reads);

/// The runs of recovery on these images, and after crashes inside of them until `depth` runs have crashed.
fn eager_runs(
    machine: (Profile, Tearing),
    depth: usize,
    (times, before): (Vec<u64>, Vec<Reads>),
    images: &BTreeSet<Memory>,
    actions: &[(usize, Action)],
) -> BTreeSet<EagerRun> {
    let mut found = BTreeSet::new();
    for (reads, inner_crashes) in eager(machine, images, actions) {
        for inner_crash in inner_crashes
            .iter()
            .filter(|inner_crash| inner_crash.is_crash_time)
        {
            if times.len() < depth {
                let (mut times, mut before) = (times.clone(), before.clone());
                times.push(inner_crash.before);
                before.push(reads[..inner_crash.loads].to_vec());
                let inside = (times, before);
                found.extend(eager_runs(
                    machine,
                    depth,
                    inside,
                    &inner_crash.states,
                    actions,
                ));
            }
        }
        found.insert((times.clone(), before.clone(), reads));
    }
    found
}

/// Checks that exploration shows what trying everything shows, once each.
fn check_exploration(
    (profile, tearing): (Profile, Tearing),
    depth: usize,
    steps: &[Step],
    actions: &[(usize, Action)],
) -> Result<(), TestCaseError> {
    let images = crashes(profile, tearing, THREADS, steps);
    let history = history(profile, tearing, steps);
    for &time in history.crash_times() {
        let images = &images[time.before.0 as usize - 1];
        let start = (vec![time.before.0], Vec::new());
        let eager = eager_runs((profile, tearing), depth, start, images, actions);
        let shown: BTreeSet<(Vec<u64>, Reads)> = eager
            .iter()
            .map(|(times, _, reads)| (times.clone(), reads.clone()))
            .collect();
        let explored = [explore, explore_by_copies];
        for runs in explored.map(|explore| explore(&history, time, depth, actions)) {
            let lazy: BTreeSet<_> = runs
                .iter()
                .map(|run| (run.crashes.clone(), run.reads.clone()))
                .collect();
            prop_assert_eq!(&lazy, &shown, "before {:?}", time);
            prop_assert_eq!(runs.len(), eager.len(), "before {:?}", time);
            for run in runs {
                let is_known = images.contains(&run.image);
                prop_assert!(is_known || run.crashes.len() > 1, "{:?}", run.image);
                let (reads, _) = Native::run(profile, tearing, &run.image, actions);
                prop_assert_eq!(reads, run.reads, "the completed image leads elsewhere");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_behaviour_is_explored_once(
        steps in program(7),
        actions in recovery(6),
        machine in machine(),
    ) {
        check_exploration(machine, 1, &steps, &actions)?;
    }

    #[test]
    fn each_behaviour_after_a_crash_of_recovery_is_explored_once(
        steps in program(4),
        actions in recovery(5),
        machine in machine(),
    ) {
        check_exploration(machine, 2, &steps, &actions)?;
    }

    #[test]
    fn each_behaviour_after_two_crashes_of_recovery_is_explored_once(
        steps in program(3),
        actions in recovery(4),
        machine in machine(),
    ) {
        check_exploration(machine, 3, &steps, &actions)?;
    }

    #[test]
    fn crash_times_show_what_a_crash_at_any_time_shows(
        steps in program(4),
        actions in recovery(4),
        machine in machine(),
    ) {
        let (profile, tearing) = machine;
        let images: BTreeSet<Memory> =
            crashes(profile, tearing, THREADS, &steps).into_iter().flatten().collect();
        let mut eagerly = BTreeSet::new();
        for (reads, inner_crashes) in eager(machine, &images, &actions) {
            eagerly.insert(reads);
            let inside: BTreeSet<&Memory> =
                inner_crashes.iter().flat_map(|inner_crash| &inner_crash.states).collect();
            eagerly.extend(eager(machine, inside, &actions).into_iter().map(|(reads, _)| reads));
        }
        let history = history(profile, tearing, &steps);
        let times = history.crash_times().iter();
        let lazily: BTreeSet<Reads> = times
            .flat_map(|&time| explore(&history, time, 2, &actions))
            .map(|run| run.reads)
            .collect();
        prop_assert_eq!(lazily, eagerly);
    }

    #[test]
    fn a_byte_comes_from_the_stores_that_the_tracker_names(
        steps in program(7),
        machine in machine(),
    ) {
        let (profile, tearing) = machine;
        let history = history(profile, tearing, &steps);
        for &time in history.crash_times() {
            let follower = follow(profile, &steps[..time.before.0 as usize - 1]);
            let possible = crashed(&history, time);
            for unit in follower.tracker.crash_states(tearing).units() {
                for byte in 0..profile.unit {
                    let named = unit.sources(byte).into_iter().map(|source| match source {
                        Source::Settled => ReadSource::Settled,
                        Source::Part(part) => ReadSource::Store {
                            run: 0,
                            issued: unit.parts()[part].time,
                        },
                    });
                    let named: BTreeSet<ReadSource> = named.collect();
                    let found = possible.sources(address(unit.address().offset + byte), 1);
                    prop_assert_eq!(found, named, "byte {} before {:?}", byte, time);
                }
            }
        }
    }

    #[test]
    fn eager_states_are_those_of_the_tracker(steps in program(8), machine in machine()) {
        let (profile, tearing) = machine;
        let history = history(profile, tearing, &steps);
        for time in history.crash_times() {
            let follower = follow(profile, &steps[..time.before.0 as usize - 1]);
            let count = follower.tracker.crash_states(tearing).count();
            let log = (count.expect("few states") as f64).log10();
            prop_assert!((log - time.states_log10).abs() < 1e-6, "{} {:?}", log, time);
        }
    }
}
