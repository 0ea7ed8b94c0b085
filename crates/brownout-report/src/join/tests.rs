//! Which findings are one.

use super::*;
use crate::samples::{
    FAILED_RULE, FENCE_RULE, FLUSH_RULE, WARNING_RULE, finding_at, frame, of_mistake, stack,
};
use crate::stack::role;
use crate::{ByteRange, Evidence, Frame, RuleInfo, RulePolicy, Severity, Stack, parse_json_lines};

const HUNG: RuleInfo = RuleInfo {
    id: "recovery-hung",
    ..FAILED_RULE
};

fn called_from(line: u32, event: u64) -> Finding {
    let mut finding = finding_at(&FLUSH_RULE, "kv.c", 7);
    finding.stacks[0].frames[1].line = Some(line);
    let stacks = finding.stacks;
    let evidence = Evidence {
        events: vec![event],
        ..Evidence::default()
    };
    Finding::new(&FLUSH_RULE, "lost", stacks, evidence)
}

fn crash(rule: &RuleInfo, recovery: Vec<Frame>, said: &str) -> Finding {
    let stacks = vec![
        stack(role::FAILURE_POINT, vec![frame("put", "kv.c", 7)]),
        stack(role::RECOVERY, recovery),
    ];
    let details = [("last output".to_owned(), said.to_owned())].into();
    let evidence = Evidence {
        details,
        ..Evidence::default()
    };
    Finding::new(rule, "recovery fails", stacks, evidence)
}

fn bare(offset: u64) -> Vec<Frame> {
    vec![Frame {
        module: "/opt/libindex.so".into(),
        offset,
        ..Frame::default()
    }]
}

/// A store of eight bytes: the rule that reports it, its functions and lines, its event, that of the last fence, its offset.
fn lost(
    rule: &RuleInfo,
    calls: &[(&str, u32)],
    (event, fence): (u64, u64),
    offset: u64,
) -> Finding {
    let frames = calls
        .iter()
        .map(|&(function, line)| frame(function, "kv.c", line));
    let evidence = Evidence {
        ranges: vec![ByteRange {
            file: "/mnt/pmem/pool".into(),
            offset,
            len: 8,
        }],
        events: vec![event],
        unfenced_since: vec![fence],
        store_threads: vec![0],
        ..Evidence::default()
    };
    Finding::new(
        rule,
        "lost",
        vec![stack("store", frames.collect())],
        evidence,
    )
}

/// How many findings a store in `put`, line 10, at event 100 and offset 64, and another one are.
fn together(calls: &[(&str, u32)], times: (u64, u64), offset: u64) -> usize {
    let first = lost(&FLUSH_RULE, &[("put", 10), ("main", 90)], (100, 80), 64);
    join(vec![first, lost(&FLUSH_RULE, calls, times, offset)]).len()
}

#[test]
fn one_line_on_many_stacks_is_one_finding() {
    let (late, early) = (called_from(90, 20), called_from(95, 10));
    let ids = [late.id.clone(), early.id.clone()];
    let joined = join(vec![late, early]);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].count, 2);
    assert_eq!(joined[0].id, ids[1], "the earliest represents them");
    assert_eq!(joined[0].evidence.joined.len(), 1);
    let other = &joined[0].evidence.joined[0];
    assert_eq!((&other.id, other.event), (&ids[0], Some(20)));
    assert_eq!(other.rule, "missing-flush");
    assert_eq!(other.frames[1].line, Some(90));
}

#[test]
fn rules_and_lines_are_distinguished() {
    let findings = vec![
        finding_at(&FLUSH_RULE, "kv.c", 7),
        finding_at(&FENCE_RULE, "kv.c", 7),
        finding_at(&FLUSH_RULE, "kv.c", 8),
    ];
    assert_eq!(join(findings.clone()), findings);
}

#[test]
fn the_lines_that_fill_one_object_are_one_finding() {
    let main = ("main", 90);
    let in_put = |line, event, offset| {
        let times = (event, 80);
        lost(&FLUSH_RULE, &[("put", line), main], times, offset)
    };
    // The last one touches the line before.
    let lines = vec![
        in_put(12, 102, 128),
        in_put(10, 100, 64),
        in_put(11, 101, 120),
    ];
    let joined = join(lines);
    assert_eq!(joined.len(), 1);
    let (finding, evidence) = (&joined[0], &joined[0].evidence);
    assert_eq!(finding.primary_frame().unwrap().line, Some(10));
    assert_eq!(finding.count, 3);
    let others: Vec<_> = evidence.joined.iter().map(|other| other.event).collect();
    assert_eq!(others, [Some(101), Some(102)]);
    let offsets: Vec<u64> = evidence.ranges.iter().map(|range| range.offset).collect();
    assert_eq!(offsets, [64, 120, 128]);
}

