//! `brownout demo`.

use std::process::Command;

use crate::{Completed, TestDir, bugs, findings};

#[test]
fn the_demo_finds_the_mistakes_that_the_example_admits() {
    let dir = TestDir::new();
    let run = dir.brownout(&["demo", "--keep", "demo"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("38 entries\n"), "{}", run.stdout);
    let findings = findings(&dir.path("demo/brownout.out"));
    let bugs = bugs(&findings);
    for rule in [
        "missing-flush",
        "recovery-failed",
        "redundant-fence",
        "redundant-flush",
    ] {
        assert!(bugs.contains(&rule), "{rule} is not among {bugs:?}");
    }
    for source in [
        "store->entries += 1; /* mistake 1",
        "_mm_sfence(); /* mistake 2",
        "store->entries -= 1;         /* mistake 4",
    ] {
        assert!(
            run.stdout.contains(source),
            "{source} is not in:\n{}",
            run.stdout
        );
    }
}

#[test]
fn results_are_only_announced_where_they_stay() {
    let dir = TestDir::new();
    let run = dir.brownout(&["demo"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("results are in"), "{}", run.stderr);
    assert!(run.stderr.contains("--keep DIR"), "{}", run.stderr);
    let run = dir.brownout(&["demo", "--keep", "demo"]);
    assert!(run.stderr.contains("results are in"), "{}", run.stderr);
}

#[test]
fn the_demo_needs_a_compiler_and_says_so() {
    let run: Completed = Command::new(env!("CARGO_BIN_EXE_brownout"))
        .arg("demo")
        .env("PATH", "/nonexistent")
        .env_remove("CC")
        .output()
        .unwrap()
        .into();
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("no C compiler"), "{}", run.stderr);
}
