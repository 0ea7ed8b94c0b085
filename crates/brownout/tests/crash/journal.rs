//! The journal of crash testing: what it needs to go on, and not more.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::{TestDir, run_file};

/// The lines of the journal after the first.
fn lines(dir: &TestDir) -> Vec<Value> {
    let journal = dir.read("brownout.out/crash.jsonl");
    let lines = journal.lines().skip(1);
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The trials in which recovery failed.
fn failed(lines: &[Value]) -> Vec<&Value> {
    lines
        .iter()
        .filter(|line| line["failure"].is_object())
        .collect()
}

#[test]
fn each_stack_is_written_once_however_often_recovery_fails_there() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check abort", &[], &["40", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let written = lines(&dir);
    let failed = failed(&written);
    assert!(failed.len() > 30, "{} failures", failed.len());
    for trial in &failed {
        let failure = &trial["failure"];
        assert!(failure["stack"].is_u64() && failure["recovery"].is_u64());
    }
    let defined = written
        .iter()
        .filter(|line| line["defines"].is_u64())
        .map(|line| line["part"].to_string());
    let defined: Vec<String> = defined.collect();
    let different: BTreeSet<&String> = defined.iter().collect();
    assert_eq!(defined.len(), different.len());
    assert!(defined.len() < failed.len(), "{}", defined.len());
}

#[test]
fn a_test_that_goes_on_defines_nothing_again_and_reports_the_same() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check abort", &[], &["10", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let reported = dir.findings();
    let whole = lines(&dir);
    // As if brownout had been killed after a few failures, in the middle of a line.
    let journal = dir.read("brownout.out/crash.jsonl");
    let kept: Vec<&str> = journal.lines().take(journal.lines().count() / 2).collect();
    let cut = format!("{}\n{{\"event\":6,\"ki", kept.join("\n"));
    fs::write(dir.path("brownout.out/crash.jsonl"), cut).unwrap();
    let options = ["--resume", "--out", "brownout.out"];
    let recover = ["--recover", "./slots {pm} check abort"];
    let again = dir.brownout(&[&["crash", "brownout.out"], &recover[..], &options].concat());
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    let resumed = lines(&dir);
    assert_eq!(failed(&resumed).len(), failed(&whole).len());
    let numbers = resumed.iter().filter_map(|line| line["defines"].as_u64());
    let numbers: Vec<u64> = numbers.collect();
    let count = numbers.len() as u64;
    assert_eq!(numbers, (0..count).collect::<Vec<u64>>());
    let ids = |found: &[Value]| -> BTreeSet<String> {
        found.iter().map(|one| one["id"].to_string()).collect()
    };
    assert_eq!(ids(&dir.findings()), ids(&reported));
    assert_eq!(run_file(&dir.path("brownout.out"))["verdict"], "findings");
}

#[test]
fn a_part_that_is_missing_is_damage_and_no_panic() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check abort", &[], &["2", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let journal = dir.read("brownout.out/crash.jsonl");
    let without = journal
        .lines()
        .filter(|line| !line.starts_with("{\"defines\":0,"));
    let text: String = without.map(|line| format!("{line}\n")).collect();
    assert_ne!(text, journal);
    fs::write(dir.path("brownout.out/crash.jsonl"), text).unwrap();
    let options = ["--resume", "--out", "brownout.out"];
    let recover = ["--recover", "./slots {pm} check abort"];
    let again = dir.brownout(&[&["crash", "brownout.out"], &recover[..], &options].concat());
    assert_eq!(again.status, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("is damaged"), "{}", again.stderr);
    assert!(
        again.stderr.contains("part 0 is not defined"),
        "{}",
        again.stderr
    );
}
