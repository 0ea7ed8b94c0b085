//! Results that contain those of an earlier crash test are not conclusive for the same reasons.

use std::fs;

use serde_json::Value;

use crate::{Completed, TestDir, run_file};

/// A command after which the run has not passed, whose results give the reason once.
fn assert_inconclusive(dir: &TestDir, run: &Completed, out: &str, reason: &str) {
    assert_eq!(run.status, Some(3), "{out}: {}", run.stderr);
    assert!(run.stderr.contains(reason), "{out}: {}", run.stderr);
    let results = run_file(&dir.path(out));
    assert_eq!(results["verdict"], "nothing-tested", "{results}");
    assert_eq!(results["exit_code"], 3, "{results}");
    let reasons = results["reasons"].as_array().unwrap().iter();
    let given = reasons.filter(|one| one.as_str().unwrap().contains(reason));
    assert_eq!(given.count(), 1, "{results}");
    let junit = dir.read(&format!("{out}/junit.xml"));
    assert!(
        junit.contains("<error") && junit.contains(reason),
        "{junit}"
    );
}

/// Lints the trace of the results in `brownout.out` into the same directory.
fn lint(dir: &TestDir, options: &[&str]) -> Completed {
    let lint = ["lint", "brownout.out", "--out", "brownout.out"];
    dir.brownout(&[&lint, options].concat())
}

/// Tests crashes of the run in `brownout.out` in two parts, and joins them.
fn merged_parts(dir: &TestDir, recover: &str) -> Completed {
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let crash = ["crash", "brownout.out", "--recover", recover];
        let run = dir.brownout(&[&crash[..], &["--shard", part, "--out", &out]].concat());
        assert_eq!(run.status, Some(3), "{}", run.stderr);
    }
    dir.brownout(&["merge", "part1", "part2", "--out", "merged"])
}

#[test]
fn an_ambiguous_placeholder_is_named_after_merge_and_lint() {
    let dir = TestDir::with("crash/renamed.c", &["-g"]);
    let recover = "test ! -e {pm} -o -e {pm}";
    let check = ["check", "--recover", recover];
    let run = dir.brownout(&[&check[..], &["--", "./renamed", "pool", "rename"]].concat());
    let reason = "in the recovery command stands for";
    assert_inconclusive(&dir, &run, "brownout.out", reason);
    let merged = merged_parts(&dir, recover);
    assert_inconclusive(&dir, &merged, "merged", reason);
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", reason);
}

#[test]
fn unrecorded_changes_are_named_after_merge_and_lint() {
    let reason = "was changed without being recorded";
    for options in [&["--recover", "true"][..], &[]] {
        let dir = TestDir::with("check/past_engine.c", &["-g"]);
        let program = ["--", "./past_engine", "pool", "memory"];
        let run = dir.brownout(&[&["check"], options, &program].concat());
        assert_inconclusive(&dir, &run, "brownout.out", reason);
        let linted = lint(&dir, &[]);
        assert_inconclusive(&dir, &linted, "brownout.out", reason);
        let merged = merged_parts(&dir, "true");
        assert_inconclusive(&dir, &merged, "merged", reason);
    }
}

