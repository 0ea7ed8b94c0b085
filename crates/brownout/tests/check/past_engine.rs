//! Changes of persistent files that are not in the trace: no result passes for a complete one.

use crate::run_end::{assert_ends, run_file};
use crate::{Completed, TestDir};

fn dir() -> TestDir {
    TestDir::with("check/past_engine.c", &["-g"])
}

fn check(dir: &TestDir, options: &[&str], how: &str) -> Completed {
    let mut arguments = vec!["check"];
    arguments.extend(options);
    arguments.extend(["--", "./past_engine", "pool", how]);
    dir.brownout(&arguments)
}

#[test]
fn a_change_that_is_not_in_the_trace_is_reported() {
    const REASON: &str =
        "was changed without being recorded, first between offsets 0x2000 and 0x3000";
    for options in [&["--recover", "cat pool"][..], &[]] {
        let dir = dir();
        let run = check(&dir, options, "memory");
        assert_ends(&dir, &run, 3, "nothing-tested", REASON);
        let stat = dir.brownout(&["stat", "brownout.out"]);
        assert!(stat.stdout.contains(REASON), "{}", stat.stdout);
        let crash = dir.brownout(&["crash", "brownout.out", "--recover", "cat pool"]);
        assert_eq!(crash.status, Some(3), "{}", crash.stderr);
        assert!(crash.stderr.contains(REASON), "{}", crash.stderr);
    }
}

#[test]
fn recorded_changes_and_files_that_are_gone_are_not_reported() {
    for how in ["none", "file", "process", "shorter", "unlinked", "replaced"] {
        let dir = dir();
        let run = check(&dir, &[], how);
        assert_eq!(run.status, Some(0), "{how}: {}", run.stderr);
        assert_eq!(run_file(&dir)["reasons"], serde_json::json!([]), "{how}");
    }
}
