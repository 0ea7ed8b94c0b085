//! Which of several stores recovery reads: explanations of failures, and the rule `unpersisted-read`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::test_dir::{Completed, TestDir, findings};
use crate::{functions, recovery_failure};

/// Records that nodes are put into the list, and explores a recovery of it.
fn explored(put: &[&str], recovery: &str, options: &[&str]) -> (TestDir, Completed) {
    let dir = TestDir::with("crash/list.c", &["-g"]);
    let record = ["record", "-q", "-o", "trace", "--", "./list", "pool", "put"];
    let run = dir.brownout(&[&record[..], put].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run = explore(&dir, recovery, options);
    (dir, run)
}

fn explore(dir: &TestDir, recovery: &str, options: &[&str]) -> Completed {
    let recover = format!("./list {{pm}} {recovery}");
    let crash = ["crash", "trace", "--recover", &recover];
    let exhaustive = ["--strategy", "exhaustive", "--out", "out"];
    dir.brownout(&[&crash[..], &exhaustive, options].concat())
}

/// The function of the innermost frame of the stack with a number.
fn function_of<'f>(finding: &'f Value, number: &Value) -> &'f str {
    let stack = &finding["stacks"][number.as_u64().unwrap() as usize];
    stack["frames"][0]["function"].as_str().unwrap()
}

/// The first line of `list.c` that begins so.
fn line_of(start: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crash/list.c");
    let source = fs::read_to_string(path).unwrap();
    let line = source
        .lines()
        .position(|line| line.trim_start().starts_with(start));
    format!("list.c:{}", line.unwrap() + 1)
}