#[test]
fn a_fence_an_object_or_a_call_distinguishes() {
    let put = [("put", 11), ("main", 90)];
    assert_eq!(together(&put, (101, 80), 72), 1);
    assert_eq!(together(&put, (105, 103), 72), 2, "after a fence");
    assert_eq!(together(&put, (101, 80), 128), 2, "in another line");
    let elsewhere = [("put", 11), ("main", 91)];
    assert_eq!(together(&elsewhere, (101, 80), 72), 2, "another call");
    let other = [("set", 11), ("main", 90)];
    assert_eq!(together(&other, (101, 80), 72), 2, "another function");
}

#[test]
fn a_function_and_the_one_that_it_calls_fill_one_object() {
    let part = [("init", 50), ("put", 9), ("main", 90)];
    assert_eq!(together(&part, (101, 80), 72), 1);
    let part_of_another = [("init", 50), ("put", 9), ("main", 95)];
    assert_eq!(together(&part_of_another, (101, 80), 72), 2);
}

#[test]
fn a_flush_persists_the_stores_of_its_own_thread() {
    let in_put = |line, (event, fence), thread| {
        let calls = [("put", line), ("main", 90)];
        let mut lost = lost(&FLUSH_RULE, &calls, (event, fence), 64);
        lost.evidence.store_threads = vec![thread];
        lost
    };
    let first = in_put(10, (100, 80), 0);
    let other = in_put(11, (101, 80), 1);
    assert_eq!(join(vec![first.clone(), other]).len(), 2);
    // A fence of another thread orders nothing here.
    let fenced = in_put(12, (102, 101), 1);
    let own = in_put(13, (103, 80), 0);
    let joined = join(vec![first, fenced, own]);
    let others = joined.iter().map(|one| one.evidence.joined.len());
    assert_eq!(others.collect::<Vec<_>>(), [1, 0]);
}

const UNLOGGED: RuleInfo = RuleInfo {
    id: "tx-unlogged-store",
    policy: RulePolicy::NONE,
    ..FLUSH_RULE
};

/// Stores that went to one object in one transaction: the functions and lines of each.
fn unlogged(stores: &[&[(&str, u32)]]) -> Vec<Finding> {
    let stores = stores.iter().enumerate();
    let stores = stores.map(|(number, calls)| {
        let number = number as u64;
        lost(&UNLOGGED, calls, (100 + number, 80), 4096 * number)
    });
    let mut findings: Vec<Finding> = stores.collect();
    let ids: Vec<FindingId> = findings.iter().map(|one| one.id.clone()).collect();
    for (finding, id) in findings.iter_mut().zip(&ids) {
        let others = ids.iter().filter(|other| *other != id);
        finding.evidence.same_object = others.cloned().collect();
    }
    findings
}

#[test]
fn the_stores_that_one_snapshot_would_cover_are_one_finding() {
    let insert: [&[(&str, u32)]; 4] = [
        &[("insert", 10), ("main", 90)],
        &[("memmove", 0), ("insert", 11), ("main", 90)],
        &[("set", 50), ("insert", 12), ("main", 90)],
        &[("remove", 20), ("main", 91)],
    ];
    let joined = join(unlogged(&insert));
    let lines = joined.iter().map(|one| one.primary_frame().unwrap().line);
    assert_eq!(lines.collect::<Vec<_>>(), [Some(10), Some(20)]);
    assert_eq!(joined[0].evidence.joined.len(), 2);
    assert_eq!(joined[0].count, 3);
}

#[test]
fn two_objects_lack_two_snapshots() {
    let mut findings = unlogged(&[
        &[("insert", 10), ("main", 90)],
        &[("insert", 11), ("main", 90)],
    ]);
    assert_eq!(join(findings.clone()).len(), 1);
    for finding in &mut findings {
        finding.evidence.same_object.clear();
    }
    assert_eq!(join(findings).len(), 2);
}

