//! Results directories: every command that takes a trace takes one, and `lint` writes one.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::Value;

use crate::{TestDir, bugs, findings};

#[test]
fn every_command_takes_a_results_directory_in_place_of_a_trace() {
    let dir = TestDir::new();
    dir.check(&[], &["last"]);
    for (arguments, status) in [
        (&["stat", "brownout.out"][..], 0),
        (&["stat", "brownout.out", "--failure-points"], 0),
        (&["dump", "brownout.out"], 0),
        (&["image", "brownout.out", "-o", "images"], 0),
        (&["lint", "brownout.out"], 1),
        (&["report", "brownout.out"], 1),
    ] {
        let run = dir.brownout(arguments);
        assert_eq!(run.status, Some(status), "{arguments:?}: {}", run.stderr);
        assert!(!run.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn results_about_a_trace_elsewhere_lead_to_it() {
    let dir = TestDir::new();
    dir.brownout(&["record", "-o", "trace", "--", "./counter", "pool", "last"]);
    let run = dir.brownout(&["lint", "trace", "--out", "results"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(!dir.path("results/trace").exists());
    let run = dir.brownout(&["stat", "results"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    fs::remove_file(dir.path("trace")).unwrap();
    let run = dir.brownout(&["stat", "results"]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("cannot read trace"), "{}", run.stderr);
}

#[test]
fn lint_writes_a_results_directory() {
    let dir = TestDir::new();
    dir.brownout(&["record", "-o", "trace", "--", "./counter", "pool", "last"]);
    let run = dir.brownout(&["lint", "trace", "--out", "results"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bugs(&findings(&dir.path("results"))), ["missing-flush"]);
    for name in ["report.html", "report.sarif", "junit.xml"] {
        assert!(
            dir.read(&format!("results/{name}"))
                .contains("missing-flush")
        );
    }
    let conclusion: Value = serde_json::from_str(&dir.read("results/run.json")).unwrap();
    assert_eq!(conclusion["verdict"], "findings");
    assert_eq!(conclusion["exit_code"], 1);
    let report = dir.brownout(&["report", "results"]);
    assert_eq!(report.status, Some(1));
    assert!(report.stdout.contains("bug[missing-flush]"));
}

#[test]
fn lint_of_a_damaged_trace_says_so_in_every_artefact() {
    let dir = TestDir::new();
    dir.brownout(&["record", "-o", "trace", "--", "./counter", "pool"]);
    let mut bytes = fs::read(dir.path("trace")).unwrap();
    bytes.truncate(bytes.len() - 1);
    fs::write(dir.path("trace"), bytes).unwrap();
    let run = dir.brownout(&["lint", "trace", "--out", "results"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    let conclusion: Value = serde_json::from_str(&dir.read("results/run.json")).unwrap();
    assert_eq!(conclusion["verdict"], "error");
    assert!(dir.read("results/junit.xml").contains("<error"));
    assert!(
        dir.read("results/report.sarif")
            .contains("\"executionSuccessful\":false")
    );
    assert!(dir.read("results/report.html").contains("is damaged"));
    assert_eq!(dir.brownout(&["report", "results"]).status, Some(2));
}

#[test]
fn a_directory_that_another_check_uses_is_refused() {
    let dir = TestDir::new();
    // Waits until its standard input is closed.
    let mut first = dir.command(&["check", "--", "cat"]);
    let first = first.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = first.stderr(Stdio::null()).spawn().unwrap();
    let mut input = first.stdin.take().unwrap();
    input.write_all(b"line\n").unwrap();
    let mut echo = [0; 5];
    let mut output = first.stdout.take().unwrap();
    output.read_exact(&mut echo).expect("the program runs");
    // Nothing is written to it while the program runs.
    let begun = dir.path("brownout.out/run.json");
    let before = fs::read(&begun).unwrap();
    let second = dir.check(&[], &["last"]);
    assert_eq!(second.status, Some(2), "{}", second.stderr);
    assert!(
        second.stderr.contains("in use by another"),
        "{}",
        second.stderr
    );
    assert_eq!(second.stdout, "", "the program has not run");
    assert!(fs::read(&begun).unwrap() == before);
    let elsewhere = dir.check(&["--out", "other"], &["last"]);
    assert_eq!(elsewhere.status, Some(1), "{}", elsewhere.stderr);
    drop(input);
    first.wait().unwrap();
    let third = dir.check(&[], &["last"]);
    assert_eq!(third.status, Some(1), "{}", third.stderr);
}

#[test]
fn a_recording_replaces_traces_and_nothing_else() {
    let dir = TestDir::new();
    let record = |output| dir.brownout(&["record", "-o", output, "--", "./counter", "pool"]);
    let said = "`trace` contains an earlier trace, which is replaced";
    let first = record("trace");
    assert_eq!(first.status, Some(0));
    assert!(!first.stderr.contains(said), "{}", first.stderr);
    let second = record("trace");
    assert_eq!(second.status, Some(0), "an earlier trace is replaced");
    assert!(second.stderr.contains(said), "{}", second.stderr);
    dir.write("empty", "");
    assert_eq!(record("empty").status, Some(0));
    dir.write("thesis", "years of work");
    let run = record("thesis");
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("is not a trace"), "{}", run.stderr);
    assert_eq!(dir.read("thesis"), "years of work");
}
