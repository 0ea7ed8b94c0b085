//! The strategy `auto`: what it finds within its time, what it says about the rest, and how it goes on.

use std::fs;

use serde_json::Value;

use crate::{Completed, TestDir, crashes, findings, functions, run_file};

impl TestDir {
    fn bank() -> Self {
        Self::with("crash/bank.c", &["-g"])
    }

    /// Checks a bank with twelve transfers, the third of which is not logged.
    fn check_bank(&self, recover: &str, options: &[&str], target: &[&str]) -> Completed {
        let mut arguments = vec!["check", "--recover", recover, "--no-narrowing"];
        arguments.extend(options);
        arguments.extend(["--", "./bank", "pool", "run"]);
        arguments.extend(target);
        self.brownout(&arguments)
    }

    /// A file of the results.
    fn result(&self, name: &str) -> String {
        fs::read_to_string(self.path("brownout.out").join(name)).unwrap()
    }

    fn run_file(&self) -> Value {
        run_file(&self.path("brownout.out"))
    }
}

const RECOVER: &str = "./bank {pm} check";

#[test]
fn a_bank_whose_third_transfer_breaks_is_found_by_default() {
    let dir = TestDir::bank();
    let run = dir.check_bank(RECOVER, &[], &["12", "3"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    assert_eq!(crashes(&found), [("recovery-failed", 1)]);
    let point = functions(&found[0], "failure point");
    assert!(point.contains(&"transfer"), "{point:?}");

    let run_file = dir.run_file();
    let crash = &run_file["crash"];
    assert_eq!(run_file["verdict"], "findings");
    assert_eq!(crash["strategy"], "auto");
    // Eight accounts and the mark are set once, eight words in each transfer.
    assert_eq!(crash["failure_points"]["tried"], 10, "{crash}");
    assert_eq!(crash["occurrences"]["tried"], 9 + 12 * 8, "{crash}");
    for part in ["failure_points", "occurrences"] {
        assert_eq!(crash[part]["tried"], crash[part]["of"], "{crash}");
    }
    assert_eq!(crash["complete"], true);
    assert_eq!(crash["limit_reached"], false);
    assert!(
        run.stderr
            .contains("10 of 10 failure points, 105 of 105 occurrences"),
        "{}",
        run.stderr
    );
    assert!(dir.result("junit.xml").contains("<failure"));
    let sarif = dir.result("report.sarif");
    assert!(sarif.contains("\"executionSuccessful\":true"), "{sarif}");
    assert!(sarif.contains("recovery-failed"), "{sarif}");
}

#[test]
fn a_bank_that_logs_every_transfer_passes_with_all_occurrences() {
    let dir = TestDir::bank();
    let run = dir.check_bank(RECOVER, &[], &["12"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(dir.findings().is_empty());
    let crash = &dir.run_file()["crash"];
    assert_eq!(crash["occurrences"]["tried"], crash["occurrences"]["of"]);
}

#[test]
fn a_limit_that_cuts_failure_points_leaves_nothing_green_and_goes_on_later() {
    let dir = TestDir::bank();
    let slow = "./bank {pm} check 300";
    let run = dir.check_bank(slow, &["--time-limit", "50ms", "--jobs", "1"], &["12", "3"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    let run_file = dir.run_file();
    assert_eq!(run_file["verdict"], "nothing-tested");
    assert_eq!(run_file["crash"]["complete"], false);
    assert_eq!(run_file["crash"]["limit_reached"], true);
    assert!(!run_file["reasons"].as_array().unwrap().is_empty());
    assert!(dir.result("junit.xml").contains("<error"));
    let sarif = dir.result("report.sarif");
    assert!(sarif.contains("\"executionSuccessful\":false"), "{sarif}");

    let next = run_file["crash"]["continue_with"].as_str().unwrap();
    assert!(
        next.starts_with("brownout check --resume --time-limit 10m"),
        "{next}"
    );
    assert!(run.stderr.contains(next), "{}", run.stderr);
    let again = next.replacen("brownout", env!("CARGO_BIN_EXE_brownout"), 1);
    let again: Completed = std::process::Command::new("sh")
        .args(["-c", &again])
        .current_dir(dir.directory.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert_eq!(crashes(&dir.findings()), [("recovery-failed", 1)]);
    assert_eq!(dir.run_file()["crash"]["complete"], true);
}

#[test]
fn a_limit_that_cuts_only_further_occurrences_is_said_and_does_not_fail() {
    let dir = TestDir::bank();
    // Ten failure points, and thousands of occurrences of at least 10 ms that differ in their operation.
    let slow = "./bank {pm} check 10";
    let options = ["--time-limit", "10s", "--jobs", "2", "--op", "transfer"];
    let run = dir.check_bank(slow, &options, &["2000"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run_file = dir.run_file();
    let crash = &run_file["crash"];
    assert_eq!(run_file["verdict"], "passed");
    assert_eq!(crash["complete"], true);
    assert_eq!(crash["failure_points"]["tried"], 10);
    let [tried, of] = ["tried", "of"].map(|part| crash["occurrences"][part].as_u64().unwrap());
    assert!(tried < of, "{crash}");
    assert_eq!(of, 9 + 2000 * 8);
    assert!(crash["continue_with"].is_string());
}

#[test]
fn parts_of_a_default_test_merge_to_the_whole() {
    let dir = TestDir::bank();
    let recorded = [
        "record", "-q", "-o", "trace", "--", "./bank", "pool", "run", "12", "3",
    ];
    assert_eq!(dir.brownout(&recorded).status, Some(0));
    for part in ["1/2", "2/2"] {
        let out = &part[..1];
        let crash = ["crash", "trace", "--recover", RECOVER, "--no-narrowing"];
        let run = dir.brownout(&[&crash[..], &["--shard", part, "--out", out]].concat());
        assert!(matches!(run.status, Some(0 | 1)), "{}", run.stderr);
    }
    let merged = dir.brownout(&["merge", "1", "2"]);
    assert_eq!(merged.status, Some(1), "{}", merged.stderr);
    assert_eq!(
        crashes(&findings(&dir.path("brownout.out"))),
        [("recovery-failed", 1)]
    );
    let crash = &dir.run_file()["crash"];
    assert_eq!(crash["complete"], true, "{crash}");
    assert_eq!(crash["failure_points"]["tried"], 10, "{crash}");
    assert_eq!(crash["occurrences"]["tried"], 105, "{crash}");
}

#[test]
fn recoveries_that_hang_do_not_hide_other_failures() {
    let dir = TestDir::with("crash/locked.c", &["-g"]);
    // To be sure that one recovery hangs takes longer than this.
    let run = dir.brownout(&[
        "check",
        "--recover",
        "./locked {pm} check",
        "--time-limit",
        "15s",
        "--jobs",
        "2",
        "--",
        "./locked",
        "pool",
    ]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    let failed: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["rule"] == "recovery-failed")
        .collect();
    assert_eq!(failed.len(), 1, "{}", run.stderr);
    let stack = functions(failed[0], "failure point");
    assert!(stack.contains(&"update_7"), "{stack:?}");
    // What was put off is not said to have passed.
    assert!(
        run.stderr.contains("still running when the time limit"),
        "{}",
        run.stderr
    );
    let result = run_file(&dir.path("brownout.out"));
    let reasons = result["reasons"].to_string();
    assert!(
        reasons.contains("still running when the time limit"),
        "{result}"
    );
    let place = "may hang after a crash at ";
    let said = reasons.split(place).nth(1).expect("it says where");
    let line = said.split(['(', ';']).next().unwrap();
    assert!(line.contains("locked.c:"), "{line}");
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("<error"), "{junit}");
}
