//! The exact text of the human-readable output.

use super::*;
use crate::samples::{FLUSH_RULE, WARNING_RULE, finding, finding_at, frame, stack};
use crate::{Evidence, Frame, Subject};

const SOURCE: &str = "\
#include \"kv.h\"

void put(struct store *store, int value)
{
\tstore->value = value;
\tpersist(&store->value);
\tstore->count += 1; /* never flushed */
}
";

fn human(verbose: bool) -> Human {
    Human {
        color: false,
        width: 120,
        wrap: true,
        verbose,
        suppressed: false,
        all: false,
        results: Some("'my results'".into()),
        sources: Sources::from_fn(|file| match file {
            "/home/u/kv/kv.c" => Ok(SOURCE.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }),
    }
}

fn report(findings: Vec<Finding>) -> Report {
    let subject = Subject {
        directory: Some("/home/u/kv".into()),
        ..Subject::default()
    };
    Report::new(subject, vec![], findings)
}

fn shown(findings: Vec<Finding>) -> String {
    human(false).to_text(&report(findings))
}

#[test]
fn a_bug_in_full() {
    let mut bug = finding();
    bug.count = 3;
    assert_eq!(
        shown(vec![bug]),
        "\
bug[missing-flush]: a store that is never flushed here
 --> kv.c:7:2
  |
7 |     store->count += 1; /* never flushed */
  |     ^^^^^^^^^^^^^^^^^ store
  |
  = store: put at kv.c:7
           main at kv.c:90
  = seen: 3 times, first at event 12
          /mnt/pmem/pool+0x40..0x48
          stored 0100000000000000
  = id: 52b7ecaadd45821c

1 bug, no warnings
`brownout explain RULE` describes a rule and how to fix its findings: missing-flush
"
    );
}

#[test]
fn both_stacks_are_marked_in_one_snippet() {
    let stacks = vec![
        stack("store", vec![frame("put", "/home/u/kv/kv.c", 7)]),
        stack("later store", vec![frame("put", "/home/u/kv/kv.c", 5)]),
    ];
    let text = shown(vec![Finding::new(
        &FLUSH_RULE,
        "m",
        stacks,
        Evidence::default(),
    )]);
    assert!(text.contains("-------------------- later store"), "{text}");
    assert!(text.contains("^^^^^^^^^^^^^^^^^ store"), "{text}");
}

#[test]
fn two_stores_of_one_statement_are_marked_once() {
    let store = || {
        stack(
            "store that is there",
            vec![frame("put", "/home/u/kv/kv.c", 5)],
        )
    };
    let failure_point = stack("failure point", vec![frame("put", "/home/u/kv/kv.c", 7)]);
    let stacks = vec![failure_point, store(), store()];
    let text = shown(vec![Finding::new(
        &FLUSH_RULE,
        "m",
        stacks,
        Evidence::default(),
    )]);
    assert_eq!(text.matches("- store that is there").count(), 1, "{text}");
}

#[test]
fn callers_are_shown_with_their_statement() {
    let file = "/home/u/kv/kv.c";
    let frames = vec![frame("put", file, 7), frame("main", file, 6)];
    let stacks = vec![stack("store", frames)];
    let text = shown(vec![Finding::new(
        &FLUSH_RULE,
        "m",
        stacks,
        Evidence::default(),
    )]);
    assert!(
        text.contains("main at kv.c:6: persist(&store->value)\n"),
        "{text}"
    );
    assert!(
        text.contains("put at kv.c:7\n"),
        "the statement in the snippet is not repeated: {text}"
    );
}

#[test]
fn warnings_are_one_line_per_rule_and_location() {
    let at = |caller: &str| {
        let file = "/home/u/kv/kv.c";
        let frames = vec![frame("put", file, 7), frame(caller, file, 90)];
        Finding::new(
            &WARNING_RULE,
            "a warning",
            vec![stack("store", frames)],
            Evidence::default(),
        )
    };
    let warnings = vec![at("a"), at("b"), finding_at(&WARNING_RULE, "x.c", 1)];
    let text = shown(warnings.clone());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "warning[transient-data]: a warning (put at kv.c:7, 2 times on 2 stacks)",
            "warning[transient-data]: a store to what is never flushed here (put at x.c:1, once)",
            "",
            "no bugs, 3 warnings",
        ]
    );
    let full = human(true).to_text(&report(warnings));
    assert_eq!(full.matches("warning[transient-data]").count(), 3, "{full}");
    assert_eq!(
        full.matches("store->count += 1").count(),
        1,
        "shown once:\n{full}"
    );
}