#[test]
fn the_clearest_rule_represents_what_others_report_at_its_line() {
    let calls = [("put", 10), ("main", 90)];
    let mut transient = lost(&WARNING_RULE, &calls, (20, 15), 4096);
    transient.confirmed = Some(true);
    transient.severity = Severity::Bug;
    let missing = lost(&FLUSH_RULE, &calls, (100, 80), 64);
    let joined = join(vec![transient, missing.clone()]);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].id, missing.id);
    assert_eq!(joined[0].confirmed, Some(true));
    assert_eq!(joined[0].count, 1, "two rules, one store");
    let other = &joined[0].evidence.joined[0];
    assert_eq!(
        (other.rule.as_str(), other.confirmed),
        ("transient-data", Some(true))
    );
    assert_eq!(
        joined[0].evidence.ranges.len(),
        2,
        "the bytes that were confirmed"
    );
}

#[test]
fn code_without_lines_is_distinguished_by_offset_and_output() {
    let findings = vec![
        crash(&FAILED_RULE, bare(0x10), "bad count"),
        crash(&FAILED_RULE, bare(0x20), "bad count"),
        crash(&FAILED_RULE, bare(0x20), "lost key"),
    ];
    assert_eq!(join(findings).len(), 3);
    let same = vec![
        crash(&FAILED_RULE, bare(0x10), "bad count"),
        crash(&FAILED_RULE, bare(0x10), "bad count"),
    ];
    assert_eq!(join(same).len(), 1);
}

#[test]
fn it_does_not_matter_where_a_hang_was_interrupted() {
    let findings = vec![
        crash(&HUNG, bare(0x10), ""),
        crash(&HUNG, vec![frame("walk", "kv.c", 70)], ""),
    ];
    assert_eq!(join(findings).len(), 1);
}

#[test]
fn failures_that_different_stores_cause_are_not_joined() {
    let with_store = |line| {
        let mut finding = crash(&FAILED_RULE, vec![frame("check", "kv.c", 70)], "");
        let store = stack(role::STORE_MISSING, vec![frame("put", "kv.c", line)]);
        finding.stacks.push(store);
        finding
    };
    let without = crash(&FAILED_RULE, vec![frame("check", "kv.c", 70)], "");
    let findings = vec![with_store(4), with_store(5), without, with_store(5)];
    let joined = join(findings);
    let counts: Vec<u64> = joined.iter().map(|finding| finding.count).collect();
    assert_eq!(counts, [2, 2], "one without stores belongs to the first");
}

#[test]
fn crash_findings_that_share_a_store_are_one() {
    let failed = |rule, line, (role, store, caller): (&str, u32, u32)| {
        let mut finding = crash(rule, vec![frame("check", "kv.c", line)], "");
        let calls = vec![frame("put", "kv.c", store), frame("main", "kv.c", caller)];
        finding.stacks.push(stack(role, calls));
        finding
    };
    let (there, missing) = (role::STORE_PRESENT, role::STORE_MISSING);
    let count = |other| {
        let first = failed(&FAILED_RULE, 70, (there, 4, 90));
        join_crashes(vec![first, other]).len()
    };
    assert_eq!(count(failed(&HUNG, 75, (there, 4, 90))), 1);
    assert_eq!(count(failed(&FAILED_RULE, 70, (there, 4, 91))), 2);
    assert_eq!(count(failed(&FAILED_RULE, 70, (there, 5, 90))), 2);
    assert_eq!(count(failed(&FAILED_RULE, 70, (missing, 4, 90))), 2);
    let mut explained = failed(&FAILED_RULE, 70, (there, 4, 90));
    explained.cause = Some(explained.id.clone());
    assert_eq!(count(explained), 2, "another cause");
}

