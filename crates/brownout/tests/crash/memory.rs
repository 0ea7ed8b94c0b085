//! `--memory`: update behaviours that an earlier run has tested are left out, and the results say so.

use std::fs;

use serde_json::Value;

use crate::private_mounts_are_possible;
use crate::test_dir::{Completed, TestDir};

const RECOVER: &str = "./checker {pm} check";

/// A directory with the program, and a recovery that stays when the program is built again.
fn directory() -> TestDir {
    let dir = TestDir::with("crash/entries.c", &["-g"]);
    use_as_recovery(&dir);
    dir
}

fn use_as_recovery(dir: &TestDir) {
    fs::copy(dir.path("entries"), dir.path("checker")).unwrap();
}

/// Checks a run that fills this many entries.
fn check(dir: &TestDir, entries: &str, options: &[&str]) -> Completed {
    // There is none the first time.
    let _ = fs::remove_file(dir.path("pool"));
    let mut arguments = vec![
        "check",
        "--strategy",
        "representative",
        "--recover",
        RECOVER,
    ];
    arguments.extend(options);
    arguments.extend(["--", "./entries", "pool", entries]);
    dir.brownout(&arguments)
}

/// How many update behaviours the last test has tried, and how many an earlier one had tested.
fn behaviours(dir: &TestDir) -> (u64, u64) {
    let run: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
    let coverage = &run["crash"];
    let tried = coverage["behaviours"]["tried"].as_u64().unwrap();
    let earlier = coverage["behaviours_tested_earlier"].as_u64();
    let left_out = run["left_out"]["tested_behaviours"].as_u64();
    assert_eq!(earlier, left_out, "{run:#}");
    (tried, earlier.unwrap_or(0))
}

const MEMORY: &[&str] = &["--memory", "memory.json"];

#[test]
fn what_was_tested_is_left_out_and_said_so() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = directory();
    let first = check(&dir, "3", MEMORY);
    assert_eq!(first.status, Some(0), "{}", first.stderr);
    let (tried, earlier) = behaviours(&dir);
    assert!(tried > 0 && earlier == 0, "{tried} {earlier}");

    let second = check(&dir, "3", MEMORY);
    assert_eq!(second.status, Some(0), "{}", second.stderr);
    let (tried_again, earlier) = behaviours(&dir);
    assert!(tried_again == 0 && earlier > 0, "{}", second.stderr);
    let said = "left out because earlier runs have tested";
    assert!(second.stderr.contains(said), "{}", second.stderr);
    assert!(!first.stderr.contains(said), "{}", first.stderr);

    // Of another recording, what this one represents.
    check(&dir, "2", MEMORY);
    assert_eq!(behaviours(&dir).0, 0);

    // The same behaviours, and a new one: of other code.
    let more = check(&dir, "5", MEMORY);
    assert_eq!(more.status, Some(0), "{}", more.stderr);
    let (new, earlier) = behaviours(&dir);
    assert!(new > 0 && earlier > 0, "{new} {earlier}: {}", more.stderr);

    // Without the option everything is tested.
    check(&dir, "3", &[]);
    assert_eq!(behaviours(&dir), (tried, 0));
}

#[test]
fn changed_code_is_tested_again_and_a_failure_always() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = directory();
    assert_eq!(check(&dir, "3", MEMORY).status, Some(0));
    // Built again without a change, it is the same.
    dir.compile("crash/entries.c", &["-g", "-fno-ident"]);
    assert_eq!(check(&dir, "3", MEMORY).status, Some(0));
    assert_eq!(behaviours(&dir).0, 0);
    // The lines of the stores stay as they are, and the order changes.
    dir.compile("crash/entries.c", &["-g", "-DLATE"]);
    for _ in 0..2 {
        let late = check(&dir, "3", MEMORY);
        assert_eq!(late.status, Some(1), "{}", late.stderr);
        assert!(behaviours(&dir).0 > 0);
    }
}

#[test]
fn another_recovery_tests_everything_again() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = directory();
    assert_eq!(check(&dir, "3", MEMORY).status, Some(0));
    let (tried, _) = behaviours(&dir);
    dir.compile("crash/entries.c", &["-g", "-DSTRICT"]);
    use_as_recovery(&dir);
    dir.compile("crash/entries.c", &["-g"]);
    assert_eq!(check(&dir, "3", MEMORY).status, Some(0));
    assert_eq!(behaviours(&dir), (tried, 0));
}

#[test]
fn a_memory_that_cannot_be_used_is_refused_before_anything_runs() {
    let dir = directory();
    fs::write(dir.path("memory.json"), "notes\n").unwrap();
    let refused = check(&dir, "3", MEMORY);
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    let said = "cannot use `memory.json` with --memory";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert_eq!(dir.read("memory.json"), "notes\n");
    assert!(!dir.path("pool").exists() && !dir.path("brownout.out").exists());

    let arguments = [
        "check",
        "--strategy",
        "prefix",
        "--recover",
        RECOVER,
        "--memory",
        "m",
    ];
    let other = dir.brownout(&[&arguments[..], &["--", "./entries", "pool", "3"]].concat());
    assert_eq!(other.status, Some(2), "{}", other.stderr);
    assert!(
        other.stderr.contains("--strategy representative"),
        "{}",
        other.stderr
    );
    assert!(!dir.path("pool").exists() && !dir.path("m").exists());
}

#[test]
fn a_test_that_is_cut_short_is_resumed_with_its_memory() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = directory();
    let cut = check(
        &dir,
        "5",
        &["--memory", "memory.json", "--time-limit", "1ms"],
    );
    assert!(matches!(cut.status, Some(0 | 3)), "{}", cut.stderr);
    let options = ["--memory", "memory.json", "--resume", "--time-limit", "5m"];
    let resumed = check(&dir, "5", &options);
    assert_eq!(resumed.status, Some(0), "{}", resumed.stderr);
    assert_eq!(behaviours(&dir).1, 0, "{}", resumed.stderr);
    check(&dir, "5", MEMORY);
    assert_eq!(behaviours(&dir).0, 0);
}