#[test]
fn unrecorded_changes_keep_every_analysis_of_a_trace_from_passing() {
    let dir = TestDir::with("check/past_engine.c", &["-g"]);
    let record = ["record", "-q", "-o", "trace", "--shared-loads", "--"];
    let program = ["./past_engine", "pool", "memory"];
    let run = dir.brownout(&[&record[..], &program].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    for command in ["lint", "race"] {
        let run = dir.brownout(&[command, "trace", "--out", command]);
        assert_eq!(run.status, Some(3), "{command}: {}", run.stderr);
        let results = run_file(&dir.path(command));
        let reasons = results["reasons"].to_string();
        assert!(
            reasons.contains("was changed without being recorded"),
            "{results}"
        );
    }
}

#[test]
fn a_search_for_races_that_could_not_be_made_does_not_pass_later() {
    let dir = TestDir::new();
    dir.record(&[], &["3"]);
    let race = dir.brownout(&["race", "trace", "--out", "results"]);
    assert_eq!(race.status, Some(3), "{}", race.stderr);
    let run = dir.crash(&["--out", "results"]);
    assert_inconclusive(&dir, &run, "results", "the trace contains no loads");
    let results = run_file(&dir.path("results"));
    assert_eq!(
        results["rules"]["persistency-race"],
        Value::Null,
        "{results}"
    );
    let junit = dir.read("results/junit.xml");
    assert!(!junit.contains("classname=\"persistency-race\""), "{junit}");
}

#[test]
fn orders_that_there_was_no_time_for_are_named_after_merge_and_lint() {
    let dir = TestDir::with("crash/late.c", &["-g"]);
    let check = ["check", "--recover", "./late {pm} check", "--jobs", "1"];
    // The recoveries of both failure points are running when the time is over.
    let run = dir.brownout(
        &[
            &check[..],
            &["--time-limit", "50ms", "--", "./late", "pool"],
        ]
        .concat(),
    );
    let reason = "no crash that loses or reorders stores was tested";
    assert_inconclusive(&dir, &run, "brownout.out", reason);
    let results = run_file(&dir.path("brownout.out"));
    assert_eq!(
        results["reason_kinds"],
        serde_json::json!(["not-reordered"])
    );
    let points = &results["crash"]["failure_points"];
    assert_eq!((&points["tried"], &points["of"]), (&2.into(), &2.into()));
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains("\"executionSuccessful\":false"), "{sarif}");
    let html = dir.read("brownout.out/report.html");
    assert!(html.contains(reason), "{html}");
    let report = dir.brownout(&["report", "brownout.out"]);
    assert_eq!(report.status, Some(3), "{}", report.stderr);

    let merged = dir.brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_inconclusive(&dir, &merged, "merged", reason);
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", reason);
    // With the time that it takes, nothing is missing, here and in what is merged.
    let more = ["crash", "brownout.out", "--recover", "./late {pm} check"];
    let run = dir.brownout(&[&more[..], &["--resume", "--jobs", "1"]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let merged = dir.brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_eq!(merged.status, Some(0), "{}", merged.stderr);
    assert_eq!(run_file(&dir.path("merged"))["crash"]["complete"], true);
}

#[test]
fn an_interruption_at_the_end_is_named_after_merge() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &[], &["3"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let path = dir.path("brownout.out/run.json");
    let mut results = run_file(&dir.path("brownout.out"));
    // As if it had been interrupted after the last crash: the journal does not show it.
    results["reasons"] = serde_json::json!(["it was interrupted"]);
    results["reason_kinds"] = serde_json::json!(["cut-short"]);
    fs::write(&path, results.to_string()).unwrap();
    let merged = dir.brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_inconclusive(&dir, &merged, "merged", "it was interrupted");
    assert_eq!(run_file(&dir.path("merged"))["crash"]["complete"], false);
}

#[test]
fn a_recovery_that_fails_without_a_crash_is_named_after_lint() {
    let dir = TestDir::new();
    let run = dir.check("false", &[], &["3"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    for _ in 0..2 {
        let linted = lint(&dir, &[]);
        assert_eq!(linted.status, Some(4), "{}", linted.stderr);
        let results = run_file(&dir.path("brownout.out"));
        assert_eq!(results["verdict"], "target-failed", "{results}");
        let reasons = results["reasons"].as_array().unwrap();
        assert_eq!(reasons.len(), 1, "{results}");
        let junit = dir.read("brownout.out/junit.xml");
        assert!(junit.contains("without any crash"), "{junit}");
    }
}

#[test]
fn recoveries_that_did_not_end_are_named_after_merge_and_lint() {
    let dir = TestDir::with("crash/torn.c", &["-g"]);
    let recover = r#"test "$BROWNOUT_OP" = 3 || sleep 60"#;
    let check = ["check", "--recover", recover, "--op", "put"];
    let options = ["--time-limit", "100ms", "--", "./torn", "pool", "put", "3"];
    let run = dir.brownout(&[&check[..], &options].concat());
    assert_inconclusive(&dir, &run, "brownout.out", "may hang");
    let merged = dir.brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_inconclusive(&dir, &merged, "merged", "may hang");
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", "may hang");
}

#[test]
fn a_flaky_recovery_is_named_once_after_merge_and_lint_and_a_failed_command() {
    let dir = TestDir::with("crash/torn.c", &["-g"]);
    // Recovery runs again to see where it fails, and is traced then.
    let recover = r#"test "$BROWNOUT_OP" = 3 || ! grep -q 'TracerPid:.0$' /proc/self/status"#;
    let check = ["check", "--recover", recover, "--op", "put"];
    let run = dir.brownout(&[&check[..], &["--", "./torn", "pool", "put", "3"]].concat());
    let reason = "not deterministic";
    assert_inconclusive(&dir, &run, "brownout.out", reason);
    let merged = dir.brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_inconclusive(&dir, &merged, "merged", reason);
    let failed = lint(&dir, &["--suppressions", "no-such-file"]);
    assert_eq!(failed.status, Some(2), "{}", failed.stderr);
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", reason);
    let reasons = run_file(&dir.path("brownout.out"))["reasons"].to_string();
    assert!(!reasons.contains("no-such-file"), "{reasons}");
}

#[test]
fn reasons_of_any_kind_are_carried_over() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &[], &["3"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let path = dir.path("brownout.out/run.json");
    let mut results: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    results["reasons"] = serde_json::json!(["what no version knows yet"]);
    fs::write(&path, results.to_string()).unwrap();
    let merged = dir.brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_inconclusive(&dir, &merged, "merged", "no version knows");
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", "no version knows");
}

#[test]
fn kinds_of_reasons_decide_and_not_their_words() {
    let dir = TestDir::new();
    let run = dir.check("false", &[], &["3"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    let path = dir.path("brownout.out/run.json");
    let kinds = |results: &Value| results["reason_kinds"].clone();
    let results = run_file(&dir.path("brownout.out"));
    let kind = serde_json::json!(["recovery-failed-without-crash"]);
    assert_eq!(kinds(&results), kind, "{results}");
    let with = |reasons: Value, kinds: Option<Value>| {
        let mut changed = results.clone();
        changed["reasons"] = reasons;
        let fields = changed.as_object_mut().unwrap();
        fields.remove("reason_kinds");
        fields.extend(kinds.map(|kinds| ("reason_kinds".to_owned(), kinds)));
        fs::write(&path, changed.to_string()).unwrap();
    };
    // Other words of the same kind.
    with(serde_json::json!(["reformulated"]), Some(kind.clone()));
    let linted = lint(&dir, &[]);
    assert_eq!(linted.status, Some(4), "{}", linted.stderr);
    let carried = run_file(&dir.path("brownout.out"));
    assert_eq!(kinds(&carried), kind, "{carried}");
    // Results of an older version have no kinds.
    with(results["reasons"].clone(), None);
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", "without any crash");
    let linted = run_file(&dir.path("brownout.out"));
    assert_eq!(kinds(&linted), serde_json::json!(["other"]), "{linted}");
    // A kind that only a later version knows.
    let later = serde_json::json!(["of-a-later-version"]);
    with(serde_json::json!(["what was not tested"]), Some(later));
    let linted = lint(&dir, &[]);
    assert_inconclusive(&dir, &linted, "brownout.out", "what was not tested");
}

#[test]
fn a_part_that_was_missing_is_not_missed_once_it_is_there() {
    let dir = TestDir::new();
    dir.record(&[], &["3"]);
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let run = dir.crash(&["--shard", part, "--out", &out]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
    }
    let one = dir.brownout(&["merge", "part1", "--out", "part1"]);
    assert_inconclusive(&dir, &one, "part1", "part 2/2 is missing");
    let both = dir.brownout(&["merge", "part1", "part2", "--out", "merged"]);
    assert_eq!(both.status, Some(0), "{}", both.stderr);
    let results = run_file(&dir.path("merged"));
    assert_eq!(results["reasons"], serde_json::json!([]), "{results}");
}
