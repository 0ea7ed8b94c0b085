//! Transactions of libpmemobj.

use std::collections::HashMap;

use brownout_lint::Origin;
use brownout_trace::{CallArguments, Definitions, Event, EventKind};

use crate::target_run::{A, A2, B, C, MAIN, POOL, SECOND, TargetRun};

const OK: [u64; 2] = [0, 0];

impl TargetRun {
    /// A call by the instruction `pc` that returns `value`, or is left by a jump if there is none.
    fn call(&mut self, pc: u64, name: &str, args: &[u64], value: Option<[u64; 2]>) -> &mut Self {
        self.enter(pc, name, args).leave(name, value)
    }

    fn enter(&mut self, pc: u64, name: &str, args: &[u64]) -> &mut Self {
        let function = self.function(&format!("pmemobj_{name}"));
        self.at(pc).event(EventKind::Call {
            function,
            args: CallArguments::new(args),
        })
    }

    fn leave(&mut self, name: &str, value: Option<[u64; 2]>) -> &mut Self {
        let function = self.function(&format!("pmemobj_{name}"));
        self.event(EventKind::Return { function, value })
    }

    fn begin(&mut self, pc: u64) -> &mut Self {
        self.call(pc, "tx_begin", &[POOL, 0], Some(OK))
    }

    /// Adds by offset in the pool.
    fn add(&mut self, pc: u64, addr: u64, len: u64) -> &mut Self {
        let args = [7, addr - POOL, 0, len];
        self.call(pc, "tx_add_range", &args, Some(OK))
    }

    fn alloc(&mut self, pc: u64, addr: u64, len: u64) -> &mut Self {
        self.call(pc, "tx_alloc", &[len, 1], Some([7, addr - POOL]))
    }

    /// Commits, flushing `lines` in the library, and ends.
    fn commit(&mut self, lines: &[u64]) -> &mut Self {
        self.enter(600, "tx_process", &[]);
        self.enter(600, "tx_commit", &[]);
        for &line in lines {
            self.at(601).clwb(line);
        }
        self.at(602).sfence();
        self.leave("tx_commit", Some(OK))
            .leave("tx_process", Some(OK))
            .finish()
    }

    /// What `TX_END` does after the work.
    fn finish(&mut self) -> &mut Self {
        for _ in 0..2 {
            self.call(603, "tx_process", &[], Some(OK));
        }
        self.call(604, "tx_end", &[], Some(OK))
    }

    fn found(&mut self) -> Vec<String> {
        let mut found = self.select("/mnt/*").findings_by(by_number);
        found.retain(|finding| finding.starts_with("tx-"));
        found
    }
}

/// Instructions from 500 on are the library's; 50 locks and unlocks, 60 is the bindings'.
fn by_number(event: &Event<'_>, _: &Definitions) -> Origin {
    match event.pc.0 {
        500.. => Origin::Library,
        50 => Origin::Lock,
        60 => Origin::Bindings,
        _ => Origin::User,
    }
}

