//! `dirty-overwrite`, `delayed-persist`.

use brownout_lint::Profile;

use crate::target_run::{A, A2, B, C, MAIN, POOL, SECOND, TargetRun};

#[test]
fn a_value_that_is_overwritten_before_it_is_persistent_is_never_seen() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(A).persist(3, A);
    assert_eq!(
        run.findings_of("dirty-overwrite"),
        ["dirty-overwrite store@1 overwrite@2"]
    );
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
fn overwriting_a_part_is_overwriting() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[1; 8]);
    run.at(2).store_value(A + 6, &[2; 4]).persist(3, A);
    assert_eq!(
        run.findings_of("dirty-overwrite"),
        ["dirty-overwrite store@1 overwrite@2"]
    );
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(A2).persist(3, A);
    assert_eq!(run.findings_of("dirty-overwrite"), [""; 0]);
}

#[test]
fn storing_the_same_value_again_overwrites_nothing() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[7; 8]);
    run.at(2).store_value(A + 4, &[7; 4]).persist(3, A);
    assert_eq!(run.findings_of("dirty-overwrite"), [""; 0]);
}

#[test]
fn pages_that_are_written_back_may_be_built_up_in_place() {
    for profile in [Profile::ADR, Profile::MSYNC] {
        let mut run = TargetRun::under(profile);
        run.at(1).store_value(A, &[1; 8]);
        run.at(2).store_value(A, &[2; 8]).at(3).msync(POOL, 0x1000);
        assert_eq!(run.findings_of("dirty-overwrite"), [""; 0]);
    }
}

/// Bytes that differ from one another.
fn content() -> Vec<u8> {
    (1..=64).collect()
}

#[test]
fn one_copy_in_overlapping_pieces_overwrites_nothing() {
    let from = content();
    // As compilers copy 25, 19 and 23 bytes.
    for pieces in [[0..16, 9..25], [0..16, 15..19], [15..23, 0..16]] {
        let [first, second] = pieces;
        let mut run = TargetRun::new();
        run.at(1).store_value(A + first.start as u64, &from[first]);
        run.at(2)
            .store_value(A + second.start as u64, &from[second])
            .persist(3, A);
        assert_eq!(run.findings_of("dirty-overwrite"), [""; 0]);
    }
    // The first and the last word, then everything in between by a string instruction.
    let mut run = TargetRun::new();
    run.at(1).store_value(A + 1, &from[1..9]);
    run.at(2).store_value(A + 40, &from[40..48]);
    run.at(3).store_value(A + 8, &from[8..48]).persist(4, A);
    assert_eq!(run.findings_of("dirty-overwrite"), [""; 0]);
    // The pieces cross into the next line and go on there.
    let mut run = TargetRun::new();
    run.at(1).store_value(A + 44, &from[..32]);
    run.at(2).store_value(A + 50, &from[6..38]);
    run.persist(3, A).persist(5, A + 64);
    assert_eq!(run.findings_of("dirty-overwrite"), [""; 0]);
}

#[test]
fn long_stores_that_differ_where_they_are_known_overwrite() {
    let from = content();
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &from[..16]);
    run.at(2).store_value(A + 4, &from[..16]).persist(3, A);
    assert_eq!(
        run.findings_of("dirty-overwrite"),
        ["dirty-overwrite store@1 overwrite@2"]
    );
}

#[test]
fn stores_by_two_threads_calls_or_times_are_not_one_copy() {
    let from = content();
    let (one, two) = (&from[..16], &from[9..25]);
    let findings = |run: &mut TargetRun| run.findings_of("dirty-overwrite").len();
    let mut threads = TargetRun::new();
    threads.at(1).store_value(A, one).thread(SECOND);
    threads.at(2).store_value(A + 9, two).persist(3, A);
    assert_eq!(findings(&mut threads), 1);
    let mut calls = TargetRun::new();
    calls.at(1).store_value(A, one);
    calls.at(1002).store_value(A + 9, two).persist(3, A);
    assert_eq!(findings(&mut calls), 1);
    let mut flushed = TargetRun::new();
    flushed.at(1).store_value(A, one).at(4).clwb(A);
    flushed.at(2).store_value(A + 9, two).persist(3, A);
    assert_eq!(findings(&mut flushed), 1);
    // Clearing and filling a structure.
    let mut fields = TargetRun::new();
    fields.at(1).store_value(A, &[0; 32]);
    fields.at(2).store_value(A + 16, &from[..8]).persist(3, A);
    assert_eq!(findings(&mut fields), 1);
}

