//! Recoveries that share their starts: the results are those of native recoveries.

use std::fs;

use serde_json::Value;

use crate::test_dir::{Completed, TestDir, findings};
use crate::{crashes, run_file};

/// Records that entries are appended.
fn recorded(put: &[&str]) -> TestDir {
    recorded_with(put, &[])
}

/// Records that entries are appended by a program that is compiled with these options.
fn recorded_with(put: &[&str], options: &[&str]) -> TestDir {
    let options = [&["-g", "-pthread"], options].concat();
    let dir = TestDir::with("crash/counted.c", &options);
    let record = ["record", "-q", "-o", "trace", "--", "./counted", "pool"];
    let run = dir.brownout(&[&record[..], &["put"], put].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    dir
}

/// Tests crashes with a recovery, whose starts are shared `always` or `never`.
fn crash(dir: &TestDir, how: &str, sharing: &str, options: &[&str]) -> Completed {
    let recover = format!("./counted {{pm}} {how}");
    let crash = ["crash", "trace", "--recover", &recover];
    let shared = ["--shared-starts", sharing, "--out", sharing];
    dir.brownout(&[&crash[..], &shared, options].concat())
}

/// What does not depend on how recoveries are run: the exit code, the findings, and what was covered.
#[derive(Debug, PartialEq)]
struct Results {
    status: Option<i32>,
    findings: Vec<Value>,
    covered: Vec<Value>,
}

fn results(dir: &TestDir, how: &str, sharing: &str, options: &[&str]) -> Results {
    let run = crash(dir, how, sharing, options);
    let out = dir.path(sharing);
    let findings = findings(&out).into_iter().map(|mut finding| {
        // It has the digest of the test's options.
        finding["replay"].take();
        finding
    });
    let crash = &run_file(&out)["crash"];
    let keys = ["failure_points", "occurrences", "orders", "recoveries"];
    Results {
        status: run.status,
        findings: findings.collect(),
        covered: keys.map(|key| crash[key].clone()).to_vec(),
    }
}

fn shared(dir: &TestDir) -> Value {
    run_file(&dir.path("always"))["crash"]["shared_starts"].clone()
}

const ALL: &[&str] = &["--strategy", "prefix", "--occurrences", "60"];

/// The results are the same with and without sharing. Returns what was shared.
fn same_results(dir: &TestDir, how: &str, options: &[&str]) -> Value {
    let [native, others] = ["never", "always"].map(|sharing| results(dir, how, sharing, options));
    assert_eq!(native, others, "{how}");
    let shared = shared(dir);
    assert!(!shared.is_null(), "{how}");
    shared
}

#[test]
fn recoveries_that_read_the_same_bytes_run_once() {
    let dir = recorded(&["20"]);
    let shared = same_results(&dir, "check", ALL);
    // An image before an entry is durable and one before the count is differ in an entry that recovery does not read.
    let number = |key: &str| shared[key].as_u64().unwrap();
    assert!(number("known_paths") >= 15, "{shared}");
    assert!(number("copies") >= 15, "{shared}");
    assert_eq!(shared["ended"], Value::Null, "{shared}");
    assert!(number("checked") >= 5, "{shared}");
}

#[test]
fn failures_are_those_of_native_recoveries() {
    let dir = recorded(&["20", "early"]);
    let shared = same_results(&dir, "check", ALL);
    assert!(shared["copies"].as_u64().unwrap() > 0, "{shared}");
    let found = findings(&dir.path("always"));
    assert_eq!(crashes(&found).len(), 1, "{found:?}");
    for strategy in ["auto", "representative"] {
        same_results(&dir, "check", &["--strategy", strategy, "--jobs", "2"]);
    }
}

#[test]
fn output_is_compared() {
    let dir = recorded(&["20"]);
    fs::write(dir.path("expected"), "0\n").unwrap();
    let options = [ALL, &["--expect-output", "expected"]].concat();
    // It prints something else once there are four entries.
    let run = crash(&dir, "print", "always", &options);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    fs::write(dir.path("expected"), "20\n").unwrap();
    same_results(&dir, "print", &options);
    assert_eq!(crashes(&findings(&dir.path("always"))).len(), 1);
}

#[test]
fn recoveries_that_cannot_share_their_start_run_natively() {
    let dir = recorded(&["20", "early"]);
    for how in ["thread", "child", "file"] {
        let shared = same_results(&dir, how, ALL);
        let anew = shared["run_anew"].as_object().unwrap();
        assert!(!anew.is_empty(), "{how}: {shared}");
        assert!(shared["ended"].is_string(), "{how}: {shared}");
        assert_eq!(shared["known_paths"], 0, "{how}: {shared}");
    }
}

#[test]
fn a_recovery_that_uses_the_time_runs_natively() {
    let dir = recorded(&["20", "early"]);
    let shared = same_results(&dir, "time", ALL);
    assert_eq!(shared["ended"], "it uses the time", "{shared}");
    assert_eq!(shared["known_paths"], 0, "{shared}");
    let shared = same_results(&dir, "process", ALL);
    assert_eq!(shared["retracted"], Value::Null, "{shared}");
}

#[test]
fn a_recovery_that_mentions_the_event_does_not_share_its_start() {
    let dir = recorded_with(&["60"], &["-DMENTION=\"BROWNOUT_EVENT\""]);
    let native = results(&dir, "event", "never", ALL);
    assert_eq!(native.status, Some(1), "{native:?}");
    assert_eq!(native, results(&dir, "event", "always", ALL));
    assert_eq!(shared(&dir), Value::Null);
}

#[test]
fn verdicts_are_taken_back_if_a_native_recovery_ends_otherwise() {
    let dir = recorded(&["60"]);
    let options = [ALL, &["--jobs", "1"]].concat();
    let shared = same_results(&dir, "secret", &options);
    assert!(shared["retracted"].as_u64().unwrap() > 0, "{shared}");
    let ended = shared["ended"].as_str().unwrap();
    assert!(ended.contains("passes when it shares its start"), "{ended}");
    assert_eq!(crashes(&findings(&dir.path("always"))).len(), 1);
    // What was taken back is not used by a run that goes on.
    let resumed = [&options[..], &["--resume"]].concat();
    let before = findings(&dir.path("always"));
    crash(&dir, "secret", "always", &resumed);
    assert_eq!(findings(&dir.path("always")), before);
}

#[test]
fn a_test_that_is_stopped_goes_on_where_it_was() {
    let dir = recorded(&["60"]);
    let stopped = [ALL, &["--time-limit", "300ms"]].concat();
    let run = crash(&dir, "check", "always", &stopped);
    assert!(matches!(run.status, Some(0 | 3)), "{}", run.stderr);
    let resumed = [ALL, &["--resume"]].concat();
    let run = crash(&dir, "check", "always", &resumed);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let crash = &run_file(&dir.path("always"))["crash"];
    assert_eq!(crash["occurrences"]["tried"], crash["occurrences"]["of"]);
}

#[test]
fn few_recoveries_run_natively_unless_they_have_to_share_their_start() {
    let dir = recorded(&["20"]);
    let run = crash(&dir, "check", "auto", ALL);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let coverage = &run_file(&dir.path("auto"))["crash"];
    assert_eq!(coverage["shared_starts"], Value::Null, "{coverage}");
}
