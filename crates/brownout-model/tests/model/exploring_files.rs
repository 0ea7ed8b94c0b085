//! Programs that also write and shorten their file by system calls: what lazy exploration reads after a crash is exactly what the
//! tracker, which forgets the stores to these bytes, says a crash can leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use brownout_model::{
    Access, Exploration, FlushEffect, Profile, StoreHistory, StoreHistoryBuilder, StoreKind,
    Tearing, Time,
};
use proptest::prelude::*;

use crate::exploring::{Action, address, crashed, explore};
use crate::following::{Follower, Memory, SPACE};
use crate::program::{Offset, Op};

/// The bytes that programs use and recoveries read: two lines.
const END: u64 = 128;

#[derive(Clone, Debug)]
enum Event {
    Store(Offset, Vec<u8>, StoreKind),
    Clflush(Offset),
    Fence,
    Write(Offset, Vec<u8>),
    Truncate(Offset),
}

fn event() -> impl Strategy<Value = Event> {
    let offset = || (0..2_u64, 0..20_u64).prop_map(|(line, byte)| line * 48 + byte);
    let bytes = || (0..3_u8, 1..20_usize).prop_map(|(value, len)| vec![value; len]);
    let store =
        |kind| (offset(), bytes()).prop_map(move |(at, bytes)| Event::Store(at, bytes, kind));
    prop_oneof![
        4 => store(StoreKind::Cached),
        2 => store(StoreKind::NonTemporal),
        1 => offset().prop_map(Event::Clflush),
        1 => Just(Event::Fence),
        2 => (offset(), bytes()).prop_map(|(at, bytes)| Event::Write(at, bytes)),
        1 => offset().prop_map(Event::Truncate),
    ]
}

/// The states that a crash can leave before each event and at the end.
fn tracked(profile: Profile, tearing: Tearing, events: &[Event]) -> Vec<BTreeSet<Memory>> {
    let mut follower = Follower::new(profile, 1);
    let mut found = vec![follower.crash(tearing)];
    for event in events {
        match event.clone() {
            Event::Store(at, bytes, StoreKind::Cached) => follower.step(&(0, Op::Store(at, bytes))),
            Event::Store(at, bytes, StoreKind::NonTemporal) => {
                follower.step(&(0, Op::NonTemporal(at, bytes)));
            }
            Event::Clflush(at) => follower.step(&(0, Op::Clflush(at))),
            Event::Fence => follower.step(&(0, Op::Fence)),
            Event::Write(at, bytes) => {
                let end = at + bytes.len() as u64;
                follower.tracker.discard(SPACE, at..end, |_| {});
                follower.base.memory.extend((at..).zip(bytes));
            }
            Event::Truncate(at) => {
                follower.tracker.discard(SPACE, at..u64::MAX, |_| {});
                follower.base.memory.retain(|&offset, _| offset < at);
            }
        }
        found.push(follower.crash(tearing));
    }
    found
}

fn history(profile: Profile, tearing: Tearing, events: &[Event]) -> Arc<StoreHistory> {
    let mut run = StoreHistoryBuilder::new(profile, tearing);
    let thread = run.add_thread();
    for (time, event) in (1..).map(Time).zip(events) {
        let by = Access { thread, time };
        match event {
            Event::Store(at, bytes, kind) => run.store(by, address(*at), bytes, *kind),
            Event::Clflush(at) => run.flush(by, address(*at), FlushEffect::Immediate),
            Event::Fence => run.fence(by),
            Event::Write(at, bytes) => run.replace(time, address(*at), bytes),
            Event::Truncate(at) => run.remove(time, SPACE, *at..u64::MAX),
        }
    }
    Arc::new(run.finish())
}

#[test]
fn a_write_of_recovery_to_the_file_survives_its_crash() {
    // The target may have lost its store. Recovery writes the next byte, stores the first, and cuts the file.
    let store = Event::Store(0, vec![1, 1, 1], StoreKind::Cached);
    let history = history(Profile::ADR, Tearing::Whole, &[store]);
    let mut exploration = Exploration::new(crashed(&history, history.crash_times()[0]), 2);
    let mut found = BTreeSet::new();
    while let Some(mut recovery) = exploration.next_run() {
        let is_first = recovery.crashes_before() == 1;
        if is_first {
            let thread = recovery.add_thread();
            recovery.store(thread, address(0), &[7], StoreKind::Cached);
            recovery.replace(address(1), &[5]);
            recovery.remove(SPACE, 2..u64::MAX);
        }
        let bytes = recovery.load(address(0), 4);
        let times = recovery.possible().crash_times().skip(1);
        found.insert((times.map(|time| time.before.0).max(), bytes));
        exploration.finish(recovery);
    }
    let expected = [
        // The first recovery reads what it wrote.
        (None, [7, 5, 0, 0]),
        // Before the write.
        (Some(2), [0, 0, 0, 0]),
        (Some(2), [1, 1, 1, 0]),
        (Some(2), [7, 0, 0, 0]),
        (Some(2), [7, 1, 1, 0]),
        // Before the file is cut.
        (Some(3), [0, 5, 0, 0]),
        (Some(3), [1, 5, 1, 0]),
        (Some(3), [7, 5, 0, 0]),
        (Some(3), [7, 5, 1, 0]),
        // At the end.
        (Some(4), [0, 5, 0, 0]),
        (Some(4), [1, 5, 0, 0]),
        (Some(4), [7, 5, 0, 0]),
    ];
    assert_eq!(
        found,
        expected.map(|(time, bytes)| (time, bytes.to_vec())).into()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn writes_to_the_file_replace_stores_in_every_state(
        events in proptest::collection::vec(event(), 1..8),
        profile in (0..Profile::ALL.len()).prop_map(|at| Profile::ALL[at]),
        tearing in prop_oneof![Just(Tearing::Whole), Just(Tearing::Words)],
    ) {
        let tracked = tracked(profile, tearing, &events);
        let history = history(profile, tearing, &events);
        let mut shown = BTreeSet::new();
        for &time in history.crash_times() {
            let runs = explore(&history, time, 1, &[(0, Action::Load(0, END))]);
            let read: BTreeSet<Memory> = runs
                .iter()
                .map(|run| {
                    let bytes = (0..).zip(run.reads[0].iter().copied());
                    bytes.filter(|(_, byte)| *byte != 0).collect()
                })
                .collect();
            prop_assert_eq!(&read, &tracked[time.before.0 as usize - 1], "before {:?}", time);
            prop_assert_eq!(runs.len(), read.len());
            shown.extend(read);
        }
        let all: BTreeSet<Memory> = tracked.into_iter().flatten().collect();
        prop_assert_eq!(shown, all, "a crash at another time shows more");
    }
}