#[test]
fn stores_to_added_ranges_are_not_reported() {
    let mut run = TargetRun::new();
    run.begin(1).add(2, A, 8).at(3).store(A).add(4, C, 16);
    run.at(5).store(C).at(6).store(C + 8).commit(&[A, C]);
    // And again, in the next transaction.
    run.begin(1).add(2, A, 8).at(3).store(A).commit(&[A]);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn adding_what_was_added_is_redundant() {
    let mut run = TargetRun::new();
    run.begin(1).add(2, A, 16).add(3, A2, 8).commit(&[]);
    assert_eq!(run.found(), ["tx-redundant-add add@3 added before@2"]);
    // Also by address, and when several ranges cover it together.
    run = TargetRun::new();
    run.begin(1).add(2, A, 8).add(3, A2, 8);
    run.call(4, "tx_add_range_direct", &[A, 16], Some(OK));
    run.call(5, "tx_xadd_range_direct", &[A, 24, 2], Some(OK));
    run.commit(&[]);
    assert_eq!(run.found(), ["tx-redundant-add add@4 added before@2"]);
}

#[test]
fn adds_of_bindings_on_each_assignment_are_not_reported() {
    let mut run = TargetRun::new();
    run.begin(1).add(60, A, 16).add(60, A2, 8);
    // Their adds still count.
    run.at(2).store(A).at(3).store(A2).commit(&[A]);
    assert_eq!(run.found(), [""; 0]);
    run = TargetRun::new();
    run.begin(1).add(60, A, 16).add(2, A2, 8).commit(&[]);
    assert_eq!(run.found(), ["tx-redundant-add add@2 added before@60"]);
}

#[test]
fn each_transaction_has_its_own_log() {
    let mut run = TargetRun::new();
    for _ in 0..3 {
        run.begin(1).add(2, A, 8).commit(&[A]);
    }
    run.begin(1).add(2, A, 8);
    run.thread(SECOND).begin(3).add(4, A, 8).commit(&[]);
    run.thread(MAIN).commit(&[]);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn nested_transactions_share_the_log() {
    let mut run = TargetRun::new();
    run.begin(1).add(2, A, 8).begin(3);
    run.at(4).store(A).add(5, A, 8).add(6, B, 8).commit(&[]);
    run.at(7).store(B).commit(&[A, B]);
    assert_eq!(run.found(), ["tx-redundant-add add@5 added before@2"]);
}

#[test]
fn a_new_object_needs_no_log() {
    let mut run = TargetRun::new();
    run.begin(1)
        .alloc(2, C, 64)
        .at(3)
        .store(C)
        .at(4)
        .store(C + 56);
    run.at(5).store(C + 64).add(6, C, 64).commit(&[C]);
    assert_eq!(
        run.found(),
        [
            "tx-redundant-add add@6 allocation@2",
            "tx-unlogged-store store@5 transaction@1"
        ]
    );
}

#[test]
fn a_failed_add_adds_nothing_and_stops_judging() {
    let mut run = TargetRun::new();
    let args = [7, A - POOL, 0, 8];
    run.begin(1).call(2, "tx_add_range", &args, Some([12, 0]));
    run.add(3, A, 8).add(4, A, 8).at(5).store(C).finish();
    // The next transaction is judged again.
    run.begin(6).at(7).store(C).commit(&[]);
    assert_eq!(run.found(), ["tx-unlogged-store store@7 transaction@6"]);
}

#[test]
fn stores_outside_the_log_are_reported_at_commit_and_at_abort() {
    let mut run = TargetRun::new();
    run.begin(1).add(2, A, 8).at(3).store(A2).commit(&[A]);
    run.begin(4).at(5).store(B);
    run.call(6, "tx_abort", &[1], None).finish();
    assert_eq!(
        run.found(),
        [
            "tx-unlogged-store store@3 transaction@1",
            "tx-unlogged-store store@5 transaction@4"
        ]
    );
}

#[test]
fn adding_after_the_store_is_too_late() {
    let mut run = TargetRun::new();
    run.begin(1).at(2).store(A).add(3, A, 8).commit(&[A]);
    assert_eq!(run.found(), ["tx-unlogged-store store@2 transaction@1"]);
}

#[test]
fn stores_outside_of_transactions_and_of_their_work_are_not_judged() {
    let mut run = TargetRun::new();
    run.at(1).store(A).begin(2).add(3, B, 8);
    run.call(4, "tx_process", &[], Some(OK)).at(5).store(A);
    run.call(6, "tx_process", &[], Some(OK)).at(7).store(A);
    run.call(8, "tx_process", &[], Some(OK));
    run.call(9, "tx_end", &[], Some(OK)).at(10).store(A);
    run.thread(SECOND).at(11).store(C);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn stores_that_the_program_itself_persists_are_not_reported() {
    let mut run = TargetRun::new();
    run.begin(1).at(2).store(A).persist(3, A);
    run.at(5).nt_store(B).at(6).sfence();
    run.at(7).store(C).at(8).msync(POOL, 0x2000).commit(&[]);
    assert_eq!(run.found(), [""; 0]);
    // But not what is stored again.
    run = TargetRun::new();
    run.begin(1).at(2).store(A).persist(3, A).at(5).store(A);
    run.commit(&[A]);
    assert_eq!(run.found(), ["tx-unlogged-store store@5 transaction@1"]);
}

#[test]
fn stores_of_the_library_are_not_reported() {
    let mut run = TargetRun::new();
    run.begin(1).at(500).store(A);
    // A statically linked library is recognised by its calls.
    run.enter(2, "tx_add_range", &[7, B - POOL, 0, 8]);
    run.at(3).store(C);
    run.enter(4, "tx_add_range_direct", &[B, 8]);
    run.leave("tx_add_range_direct", Some(OK));
    run.leave("tx_add_range", Some(OK));
    run.at(5).store(B).commit(&[A, B, C]);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn locks_are_not_data() {
    let mut run = TargetRun::new();
    run.begin(1).at(2).locked_store(A).at(3).store(B);
    run.at(4).store(A).at(50).store(C).commit(&[]);
    assert_eq!(run.found(), ["tx-unlogged-store store@3 transaction@1"]);
}

#[test]
fn reserved_objects_are_not_reachable_yet() {
    let mut run = TargetRun::new();
    run.call(1, "reserve", &[POOL, 0, 32, 1], Some([7, C - POOL]));
    run.begin(2).at(3).store(C).at(4).store(C + 32);
    run.call(5, "tx_publish", &[0, 1], Some(OK)).commit(&[C]);
    assert_eq!(run.found(), ["tx-unlogged-store store@4 transaction@2"]);
}

#[test]
fn uncommitted_stores_need_not_become_persistent() {
    let mut aborted = TargetRun::new();
    aborted.at(1).store(A).persist(2, A);
    aborted.begin(4).alloc(5, A, 64).at(6).store(A);
    aborted.call(7, "tx_abort", &[1], None).finish();
    assert_eq!(aborted.findings(), [""; 0]);

    let mut killed = TargetRun::new();
    killed.at(1).store(A).persist(2, A);
    killed.begin(4).add(5, A, 8).at(6).store(A);
    killed.at(7).store(B).persist(8, B);
    killed.killed();
    assert_eq!(killed.findings_of("missing-flush"), [""; 0]);

    let mut outside = TargetRun::new();
    outside.at(1).store(A).persist(2, A);
    outside.begin(4).alloc(5, B, 64).at(6).store(A);
    outside.call(7, "tx_abort", &[1], None).finish();
    assert_eq!(
        outside.findings(),
        ["tx-unlogged-store store@6 transaction@4"],
        "stores outside of the log are still judged, and reported once"
    );
}

#[test]
fn a_forgotten_log_entry_is_one_finding() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .persist(2, A)
        .at(4)
        .store(B)
        .persist(5, B);
    // Lost, also where it was overwritten; late, as the library flushes its line; never flushed at all.
    run.begin(7).add(8, A, 8).at(9).store(A);
    run.at(10).store(B).at(10).store(B).at(11).store(A2);
    run.at(12).store(C).commit(&[A]);
    assert_eq!(
        run.findings_by(by_number),
        [
            "tx-unlogged-store store@10 transaction@7",
            "tx-unlogged-store store@11 transaction@7",
            "tx-unlogged-store store@12 transaction@7"
        ]
    );
    // Stores of other transactions, and outside of transactions, are still judged.
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.begin(4).at(5).store(A).commit(&[]);
    run.at(6).store(B).persist(7, B).at(6).store(B);
    assert_eq!(
        run.findings_by(by_number),
        [
            "missing-flush store@6",
            "tx-unlogged-store store@5 transaction@4"
        ]
    );
}

#[test]
fn an_inner_abort_aborts_the_outer_transaction() {
    let mut run = TargetRun::new();
    run.begin(1).begin(2).at(3).store(A);
    run.call(4, "tx_abort", &[1], None);
    run.call(5, "tx_process", &[], Some(OK));
    // The end of the inner one jumps to the outer one's handler, where nothing is judged.
    run.call(6, "tx_end", &[], None).at(7).store(B);
    run.finish().at(8).store(C);
    assert_eq!(run.found(), ["tx-unlogged-store store@3 transaction@1"]);
}

#[test]
fn a_new_transaction_replaces_one_whose_end_was_not_recorded() {
    let mut run = TargetRun::new();
    run.begin(1)
        .at(2)
        .store(A)
        .call(3, "tx_alloc", &[8, 1], None);
    run.at(4).store(B).begin(5).add(6, C, 8).at(7).store(C);
    run.commit(&[C]).at(8).store(A2);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn the_end_of_a_transaction_closes_open_calls() {
    let mut run = TargetRun::new();
    // Committed from inside the library.
    run.begin(1).at(2).store(A).call(3, "tx_end", &[], Some(OK));
    run.at(4).store(B);
    // Jumped out of, and not noticed until later.
    run.begin(5).enter(6, "tx_abort", &[1]).at(7).store(C);
    run.call(8, "tx_end", &[], Some(OK)).leave("tx_abort", None);
    run.begin(9).at(10).store(C).commit(&[]);
    assert_eq!(
        run.found(),
        [
            "tx-unlogged-store store@2 transaction@1",
            "tx-unlogged-store store@10 transaction@9"
        ]
    );
}

#[test]
fn other_pools_and_files_are_not_the_transactions() {
    let mut run = TargetRun::new();
    let other = run.file("/mnt/other", 2);
    run.map(other, 0x80_0000, 0x1000, 0);
    run.begin(1).at(2).store(0x80_0000).commit(&[]);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn order_does_not_matter_for_what_a_transaction_has_logged() {
    let stores = |run: &mut TargetRun| {
        run.at(3).store(A).at(4).store(A).at(5).store(B);
        run.persist(6, B).persist(8, A);
    };
    let mut run = TargetRun::new();
    run.begin(1).add(2, A, 64);
    stores(&mut run);
    run.commit(&[]);
    let ordering = ["dirty-overwrite", "delayed-persist"];
    let of_order = |run: &mut TargetRun| -> Vec<String> {
        let mut found = run.findings_by(by_number);
        found.retain(|finding| ordering.iter().any(|rule| finding.starts_with(rule)));
        found
    };
    assert_eq!(of_order(&mut run), [""; 0]);
    // The next transaction has not logged it.
    run = TargetRun::new();
    run.begin(1).add(2, A, 64).commit(&[]);
    run.begin(1);
    stores(&mut run);
    run.commit(&[]);
    assert_eq!(of_order(&mut run).len(), 2);
}

/// The instructions whose stores are not logged, each with those that stored to the same object.
fn related(run: &mut TargetRun) -> Vec<(u64, Vec<u64>)> {
    let findings = run.select("/mnt/*").lint(by_number).findings;
    let sites = findings.iter().map(|finding| finding.sites[0]);
    let numbers: HashMap<_, u64> = sites.map(|site| (site.key, site.pc.0)).collect();
    let unlogged = findings
        .iter()
        .filter(|one| one.rule.id == "tx-unlogged-store");
    let related = unlogged.map(|one| {
        let others = one.related.iter().map(|site| numbers[site]);
        (one.sites[0].pc.0, others.collect())
    });
    related.collect()
}

#[test]
fn stores_to_one_object_in_one_transaction_are_related() {
    let mut run = TargetRun::new();
    run.begin(1)
        .alloc(2, A, 0x100)
        .alloc(2, C, 8)
        .alloc(2, C + 8, 8)
        .commit(&[A, C]);
    run.begin(3).at(4).store(A).at(5).store(A + 0x80);
    run.at(6).store(C).at(7).store(C + 8).commit(&[]);
    // Another transaction, in which only one more instruction meets one of them.
    run.begin(3)
        .at(5)
        .store(A + 0x80)
        .at(8)
        .store(A)
        .commit(&[]);
    assert_eq!(
        related(&mut run),
        [
            (4, vec![5]),
            (5, vec![4, 8]),
            (6, vec![]),
            (7, vec![]),
            (8, vec![5])
        ]
    );
}

#[test]
fn the_root_is_an_object_and_unknown_objects_are_what_touches() {
    let mut run = TargetRun::new();
    run.call(1, "root_construct", &[POOL, 0x200], Some([7, A - POOL]));
    run.begin(2).at(3).store(A).at(4).store(A + 0x180);
    run.at(5).store(C).at(6).store(C + 0x38);
    run.at(7).store(C + 0x40).at(8).store(C + 0x80).commit(&[]);
    assert_eq!(
        related(&mut run),
        [
            (3, vec![4]),
            (4, vec![3]),
            (5, vec![6, 7]),
            (6, vec![5, 7]),
            (7, vec![5, 6]),
            (8, vec![])
        ]
    );
}
