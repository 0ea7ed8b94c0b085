//! What recovery is compared with: operations, outputs.

use std::fs;

use crate::{TestDir, crashes};

#[test]
fn recovery_learns_how_far_the_workload_was() {
    let dir = TestDir::new();
    for how in [&["--op", "put"][..], &["--op", "slots.c:45"]] {
        let run = dir.check("./slots {pm} check op", how, &["4"]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
    }
    // As if each operation were done before it began.
    let recover = "sh -c 'BROWNOUT_OP=$((BROWNOUT_OP + 1)) ./slots {pm} check op'";
    let run = dir.check(recover, &["--op", "put", "--no-narrowing"], &["4"]);
    assert_eq!(
        run.status,
        Some(4),
        "the uncrashed image has its operations too: {}",
        run.stderr
    );
    let recover =
        "sh -c 'test $BROWNOUT_OP_ACTIVE = 0 && exit; exec ./slots {pm} check print >&2; exit 1'";
    let run = dir.check(recover, &["--op", "put"], &["4"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn outputs_belong_to_operations() {
    let dir = TestDir::new();
    fs::create_dir(dir.path("outputs")).unwrap();
    for number in 0..=4 {
        let text = format!("{number}\n");
        fs::write(dir.path(&format!("outputs/{number}.txt")), text).unwrap();
    }
    let options = ["--op", "put", "--expect-one-of", "outputs"];
    let run = dir.check("./slots {pm} check print", &options, &["4"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    // One slot more than there are operations.
    let wrong = "sh -c 'echo $(($(./slots {pm} check print) + 1))'";
    let run = dir.check(wrong, &options, &["3"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    for part in [
        "line 1 of `outputs/3.txt`: \"3\\n\"",
        "printed in line 1: \"4\\n\"",
    ] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    fs::write(dir.path("outputs/README"), "4\n").unwrap();
    let run = dir.check("./slots {pm} check print", &options, &["4"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("outputs/README` is not named after"),
        "{}",
        run.stderr
    );
    fs::write(dir.path("one"), "4\n").unwrap();
    let run = dir.check(
        "./slots {pm} check print",
        &["--expect-output", "one"],
        &["4"],
    );
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(crashes(&findings)[0].0, "recovery-failed");
    let output = findings[0]["evidence"]["details"]["last output"].as_str();
    let output = output.unwrap();
    assert!(
        output.starts_with("expected in line 1 of `one`: \"4\\n\"\nprinted in line 1: "),
        "{output}"
    );
    assert!(run.stderr.contains("line 1 of `one`"), "{}", run.stderr);
}

#[test]
fn a_function_that_was_not_watched_is_named() {
    let dir = TestDir::new();
    dir.record(&[], &["2"]);
    let run = dir.crash(&["--op", "put"]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("--watch put"), "{}", run.stderr);
    let run = dir.check("./slots {pm} check", &["--after", "slots.c:1"], &["2"]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("slots.c:1"), "{}", run.stderr);
}

#[test]
fn crashes_can_be_confined() {
    let dir = TestDir::new();
    dir.record(&["--watch", "put"], &["3", "early"]);
    let points = |options: &[&str]| {
        let mut arguments = vec!["stat", "trace", "--failure-points", "--format", "json"];
        arguments.extend(options);
        let run = dir.brownout(&arguments);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        json["failure_points"].as_array().unwrap().len()
    };
    let all = points(&[]);
    assert!(all >= 2);
    assert_eq!(points(&["--in-function", "put"]), all);
    assert_eq!(points(&["--in-file", "slots.c"]), all);
    assert_eq!(points(&["--in-module", "slots"]), all);
    assert_eq!(points(&["--after", "put"]), all);
}

#[test]
fn what_the_rules_found_stays_if_crashes_cannot_be_tried() {
    let dir = TestDir::new();
    let options = ["--pedantic", "--op", "nobody"];
    let run = dir.check("./slots {pm} check", &options, &["3", "early"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("--op nobody"), "{}", run.stderr);
    let rules: Vec<String> = dir
        .findings()
        .iter()
        .map(|finding| finding["rule"].to_string())
        .collect();
    assert!(
        rules.iter().any(|rule| rule.contains("flush-covers-many")),
        "{rules:?}"
    );
}
