//! `--strategy exhaustive --memory`: what recovery does is explored once for several recordings.

use std::fs;

use serde_json::Value;

use crate::test_dir::{Completed, TestDir};
use crate::{private_mounts_are_possible, run_file};

/// A directory with the program, and a recovery of its own.
fn directory() -> TestDir {
    let dir = TestDir::with("crash/list.c", &["-g"]);
    fs::copy(dir.path("list"), dir.path("checker")).unwrap();
    dir
}

/// Records that nodes are put into a new list.
fn record(dir: &TestDir, trace: &str, put: &[&str]) {
    // There is none the first time.
    let _ = fs::remove_file(dir.path("pool"));
    let record = ["record", "-q", "-o", trace, "--", "./list", "pool", "put"];
    let run = dir.brownout(&[&record[..], put].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

fn explore(dir: &TestDir, trace: &str, recover: &str, options: &[&str]) -> Completed {
    let crash = ["crash", trace, "--recover", recover];
    let exhaustive = ["--strategy", "exhaustive", "--out", "out"];
    let memory = ["--memory", "known.json"];
    dir.brownout(&[&crash[..], &exhaustive, &memory, options].concat())
}

const CHECK: &str = "./checker {pm} check";

/// How many recoveries the last test has run, and how many behaviours were known from others.
fn counts(dir: &TestDir) -> (u64, u64) {
    let run = run_file(&dir.path("out"));
    let explored = &run["crash"]["exploration"];
    assert_eq!(run["crash"]["complete"], true, "{run:#}");
    let executions = explored["executions"].as_u64().unwrap();
    (executions, explored["remembered"].as_u64().unwrap_or(0))
}

#[test]
fn what_another_recording_has_shown_needs_no_run() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = directory();
    record(&dir, "long", &["20"]);
    record(&dir, "short", &["12"]);
    let first = explore(&dir, "long", CHECK, &[]);
    assert_eq!(first.status, Some(0), "{}", first.stderr);
    assert_eq!(counts(&dir), (21, 0));

    let second = explore(&dir, "short", CHECK, &[]);
    assert_eq!(second.status, Some(0), "{}", second.stderr);
    let (executions, remembered) = counts(&dir);
    // A few runs of the first test were new processes, which are not remembered.
    assert_eq!(executions + remembered, 13, "{}", second.stderr);
    assert!(remembered >= 8, "{remembered}: {}", second.stderr);
    let said = "known from explorations of other recordings (--memory)";
    assert!(second.stdout.contains(said), "{}", second.stdout);

    // Now all are known, and the test still counts.
    for _ in 0..3 {
        explore(&dir, "short", CHECK, &[]);
    }
    let last = explore(&dir, "short", CHECK, &[]);
    assert_eq!(last.status, Some(0), "{}", last.stderr);
    assert_eq!(counts(&dir), (0, 13), "{}", last.stderr);
    let reasons = &run_file(&dir.path("out"))["reasons"];
    assert_eq!(*reasons, Value::Array(vec![]));
}

#[test]
fn a_bug_of_another_recording_is_found_with_what_is_known() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = directory();
    record(&dir, "correct", &["12"]);
    record(&dir, "late", &["12", "late"]);
    assert_eq!(explore(&dir, "correct", CHECK, &[]).status, Some(0));
    let found = explore(&dir, "late", CHECK, &[]);
    assert_eq!(found.status, Some(1), "{}", found.stderr);
    let remembered = counts(&dir).1;
    assert!(remembered > 0, "{}", found.stderr);
    // A recovery that fails is run each time.
    let again = explore(&dir, "late", CHECK, &[]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
}

/// A directory with a program whose recovery also reads what no crash changes.
fn with_forbidden() -> TestDir {
    let dir = TestDir::with("crash/forbidden.c", &["-g"]);
    fs::copy(dir.path("forbidden"), dir.path("checker")).unwrap();
    dir
}

/// Records counting to 5 in a file that forbids a number.
fn record_count(dir: &TestDir, trace: &str, forbidden: u8) {
    let mut pool = vec![0; 8192];
    pool[4096] = forbidden;
    fs::write(dir.path("pool"), pool).unwrap();
    let record = ["record", "-q", "-o", trace, "--"];
    let put = ["./forbidden", "pool", "put", "5"];
    let run = dir.brownout(&[&record[..], &put].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

/// Recoveries read the same in the page that is stored to, and another number in a page that the recordings leave alone.
#[test]
fn what_no_crash_changes_may_differ_between_recordings() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = with_forbidden();
    record_count(&dir, "harmless", 99);
    record_count(&dir, "harmful", 3);
    record_count(&dir, "harmless-too", 98);
    let status = |trace| {
        let run = explore(&dir, trace, CHECK, &[]);
        (run.status, counts(&dir), run.stderr)
    };
    let (first, ..) = status("harmless");
    assert_eq!(first, Some(0));
    let (found, counted, text) = status("harmful");
    assert_eq!((found, counted), (Some(1), (6, 0)), "{text}");
    // The second page is observed now, and shows another number.
    let (other, counted, text) = status("harmless-too");
    assert_eq!((other, counted), (Some(0), (6, 0)), "{text}");
    // What was known of the first recording still is.
    let (again, counted, text) = status("harmless");
    assert!(again == Some(0) && counted.1 > 0, "{counted:?} {text}");
}

#[test]
fn another_program_environment_or_input_is_not_known() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = with_forbidden();
    record_count(&dir, "trace", 99);
    let known = |recover: &str, variable: &str| {
        let crash = ["crash", "trace", "--recover", recover, "--out", "out"];
        let exhaustive = ["--strategy", "exhaustive", "--memory", "known.json"];
        let mut command = dir.command(&[&crash[..], &exhaustive].concat());
        let run: Completed = command.env("MODE", variable).output().unwrap().into();
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        (counts(&dir).1, run.stderr)
    };
    assert_eq!(known(CHECK, "a").0, 0);
    assert!(known(CHECK, "a").0 > 0);
    assert_eq!(known(CHECK, "b").0, 0, "another environment");
    // A recovery that reads another file depends on more than the persistent one.
    fs::write(dir.path("expected"), "99").unwrap();
    let with_file = "./checker {pm} check expected";
    let text = known(with_file, "a").1;
    assert!(text.contains("0 behaviours of recovery added"), "{text}");
    assert_eq!(known(with_file, "a").0, 0, "another command");
    let mut program = fs::read(dir.path("checker")).unwrap();
    program.push(0);
    fs::write(dir.path("checker"), program).unwrap();
    assert_eq!(known(CHECK, "a").0, 0, "another program");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let dir = directory();
    record(&dir, "trace", &["2"]);
    let refused = |options: &[&str]| {
        let run = explore(&dir, "trace", CHECK, options);
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        run.stderr
    };
    assert!(refused(&["--depth", "2"]).contains("--memory cannot be combined with --depth"));
    assert!(refused(&["--resume"]).contains("--memory cannot be used with --resume"));
}