#[test]
fn a_failure_names_the_loads_that_could_see_several_stores() {
    let (dir, run) = explored(&["1", "late"], "check", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = findings(&dir.path("out"));
    let finding = recovery_failure(&found);
    assert_eq!(finding["rule"], "recovery-failed");
    let reads = finding["evidence"]["open_reads"].as_array().unwrap();
    assert_eq!(reads.len(), 2, "{finding}");
    // The head that points to the node was read.
    let (head, node) = (&reads[0], &reads[1]);
    assert_eq!((&head["offset"], &head["len"]), (&0.into(), &8.into()));
    assert_eq!(function_of(finding, &head["load"]), "check");
    let sources = head["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 2, "{head}");
    assert_eq!(function_of(finding, &sources[0]["store"]), "put");
    assert_eq!(
        (&sources[0]["read"], &sources[0]["state"]),
        (&true.into(), &"not-flushed".into())
    );
    assert_eq!(
        (&sources[1]["read"], &sources[1]["state"]),
        (&false.into(), &"initial".into())
    );
    // The node itself was not.
    assert_eq!(node["offset"], 128, "{node}");
    let sources = node["sources"].as_array().unwrap();
    assert_eq!(
        (&sources[0]["read"], &sources[1]["read"]),
        (&false.into(), &true.into())
    );
    assert_eq!(
        functions(finding, "store that was not read")[..2],
        ["put", "main"]
    );
    let expected = format!(
        "{} can see 2 versions of pool+0x80..0x88: it read the initial content; not the store at {}, which is not flushed \
         before the crash",
        line_of("if (at > 62"),
        line_of("node->key = number"),
    );
    assert!(run.stdout.contains(&expected), "{}", run.stdout);
    let html = fs::read_to_string(dir.path("out/report.html")).unwrap();
    assert!(
        html.contains("can see 2 versions of pool+0x80..0x88"),
        "{html}"
    );
    assert!(html.contains("store that was not read"), "{html}");
}

#[test]
fn an_explanation_is_kept_when_the_test_is_resumed() {
    let (dir, run) = explored(&["1", "late"], "check", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let before = findings(&dir.path("out"));
    let resumed = explore(&dir, "check", &["--resume"]);
    assert_eq!(resumed.status, Some(1), "{}", resumed.stderr);
    assert_eq!(findings(&dir.path("out")), before);
}

#[test]
fn other_strategies_explain_crashes_that_lose_stores() {
    let dir = TestDir::with("crash/undo.c", &["-g"]);
    let recover = ["check", "--recover", "./undo {pm} check", "--out", "out"];
    let target = ["--", "./undo", "pool", "transfer", "1"];
    let run = dir.brownout(&[&recover[..], &target].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = findings(&dir.path("out"));
    let crash = found
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed")
        .unwrap();
    assert!(!crash["evidence"]["details"]["crash state"].is_null());
    assert_eq!(functions(crash, "store that is missing")[0], "mark");
    assert_eq!(functions(crash, "store that was not read")[0], "mark");
    let reads = crash["evidence"]["open_reads"].as_array().unwrap();
    assert_ne!(function_of(crash, &reads[0]["load"]), "mark", "{crash}");
}

#[test]
fn a_recovery_that_does_not_end_is_explained() {
    let dir = TestDir::with("crash/replaced.c", &["-g"]);
    let target = ["--", "./replaced", "pool", "rename"];
    dir.brownout(&[&["record", "-q", "-o", "trace"], &target[..]].concat());
    let recover = ["crash", "trace", "--recover", "./replaced pool hang"];
    let options = ["--strategy", "exhaustive", "--recover-time-limit", "500ms"];
    let run = dir.brownout(&[&recover[..], &options, &["--out", "out"]].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = findings(&dir.path("out"));
    let failure = recovery_failure(&found);
    assert_eq!(failure["rule"], "recovery-hung");
    let reads = failure["evidence"]["open_reads"].as_array().unwrap();
    let sources = &reads.last().unwrap()["sources"];
    assert_eq!(sources[0]["state"], "not-flushed", "{sources}");
    assert_eq!(sources[1]["read"], true, "{sources}");
}

#[test]
fn reads_of_late_stores_are_findings_of_a_pedantic_rule() {
    // It counts the nodes, whatever they hold.
    let (dir, run) = explored(&["3", "late"], "count", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(findings(&dir.path("out")).len(), 0);
    let junit = fs::read_to_string(dir.path("out/junit.xml")).unwrap();
    assert!(!junit.contains("unpersisted-read"), "not applied: {junit}");
    let run = explore(&dir, "count", &["--pedantic"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let found = findings(&dir.path("out"));
    assert_eq!(found.len(), 1, "one pair of a store and a load: {found:?}");
    let finding = &found[0];
    assert_eq!(
        (&finding["rule"], &finding["severity"], &finding["category"]),
        (
            &"unpersisted-read".into(),
            &"warning".into(),
            &"durability".into()
        )
    );
    assert_eq!(functions(finding, "store")[..2], ["put", "main"]);
    assert_eq!(functions(finding, "load")[..2], ["count", "main"]);
    let line = finding["stacks"][0]["frames"][0]["line"].as_u64().unwrap();
    assert_eq!(format!("list.c:{line}"), line_of("node->next = pool->head"));
    // The first node has no other one behind it, and a node without stores has none either: equal bytes are no choice.
    assert_eq!(finding["count"], 2, "{finding}");
    let strict = explore(&dir, "count", &["--pedantic", "--fail-on", "warning"]);
    assert_eq!(strict.status, Some(1), "{}", strict.stderr);
    for artefact in ["junit.xml", "report.sarif"] {
        let text = fs::read_to_string(dir.path("out").join(artefact)).unwrap();
        assert!(text.contains("unpersisted-read"), "{artefact}: {text}");
    }
}

#[test]
fn a_commit_store_that_was_just_made_is_not_late() {
    let (dir, run) = explored(&["3"], "check", &["--pedantic", "--fail-on", "warning"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(findings(&dir.path("out")).len(), 0);
    let junit = fs::read_to_string(dir.path("out/junit.xml")).unwrap();
    assert!(
        junit.contains("unpersisted-read"),
        "it was applied: {junit}"
    );
}

#[test]
fn the_rule_can_be_turned_on_alone() {
    let (dir, _) = explored(&["3", "late"], "count", &[]);
    let config = "[rules]\nunpersisted-read = \"bug\"\n";
    fs::write(dir.path("brownout.toml"), config).unwrap();
    let run = explore(&dir, "count", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = findings(&dir.path("out"));
    assert_eq!(found[0]["rule"], "unpersisted-read");
    let explained = dir.brownout(&["explain", "unpersisted-read"]);
    assert_eq!(explained.status, Some(0));
    assert!(
        explained.stdout.contains("This rule is pedantic"),
        "{}",
        explained.stdout
    );
}

#[test]
fn a_read_of_a_late_store_is_replayed_without_an_expected_end() {
    let (dir, _) = explored(&["3", "late"], "count", &["--pedantic"]);
    let found = findings(&dir.path("out"));
    let id = found[0]["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "out", id]);
    assert_eq!(replayed.status, Some(0), "{}", replayed.stderr);
    assert!(
        !replayed.stderr.contains("the result differs"),
        "{}",
        replayed.stderr
    );
}

#[test]
fn gdb_is_preceded_by_what_recovery_can_read() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("left out: gdb is not installed");
        return;
    }
    let (dir, _) = explored(&["1", "late"], "check", &[]);
    let found = findings(&dir.path("out"));
    let failure = recovery_failure(&found);
    let [id, token] = ["id", "replay"].map(|field| failure[field].as_str().unwrap());
    for finding in [id, token] {
        let mut command = dir.command(&["replay", "out", finding, "--gdb"]);
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let sentence = "can see 2 versions of pool+0x80..0x88: it read the initial content";
        assert!(printed.contains(sentence), "{printed}");
    }
}
