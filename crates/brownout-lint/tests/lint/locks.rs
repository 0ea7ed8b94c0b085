//! Locks in persistent memory are transient data, wherever their cache lines are flushed.

use crate::target_run::{A, A2, MAIN, SECOND, TargetRun};

/// A word that is taken by `lock cmpxchg` and released by a plain store, beside data that is persisted meanwhile.
fn update(run: &mut TargetRun, lock: u64, data: u64) {
    run.at(1).locked_value(lock, &[1]);
    run.at(2).store(data).persist(3, data);
    run.at(5).store_value(lock, &[0]);
}

/// The findings about stores that are never durable, in the order of their names.
fn lost(run: &mut TargetRun) -> Vec<String> {
    let mut found = run.findings();
    found.retain(|finding| {
        finding.starts_with("missing-flush") || finding.starts_with("transient-data")
    });
    found.sort_unstable();
    found
}

#[test]
fn a_release_that_is_not_flushed_is_transient() {
    let mut run = TargetRun::new();
    update(&mut run, A, A2);
    assert_eq!(lost(&mut run), ["transient-data store@5"]);
}

#[test]
fn many_threads_may_take_it() {
    let mut run = TargetRun::new();
    for thread in [MAIN, SECOND, MAIN] {
        update(run.thread(thread), A, A2);
    }
    assert_eq!(lost(&mut run), ["transient-data store@5"]);
}

#[test]
fn a_lock_that_is_never_durable_is_one_finding_for_each_store() {
    let mut run = TargetRun::new();
    run.at(8).store(A2).persist(9, A2);
    for _ in 0..3 {
        run.at(1).locked_value(A, &[1]).at(2).store_value(A, &[0]);
    }
    let found = lost(&mut run);
    assert_eq!(
        found,
        ["transient-data store@1 ×3", "transient-data store@2 ×3"]
    );
}

#[test]
fn data_beside_a_lock_is_still_missing_its_flush() {
    let mut run = TargetRun::new();
    update(&mut run, A, A2);
    run.at(7).store(A2);
    let found = lost(&mut run);
    assert_eq!(found, ["missing-flush store@7", "transient-data store@5"]);
}

#[test]
fn a_flag_that_is_set_by_a_plain_store_is_no_lock() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[1]);
    run.at(2).store(A2).persist(3, A2);
    run.at(5).store_value(A, &[0]);
    assert_eq!(lost(&mut run), ["missing-flush store@5"]);
}

#[test]
fn a_flag_that_is_cleared_by_a_locked_instruction_is_no_lock() {
    let mut run = TargetRun::new();
    run.at(1).locked_value(A, &[1]);
    run.at(2).store(A2).persist(3, A2);
    run.at(5).locked_value(A, &[0]);
    assert_eq!(lost(&mut run), ["missing-flush store@5"]);
}

#[test]
fn a_counter_is_no_lock() {
    let mut run = TargetRun::new();
    run.at(1).locked_value(A, &[1]);
    run.at(2).store(A2).persist(3, A2);
    run.at(5).locked_value(A, &[2]);
    assert_eq!(lost(&mut run), ["missing-flush store@5"]);
}
