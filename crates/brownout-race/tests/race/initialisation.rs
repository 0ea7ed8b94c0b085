//! Initialisation removal: HawkSet §3.1.3.

use crate::target_run::*;

fn threads() -> TargetRun {
    let mut run = TargetRun::new();
    run.removes_initialisation = true;
    run.create([T2, T3]);
    run
}

#[test]
fn what_is_durable_before_another_thread_accesses_it_is_initialisation() {
    let mut run = threads();
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).load(X);
    assert!(run.races().is_empty());
    let mut run = threads();
    run.removes_initialisation = false;
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).load(X);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn what_is_not_durable_when_another_thread_accesses_it_is_a_race() {
    let mut run = threads();
    run.thread(T2).at(1).store(X);
    run.thread(T3).at(2).load(X);
    run.thread(T2).persist(X);
    assert_eq!(run.races(), ["1-2 observed"]);
}

#[test]
fn stores_to_memory_that_several_threads_use_are_no_initialisation() {
    let mut run = threads();
    run.thread(T3).at(2).load(X);
    run.thread(T2).at(1).store(X).persist(X);
    assert_eq!(run.races(), ["1-2"]);
}
