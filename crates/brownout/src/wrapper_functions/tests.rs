//! Which functions are wrappers.

use brownout_lint::Origin;
use brownout_trace::{Address, EventKind, FenceKind, FlushKind, StoreFlavor};

use super::*;

const FENCE: EventKind<'static> = EventKind::Fence {
    kind: FenceKind::Sfence,
};
const FLUSH: EventKind<'static> = EventKind::Flush {
    addr: Address(64),
    kind: FlushKind::Clwb,
    volatile: false,
};
const STORE: EventKind<'static> = EventKind::Store {
    addr: Address(64),
    bytes: &[1],
    flavor: StoreFlavor::Temporal,
    locked: false,
    string: false,
};

fn frame((function, line): (&str, u32)) -> Frame {
    Frame {
        function: Some(function.to_owned()),
        file: Some("/src/kv.c".to_owned()),
        line: Some(line),
        module: "/bin/kv".to_owned(),
        ..Frame::default()
    }
}

/// What happened, whose code did it, and the stack: functions and lines, innermost first.
type Observed<'a> = (EventKind<'a>, Origin, &'a [(&'a str, u32)]);

/// The wrappers of a run with these events.
fn wrappers(events: &[Observed<'_>]) -> Vec<String> {
    let mut search = WrapperSearch::default();
    for (event, origin, stack) in events {
        search.observe(event, *origin, stack.iter().copied().map(frame));
    }
    let mut found: Vec<String> = search
        .find()
        .functions
        .into_iter()
        .map(|(_, function)| function)
        .collect();
    found.sort();
    found
}

#[test]
fn a_function_that_only_flushes_for_two_callers_is_a_wrapper() {
    let user = Origin::User;
    let put: Observed<'_> = (STORE, user, &[("put", 5), ("main", 1)]);
    let first: &[(&str, u32)] = &[("pm_wb", 3), ("put", 6), ("main", 1)];
    let second: &[(&str, u32)] = &[("pm_wb", 3), ("put", 8), ("main", 1)];
    assert_eq!(
        wrappers(&[put, (FLUSH, user, first), (FENCE, user, second)]),
        ["pm_wb"]
    );
    assert_eq!(wrappers(&[put, (FLUSH, user, first)]), [""; 0]);
}

#[test]
fn a_name_that_says_so_needs_only_one_caller() {
    let stack: &[(&str, u32)] = &[("kv::flush_range<int>", 3), ("put", 6), ("main", 1)];
    let events = [
        (FLUSH, Origin::User, stack),
        (STORE, Origin::User, &[("put", 5), ("main", 1)][..]),
    ];
    assert_eq!(wrappers(&events), ["kv::flush_range<int>"]);
}

#[test]
fn wrappers_around_wrappers_are_recognised_by_name() {
    let user = Origin::User;
    let events: [Observed<'_>; 4] = [
        (
            FLUSH,
            user,
            &[("clwb", 3), ("persist", 6), ("checkpoint", 9), ("main", 1)],
        ),
        (
            FENCE,
            user,
            &[
                ("sfence", 4),
                ("persist", 7),
                ("checkpoint", 9),
                ("main", 1),
            ],
        ),
        (
            FENCE,
            user,
            &[
                ("sfence", 4),
                ("persist", 7),
                ("checkpoint", 10),
                ("main", 2),
            ],
        ),
        (STORE, user, &[("main", 2)]),
    ];
    assert_eq!(wrappers(&events), ["clwb", "persist", "sfence"]);
}

#[test]
fn a_part_of_a_wrapper_is_one() {
    let user = Origin::User;
    let put: Observed<'_> = (STORE, user, &[("put", 5), ("main", 1)]);
    let by_name: Observed<'_> = (
        FLUSH,
        user,
        &[("write_line", 3), ("persist", 6), ("put", 7), ("main", 1)],
    );
    assert_eq!(wrappers(&[put, by_name]), ["persist", "write_line"]);
    let called_from = |stack| -> Observed<'_> { (FLUSH, user, stack) };
    let (first, second) = (
        called_from(&[("line", 3), ("all_lines", 6), ("make_safe", 9), ("put", 7)]),
        called_from(&[("line", 3), ("all_lines", 6), ("make_safe", 9), ("put", 8)]),
    );
    assert_eq!(
        wrappers(&[put, first, second]),
        ["all_lines", "line", "make_safe"]
    );
}

#[test]
fn a_function_that_calls_one_with_stores_is_no_wrapper() {
    let user = Origin::User;
    let events: [Observed<'_>; 4] = [
        (STORE, user, &[("set", 3), ("put", 6), ("main", 1)]),
        (FLUSH, user, &[("write_line", 8), ("put", 7), ("main", 1)]),
        (FLUSH, user, &[("write_line", 8), ("put", 7), ("main", 2)]),
        (STORE, user, &[("main", 3)]),
    ];
    assert_eq!(wrappers(&events), [""; 0]);
}

#[test]
fn a_function_with_stores_of_its_own_is_no_wrapper() {
    let user = Origin::User;
    let events: [Observed<'_>; 3] = [
        (
            STORE,
            user,
            &[("set_and_flush", 3), ("put", 6), ("main", 1)],
        ),
        (
            FLUSH,
            user,
            &[("set_and_flush", 4), ("put", 6), ("main", 1)],
        ),
        (
            FLUSH,
            user,
            &[("set_and_flush", 4), ("put", 7), ("main", 1)],
        ),
    ];
    assert_eq!(wrappers(&events), [""; 0]);
}

#[test]
fn copying_needs_a_name() {
    let copy = |name: &'static str| {
        let first = [(name, 3), ("put", 6), ("main", 1)];
        let second = [(name, 3), ("put", 7), ("main", 1)];
        let events = [
            (STORE, Origin::CLibrary, &first[..]),
            (FLUSH, Origin::User, &second[..]),
            (STORE, Origin::User, &[("put", 5), ("main", 1)][..]),
        ];
        wrappers(&events)
    };
    assert_eq!(copy("memcpy_nt"), ["memcpy_nt"]);
    assert_eq!(copy("append"), [""; 0]);
}

#[test]
fn what_nothing_calls_is_no_wrapper() {
    assert_eq!(
        wrappers(&[(FLUSH, Origin::User, &[("flush_thread", 3)])]),
        [""; 0]
    );
}

#[test]
fn findings_are_shown_at_the_caller_and_keep_their_id() {
    use brownout_report::{Evidence, Stack};
    let mut search = WrapperSearch::default();
    let stack = [("flush", 3), ("put", 6), ("main", 1)];
    search.observe(&FLUSH, Origin::User, stack.iter().copied().map(frame));
    search.observe(&STORE, Origin::User, [frame(("put", 5))].into_iter());
    let rule = brownout_lint::rule("redundant-flush").unwrap();
    let stack = Stack {
        role: "flush".to_owned(),
        frames: stack.into_iter().map(frame).collect(),
    };
    let mut findings = [Finding::new(
        rule,
        "message",
        vec![stack],
        Evidence::default(),
    )];
    let id = findings[0].lineless_id();
    assert_eq!(findings[0].primary_frame(), Some(&frame(("flush", 3))));
    search.find().mark(&mut findings);
    assert_eq!(findings[0].primary_frame(), Some(&frame(("put", 6))));
    assert_eq!(findings[0].lineless_id(), id);
}