#[test]
fn a_missing_source_file_is_explained() {
    let text = shown(vec![finding_at(&FLUSH_RULE, "/elsewhere/x.c", 3)]);
    assert!(text.contains("--> /elsewhere/x.c:3"), "{text}");
    let sentence = "cannot read source file /elsewhere/x.c: entity not found";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn without_debug_information_the_module_is_shown() {
    let bare = Frame {
        module: "/opt/kv".into(),
        offset: 0x1149,
        ..Frame::default()
    };
    let stacks = vec![stack("store", vec![bare])];
    let text = shown(vec![Finding::new(
        &FLUSH_RULE,
        "m",
        stacks,
        Evidence::default(),
    )]);
    assert!(text.contains("--> /opt/kv+0x1149"), "{text}");
    let text = shown(vec![Finding::new(
        &FLUSH_RULE,
        "m",
        vec![],
        Evidence::default(),
    )]);
    assert!(text.starts_with("bug[missing-flush]: m\n"), "{text}");
}

#[test]
fn control_characters_in_names_are_escaped() {
    let mut bug = finding();
    bug.message = "\x1b[2J\nbug[fake]: x".into();
    bug.stacks[0].frames[0].function = Some("f\x1b]0;title\x07\r\n".into());
    bug.stacks[0].role = "st\x1bore".into();
    bug.evidence
        .details
        .insert("a\x1b".into(), "b\n\x1b".into());
    let text = shown(vec![bug]);
    assert!(!text.contains(['\x1b', '\x07', '\r']), "{text:?}");
    assert!(!text.contains("\nbug[fake]"), "{text}");
}

#[test]
fn long_stacks_and_values_are_cut() {
    let frames = (0..1_000)
        .map(|_| frame("walk", "/home/u/kv/kv.c", 7))
        .collect();
    let mut bug = Finding::new(
        &FLUSH_RULE,
        "m",
        vec![stack("store", frames)],
        Evidence::default(),
    );
    bug.evidence.values = vec![crate::Value::new("stored", &[0xab; 4096])];
    let text = shown(vec![bug]);
    assert!(text.contains("and 976 more"), "{text}");
    assert!(
        text.contains("stored abababababababababababababababab… (4096 bytes)"),
        "{text}"
    );
    assert!(text.lines().count() < 60);
}

#[test]
fn colors_are_used_only_if_enabled() {
    let colored = Human {
        color: true,
        ..human(false)
    };
    assert!(colored.to_text(&report(vec![finding()])).contains("\x1b["));
    assert!(!shown(vec![finding()]).contains('\x1b'));
}

#[test]
fn the_summary() {
    assert_eq!(shown(vec![]), "nothing found\n");
    let text = shown(vec![finding(), finding_at(&WARNING_RULE, "x.c", 1)]);
    assert!(text.contains("\n1 bug, 1 warning\n"), "{text}");
    assert!(
        text.ends_with("fix its findings: missing-flush, transient-data\n"),
        "{text}"
    );
}

#[test]
fn only_a_few_stacks_are_shown_per_location() {
    let calls = |count: u32| -> Vec<Finding> {
        let stacks = (0..count).map(|caller| {
            let frames = vec![
                frame("put", "/home/u/kv/kv.c", 7),
                frame("main", "x.c", caller),
            ];
            Finding::new(
                &FLUSH_RULE,
                "lost",
                vec![stack("store", frames)],
                Evidence::default(),
            )
        });
        stacks.collect()
    };
    let three = shown(calls(3));
    assert_eq!(three.matches("bug[missing-flush]").count(), 3);
    assert!(!three.contains("more stacks"), "{three}");
    let many = shown(calls(9));
    assert_eq!(many.matches("= id:").count(), 3, "{many}");
    assert!(
        many.contains("bug[missing-flush]: lost (put at kv.c:7, 6 more stacks not shown)\n"),
        "{many}"
    );
    assert!(many.contains("9 bugs, no warnings"), "{many}");
}

#[test]
fn at_most_twenty_findings_are_shown_unless_all_are_wanted() {
    let at = |line| finding_at(&FLUSH_RULE, "/home/u/kv/kv.c", line);
    let findings: Vec<Finding> = (1..=25).map(at).collect();
    let text = shown(findings.clone());
    assert_eq!(text.matches("bug[missing-flush]").count(), 20, "{text}");
    assert!(
        text.contains("\n5 more findings not shown here; --all shows all"),
        "{text}"
    );
    assert!(text.contains("\n25 bugs, no warnings\n"), "{text}");
    let all = Human {
        all: true,
        ..human(false)
    };
    let text = all.to_text(&report(findings));
    assert_eq!(text.matches("bug[missing-flush]").count(), 25, "{text}");
    assert!(!text.contains("not shown"), "{text}");
}

#[test]
fn lines_fit_the_terminal() {
    let mut bug = finding();
    bug.message = "words that say what happened, and why, ".repeat(6);
    let details = &mut bug.evidence.details;
    details.insert(
        "last output".into(),
        "a line that recovery printed ".repeat(8),
    );
    for width in [60, 80] {
        let narrow = Human {
            width,
            ..human(false)
        };
        let text = narrow.to_text(&report(vec![bug.clone()]));
        let findings = text.split("`brownout explain").next().unwrap_or_default();
        for line in findings.lines() {
            assert!(line.chars().count() <= width, "{line:?} in:\n{text}");
        }
    }
}

#[test]
fn the_command_that_replays_a_crash_can_be_copied() {
    let mut crash = finding();
    crash.replay = Some("crash4:7:abc".into());
    let text = shown(vec![crash.clone()]);
    let command = format!("brownout replay 'my results' {}", crash.id);
    assert!(text.contains(&command), "{text}");
}

#[test]
fn long_template_arguments_are_left_out() {
    let mut bug = finding();
    let frames = &mut bug.stacks[0].frames;
    frames[0].function = Some("std::map<int, std::string>::insert".into());
    let text = shown(vec![bug]);
    assert!(
        text.contains("= store: std::map<…>::insert at kv.c:7"),
        "{text}"
    );
}
