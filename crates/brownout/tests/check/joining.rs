//! One cause is one finding, however many stacks lead to it.

use super::*;

/// A directory with `recursion.c`, whose one mistake happens 511 times at 9 depths of recursion.
fn recursion() -> TestDir {
    // Optimised, one of the two calls would become a loop.
    TestDir::with("check/recursion.c", &["-g", "-O0"])
}

#[test]
fn a_mistake_in_a_recursive_function_is_one_finding() {
    let dir = recursion();
    let run = dir.brownout(&["check", "--", "./recursion", "pool"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("1 bug, no warnings"), "{}", run.stderr);
    assert!(run.stderr.contains("other stacks"), "{}", run.stderr);

    let found = dir.findings();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["rule"], "missing-flush");
    assert_eq!(found[0]["count"], 511);
    // With recursion folded, no call, left, right, left in right and right in left remain.
    let joined = found[0]["evidence"]["joined"].as_array().unwrap();
    assert_eq!(joined.len(), 4, "{joined:?}");
    let recursive = |joined: &Value| {
        let frames = joined["frames"].as_array().unwrap();
        frames.iter().any(|frame| frame["recursive"] == true)
    };
    assert!(joined.iter().all(recursive), "{joined:?}");

    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["occurrenceCount"], 511);
}

#[test]
fn folded_recursion_is_marked_where_stacks_are_shown() {
    let dir = recursion();
    let run = dir.brownout(&["record", "-q", "-o", "trace", "--", "./recursion", "pool"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let points = dir.brownout(&["stat", "--failure-points", "trace"]);
    assert_eq!(points.status, Some(0), "{}", points.stderr);
    assert!(points.stdout.contains("… recursion"), "{}", points.stdout);
    let reached = "failure points, reached 512 times";
    assert!(points.stdout.contains(reached), "{}", points.stdout);
}

#[test]
fn a_baseline_of_joined_findings_knows_them_all() {
    let dir = recursion();
    let run = |options: &[&str]| {
        let mut arguments = vec!["check"];
        arguments.extend(options);
        arguments.extend(["--", "./recursion", "pool"]);
        dir.brownout(&arguments)
    };
    assert_eq!(run(&["--write-baseline", "known"]).status, Some(1));
    let known = run(&["--baseline", "known"]);
    assert_eq!(known.status, Some(0), "{}", known.stderr);
    assert!(dir.findings().is_empty());
}
