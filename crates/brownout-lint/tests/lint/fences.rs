//! `redundant-fence`, `accidental-fence`, `fence-orders-many`.

use brownout_lint::Origin;
use brownout_trace::{Event, EventKind};

use crate::target_run::{A, A2, B, C, HEAP, MAIN, POOL, SECOND, TargetRun};

#[test]
fn a_second_fence_has_nothing_to_wait_for() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .sfence()
        .at(5)
        .mfence();
    assert_eq!(
        run.findings(),
        ["redundant-fence fence@4", "redundant-fence fence@5"]
    );
}

#[test]
fn clflush_needs_no_fence() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clflush(A).at(3).sfence();
    assert_eq!(run.findings(), ["redundant-fence fence@3"]);
}

#[test]
fn a_fence_that_waits_for_a_redundant_flush_is_not_redundant() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.at(4)
        .clwb(HEAP)
        .at(5)
        .sfence()
        .at(6)
        .clwb(A)
        .at(7)
        .sfence();
    assert_eq!(run.findings_of("redundant-fence"), [""; 0]);
}

#[test]
fn threads_without_persistent_data_fence_for_other_reasons() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.thread(SECOND).at(4).sfence().at(5).mfence();
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn fences_inside_the_c_library_order_volatile_memory() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A).at(50).sfence();
    let found = run.findings_by(|event: &Event<'_>, _: &_| match event.pc.0 {
        50 => Origin::CLibrary,
        _ => Origin::User,
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn locked_instructions_are_never_redundant() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .lock()
        .at(5)
        .locked_store(B);
    run.persist(6, B);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_locked_store_to_the_pool_is_a_fence() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A).at(3).locked_store(B);
    run.persist(4, B);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_flush_that_only_a_lock_has_ordered_is_ordered_by_accident() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A).at(3).lock();
    assert_eq!(run.findings(), ["accidental-fence flush@2 fence@3"]);
    let mut run = TargetRun::new();
    run.thread(SECOND).at(1).nt_store(A).at(2).lock();
    run.event(EventKind::ThreadExit);
    assert_eq!(run.findings(), ["accidental-fence store@1 fence@2"]);
}

#[test]
fn a_real_fence_makes_it_no_accident_and_is_not_redundant() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A).at(3).lock().at(4).sfence();
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn writing_the_page_back_makes_it_no_accident() {
    let mut run = TargetRun::new();
    run.at(1).nt_store(A).at(2).lock();
    run.at(3).msync(A, 8);
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn a_program_that_always_relies_on_its_lock_is_reported_once() {
    let mut run = TargetRun::new();
    for _ in 0..50 {
        run.at(1).store(A).at(2).clwb(A).at(3).lock();
    }
    assert_eq!(run.findings(), ["accidental-fence flush@2 fence@3 ×50"]);
}

#[test]
fn a_flush_that_different_locks_have_ordered_is_reported_once() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A).at(3).lock();
    run.at(1).store(A).at(2).clwb(A).at(4).lock();
    assert_eq!(run.findings(), ["accidental-fence flush@2 fence@3 ×2"]);
}

#[test]
fn a_pointer_that_follows_the_lock_relies_on_it() {
    for pointer in [C, C - POOL] {
        let mut run = TargetRun::new();
        run.at(1).store(C).at(2).clwb(C).at(3).lock();
        run.at(4).store_value(B, &pointer.to_le_bytes());
        run.persist(5, B);
        let found = run.findings_of("accidental-fence");
        assert_eq!(found, ["accidental-fence flush@2 fence@3 pointer@4"]);
    }
}

#[test]
fn a_pointer_relies_on_the_lock_whatever_makes_it_persistent() {
    let mut run = TargetRun::new();
    run.at(1).store(C).at(2).clwb(C).at(3).lock();
    run.at(4).store_value(B, &C.to_le_bytes()).at(5).clwb(B);
    run.at(6).lock().at(7).sfence();
    let found = run.findings_of("accidental-fence");
    assert_eq!(found, ["accidental-fence flush@2 fence@3 pointer@4"]);
}

#[test]
fn a_pointer_of_another_thread_relies_on_the_lock() {
    let mut run = TargetRun::new();
    run.at(1).store(C).at(2).clwb(C).at(3).lock();
    run.thread(SECOND).at(4).store_value(B, &C.to_le_bytes());
    run.persist(5, B);
    run.thread(MAIN).at(7).sfence();
    let found = run.findings_of("accidental-fence");
    assert_eq!(found, ["accidental-fence flush@2 fence@3 pointer@4"]);
}

