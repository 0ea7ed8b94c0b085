//! Which files are judged, and what happens to their bytes.

use brownout_trace::EventKind;

use crate::target_run::{A, B, C, POOL, POOL_LEN, TargetRun};

const OTHER: u64 = 0x70_0000;

#[test]
fn files_that_are_not_treated_as_persistent_are_not_judged() {
    let mut run = TargetRun::new();
    let other = run.file("/dev/shm/sem", 2);
    run.map(other, OTHER, 0x1000, 0);
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .store(OTHER)
        .at(5)
        .store(OTHER);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn the_users_choice_of_files_decides_alone() {
    let mut run = TargetRun::new();
    let other = run.file("/dev/shm/sem", 2);
    run.map(other, OTHER, 0x1000, 0).select("sem");
    run.at(1).store(A).at(2).clwb(A).at(4).store(OTHER);
    assert_eq!(run.findings(), ["transient-data store@4"]);
}

#[test]
fn a_site_that_stores_to_several_files_is_reported_for_the_persistent_ones() {
    let mut run = TargetRun::new();
    let other = run.file("/dev/shm/sem", 2);
    run.map(other, OTHER, 0x1000, 0);
    run.at(1).store(OTHER).store(A).at(2).store(B).persist(3, B);
    let outcome = run.lint(|_: &brownout_trace::Event<'_>, _: &_| brownout_lint::Origin::User);
    let finding = &outcome.findings[0];
    assert_eq!(finding.rule.id, "transient-data");
    assert_eq!(finding.count, 1);
    assert_eq!(finding.ranges[0].file, run.pool);
    assert!(outcome.selection.is_persistent(run.pool));
    assert!(!outcome.selection.is_persistent(other));
}

#[test]
fn nothing_is_reported_where_nothing_is_persistent() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(crate::target_run::HEAP)
        .at(3)
        .sfence();
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn truncated_bytes_are_not_lost() {
    let mut run = TargetRun::new();
    let file = run.pool;
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .store(A)
        .at(5)
        .store(B);
    run.event(EventKind::FileResize { file, len: 0x44 });
    let outcome = run.lint(|_: &brownout_trace::Event<'_>, _: &_| brownout_lint::Origin::User);
    let ranges: Vec<_> = outcome
        .findings
        .iter()
        .map(|finding| finding.ranges[0].len)
        .collect();
    assert_eq!(ranges, [4], "half of the first store is left");
}

#[test]
fn writing_to_the_file_replaces_what_was_stored() {
    let mut run = TargetRun::new();
    let file = run.pool;
    run.at(1).store(A).persist(2, A).at(4).store(A);
    run.event(EventKind::FileWrite {
        file,
        offset: A - POOL,
        bytes: &[0; 8],
        syscall: 1,
    });
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_mapping_that_moves_takes_its_state_along() {
    let mut run = TargetRun::new();
    run.at(1).store(A).event(EventKind::Remap {
        old: brownout_trace::Address(POOL),
        old_len: POOL_LEN,
        new: brownout_trace::Address(OTHER),
        new_len: POOL_LEN,
    });
    run.persist(2, OTHER + 0x40);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_part_that_is_cut_off_a_mapping_is_unmapped() {
    let mut run = TargetRun::new();
    let lost = POOL + POOL_LEN - 0x1000;
    run.at(1).store(lost).persist(2, lost).at(4).store(lost);
    run.event(EventKind::Remap {
        old: brownout_trace::Address(POOL),
        old_len: POOL_LEN,
        new: brownout_trace::Address(POOL),
        new_len: 0x1000,
    });
    let pool = run.pool;
    run.map(pool, OTHER, POOL_LEN, 0);
    run.persist(5, OTHER + POOL_LEN - 0x1000);
    assert_eq!(run.findings(), ["missing-flush store@4"]);
}

#[test]
fn stores_to_each_persistent_file_are_counted() {
    let mut run = TargetRun::new();
    let other = run.file("/dev/shm/sem", 2);
    run.map(other, OTHER, 0x1000, 0);
    run.at(1).store(A).persist(2, A).at(4).store(OTHER);
    // Overwritten, then lost; and a store to two lines.
    run.at(5)
        .store(B)
        .store(B)
        .at(6)
        .store_value(C + 60, &[1; 8]);
    let outcome = run.lint(|_: &brownout_trace::Event<'_>, _: &_| brownout_lint::Origin::User);
    let counted: Vec<_> = outcome
        .files
        .iter()
        .map(|file| (file.file, file.stores, file.never_guaranteed))
        .collect();
    assert_eq!(counted, [(run.pool, 5, 4)]);
}

#[test]
fn a_store_whose_sync_failed_is_not_flushed() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(C);
    let text = format!("{}msync 22 {A} 64", brownout_trace::FAILED_SYNC_NOTE);
    run.at(3).event(EventKind::Note { text: &text });
    assert_eq!(
        run.findings(),
        [
            "missing-flush store@1 failed call@3",
            "transient-data store@2"
        ]
    );
}

#[test]
fn a_failed_sync_that_is_repeated_with_success_is_no_bug() {
    let mut run = TargetRun::new();
    run.at(1).store(A);
    let text = format!("{}msync 22 {A} 64", brownout_trace::FAILED_SYNC_NOTE);
    run.at(2).event(EventKind::Note { text: &text });
    run.at(3).msync(A, 64);
    // What is stored later does not depend on it.
    run.at(4).store(C).at(5).msync(C, 64);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_sync_that_failed_before_the_store_says_nothing_about_it() {
    let mut run = TargetRun::new();
    let text = format!("{}fsync 5 1 1", brownout_trace::FAILED_SYNC_NOTE);
    run.at(1)
        .store(A)
        .at(2)
        .event(EventKind::Note { text: &text });
    run.at(3).store(C);
    assert_eq!(
        run.findings(),
        [
            "missing-flush store@1 failed call@2",
            "transient-data store@3"
        ]
    );
}
