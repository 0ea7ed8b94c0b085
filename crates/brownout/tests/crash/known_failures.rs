//! Which failed recoveries a baseline contains.

use std::fs;

use crate::{Completed, TestDir};

/// A log whose `append` forgets to flush something. Recovery returns from `main` and prints nothing.
struct Log(TestDir);

impl Log {
    fn check(&self, forgotten: &str, options: &[&str]) -> Completed {
        let _ = fs::remove_file(self.0.path("pool"));
        let mut arguments = vec!["check", "--recover", "./append {pm} recover"];
        arguments.extend(options);
        arguments.extend(["--", "./append", "pool", forgotten]);
        self.0.brownout(&arguments)
    }
}

#[test]
fn a_baseline_hides_the_mistakes_that_it_contains_and_no_others() {
    let log = Log(TestDir::with("crash/append.c", &["-g"]));
    let run = log.check("number", &["--write-baseline", "known.json"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);

    let run = log.check("number", &["--baseline", "known.json"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let junit = log.0.read("brownout.out/junit.xml");
    assert!(junit.contains("known from the baseline"), "{junit}");
    assert!(!junit.contains("<failure"), "{junit}");
    let reported = log
        .0
        .brownout(&["report", "brownout.out", "--junit", "again.xml"]);
    assert_eq!(reported.status, Some(0), "{}", reported.stderr);
    let junit = log.0.read("again.xml");
    assert!(junit.contains("known from the baseline"), "{junit}");

    // Recovery fails at the same failure points, without output.
    let run = log.check("check", &["--baseline", "known.json"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let junit = log.0.read("brownout.out/junit.xml");
    assert!(junit.contains("<failure"), "{junit}");
}

/// Checks `flagged` in one of its ways.
fn check_flagged(dir: &TestDir, options: &[&str], how: &str) -> Completed {
    let _ = fs::remove_file(dir.path("pool"));
    let mut arguments = vec!["check", "--recover", "./flagged pool check"];
    arguments.extend(options);
    arguments.extend(["--", "./flagged", "pool", how]);
    dir.brownout(&arguments)
}

#[test]
fn a_second_lost_store_is_new_though_recovery_fails_at_the_same_point() {
    let dir = TestDir::with("crash/flagged.c", &["-g"]);
    let before = check_flagged(&dir, &["--write-baseline", "known.json"], "old");
    assert_eq!(before.status, Some(1), "{}", before.stderr);
    let both = check_flagged(&dir, &["--baseline", "known.json"], "both");
    assert_eq!(both.status, Some(1), "{}", both.stderr);
    assert!(both.stderr.contains("1 bug"), "{}", both.stderr);
    check_flagged(&dir, &["--write-baseline", "both.json"], "both");
    let again = check_flagged(&dir, &["--baseline", "both.json"], "both");
    assert_eq!(again.status, Some(0), "{}", again.stderr);
}

#[test]
fn a_known_warning_that_became_a_bug_is_new() {
    let dir = TestDir::with("crash/flagged.c", &["-g"]);
    let warned = check_flagged(&dir, &["--write-baseline", "known.json"], "beside");
    assert_eq!(warned.status, Some(3), "{}", warned.stderr);
    let bug = check_flagged(&dir, &["--baseline", "known.json"], "both");
    assert_eq!(bug.status, Some(1), "{}", bug.stderr);
}
