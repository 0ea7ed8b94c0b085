//! Several processes on one file.

use brownout_trace::{ProcessId, ProcessOrigin};

use crate::target_run::{A, B, TargetRun};

const PARENT: ProcessId = ProcessId(1);
const CHILD: ProcessId = ProcessId(2);

#[test]
fn a_child_may_leave_persisting_to_its_parent() {
    let mut run = TargetRun::new();
    run.start(CHILD, 101, Some(PARENT), ProcessOrigin::Fork);
    run.at(1)
        .store(A)
        .exit()
        .process(PARENT)
        .persist(2, A)
        .exit();
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn stores_left_by_the_last_process_are_judged() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.start(CHILD, 101, Some(PARENT), ProcessOrigin::Fork);
    run.at(4)
        .store(A)
        .process(PARENT)
        .exit()
        .process(CHILD)
        .exit();
    assert_eq!(run.findings(), ["missing-flush store@4"]);
}

#[test]
fn a_store_whose_process_has_ended_is_lost() {
    let mut run = TargetRun::new();
    run.at(1).store(A).exit();
    run.start(CHILD, 101, None, ProcessOrigin::Exec);
    run.map_pool();
    run.at(2).store(B).persist(3, B).persist(5, A).exit();
    assert_eq!(run.findings_of("missing-flush"), ["missing-flush store@1"]);
}

#[test]
fn replacing_the_program_unmaps_what_the_old_one_had() {
    let mut run = TargetRun::new();
    run.at(1).store(A);
    // The same pid runs another program.
    run.start(CHILD, 100, None, ProcessOrigin::Exec);
    run.map_pool();
    run.persist(2, A).exit();
    assert_eq!(run.findings_of("missing-flush"), ["missing-flush store@1"]);
}

#[test]
fn threads_of_different_processes_with_equal_ids_are_distinguished() {
    let mut run = TargetRun::new();
    run.start(CHILD, 101, Some(PARENT), ProcessOrigin::Fork);
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .process(PARENT)
        .at(3)
        .sfence();
    run.exit().process(CHILD).exit();
    assert_eq!(run.findings(), ["missing-fence flush@2 store@1"]);
}
