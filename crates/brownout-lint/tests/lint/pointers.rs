//! `unpersisted-target`.

use brownout_lint::{Origin, Profile};
use brownout_trace::Event;

use crate::target_run::{B, C, POOL, SECOND, TargetRun};

/// A line of its own that holds a pointer.
const ROOT: u64 = POOL + 0x2000;
/// Where nodes are.
const NODE: u64 = C + 0x80;
const OTHER: u64 = C + 0x100;

const RULE: &str = "unpersisted-target";

impl TargetRun {
    /// Stores two words, at `pc` and `pc + 1`.
    fn fill(&mut self, pc: u64, addr: u64) -> &mut Self {
        self.at(pc).store(addr).at(pc + 1).store(addr + 8)
    }

    fn point(&mut self, pc: u64, addr: u64, value: u64) -> &mut Self {
        self.at(pc).store_value(addr, &value.to_le_bytes())
    }
}

fn found(run: &mut TargetRun) -> Vec<String> {
    let mut found = run.findings();
    let kept = ["unpersisted-target", "delayed-persist", "transient-data"];
    found.retain(|finding| kept.iter().any(|rule| finding.starts_with(rule)));
    found
}

#[test]
fn a_pointer_that_is_persistent_before_its_target_is_reported_once() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(
        found(&mut run),
        ["unpersisted-target pointer@3 store@1 store@2 fence@5"]
    );
}

#[test]
fn a_target_that_is_persistent_before_its_pointer_or_with_it_is_not_reported() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).persist(4, NODE).point(3, ROOT, NODE);
    run.persist(6, ROOT);
    assert_eq!(found(&mut run), [""; 0]);
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE);
    run.at(4).clwb(ROOT).at(5).clwb(NODE).at(6).sfence();
    assert_eq!(found(&mut run), [""; 0]);
}

#[test]
fn a_target_that_nobody_flushes_is_reported_with_its_pointer() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE).persist(4, ROOT);
    assert_eq!(
        found(&mut run),
        ["unpersisted-target pointer@3 store@1 store@2 fence@5"]
    );
}

#[test]
fn a_target_whose_line_is_flushed_at_other_times_is_a_missing_flush() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).persist(3, NODE);
    run.fill(5, NODE).point(7, ROOT, NODE).persist(8, ROOT);
    assert_eq!(found(&mut run), [""; 0]);
}

#[test]
fn pages_count_under_msync() {
    let mut run = TargetRun::under(Profile::MSYNC);
    run.fill(1, NODE).point(3, ROOT, NODE);
    run.at(4).msync(ROOT, 64).at(5).msync(C, 0x1000);
    assert_eq!(
        found(&mut run),
        ["unpersisted-target pointer@3 store@1 store@2 fence@4"]
    );
}

#[test]
fn what_is_stored_after_the_pointer_is_not_its_target_yet() {
    let mut run = TargetRun::new();
    run.point(3, ROOT, NODE).fill(1, NODE);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
}

#[test]
fn an_offset_counts_if_an_object_that_begins_there_was_just_stored() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE - POOL);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(run.findings_of(RULE).len(), 1);
    for offset in [8, 16, 0x40] {
        let mut run = TargetRun::new();
        run.fill(1, NODE).point(3, ROOT, NODE - POOL + offset);
        run.persist(4, ROOT).persist(6, NODE);
        assert_eq!(run.findings_of(RULE), [""; 0]);
    }
}

#[test]
fn a_number_next_to_others_or_long_after_the_object_is_no_offset() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE - POOL);
    run.at(9).store(ROOT + 8);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
    let mut run = TargetRun::new();
    run.fill(1, NODE);
    for _ in 0..10 {
        run.at(20).store(B).persist(21, B);
    }
    run.point(3, ROOT, NODE - POOL);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
}

