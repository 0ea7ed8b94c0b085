//! `--depth`: crashes inside recovery.

use std::fs;

use serde_json::Value;

use crate::test_dir::{Completed, TestDir, findings};
use crate::{crashes, functions, run_file};

/// Records two transfers.
fn recorded() -> TestDir {
    let dir = TestDir::with("crash/rollback.c", &["-g"]);
    let target = ["--", "./rollback", "pool", "transfer", "2"];
    let run = dir.brownout(&[&["record", "-q", "-o", "trace"], &target[..]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    dir
}

fn explore(dir: &TestDir, recovery: &str, options: &[&str]) -> Completed {
    let recover = format!("./rollback {{pm}} {recovery}");
    let crash = ["crash", "trace", "--recover", &recover];
    let exhaustive = ["--strategy", "exhaustive", "--out", "out"];
    dir.brownout(&[&crash[..], &exhaustive, options].concat())
}

fn exploration(dir: &TestDir) -> Value {
    run_file(&dir.path("out"))["crash"]["exploration"].clone()
}

#[test]
fn a_recovery_that_can_be_repeated_is_explored_to_the_end() {
    let dir = recorded();
    let once = explore(&dir, "careful", &[]);
    assert_eq!(once.status, Some(0), "{}", once.stderr);
    assert_eq!(exploration(&dir)["inside_recovery"], Value::Null);
    for depth in ["2", "3"] {
        let run = explore(&dir, "careful", &["--depth", depth]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let explored = exploration(&dir);
        let inside = explored["inside_recovery"].as_array().unwrap();
        assert_eq!(
            inside.len().to_string(),
            (depth.parse::<u64>().unwrap() - 1).to_string()
        );
        for covered in inside {
            assert_eq!(covered["tried"], covered["of"], "{explored}");
            assert_ne!(covered["of"], 0, "{explored}");
        }
        assert_eq!(explored["waiting"], 0, "{explored}");
        assert!(
            run.stderr.contains("crashes inside recovery"),
            "{}",
            run.stderr
        );
        assert_eq!(run_file(&dir.path("out"))["crash"]["complete"], true);
    }
}

#[test]
fn a_recovery_that_cannot_be_repeated_is_found_and_replayed() {
    let dir = recorded();
    let once = explore(&dir, "careless", &[]);
    assert_eq!(once.status, Some(0), "{}", once.stderr);
    let run = explore(&dir, "careless", &["--depth", "2"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(run_file(&dir.path("out"))["crash"]["complete"], true);
    let findings = findings(&dir.path("out"));
    assert!(!crashes(&findings).is_empty(), "{findings:?}");
    // The mark is removed, and the accounts are not restored.
    let is_early =
        |finding: &&Value| functions(finding, "store that is there").first() == Some(&"mark");
    let finding = findings.iter().find(is_early).unwrap();
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("power is lost inside recovery"),
        "{message}"
    );
    assert_eq!(
        finding["stacks"][0]["role"], "interrupted recovery",
        "{finding}"
    );
    assert!(
        functions(finding, "interrupted recovery").contains(&"recover"),
        "{finding}"
    );
    assert!(
        functions(finding, "failure point").contains(&"transfer"),
        "{finding}"
    );
    assert_eq!(
        functions(finding, "store that is missing")[0],
        "restore",
        "{finding}"
    );
    let place = finding["evidence"]["details"]["interrupted recovery"].as_str();
    assert!(
        place.unwrap().contains("after 1 of its actions"),
        "{finding}"
    );
    let token = finding["replay"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "trace", token]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(
        replayed
            .stdout
            .contains("and a crash inside recovery after"),
        "{}",
        replayed.stdout
    );
    let kept = dir.brownout(&["replay", "trace", token, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = fs::read(dir.path("image")).unwrap();
    assert_eq!(image[0], 0, "the mark is removed");
    for artefact in ["junit.xml", "report.sarif", "report.html"] {
        let text = fs::read_to_string(dir.path("out").join(artefact)).unwrap();
        assert!(text.contains("inside recovery"), "{artefact}");
    }
}

#[test]
fn a_recovery_that_does_something_else_is_not_replayed() {
    let dir = recorded();
    let run = explore(&dir, "careless", &["--depth", "2", "--no-narrowing"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let finding = findings(&dir.path("out"))[0]["replay"].clone();
    dir.compile("crash/rollback.c", &["-g", "-DREMOVED=7"]);
    let replayed = dir.brownout(&["replay", "trace", finding.as_str().unwrap()]);
    assert_eq!(replayed.status, Some(2), "{}", replayed.stdout);
    assert!(
        replayed
            .stderr
            .contains("recovery did not do the same as before"),
        "{}",
        replayed.stderr
    );
}

#[test]
fn stores_of_recovery_that_are_not_durable_may_be_lost() {
    let dir = recorded();
    let once = explore(&dir, "lazy", &[]);
    assert_eq!(once.status, Some(0), "{}", once.stderr);
    let run = explore(&dir, "lazy", &["--depth", "2"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = findings(&dir.path("out"));
    let message = findings[0]["message"].as_str().unwrap();
    assert!(message.contains("inside recovery, at its end"), "{message}");
    assert!(
        message.contains("that have not reached persistent memory"),
        "{message}"
    );
}

#[test]
fn what_only_recovery_writes_is_explored() {
    let dir = recorded();
    let once = explore(&dir, "locked", &[]);
    assert_eq!(once.status, Some(0), "{}", once.stderr);
    let run = explore(&dir, "locked", &["--depth", "2"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = findings(&dir.path("out"));
    assert!(!crashes(&findings).is_empty(), "{findings:?}");
    let output = findings[0]["evidence"]["details"]["last output"]
        .as_str()
        .unwrap();
    assert!(output.contains("the lock is taken"), "{findings:?}");
    assert_eq!(run_file(&dir.path("out"))["crash"]["complete"], true);
}

#[test]
fn an_exploration_of_recoveries_is_resumed_with_the_same_depth() {
    let dir = recorded();
    let stopped = explore(&dir, "locked", &["--depth", "2", "--time-limit", "1ms"]);
    assert_eq!(stopped.status, Some(3), "{}", stopped.stderr);
    let other = explore(&dir, "locked", &["--resume"]);
    assert_eq!(other.status, Some(2), "{}", other.stderr);
    let resumed = explore(&dir, "locked", &["--depth", "2", "--resume"]);
    assert_eq!(resumed.status, Some(1), "{}", resumed.stderr);
    let explored = exploration(&dir);
    assert_eq!(explored["gaps"], Value::Null, "{explored}");
    let again = explore(&dir, "locked", &["--depth", "2", "--resume"]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    let after = exploration(&dir);
    for count in ["inside_recovery", "crash_times", "gaps", "waiting"] {
        assert_eq!(after[count], explored[count], "{count}: {after}");
    }
}

#[test]
fn a_recovery_that_stores_something_else_each_time_is_detected() {
    let dir = recorded();
    let run = explore(&dir, "stamped", &["--depth", "2"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("behaves differently after reading the same bytes"),
        "{}",
        run.stderr
    );
}

#[test]
fn other_strategies_have_no_depth() {
    let dir = recorded();
    let crash = ["crash", "trace", "--recover", "./rollback {pm} careful"];
    let run = dir.brownout(&[&crash[..], &["--depth", "2"]].concat());
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("--depth has no effect"),
        "{}",
        run.stderr
    );
}
