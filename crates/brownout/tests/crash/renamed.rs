//! Pools that are renamed or linked after they were mapped: a crash finds them under the names that they have then.

use serde_json::Value;

use crate::{Completed, TestDir, crash_rules, functions, recovery_failure, run_file};

fn check(recover: &str, pool: &str, how: &str) -> (TestDir, Completed) {
    let dir = TestDir::with("crash/renamed.c", &["-g"]);
    let run = dir.brownout(&["check", "--recover", recover, "--", "./renamed", pool, how]);
    (dir, run)
}

#[test]
fn recovery_finds_the_file_under_the_name_that_it_has_when_power_fails() {
    for (how, pool) in [
        ("rename", "pool"),
        ("directory", "new/pool"),
        ("nameless", "pool"),
        ("moved-link", "pool"),
    ] {
        let (dir, run) = check(&format!("./renamed {pool}"), pool, how);
        if run.stderr.contains("exited with status 77") {
            println!("left out: the file system has no files without a name");
            continue;
        }
        assert_eq!(run.status, Some(1), "{how}: {}", run.stderr);
        let found = dir.findings();
        assert_eq!(crash_rules(&found), ["recovery-failed"], "{how}");
        assert_eq!(
            run_file(&dir.path("brownout.out"))["reasons"],
            serde_json::json!([]),
            "{how}"
        );
    }
}

#[test]
fn power_can_fail_between_two_renames() {
    let recover = "cat pool pool.tmp pool.between > read 2>&1; test ! -e pool.between";
    let (dir, run) = check(recover, "pool", "twice");
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    assert_eq!(crash_rules(&found), ["recovery-failed"]);
    let failure = recovery_failure(&found);
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("before this rename"), "{message}");
    let stack = functions(failure, "failure point");
    assert!(
        stack.contains(&"rename_twice") || stack.contains(&"main"),
        "{stack:?}"
    );
    let file = run_file(&dir.path("brownout.out"));
    assert_eq!(
        (&file["verdict"], &file["exit_code"]),
        (&"findings".into(), &1.into())
    );
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("type=\"recovery-failed\""), "{junit}");
    let stat = dir.brownout(&["stat", "brownout.out"]);
    assert!(!stat.stdout.contains("Notes"), "{}", stat.stdout);
    // A program that renames once has no such instant.
    let (_, run) = check(recover, "pool", "rename");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn nothing_is_left_at_the_old_name() {
    let recover = "cat pool pool.tmp 2>&1; test ! -e pool.tmp -o ! -e pool";
    let (dir, run) = check(recover, "pool", "rename");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run_file(&dir.path("brownout.out"))["verdict"], "passed");
}

/// Every result gives the reason, and the run does not pass.
fn assert_inconclusive(dir: &TestDir, run: &Completed, reason: &str) {
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains(reason), "{}", run.stderr);
    let file = run_file(&dir.path("brownout.out"));
    assert_eq!(file["verdict"], "nothing-tested");
    assert!(file["reasons"].to_string().contains(reason), "{file}");
    let junit = dir.read("brownout.out/junit.xml");
    assert!(
        junit.contains("<error") && junit.contains(reason),
        "{junit}"
    );
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let invocation = &sarif["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert!(invocation.to_string().contains(reason), "{invocation}");
}

#[test]
fn names_that_crash_images_do_not_show_are_reported() {
    let (dir, run) = check("./renamed pool", "pool", "link");
    assert_inconclusive(&dir, &run, "is a second name (hard link) of a mapped file");
    let stat = dir.brownout(&["stat", "brownout.out"]);
    assert!(stat.stdout.contains("second name"), "{}", stat.stdout);
    let (dir, run) = check("./renamed pool", "pool", "earlier-link");
    assert_inconclusive(
        &dir,
        &run,
        "has other names (hard links) that are not known",
    );
    let (dir, run) = check("true", "pool", "replace");
    assert_inconclusive(&dir, &run, "where another file had been");
}

#[test]
fn a_placeholder_for_a_renamed_file_is_ambiguous() {
    let (dir, run) = check("test ! -e {pm} -o -e {pm}", "pool", "rename");
    assert_inconclusive(&dir, &run, "in the recovery command stands for");
    let (_, run) = check("./renamed {pm}", "pool", "rename");
    assert_eq!(run.status, Some(1), "{}", run.stderr);
}

#[test]
fn a_pattern_may_match_any_name() {
    for name in ["pool", "pool.tmp"] {
        let dir = TestDir::with("crash/renamed.c", &["-g"]);
        let run = dir.brownout(&[
            "check",
            "--pm",
            name,
            "--recover",
            "./renamed pool",
            "--",
            "./renamed",
            "pool",
            "rename",
        ]);
        assert_eq!(run.status, Some(1), "{name}: {}", run.stderr);
    }
}