/// For each of the rule's findings whether it is certain that a pointer is stored, and its count.
fn pointers(run: &mut TargetRun) -> Vec<(bool, u64)> {
    let outcome = run.lint(|_: &Event<'_>, _: &_| Origin::User);
    let found = outcome.findings.iter();
    let found = found.filter(|finding| finding.rule.id == RULE);
    found
        .map(|one| (!one.message.contains("may be the offset"), one.count))
        .collect()
}

impl TargetRun {
    /// Publishes the offset of an object that is not persistent yet.
    fn publish_offset(&mut self, node: u64) -> &mut Self {
        self.fill(1, node).point(3, ROOT, node - POOL);
        self.persist(4, ROOT).persist(6, node)
    }
}

#[test]
fn one_offset_may_be_a_count_and_several_are_pointers() {
    let mut run = TargetRun::new();
    run.publish_offset(NODE).publish_offset(NODE);
    assert_eq!(pointers(&mut run), [(false, 2)]);
    let mut run = TargetRun::new();
    run.publish_offset(NODE).publish_offset(OTHER);
    assert_eq!(pointers(&mut run), [(true, 2)]);
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(pointers(&mut run), [(true, 1)], "an address");
}

#[test]
fn code_that_also_stores_other_numbers_stores_no_offsets() {
    // Counted, not aligned, where nothing was stored; before the suspect and after it.
    for other in [1, 0x3f, NODE - POOL + 8, 0x1fc0] {
        for before in [false, true] {
            let mut run = TargetRun::new();
            let count = |run: &mut TargetRun| {
                run.point(3, ROOT, other).persist(4, ROOT);
            };
            // Live stores elsewhere: there is always something that a pointer could point to.
            run.at(30).store(B);
            if before {
                count(&mut run);
            }
            run.publish_offset(NODE).publish_offset(OTHER);
            if !before {
                count(&mut run);
            }
            assert_eq!(pointers(&mut run), [], "{other:#x} {before}");
        }
    }
    for none in [0, u64::MAX] {
        let mut run = TargetRun::new();
        run.point(3, ROOT, none).persist(4, ROOT);
        run.publish_offset(NODE).publish_offset(OTHER);
        assert_eq!(pointers(&mut run), [(true, 2)], "no object");
    }
}

#[test]
fn targets_of_numbers_that_are_no_offsets_are_reported_by_other_rules() {
    let mut run = TargetRun::new();
    run.point(3, ROOT, 1).persist(4, ROOT);
    run.fill(1, NODE)
        .point(3, ROOT, NODE - POOL)
        .persist(4, ROOT);
    let found = found(&mut run);
    assert!(
        found.iter().all(|one| one.starts_with("transient-data")) && !found.is_empty(),
        "{found:?}"
    );
}

#[test]
fn object_identifiers_point_in_one_store_or_in_two() {
    const UUID: u64 = 0x9e37_79b9_7f4a_7c15;
    let offset = NODE - POOL;
    for order in [
        [(ROOT, UUID), (ROOT + 8, offset)],
        [(ROOT + 8, offset), (ROOT, UUID)],
    ] {
        let mut run = TargetRun::new();
        run.fill(1, NODE);
        for (addr, value) in order {
            run.point(3, addr, value);
        }
        run.persist(4, ROOT).persist(6, NODE);
        assert_eq!(run.findings_of(RULE).len(), 1);
    }
    let mut run = TargetRun::new();
    let both = [UUID.to_le_bytes(), offset.to_le_bytes()].concat();
    run.fill(1, NODE).at(3).store_value(ROOT, &both);
    run.persist(4, ROOT).persist(6, NODE);
    assert_eq!(
        run.findings_of(RULE),
        ["unpersisted-target pointer@3 store@1 store@2 fence@5"]
    );
}

#[test]
fn objects_that_are_linked_when_all_is_persistent_may_point_to_each_other() {
    // A child with a pointer to its parent; the parent with a pointer to the child; then the root.
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, NODE + 16, OTHER);
    run.fill(4, OTHER).point(6, OTHER + 16, NODE);
    run.point(7, NODE + 24, OTHER);
    run.persist(8, NODE).persist(10, OTHER);
    run.point(12, ROOT, OTHER).persist(13, ROOT);
    assert_eq!(run.findings_of(RULE), [""; 0]);
}

#[test]
fn an_object_that_is_linked_while_its_own_target_is_not_persistent_is_reported() {
    let mut run = TargetRun::new();
    run.fill(1, OTHER);
    run.fill(4, NODE)
        .point(6, NODE + 16, OTHER)
        .persist(8, NODE);
    run.point(12, ROOT, NODE)
        .persist(13, ROOT)
        .persist(15, OTHER);
    assert_eq!(
        run.findings_of(RULE),
        ["unpersisted-target pointer@6 store@1 store@2 fence@9"]
    );
}

#[test]
fn an_object_may_point_into_itself() {
    let mut run = TargetRun::new();
    for word in 0..9 {
        run.at(1).store(NODE + word * 8);
    }
    run.point(3, NODE + 72, NODE);
    run.persist(4, NODE + 64).persist(6, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
}

#[test]
fn one_word_of_an_object_that_was_persistent_before_is_an_update() {
    let mut run = TargetRun::new();
    run.fill(1, NODE).persist(3, NODE);
    run.at(5).store(NODE).point(6, ROOT, NODE);
    run.persist(7, ROOT).persist(9, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
}

#[test]
fn stores_of_another_thread_or_of_a_library_are_not_judged() {
    let mut run = TargetRun::new();
    run.thread(SECOND)
        .fill(1, NODE)
        .thread(crate::target_run::MAIN);
    run.point(3, ROOT, NODE).persist(4, ROOT);
    run.thread(SECOND).persist(6, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
    let mut run = TargetRun::new();
    run.fill(1, NODE).point(3, ROOT, NODE);
    run.persist(4, ROOT).persist(6, NODE);
    let found = run.findings_by(|event: &Event<'_>, _: &_| match event.pc.0 {
        3 => Origin::Library,
        _ => Origin::User,
    });
    assert!(
        !found.iter().any(|finding| finding.starts_with(RULE)),
        "{found:?}"
    );
}

#[test]
fn every_occurrence_counts() {
    let mut run = TargetRun::new();
    for number in 0..5 {
        let node = NODE + number * 64;
        run.fill(1, node).point(3, ROOT, node);
        run.persist(4, ROOT).persist(6, node);
    }
    assert_eq!(
        run.findings_of(RULE),
        ["unpersisted-target pointer@3 store@1 store@2 fence@5 ×5"]
    );
}

#[test]
fn nothing_waits_for_flushes_under_eadr() {
    let mut run = TargetRun::under(Profile::EADR);
    run.fill(1, NODE).point(3, ROOT, NODE);
    assert_eq!(run.findings_of(RULE), [""; 0]);
}

#[test]
fn pointers_that_wait_for_a_fence_beyond_the_limit_are_counted() {
    let pointers = |count: u64| {
        let mut run = TargetRun::new();
        run.fill(1, NODE);
        for number in 0..count {
            let value = NODE + number % 2 * 64;
            run.point(3, ROOT, value).at(4).clflush(ROOT);
        }
        let outcome = run.lint(|_: &Event<'_>, _: &_| Origin::User);
        outcome.pointers_not_judged
    };
    assert_eq!(pointers(1000), 0);
    assert!(pointers(3000) >= 1000);
}
