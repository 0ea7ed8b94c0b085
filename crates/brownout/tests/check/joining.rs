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

/// The three stores of `update` in `record.c`, as they are written there.
const STORES: [&str; 3] = ["pool->key = to;", "pool->value = to;", "pool->size = to;"];

fn record() -> TestDir {
    TestDir::with("check/record.c", &["-g"])
}

/// The lines of `record.c` with these stores.
fn store_lines(dir: &TestDir) -> Vec<u64> {
    let source = dir.read("record.c");
    let line = |store: &&str| source.lines().position(|line| line.trim() == *store);
    let lines = STORES.iter().map(line);
    lines.map(|line| line.unwrap() as u64 + 1).collect()
}

/// The line of a finding, and those of the findings that are joined with it.
fn lines(finding: &Value) -> Vec<u64> {
    let joined = finding["evidence"]["joined"].as_array();
    let joined = joined.into_iter().flatten();
    let frames = joined.map(|other| &other["frames"]);
    let frames = [&finding["stacks"][0]["frames"]].into_iter().chain(frames);
    frames
        .map(|frames| frames[0]["line"].as_u64().unwrap())
        .collect()
}

#[test]
fn the_lines_that_fill_one_object_are_one_finding() {
    let dir = record();
    let run = dir.brownout(&["check", "--", "./record", "pool", "put"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("1 bug, no warnings"), "{}", run.stderr);
    let found = dir.findings();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["rule"], "missing-flush");
    assert_eq!(found[0]["count"], 3);
    let expected = store_lines(&dir);
    assert_eq!(lines(&found[0]), expected);
    let ranges = found[0]["evidence"]["ranges"].as_array().unwrap();
    assert_eq!(ranges.len(), 3, "{ranges:?}");

    let others = format!(
        "missing-flush at record.c:{}, record.c:{}",
        expected[1], expected[2]
    );
    assert!(run.stderr.contains(&others), "{}", run.stderr);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let also = format!("also missing-flush: update at record.c:{}", expected[2]);
    assert!(junit.contains(&also), "{junit}");
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let related = results[0]["relatedLocations"].as_array().unwrap();
    assert_eq!(related.len(), 2, "{related:?}");
}

#[test]
fn crash_images_confirm_a_joined_finding_once() {
    let dir = record();
    let run = dir.brownout(&["check", "--", "./record", "pool", "put"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let id = dir.findings()[0]["id"].clone();
    // Twice: the results of the first run are joined already.
    for _ in 0..2 {
        let recover = "./record {pm} check";
        let crash = [
            "crash",
            "brownout.out",
            "--recover",
            recover,
            "--out",
            "brownout.out",
        ];
        let run = dir.brownout(&crash);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let found = dir.findings();
        let lint: Vec<&Value> = found.iter().filter(|one| one["cause"].is_null()).collect();
        assert_eq!(lint.len(), 1, "{found:?}");
        assert_eq!(lint[0]["confirmed"], true, "{found:?}");
        assert_eq!(lint[0]["count"], 3);
        let joined = lint[0]["evidence"]["joined"].as_array().unwrap();
        let confirmed: Vec<&Value> = joined.iter().map(|one| &one["confirmed"]).collect();
        // Without the key, recovery fails because the value is lost with it: the finding is shown at the line of the value.
        assert_eq!(confirmed, [&Value::Null, &Value::from(false)]);
        assert_eq!(joined[0]["id"], id);
    }
}

/// Suppresses the store of `update` that is written so.
fn suppression(store: &str) -> String {
    format!(
        "[[suppression]]\nrule = 'missing-flush'\nstack = ['update']\nsource = '{store}'\nreason = 'rebuilt'\n"
    )
}

/// The commands that continue the results of `check`, with these options.
fn continued(dir: &TestDir, options: &[&str]) -> Vec<(Completed, Vec<Value>)> {
    let check = ["check", "--out", "first", "--", "./record", "pool", "put"];
    let run = dir.brownout(&check);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let crash = ["crash", "first", "--recover", "cat {pm}"];
    let run = dir.brownout(&crash);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let commands = [&["merge", "first", "--out", "merged"][..], &crash];
    let outs = ["merged", "first"];
    let runs = commands.iter().zip(outs).map(|(command, out)| {
        let run = dir.brownout(&[command, options].concat());
        let junit = dir.read(&format!("{out}/junit.xml"));
        assert_eq!(junit.contains("<failure"), run.status == Some(1), "{junit}");
        let run_file: Value = serde_json::from_str(&dir.read(&format!("{out}/run.json"))).unwrap();
        assert_eq!(run_file["exit_code"].as_i64(), run.status.map(i64::from));
        (run, findings(&dir.path(out)))
    });
    runs.collect()
}

#[test]
fn a_suppression_of_one_line_leaves_the_lines_that_were_joined_with_it() {
    let dir = record();
    let lines_of_stores = store_lines(&dir);
    dir.write("one.toml", &suppression(STORES[0]));
    for (run, found) in continued(&dir, &["--suppressions", "one.toml"]) {
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(lines(&found[0]), lines_of_stores[1..]);
        assert_eq!(found[0]["count"], 2);
    }
    let of_all: String = STORES.iter().map(|store| suppression(store)).collect();
    dir.write("all.toml", &of_all);
    for (run, found) in continued(&dir, &["--suppressions", "all.toml"]) {
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_baseline_of_one_line_leaves_the_lines_that_were_joined_with_it() {
    let dir = record();
    let lines_of_stores = store_lines(&dir);
    let check = ["check", "--write-baseline", "all", "--"];
    let run = dir.brownout(&[&check[..], &["./record", "pool", "put"]].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    for (run, found) in continued(&dir, &["--baseline", "all"]) {
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert!(found.is_empty(), "{found:?}");
    }
    let mut baseline: Value = serde_json::from_str(&dir.read("all")).unwrap();
    let id = &dir.findings()[0]["id"];
    let entries = baseline["findings"].as_array_mut().unwrap();
    assert_eq!(entries.len(), 3, "{entries:?}");
    entries.retain(|entry| entry["id"] == *id);
    dir.write("one", &baseline.to_string());
    for (run, found) in continued(&dir, &["--baseline", "one"]) {
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        assert_eq!(lines(&found[0]), lines_of_stores[1..]);
    }
}

#[test]
fn two_mistakes_that_use_one_function_stay_two() {
    let dir = TestDir::with("check/setter.c", &["-g", "-O0"]);
    let check = |options: &[&str], how: &str| {
        let mut arguments = vec!["check", "--recover", "./setter pool check"];
        arguments.extend(options);
        arguments.extend(["--", "./setter", "pool", how]);
        dir.brownout(&arguments)
    };
    let both = check(&[], "both");
    assert_eq!(both.status, Some(1), "{}", both.stderr);
    assert!(both.stderr.contains("2 bugs"), "{}", both.stderr);
    let found: Vec<String> = dir.findings().iter().map(Value::to_string).collect();
    let names = |function| {
        found
            .iter()
            .filter(|found| found.contains(function))
            .count()
    };
    assert_eq!(
        (names("first_pair"), names("second_pair"), found.len()),
        (1, 1, 2),
        "{found:?}"
    );

    let known = check(&["--write-baseline", "known.json"], "one");
    assert_eq!(known.status, Some(1), "{}", known.stderr);
    let new = check(&["--baseline", "known.json"], "both");
    assert_eq!(new.status, Some(1), "{}", new.stderr);
    assert!(new.stderr.contains("1 bug, "), "{}", new.stderr);
    assert!(
        new.stderr.contains("the second pair is torn"),
        "{}",
        new.stderr
    );
}
