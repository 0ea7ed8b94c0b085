//! Open orders: stores that persist in another order than that of the program, at failure points and between stores.

use std::fs;

use serde_json::Value;

use crate::{Completed, TestDir, crash_rules, crashes, functions, run_file};

/// Checks transfers with an undo log.
fn check_undo(dir: &TestDir, options: &[&str], target: &[&str]) -> (Completed, Value) {
    let mut arguments = vec!["check", "--recover", "./undo {pm} check"];
    arguments.extend(options);
    arguments.extend(["--", "./undo", "pool", "transfer"]);
    arguments.extend(target);
    let run = dir.brownout(&arguments);
    (run, run_file(&dir.path("brownout.out")))
}

fn result(dir: &TestDir, name: &str) -> String {
    fs::read_to_string(dir.path("brownout.out").join(name)).unwrap()
}

#[test]
fn an_order_that_is_wrong_only_between_two_stores_is_found_by_default() {
    let dir = TestDir::with("crash/undo.c", &["-g"]);
    let (run, run_file) = check_undo(&dir, &[], &["3"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    assert_eq!(crash_rules(&found), ["recovery-failed"]);
    let crash = found
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed")
        .unwrap();
    assert_eq!(functions(crash, "failure point")[0], "transfer");
    assert_eq!(functions(crash, "store that is missing")[0], "mark");
    let message = crash["message"].as_str().unwrap();
    assert!(message.contains("before this store"), "{message}");

    assert_eq!(run_file["verdict"], "findings");
    let orders = &run_file["crash"]["orders"];
    assert_eq!(orders["tried"], orders["of"], "{orders}");
    assert_eq!(run_file["crash"]["complete"], true);
    assert!(result(&dir, "junit.xml").contains("<failure"));
    let sarif = result(&dir, "report.sarif");
    assert!(sarif.contains("recovery-failed"), "{sarif}");
    assert!(sarif.contains("\"executionSuccessful\":true"), "{sarif}");
}

#[test]
fn an_undo_log_that_is_marked_in_time_passes_in_all_orders() {
    let dir = TestDir::with("crash/undo.c", &["-g"]);
    let (run, run_file) = check_undo(&dir, &[], &["3", "mark"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(crashes(&dir.findings()), []);
    assert_eq!(run_file["verdict"], "passed");
    let orders = &run_file["crash"]["orders"];
    assert!(orders["of"].as_u64().unwrap() > 0, "{orders}");
    assert_eq!(orders["tried"], orders["of"], "{orders}");
    assert!(!result(&dir, "junit.xml").contains("<failure"));
}

#[test]
fn orders_are_neither_tried_nor_counted_if_the_user_limits_occurrences() {
    let dir = TestDir::with("crash/undo.c", &["-g"]);
    let (run, run_file) = check_undo(&dir, &["--occurrences", "1"], &["3"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let orders = &run_file["crash"]["orders"];
    assert_eq!((&orders["tried"], &orders["of"]), (&0.into(), &0.into()));
}