#[test]
fn a_torn_update_is_one_finding_whichever_half_is_missing() {
    let store = |role: &str, line| stack(role, vec![frame("put", "kv.c", line)]);
    let failed = |line, stores: Vec<Stack>| {
        let mut finding = crash(&FAILED_RULE, vec![frame("check", "kv.c", 80)], "");
        finding.stacks[0].frames[0].line = Some(line);
        finding.stacks.extend(stores);
        finding
    };
    let (present, missing) = (role::STORE_PRESENT, role::STORE_MISSING);
    let torn = || failed(9, vec![store(present, 8), store(missing, 9)]);
    let first_lost = || failed(10, vec![store(missing, 8)]);
    assert_eq!(join_crashes(vec![torn(), first_lost()]).len(), 1);
    assert_eq!(join_crashes(vec![first_lost(), torn()]).len(), 1);
    let other_lost = failed(10, vec![store(missing, 7)]);
    assert_eq!(join_crashes(vec![torn(), other_lost]).len(), 2);
    let not_torn = failed(9, vec![store(present, 8)]);
    assert_eq!(join_crashes(vec![not_torn, first_lost()]).len(), 2);
}

#[test]
fn the_finding_at_the_line_that_was_confirmed_represents_the_others() {
    let early = lost(&FLUSH_RULE, &[("put", 10)], (100, 80), 64);
    let late = lost(&FLUSH_RULE, &[("put", 11)], (101, 80), 72);
    let delayed = RuleInfo {
        id: "delayed-persist",
        ..WARNING_RULE
    };
    let mut late_too = lost(&delayed, &[("put", 11)], (90, 80), 72);
    late_too.confirmed = Some(true);
    let joined = join(vec![early, late.clone(), late_too]);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].id, late.id);
    assert_eq!(joined[0].confirmed, Some(true));
}

#[test]
fn thousands_of_findings_are_joined_in_one_pass() {
    let findings = (0..5_000).map(|number| called_from(number, u64::from(number)));
    let joined = join(findings.collect());
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].evidence.joined.len(), 4_999);
    let shown = joined[0].evidence.joined.iter();
    assert_eq!(
        shown.filter(|other| !other.frames.is_empty()).count(),
        STACKS_KEPT
    );
}

const FENCE_ORDERS_MANY: RuleInfo = RuleInfo {
    id: "fence-orders-many",
    policy: of_mistake(Mistake::OpenOrder),
    ..WARNING_RULE
};

/// A fence at event 24 that a crash confirms; it orders the lines at 128 and 192.
fn fence(line: u32, token: &str) -> Finding {
    let mut fence = lost(&FENCE_ORDERS_MANY, &[("append", line)], (24, 0), 128);
    fence.stacks[0].role = "fence".into();
    fence.evidence.ranges[0].len = 128;
    fence.severity = Severity::Bug;
    fence.confirmed = Some(true);
    fence.replay = Some(token.to_owned());
    fence
}

#[test]
fn a_fence_belongs_to_the_finding_that_the_same_crash_shows() {
    let late = |line, token: &str| {
        let mut late = lost(
            &FLUSH_RULE,
            &[("append", line)],
            (20, 0),
            4096 * u64::from(line),
        );
        late.confirmed = Some(true);
        late.replay = Some(token.to_owned());
        late
    };
    let findings = vec![
        fence(9, "crash4:1"),
        late(5, "crash4:1"),
        late(6, "crash4:2"),
    ];
    let shown = join(findings.clone());
    let rules: Vec<&str> = shown.iter().map(|one| one.rule.as_str()).collect();
    assert_eq!(rules, ["missing-flush", "missing-flush"]);
    assert_eq!(shown[0].evidence.joined[0].rule, "fence-orders-many");
    assert_eq!(
        join(vec![fence(9, "crash4:3"), findings[1].clone()]).len(),
        2
    );
    // One line with two crashes does not make one finding of two others.
    let fences = vec![fence(9, "crash4:1"), fence(9, "crash4:2")];
    let shown = join([fences, findings[1..].to_vec()].concat());
    assert_eq!(shown.len(), 2);
}

#[test]
fn an_update_torn_by_a_fence_is_one_finding() {
    let torn = |offset| {
        let mut torn = crash(&FAILED_RULE, Vec::new(), "bad");
        let store = stack(role::STORE_MISSING, vec![frame("append", "kv.c", 8)]);
        torn.stacks.push(store);
        torn.evidence.events = vec![21, 20];
        torn.evidence.ranges = lost(&FLUSH_RULE, &[("append", 8)], (20, 0), offset)
            .evidence
            .ranges;
        torn.replay = Some("crash4:21".to_owned());
        torn
    };
    let shown = join(vec![fence(9, "crash4:22"), torn(192)]);
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].rule, FAILED_RULE.id);
    assert_eq!(shown[0].replay.as_deref(), Some("crash4:21"));
    assert_eq!(shown[0].evidence.ranges.len(), 1);
    assert_eq!(join(vec![fence(9, "crash4:22"), torn(256)]).len(), 2);
}