#[test]
fn stores_that_are_never_persistent_are_reported_only_as_lost() {
    let mut run = TargetRun::new();
    run.at(1).store(C).persist(2, C);
    run.at(4).store(C).at(5).store(C);
    assert_eq!(
        run.findings(),
        ["missing-flush store@4", "missing-flush store@5"]
    );
}

#[test]
fn every_overwritten_value_of_a_chain_is_reported() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .store(A)
        .at(3)
        .store(A)
        .persist(4, A);
    let mut found = run.findings_of("dirty-overwrite");
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "dirty-overwrite store@1 overwrite@2",
            "dirty-overwrite store@2 overwrite@3"
        ]
    );
    let mut run = TargetRun::new();
    run.at(1);
    for _ in 0..100 {
        run.store(A);
    }
    run.persist(2, A);
    assert_eq!(
        run.findings_of("dirty-overwrite"),
        ["dirty-overwrite store@1 overwrite@1 ×99"]
    );
}

#[test]
fn a_flush_between_two_stores_is_not_enough_without_its_fence() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .clwb(A)
        .at(3)
        .store(A)
        .persist(4, A);
    assert_eq!(
        run.findings_of("dirty-overwrite"),
        ["dirty-overwrite store@1 overwrite@3"]
    );
}

#[test]
fn a_store_persisted_after_a_later_one_is_delayed() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(2)
        .store(B)
        .persist(3, B)
        .persist(5, A);
    assert_eq!(
        run.findings(),
        ["delayed-persist store@1 later store@2 fence@4"]
    );
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .store(B)
        .persist(5, B);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn stores_that_one_fence_persists_are_not_delayed() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(B);
    run.at(3).clwb(B).at(4).clwb(A).at(5).sfence();
    assert_eq!(run.findings_of("delayed-persist"), [""; 0]);
}

#[test]
fn flushing_a_range_line_by_line_delays_nothing() {
    // Stored backwards, flushed forwards.
    let mut run = TargetRun::new();
    run.at(1)
        .store(B)
        .at(2)
        .store(A)
        .at(3)
        .clflush(A)
        .at(4)
        .clflush(B);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn the_flush_of_a_neighbour_does_not_prevent_the_delay() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(B).persist(3, B);
    run.at(5).store(A2).persist(6, A2);
    assert_eq!(
        run.findings_of("delayed-persist"),
        ["delayed-persist store@1 later store@2 fence@4"]
    );
}

#[test]
fn threads_are_judged_by_their_own_fences() {
    let mut run = TargetRun::new();
    run.at(1).store(A);
    run.thread(SECOND).at(2).store(B).persist(3, B);
    run.thread(MAIN).persist(5, A);
    assert_eq!(run.findings(), [""; 0]);
    // Another thread persists the store, but too late for its own.
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(B).persist(3, B);
    run.thread(SECOND).persist(5, A);
    assert_eq!(
        run.findings(),
        ["delayed-persist store@1 later store@2 fence@4"]
    );
}

#[test]
fn pages_written_back_one_after_the_other_are_delayed_likewise() {
    let mut run = TargetRun::under(Profile::MSYNC);
    run.at(1)
        .store(A)
        .at(2)
        .store(C)
        .at(3)
        .msync(C, 8)
        .at(4)
        .msync(POOL, 8);
    assert_eq!(
        run.findings(),
        ["delayed-persist store@1 later store@2 fence@3"]
    );
    let mut run = TargetRun::under(Profile::MSYNC);
    run.at(1).store(A).at(2).store(C).at(3).msync(POOL, 0x2000);
    assert_eq!(run.findings(), [""; 0]);
}
