//! `brownout demo`.

use std::process::Command;

use crate::{Completed, TestDir, bugs, findings, rules_of};

#[test]
fn the_demo_reports_the_mistakes_documented_in_the_example() {
    let dir = TestDir::new();
    let run = dir.brownout(&["demo", "--keep", "demo"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("38 entries\n"), "{}", run.stdout);
    let findings = findings(&dir.path("demo/brownout.out"));
    let bugs = bugs(&findings);
    for rule in ["missing-flush", "recovery-failed"] {
        assert!(bugs.contains(&rule), "{rule} is not among {bugs:?}");
    }
    let performance = rules_of(&findings, "performance");
    for rule in ["redundant-fence", "redundant-flush"] {
        assert!(
            performance.contains(&rule),
            "{rule} is not among {performance:?}"
        );
    }
    for source in [
        "store->entries += 1; /* mistake 1",
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
fn removed_results_are_not_announced() {
    let dir = TestDir::new();
    let run = dir.brownout(&["demo"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("results are in"), "{}", run.stderr);
    assert!(run.stderr.contains("--keep DIR"), "{}", run.stderr);
    assert!(!run.stdout.contains("brownout replay"), "{}", run.stdout);
    let run = dir.brownout(&["demo", "--keep", "demo"]);
    assert!(run.stderr.contains("results are in"), "{}", run.stderr);
    assert!(run.stdout.contains("brownout replay"), "{}", run.stdout);
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

/// The finding that README.md shows is the one that the demo prints, but for what differs between machines.
#[test]
fn the_readme_shows_what_the_demo_prints() {
    let readme = include_str!("../../../../README.md");
    let sample = readme
        .split("```")
        .find(|block| block.trim_start().starts_with("bug["))
        .expect("README.md shows a finding");
    let dir = TestDir::new();
    let run = dir.brownout(&["demo", "--keep", "demo"]);
    let demo = dir.path("demo");
    let printed = run.stdout.replace(&*demo.to_string_lossy(), "/tmp/demo");
    let expected: Vec<String> = sample.trim().lines().map(comparable).collect();
    let printed: Vec<String> = printed.lines().map(comparable).collect();
    let shown = printed
        .windows(expected.len())
        .any(|lines| lines == expected);
    assert!(
        shown,
        "README.md shows\n{sample}\nbut the demo prints\n{}",
        run.stdout
    );
}

/// A line without what depends on the compiler and the C library: columns, directories, inlining, numbers of
/// events, the spaces and carets under the source line.
fn comparable(line: &str) -> String {
    let words: Vec<String> = line
        .replace(" (inlined)", "")
        .split_whitespace()
        .map(|word| match word.split_once(".c:") {
            Some((file, position)) => {
                let name = file.rsplit('/').next().unwrap_or_default();
                let line = position.split(':').next().unwrap_or_default();
                format!("{name}.c:{line}")
            }
            None => word.trim_start_matches('^').to_owned(),
        })
        .collect();
    let line = words.join(" ");
    match line.split_once("at event ") {
        Some((before, after)) => {
            let after = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{before}at event N{after}")
        }
        None => line,
    }
}
