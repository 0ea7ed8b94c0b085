//! `missing-flush`, `missing-fence`, `transient-data`.

use brownout_lint::{Origin, Profile, RawFinding};
use brownout_trace::{Address, Event, EventKind, Sync};

use crate::target_run::{A, A2, B, C, MAIN, POOL, POOL_LEN, SECOND, TargetRun};

#[test]
fn a_store_that_is_flushed_and_fenced_is_fine() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_store_after_the_last_flush_of_its_line_misses_a_flush() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A).at(4).store(A);
    assert_eq!(run.findings(), ["missing-flush store@4"]);
}

#[test]
fn a_line_that_is_never_flushed_holds_transient_data() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).store(B).persist(3, B);
    assert_eq!(run.findings(), ["transient-data store@1"]);
}

#[test]
fn whether_a_line_is_ever_flushed_is_known_at_the_end() {
    let mut run = TargetRun::new();
    run.at(1).store(A).unmap().map_pool();
    run.at(2).store(A2).persist(3, A2);
    // The first store was lost when it was unmapped.
    assert_eq!(run.findings_of("missing-flush"), ["missing-flush store@1"]);
}

#[test]
fn a_store_that_was_unmapped_and_overwritten_was_lost_too() {
    let mut run = TargetRun::new();
    run.at(1).store(A).unmap().map_pool();
    run.at(2).store(A).persist(3, A);
    assert_eq!(run.findings_of("missing-flush"), ["missing-flush store@1"]);
    let mut run = TargetRun::new();
    run.at(1).store(A).unmap().map_pool();
    run.at(2).store(A).at(3).store(B).persist(4, B);
    assert_eq!(
        run.findings(),
        ["transient-data store@1", "transient-data store@2"]
    );
}

#[test]
fn stores_that_one_flush_would_have_persisted_are_related() {
    let mut run = TargetRun::new();
    run.at(9).store(C).persist(10, C);
    // The first time that each is lost, the other one is not.
    run.at(1).store(A).at(12).sfence();
    run.at(2).store(B).at(12).sfence();
    run.at(1).store(C + 64).at(2).store(C + 72).at(12).sfence();
    run.at(3).store(C + 80);
    let outcome = run.lint(|_: &Event<'_>, _: &_| Origin::User);
    let lost = |finding: &&RawFinding| finding.rule.id == "transient-data";
    let related = outcome.findings.iter().filter(lost);
    let related: Vec<usize> = related.map(|finding| finding.related.len()).collect();
    assert_eq!(related, [1, 1, 0]);
}

#[test]
fn a_store_that_only_lost_stores_overwrite_is_lost_too() {
    let mut run = TargetRun::new();
    run.at(1).store_value(A, &[1; 8]).persist(2, A);
    run.at(4).store_value(A, &[4; 8]);
    run.at(5).store_value(A, &[5; 8]);
    run.at(6).store_value(A, &[6; 8]);
    let mut found = run.findings();
    found.sort();
    assert_eq!(
        found,
        [
            "missing-flush store@4",
            "missing-flush store@5",
            "missing-flush store@6"
        ]
    );
    let mut run = TargetRun::new();
    run.at(4).store_value(A, &[4; 8]);
    run.at(5).store_value(A, &[5; 8]).persist(6, A);
    assert_eq!(run.findings_of("missing-flush"), [""; 0]);
}

#[test]
fn bytes_count_not_lines() {
    // Half of the store is overwritten and persisted, the other half is not.
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.at(4).store(A);
    run.at(5).store_value(A + 4, &[9; 4]);
    let outcome = run.lint(|_: &brownout_trace::Event<'_>, _: &_| brownout_lint::Origin::User);
    let lost: Vec<_> = outcome
        .findings
        .iter()
        .map(|finding| (finding.sites[0].pc.0, finding.ranges[0]))
        .collect();
    let range = |offset, len| brownout_lint::RawRange {
        file: run.pool,
        offset,
        len,
    };
    assert_eq!(lost, [(4, range(0x40, 4)), (5, range(0x44, 4))]);
}

#[test]
fn a_store_across_lines_needs_both_flushes_and_counts_once() {
    let mut run = TargetRun::new();
    run.at(1).store(B - 4).persist(2, A);
    assert_eq!(run.findings(), ["transient-data store@1"]);
    let mut run = TargetRun::new();
    run.at(1).store(B - 4).persist(2, A).persist(4, B);
    assert_eq!(run.findings_of("transient-data"), [""; 0]);
    let mut run = TargetRun::new();
    run.at(1).store(B - 4);
    run.at(2).store(C).persist(3, C);
    assert_eq!(run.findings(), ["transient-data store@1"]);
}

#[test]
fn the_same_site_is_reported_once_with_a_count() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.at(4);
    for word in 0..8 {
        run.store(A + word * 8);
    }
    assert_eq!(run.findings(), ["missing-flush store@4 ×8"]);
}

#[test]
fn a_flush_without_a_fence_misses_one() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A);
    assert_eq!(run.findings(), ["missing-fence flush@2 store@1"]);
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clflush(A);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_non_temporal_store_without_a_fence_misses_one() {
    let mut run = TargetRun::new();
    run.at(1).nt_store(A).at(2).sfence().at(3).nt_store(B);
    assert_eq!(run.findings(), ["missing-fence store@3"]);
}

