//! When crashes are tried, and how many states an eager enumeration would have to try.

use std::sync::Arc;

use brownout_model::{
    Access, PmAddress, PossibleMemory, Profile, StoreHistoryBuilder, StoreKind, Tearing, Time,
};

use crate::exploring::{address, crashed, history};
use crate::following::SPACE;
use crate::program::Op::{Clflush, Clwb, Fence, Sync};
use crate::program::{Op, X, X2, Y, locked, nt_store, store};

/// The steps before which a crash is tried, from 1.
fn times(profile: Profile, ops: &[Op]) -> Vec<u64> {
    let steps: Vec<_> = ops.iter().map(|op| (0, op.clone())).collect();
    let history = history(profile, Tearing::Whole, &steps);
    let times = history.crash_times().iter();
    times.map(|time| time.before.0).collect()
}

#[test]
fn a_crash_comes_before_what_narrows() {
    // A clflush narrows at once, a clwb at its fence or at a locked instruction.
    let program = [store(X, 1), Clflush(X), store(Y, 1), Clwb(Y), Fence];
    assert_eq!(times(Profile::ADR, &program), [2, 5, 6]);
    let program = [store(X, 1), Clwb(X), locked(Y, 1), nt_store(X, 2), Fence];
    assert_eq!(times(Profile::ADR, &program), [3, 5, 6]);
}

#[test]
fn what_narrows_nothing_is_no_crash_time() {
    // The flush of another line, a fence without flush, a flush of what is guaranteed already.
    let program = [
        store(X, 1),
        Clflush(Y),
        Fence,
        Clflush(X),
        Clflush(X),
        Fence,
    ];
    assert_eq!(times(Profile::ADR, &program), [4, 7]);
}

#[test]
fn without_a_store_since_the_last_one_there_is_no_crash_time() {
    let program = [store(X, 1), store(Y, 1), Clflush(X), Clflush(Y)];
    assert_eq!(times(Profile::ADR, &program), [3, 5]);
}

#[test]
fn where_caches_survive_each_store_narrows() {
    // Also the first one: before it, memory has its initial content.
    let program = [store(X, 1), Clwb(X), Fence, store(X2, 1), store(Y, 1)];
    for profile in [Profile::EADR, Profile::GPF] {
        assert_eq!(times(profile, &program), [1, 4, 5, 6]);
    }
    // A non-temporal store narrows at its fence.
    let program = [nt_store(X, 1), Fence];
    assert_eq!(times(Profile::EADR, &program), [2, 3]);
}

#[test]
fn on_a_disk_only_writing_back_narrows() {
    let program = [
        store(X, 1),
        Clflush(X),
        Fence,
        store(Y, 1),
        Sync(X),
        Sync(Y),
    ];
    assert_eq!(times(Profile::MSYNC, &program), [5, 7]);
}

#[test]
fn a_run_without_events_has_its_end() {
    assert_eq!(times(Profile::ADR, &[]), [1]);
}

#[test]
fn eager_states_are_counted_per_crash_time_and_in_all() {
    // 64 lines with one store each, then one of them is flushed.
    let stores = (0..64).map(|line| (0, store(line * 64, 1)));
    let steps: Vec<_> = stores.chain([(0, Clflush(0))]).collect();
    let history = history(Profile::ADR, Tearing::Whole, &steps);
    let logs: Vec<f64> = history
        .crash_times()
        .iter()
        .map(|time| time.states_log10)
        .collect();
    let two = 2_f64.log10();
    assert!((logs[0] - 64.0 * two).abs() < 1e-6);
    assert!((logs[1] - 63.0 * two).abs() < 1e-6);
    let all = history.eager_states_log10();
    assert!((all - (63.0 * two + 3_f64.log10())).abs() < 1e-6);
    let possible = crashed(&history, history.crash_times()[0]);
    assert_eq!(possible.eager_states_log10(), logs[0]);
}

/// What one byte can be after a crash.
fn values(possible: &PossibleMemory, offset: u64) -> Vec<u8> {
    let classes = possible.may_read(address(offset), 1);
    classes.iter().map(|class| class.bytes[0]).collect()
}

#[test]
fn a_write_to_the_file_replaces_what_was_stored() {
    let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
    let thread = run.add_thread();
    let by = |time| Access {
        thread,
        time: Time(time),
    };
    run.store(by(1), address(X), &[1; 16], StoreKind::Cached);
    run.replace(Time(2), address(X2), &[2; 8]);
    run.store(by(3), address(X2), &[3], StoreKind::Cached);
    let history = Arc::new(run.finish());
    let [before, end] = history.crash_times()[..] else {
        panic!(
            "before the write and at the end: {:?}",
            history.crash_times()
        );
    };
    assert_eq!((before.before, end.before), (Time(2), Time(4)));
    let possible = crashed(&history, before);
    assert_eq!(
        (values(&possible, X), values(&possible, X2)),
        (vec![1, 0], vec![1, 0])
    );
    let possible = crashed(&history, end);
    assert_eq!(
        (values(&possible, X), values(&possible, X2)),
        (vec![1, 0], vec![3, 2])
    );
    assert!((end.states_log10 - 3_f64.log10()).abs() < 1e-6);
}

#[test]
fn bytes_that_the_file_loses_are_zero_if_they_return() {
    let ones = |_: PmAddress, bytes: &mut [u8]| bytes.fill(1);
    let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
    let thread = run.add_thread();
    let by = |time| Access {
        thread,
        time: Time(time),
    };
    run.store(by(1), address(X), &[5], StoreKind::Cached);
    run.remove(Time(2), SPACE, 4..u64::MAX);
    run.store(by(3), address(Y), &[6], StoreKind::Cached);
    let history = Arc::new(run.finish());
    let initial = Arc::new(ones);
    let at = |time| PossibleMemory::new(initial.clone(), history.clone(), time);
    let [before, end] = history.crash_times()[..] else {
        panic!(
            "before the removal and at the end: {:?}",
            history.crash_times()
        );
    };
    let shown = |possible: &PossibleMemory| [X, 3, 4, Y].map(|offset| values(possible, offset));
    assert_eq!(shown(&at(before)), [vec![5, 1], vec![1], vec![1], vec![1]]);
    assert_eq!(shown(&at(end)), [vec![5, 1], vec![1], vec![0], vec![6, 0]]);
}
