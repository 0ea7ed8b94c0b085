//! `redundant-flush`, `flush-volatile`, `flush-of-nt-store`, `flush-covers-many`.

use brownout_lint::Profile;
use brownout_trace::{Address, EventKind};

use crate::target_run::{A, A2, B, C, HEAP, MAIN, POOL, SECOND, TargetRun};

#[test]
fn a_line_is_flushed_once_for_its_stores() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A).persist(4, A);
    assert_eq!(run.findings(), ["redundant-flush flush@4"]);
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .store(A)
        .persist(5, A);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn flushing_twice_before_the_fence_is_redundant_too() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .at(3)
        .clwb(A)
        .at(4)
        .sfence();
    assert_eq!(run.findings(), ["redundant-flush flush@3"]);
}

#[test]
fn flushing_a_line_without_stores_is_redundant() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .at(3)
        .clwb(B)
        .at(4)
        .sfence();
    assert_eq!(run.findings(), ["redundant-flush flush@3"]);
}

#[test]
fn a_thread_cannot_rely_on_a_flush_that_another_has_not_fenced() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A);
    run.thread(SECOND).at(3).clwb(A).at(4).sfence();
    run.thread(MAIN).at(5).sfence();
    assert_eq!(run.findings(), [""; 0]);
    // After that fence it can.
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.thread(SECOND).persist(4, A);
    assert_eq!(run.findings(), ["redundant-flush flush@4"]);
}

#[test]
fn flushing_what_the_kernel_wrote_is_not_redundant() {
    let mut run = TargetRun::new();
    run.at(1).event(EventKind::KernelWrite {
        addr: Address(A),
        bytes: &[1; 16],
        syscall: 0,
    });
    run.persist(2, A);
    let file = run.pool;
    run.event(EventKind::FileWrite {
        file,
        offset: C - POOL,
        bytes: &[1; 16],
        syscall: 1,
    });
    run.persist(4, C);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn written_back_pages_need_no_flush() {
    let mut run = TargetRun::new();
    run.at(1).store(A).msync(POOL, 8).persist(2, A);
    assert_eq!(run.findings(), ["redundant-flush flush@2"]);
}

#[test]
fn the_same_file_mapped_twice_has_one_set_of_lines() {
    let mut run = TargetRun::new();
    let second = 0x90_0000;
    run.map(run.pool, second, 0x1000, 0);
    run.at(1).store(A).persist(2, second + 0x40).persist(4, A);
    assert_eq!(run.findings(), ["redundant-flush flush@4"]);
}

#[test]
fn flushing_volatile_memory_is_reported() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .clwb(HEAP)
        .at(5)
        .sfence();
    assert_eq!(run.findings(), ["flush-volatile flush@4"]);
}

#[test]
fn a_non_temporal_store_needs_no_flush() {
    let mut run = TargetRun::new();
    run.at(1).nt_store(A).persist(2, A);
    assert_eq!(run.findings(), ["flush-of-nt-store flush@2 store@1"]);
    // After the fence it is persistent.
    let mut run = TargetRun::new();
    run.at(1).nt_store(A).at(2).sfence().persist(3, A);
    assert_eq!(run.findings(), ["redundant-flush flush@3"]);
}

#[test]
fn a_line_with_a_cached_store_needs_its_flush() {
    let mut run = TargetRun::new();
    run.at(1)
        .nt_store(A)
        .at(2)
        .store(A2)
        .at(3)
        .clwb(A)
        .at(4)
        .sfence();
    assert_eq!(
        run.findings(),
        ["fence-orders-many fence@4 store@1 flush@3"]
    );
}

#[test]
fn several_stores_to_a_line_share_a_flush() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(A2).persist(3, A);
    assert_eq!(
        run.findings(),
        ["flush-covers-many flush@3 first store@1 last store@2"]
    );
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .store(A2)
        .persist(5, A);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_store_that_was_overwritten_is_not_covered() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(A).persist(3, A);
    assert_eq!(run.findings_of("flush-covers-many"), [""; 0]);
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(A + 4).persist(3, A);
    assert_eq!(
        run.findings_of("flush-covers-many"),
        ["flush-covers-many flush@3 first store@1 last store@2"]
    );
}

#[test]
fn a_store_that_was_flushed_before_is_not_covered_again() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .at(3)
        .store(A2)
        .persist(4, A);
    assert_eq!(run.findings_of("flush-covers-many"), [""; 0]);
}

#[test]
fn flushes_are_judged_alike_where_caches_are_persistent() {
    let mut run = TargetRun::under(Profile::EADR);
    run.at(1).store(A).persist(2, A).persist(4, A);
    assert_eq!(run.findings(), ["redundant-flush flush@4"]);
}