#[test]
fn the_fence_must_be_of_the_thread_that_flushed() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A);
    run.thread(SECOND).at(3).store(B).persist(4, B);
    assert_eq!(run.findings(), ["missing-fence flush@2 store@1"]);
    run = TargetRun::new();
    run.at(1).store(A).thread(SECOND).persist(2, A).thread(MAIN);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn a_fence_after_unmapping_is_too_late() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).clwb(A).unmap().at(3).sfence();
    assert_eq!(run.findings(), ["missing-fence flush@2 store@1"]);
}

#[test]
fn locks_of_the_c_library_when_a_thread_ends_are_no_fences() {
    let found = |origin: Origin| {
        let mut run = TargetRun::new();
        run.thread(SECOND).at(1).store(A).at(2).clwb(A).at(3).lock();
        run.event(EventKind::ThreadExit);
        run.findings_by(move |event: &Event<'_>, _: &_| match event.pc.0 {
            3 => origin,
            _ => Origin::User,
        })
    };
    assert_eq!(
        found(Origin::ThreadRuntime),
        ["missing-fence flush@2 store@1"]
    );
    assert_eq!(
        found(Origin::CLibrary),
        ["accidental-fence flush@2 fence@3"]
    );
}

#[test]
fn a_program_that_relies_on_msync_is_judged_by_msync() {
    for profile in [Profile::ADR, Profile::MSYNC] {
        let mut run = TargetRun::under(profile);
        run.at(1).store(A).at(2).store(C).at(3).msync(POOL, 0x1000);
        run.at(4).store(B).at(5).fsync();
        assert_eq!(run.findings_of("missing-flush"), [""; 0]);
        let mut run = TargetRun::under(profile);
        run.at(1).store(A).at(2).msync(POOL, 0x1000).at(3).store(B);
        assert_eq!(run.findings(), ["missing-flush store@3"]);
    }
}

#[test]
fn fsync_after_unmapping_is_not_too_late() {
    let mut run = TargetRun::new();
    run.at(1).store(A).msync(C, 1).unmap().fsync();
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn msync_that_does_not_wait_guarantees_nothing() {
    let mut run = TargetRun::new();
    run.at(1).store(A).at(2).event(EventKind::Sync(Sync::Msync {
        addr: Address(POOL),
        len: POOL_LEN,
        asynchronous: true,
    }));
    assert_eq!(run.findings(), ["transient-data store@1"]);
}

#[test]
fn flushes_do_not_count_under_msync() {
    let mut run = TargetRun::under(Profile::MSYNC);
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .clwb(A)
        .at(5)
        .sfence();
    assert_eq!(run.findings(), ["transient-data store@1"]);
}

#[test]
fn under_eadr_only_non_temporal_stores_can_be_lost() {
    for profile in [Profile::EADR, Profile::GPF] {
        let mut run = TargetRun::under(profile);
        run.at(1)
            .store(A)
            .persist(2, A)
            .at(4)
            .store(A)
            .at(5)
            .nt_store(B);
        assert_eq!(run.findings(), ["missing-fence store@5"]);
    }
}

#[test]
fn stores_in_flight_when_the_program_was_killed_are_not_judged() {
    for end in [TargetRun::killed, TargetRun::cut_off] {
        let mut run = TargetRun::new();
        run.at(1).store(A).persist(2, A);
        run.at(4).store(A).at(5).store(B).at(6).clwb(B);
        end(&mut run);
        assert_eq!(run.findings(), [""; 0]);
        // The thread went on to persist something else, so the first store was not in flight.
        let mut run = TargetRun::new();
        run.at(1).store(A).persist(2, A);
        run.at(4).store(A).at(5).store(B).persist(6, B);
        end(&mut run);
        assert_eq!(run.findings_of("missing-flush"), ["missing-flush store@4"]);
    }
}

#[test]
fn a_target_relies_on_syncs_if_no_instruction_persists() {
    let relies = |run: &mut TargetRun| {
        run.lint(|_: &Event<'_>, _: &_| Origin::User)
            .relies_on_syncs
    };
    let mut synced = TargetRun::new();
    assert!(relies(synced.at(1).store(A).at(2).msync(POOL, POOL_LEN)));
    let mut flushed = TargetRun::new();
    flushed.at(1).store(A).at(2).msync(POOL, POOL_LEN);
    assert!(!relies(flushed.at(3).store(A).persist(4, A)));
    let mut stored = TargetRun::new();
    stored.at(1).nt_store(A).at(2).sfence();
    assert!(!relies(stored.at(3).msync(POOL, POOL_LEN)));
    let mut copied = TargetRun::new();
    copied
        .at(1)
        .nt_store(A)
        .at(2)
        .sfence()
        .at(3)
        .msync(POOL, POOL_LEN);
    let by_c_library = |_: &Event<'_>, _: &_| Origin::CLibrary;
    assert!(copied.lint(by_c_library).relies_on_syncs);
    let mut neither = TargetRun::new();
    assert!(!relies(neither.at(1).store(A)));
}