#[test]
fn separated_findings_are_joined_again_in_the_same_way() {
    let in_put = |line, event, offset| {
        let calls = [("put", line), ("main", 90)];
        lost(&FLUSH_RULE, &calls, (event, 80), offset)
    };
    let mut other_rule = lost(&WARNING_RULE, &[("put", 10), ("main", 90)], (20, 15), 64);
    other_rule.message = "transient".into();
    let mut longest = in_put(12, 102, 80);
    longest.count = 5;
    let mut findings = vec![
        in_put(10, 100, 64),
        in_put(11, 101, 72),
        other_rule,
        longest,
    ];
    // More stacks of one line than are kept.
    findings.extend((1..30).map(|caller| {
        let calls = [("put", 12), ("main", 200 + caller)];
        lost(&FLUSH_RULE, &calls, (102 + u64::from(caller), 80), 80)
    }));
    let joined = join(findings);
    assert_eq!(joined.len(), 1);
    let text = serde_json::to_string(&joined[0]).unwrap();
    let rules = [FLUSH_RULE, WARNING_RULE, FENCE_RULE];
    let read = parse_json_lines(&text, &rules).unwrap().remove(0);
    assert_eq!(read, joined[0]);
    let separated = read.separated();
    assert_eq!(separated.len(), 3 + STACKS_KEPT);
    let same_rule = separated.iter().filter(|one| one.rule == "missing-flush");
    let count: u64 = same_rule.map(|one| one.count).sum();
    assert_eq!(count, joined[0].count);
    let transient = separated.iter().find(|one| one.rule == "transient-data");
    let transient = transient.unwrap();
    assert_eq!(
        (transient.message.as_str(), transient.count),
        ("transient", 1)
    );
    assert_eq!(transient.severity, Severity::Warning);

    let ids = |finding: &Finding| {
        let joined = finding.evidence.joined.iter();
        let mut ids: Vec<String> = joined.map(|one| one.id.to_string()).collect();
        ids.sort();
        ids
    };
    let again = join(separated.clone());
    assert_eq!(again.len(), 1);
    assert_eq!(ids(&again[0]), ids(&joined[0]));
    assert_eq!(again[0].count, joined[0].count);
    assert_eq!(again[0].id, joined[0].id);

    let rest = join(separated[1..].to_vec());
    assert_eq!(rest.len(), 1, "the others have one cause even without it");
    assert_eq!(rest[0].count, joined[0].count - 1);
    assert_eq!(rest[0].primary_frame().unwrap().line, Some(11));
}

const UNFENCED: RuleInfo = RuleInfo {
    id: "missing-fence",
    policy: of_mistake(Mistake::MissingFence),
    ..FLUSH_RULE
};

/// A flush that is not fenced: its functions and lines, its event, and the thread of its store.
fn unfenced(calls: &[(&str, u32)], event: u64, thread: u32) -> Finding {
    let frames = calls
        .iter()
        .map(|&(function, line)| frame(function, "kv.c", line));
    let evidence = Evidence {
        events: vec![event],
        store_threads: vec![thread],
        ..Evidence::default()
    };
    let stacks = vec![stack("flush", frames.collect())];
    Finding::new(&UNFENCED, "lost", stacks, evidence)
}

#[test]
fn the_flushes_of_one_call_need_one_fence() {
    let first = unfenced(&[("put", 7), ("main", 90)], 5, 1);
    let second = unfenced(&[("put", 8), ("main", 90)], 6, 1);
    let joined = join(vec![second.clone(), first.clone()]);
    assert_eq!(joined.len(), 1);
    assert_eq!((&joined[0].id, joined[0].count), (&first.id, 2));
    assert_eq!(joined[0].evidence.joined[0].id, second.id);
    for other in [
        unfenced(&[("put", 8), ("main", 91)], 6, 1),
        unfenced(&[("main", 91)], 6, 1),
        unfenced(&[("get", 8), ("main", 90)], 6, 1),
        unfenced(&[("put", 8), ("main", 90)], 6, 2),
    ] {
        assert_eq!(join(vec![first.clone(), other]).len(), 2);
    }
}