#[test]
fn a_count_that_follows_the_lock_each_time_relies_on_it() {
    let mut run = TargetRun::new();
    for (count, record) in [(1_u64, C), (2, C + 64), (3, C + 128)] {
        run.at(1).store(record).at(2).clwb(record).at(3).lock();
        run.at(4).store_value(A, &count.to_le_bytes());
        run.persist(5, A);
    }
    let found = run.findings_of("accidental-fence");
    assert_eq!(found, ["accidental-fence flush@2 fence@3 later store@4 ×2"]);
}

#[test]
fn a_count_after_a_fence_does_not_rely_on_the_lock() {
    let mut run = TargetRun::new();
    for (count, record) in [(1_u64, C), (2, C + 64), (3, C + 128)] {
        run.at(1).store(record).at(2).clwb(record).at(3).lock();
        run.at(6).sfence();
        run.at(4).store_value(A, &count.to_le_bytes());
        run.persist(5, A);
    }
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn records_of_a_batch_do_not_rely_on_the_locks_between_them() {
    let mut run = TargetRun::new();
    for batch in [C, C + 256] {
        for record in [batch, batch + 64, batch + 128] {
            run.at(1).store(record).at(2).clwb(record).at(3).lock();
        }
        run.at(4).sfence();
    }
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn a_count_in_the_line_of_the_data_does_not_rely_on_the_lock() {
    let mut run = TargetRun::new();
    for value in 1_u64..4 {
        run.at(1).store_value(A, &value.to_le_bytes()).at(2).clwb(A);
        run.at(3).lock();
        run.at(4).store_value(A2, &value.to_le_bytes());
        run.persist(5, A2);
    }
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn a_pointer_from_before_the_lock_does_not_rely_on_it() {
    let mut run = TargetRun::new();
    run.at(1).store(C).at(2).clwb(C);
    run.at(4).store_value(B, &C.to_le_bytes());
    run.at(3).lock().persist(5, B);
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn a_pointer_after_another_fence_does_not_rely_on_the_lock() {
    let mut run = TargetRun::new();
    run.at(1).store(C).at(2).clwb(C).at(3).lock().at(4).sfence();
    run.at(5).store_value(B, &C.to_le_bytes()).persist(6, B);
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn a_number_that_is_no_offset_does_not_rely_on_the_lock() {
    let mut run = TargetRun::new();
    run.at(9).store_value(B, &[3; 8]).persist(10, B);
    run.at(1).store(C).at(2).clwb(C).at(3).lock();
    run.at(9).store_value(B, &(C - POOL).to_le_bytes());
    run.persist(5, B);
    assert_eq!(run.findings_of("accidental-fence"), [""; 0]);
}

#[test]
fn flushes_before_one_fence_are_not_ordered() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .at(3)
        .store(B)
        .at(4)
        .clwb(B);
    run.at(5).sfence();
    assert_eq!(
        run.findings(),
        ["fence-orders-many fence@5 flush@2 flush@4"]
    );
    let mut run = TargetRun::new();
    run.at(1).nt_store(A).at(2).nt_store(A2).at(3).sfence();
    assert_eq!(
        run.findings(),
        ["fence-orders-many fence@3 store@1 store@2"]
    );
}

#[test]
fn only_flushes_that_persist_something_count() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .at(3)
        .clwb(C)
        .at(4)
        .clwb(HEAP);
    run.at(5).sfence();
    assert_eq!(run.findings_of("fence-orders-many"), [""; 0]);
}

#[test]
fn flushes_that_a_lock_has_ordered_do_not_count_at_the_fence() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A).at(3).lock();
    run.at(4).store(B).at(5).clwb(B).at(6).sfence();
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn one_copy_to_one_line_counts_once() {
    let copy = |event: &Event<'_>, _: &_| match event.pc.0 {
        1000.. => Origin::Carrier,
        _ => Origin::User,
    };
    let mut run = TargetRun::new();
    for word in 0..8 {
        run.at(1000 + word).nt_store(A + word * 8);
    }
    run.at(1).sfence();
    assert_eq!(run.findings_by(copy), [""; 0]);
    let mut run = TargetRun::new();
    run.at(1000).nt_store(A).at(1001).nt_store(B).at(1).sfence();
    assert_eq!(
        run.findings_by(copy),
        ["fence-orders-many fence@1 store@1000 store@1001"]
    );
}
