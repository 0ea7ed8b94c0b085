//! Stores that are lost and change nothing are not reported.

use brownout_lint::Origin;
use brownout_trace::{Event, EventKind};

use crate::target_run::{A, A2, B, MAIN, POOL, SECOND, TargetRun};

const NOTHING: [&str; 0] = [];

#[test]
fn storing_what_is_guaranteed_loses_nothing() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    run.at(4).store_value(A, &[7; 8]);
    assert_eq!(run.findings(), NOTHING);
}

#[test]
fn a_part_of_what_is_guaranteed_is_enough() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 16]).persist(2, A);
    run.at(4).store_value(A + 4, &[7; 8]);
    assert_eq!(run.findings(), NOTHING);
}

#[test]
fn one_byte_that_changes_is_lost() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 16]).persist(2, A);
    run.at(4)
        .store_value(A, &[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8]);
    assert_eq!(run.findings(), ["missing-flush store@4"]);
}

#[test]
fn storing_it_again_and_again_loses_nothing() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    for _ in 0..3 {
        run.at(4).store_value(A, &[7; 8]);
        run.at(5).store(B).persist(6, B);
    }
    assert_eq!(run.findings(), NOTHING);
}

#[test]
fn storing_what_is_not_guaranteed_yet_is_lost() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[1; 8]).persist(2, A);
    run.at(4).store_value(A, &[7; 8]);
    run.at(5).store_value(A, &[7; 8]);
    assert_eq!(run.findings(), ["missing-flush store@5"]);
}

#[test]
fn storing_back_what_was_guaranteed_is_lost() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[1; 8]).persist(2, A);
    run.at(4).store_value(A, &[7; 8]);
    run.at(5).store_value(A, &[1; 8]);
    let mut found = run.findings();
    found.sort_unstable();
    assert_eq!(found, ["missing-flush store@4", "missing-flush store@5"]);
}

#[test]
fn storing_what_was_guaranteed_before_the_last_guarantee_is_lost() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[1; 8]).persist(2, A);
    run.at(4).store_value(A, &[2; 8]).persist(5, A);
    run.at(7).store_value(A, &[1; 8]);
    assert_eq!(run.findings(), ["missing-flush store@7"]);
}

#[test]
fn only_the_occurrences_that_change_something_count() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    run.at(1).store_value(A2, &[7; 8]).persist(2, A2);
    run.at(4).store_value(A, &[7; 8]);
    run.at(4).store_value(A2, &[8; 8]);
    assert_eq!(run.findings(), ["missing-flush store@4"]);
}

#[test]
fn zero_in_fresh_memory_is_lost() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    run.at(4).store_value(A2, &[0; 8]);
    assert_eq!(run.findings(), ["missing-flush store@4"]);
}

#[test]
fn what_the_file_held_before_the_run_is_durable() {
    let mut run = TargetRun::new();
    let file = run.pool;
    run.event(EventKind::Content {
        file,
        offset: A - POOL,
        bytes: &[7; 8],
    });
    run.at(1).store_value(A, &[7; 8]);
    run.at(2).store(B).persist(3, B);
    assert_eq!(run.findings(), NOTHING);
}

#[test]
fn a_flush_of_it_needs_no_fence() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    run.at(4).store_value(A, &[7; 8]).at(5).clwb(A);
    assert_eq!(run.findings(), NOTHING);
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    run.at(4).store_value(A, &[8; 8]).at(5).clwb(A);
    assert_eq!(run.findings(), ["missing-fence flush@5 store@4"]);
}

#[test]
fn what_another_thread_has_stored_counts() {
    let mut run = TargetRun::new();
    run.thread(SECOND).at(1).store_value(A, &[7; 8]);
    run.thread(MAIN).at(2).store_value(A, &[7; 8]);
    run.at(3).store(B).persist(4, B);
    assert_eq!(run.findings(), ["transient-data store@2"]);
}

#[test]
fn it_does_not_count_as_never_guaranteed() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]).persist(2, A);
    run.at(4).store_value(A, &[7; 8]);
    run.at(5).store_value(A2, &[8; 8]);
    let outcome = run.lint(|_: &Event<'_>, _: &_| Origin::User);
    assert_eq!(
        (outcome.files[0].stores, outcome.files[0].never_guaranteed),
        (3, 1)
    );
}
