//! A failed recovery whose stores lint names is reported with lint's finding.

use super::*;

#[test]
fn a_failed_recovery_belongs_to_the_finding_that_names_its_store() {
    let dir = TestDir::with("crash/unflushed.c", &["-g"]);
    // It does not try the findings of lint themselves.
    let arguments = ["check", "--strategy", "exhaustive", "--recover"];
    let command = ["./unflushed {pm} check", "--", "./unflushed", "pool", "put"];
    let run = dir.brownout(&[&arguments[..], &command].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("1 bug,"), "{}", run.stderr);

    let mut found = dir.findings();
    let rules: Vec<&str> = found.iter().map(|f| f["rule"].as_str().unwrap()).collect();
    assert_eq!(
        rules,
        ["missing-flush", "recovery-failed"],
        "the cause is first"
    );
    assert_eq!(found[0]["cause"], Value::Null);
    assert_eq!(found[1]["cause"], found[0]["id"]);

    // In the other outputs they are one.
    let read = |name: &str| fs::read_to_string(dir.path("brownout.out").join(name)).unwrap();
    let junit = read("junit.xml");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    assert!(junit.contains("recovery-failed ["), "{junit}");
    let sarif: Value = serde_json::from_str(&read("report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["ruleId"], "missing-flush");
    let related = results[0]["relatedLocations"].to_string();
    assert!(related.contains("recovery-failed: "), "{related}");
    let html = read("report.html");
    let bugs = "<b>1</b> bug";
    assert!(html.contains(bugs) && html.contains("recovery-failed"));

    let shown = dir.brownout(&["report", "brownout.out"]);
    assert_eq!(shown.status, Some(1));
    assert!(
        shown.stdout.contains("recovery-failed: recovery fails"),
        "{}",
        shown.stdout
    );
    let id = found[1]["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "brownout.out", id]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    // The cause without a crash of its own is replayed with that which it explains.
    let path = dir.path("brownout.out/findings.jsonl");
    found[0]["replay"] = "event:1".into();
    let lines: Vec<String> = found.iter().map(Value::to_string).collect();
    fs::write(path, lines.join("\n")).unwrap();
    let cause = found[0]["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "brownout.out", cause]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    let which = format!("{cause} explains {}", found[1]["id"].as_str().unwrap());
    assert!(replayed.stderr.contains(&which), "{}", replayed.stderr);
}

#[test]
fn stores_in_the_wrong_order_are_a_bug_beside_the_missing_flush() {
    let dir = TestDir::with("crash/unflushed.c", &["-g"]);
    let arguments = ["check", "--recover", "./unflushed {pm} check"];
    let arguments = [&arguments[..], &["--", "./unflushed", "pool", "late"]].concat();
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("2 bugs,"), "{}", run.stderr);
    let found = dir.findings();
    let rules: Vec<&str> = found.iter().map(|f| f["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["missing-flush", "recovery-failed"]);
    assert_eq!(found[0]["confirmed"], true, "{found:?}");
    assert_eq!(found[1]["cause"], Value::Null, "no flush orders the stores");
}

#[test]
fn a_store_that_is_never_flushed_does_not_hide_another_cause_at_the_same_line() {
    let dir = TestDir::with("crash/announced.c", &["-g"]);
    let arguments = ["check", "--strategy", "exhaustive", "--recover"];
    let command = ["./announced {pm} check", "--", "./announced", "pool"];
    let run = dir.brownout(&[&arguments[..], &command].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    let missing: Vec<&str> = found
        .iter()
        .filter(|finding| finding["rule"] == "recovery-failed")
        .flat_map(|finding| finding["stacks"].as_array().unwrap())
        .filter(|stack| stack["role"] == "store that is missing")
        .map(|stack| stack["frames"][0]["function"].as_str().unwrap())
        .collect();
    assert!(missing.contains(&"set_size"), "{missing:?}");
    assert!(missing.contains(&"put_key"), "{missing:?}");
}

/// Rule, cause and joined rules of each finding in a directory.
fn explained(dir: &TestDir, out: &str) -> Vec<(String, Value, Vec<String>)> {
    let found = findings(&dir.path(out)).into_iter().map(|finding| {
        let joined = finding["evidence"]["joined"].as_array().cloned();
        let joined = joined.unwrap_or_default().into_iter();
        let mut joined: Vec<String> = joined.map(|other| other["rule"].to_string()).collect();
        joined.sort();
        joined.dedup();
        let rule = finding["rule"].to_string();
        (rule, finding["cause"].clone(), joined)
    });
    found.collect()
}

#[test]
fn one_cause_is_one_finding_after_merging_too() {
    for (program, how) in [
        ("halves", "place"),
        ("halves", "early"),
        ("unflushed", ""),
        ("helpers", ""),
    ] {
        let source = format!("crash/{program}.c");
        let dir = TestDir::with(&source, &["-g"]);
        let path = format!("./{program}");
        let check = ["check", "--out", "lint", "--", &path, "pool", "put", how];
        dir.brownout(&check);
        let recover = format!("{path} {{pm}} check");
        for (part, out) in [("1/1", "whole"), ("1/2", "part1"), ("2/2", "part2")] {
            let linted = dir.brownout(&["lint", "lint/trace", "--out", out]);
            assert!(matches!(linted.status, Some(0 | 1)), "{}", linted.stderr);
            let crash = ["crash", "lint/trace", "--recover", &recover, "--out", out];
            let run = dir.brownout(&[&crash[..], &["--shard", part]].concat());
            assert!(matches!(run.status, Some(0 | 1)), "{}", run.stderr);
        }
        let whole = explained(&dir, "whole");
        for parts in [["part1", "part2"], ["part2", "part1"]] {
            let merged = dir.brownout(&["merge", parts[0], parts[1], "--out", "merged"]);
            assert_eq!(merged.status, Some(1), "{}", merged.stderr);
            let merged = explained(&dir, "merged");
            assert_eq!(merged, whole, "{program} {how}: {parts:?}");
        }
    }
}

#[test]
fn a_finding_that_no_crash_confirms_says_why_it_is_not_replayed() {
    let dir = TestDir::with("crash/unflushed.c", &["-g"]);
    let check = ["check", "--recover", "cat {pm}", "--"];
    let run = dir.brownout(&[&check[..], &["./unflushed", "pool", "put"]].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    let id = found[0]["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "brownout.out", id]);
    assert_eq!(replayed.status, Some(2), "{}", replayed.stderr);
    let why = "recovery passed on every crash image that was tried";
    assert!(replayed.stderr.contains(why), "{}", replayed.stderr);
}

#[test]
fn a_fence_is_no_bug_of_its_own_if_the_crash_that_confirms_it_has_another_name() {
    let dir = TestDir::with("crash/halves.c", &["-g"]);
    for (how, leading) in [("early", "delayed-persist"), ("place", "recovery-failed")] {
        let arguments = ["check", "--recover", "./halves {pm} check", "--"];
        let run = dir.brownout(&[&arguments[..], &["./halves", "pool", "put", how]].concat());
        assert_eq!(run.status, Some(1), "{how}: {}", run.stderr);
        let found = dir.findings();
        // A failed recovery that another finding explains is counted with it.
        let causes = found
            .iter()
            .filter(|finding| finding.get("cause").is_none());
        let rules: Vec<&str> = causes.map(|f| f["rule"].as_str().unwrap()).collect();
        assert!(
            rules.iter().all(|rule| *rule == leading),
            "{how}: {rules:?}"
        );
        let joined = found[0]["evidence"]["joined"].to_string();
        assert!(joined.contains("fence-orders-many"), "{how}: {joined}");
        let junit = fs::read_to_string(dir.path("brownout.out/junit.xml")).unwrap();
        let failures = format!("failures=\"{}\"", rules.len());
        assert!(junit.contains(&failures), "{how}: {junit}");
        let id = found[0]["id"].as_str().unwrap();
        let replayed = dir.brownout(&["replay", "brownout.out", id]);
        assert_eq!(replayed.status, Some(1), "{how}: {}", replayed.stderr);
        fs::remove_file(dir.path("pool")).unwrap();
    }
}

/// The cause of the first failure in program order, in the journal.
fn first_cause(dir: &TestDir) -> Value {
    let journal = dir.read("brownout.out/crash.jsonl");
    let entries = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut causes = entries.filter(|entry: &Value| entry.get("cause_of").is_some());
    causes.next().expect("a cause was searched for")
}

#[test]
fn stores_that_lint_names_are_the_first_guesses_at_causes() {
    let dir = TestDir::with("crash/begun.c", &["-g"]);
    let record = [
        "record", "-q", "-o", "trace", "--", "./begun", "pool", "put",
    ];
    assert_eq!(dir.brownout(&record).status, Some(0));
    let crash = ["crash", "trace", "--recover", "./begun {pm} check"];
    let crash = [&crash[..], &["--strategy", "prefix"]].concat();
    let run = dir.brownout(&crash);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let guessed = first_cause(&dir);

    fs::write(
        dir.path("brownout.toml"),
        "[rules]\nmissing-flush = \"off\"\n",
    )
    .unwrap();
    fs::remove_dir_all(dir.path("brownout.out")).unwrap();
    let run = dir.brownout(&crash);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let searched = first_cause(&dir);

    // The same store, found with fewer recoveries.
    assert_eq!(guessed["cause_of"], searched["cause_of"]);
    assert_eq!(guessed["present"], searched["present"]);
    assert_eq!(guessed["present"].as_array().unwrap().len(), 1, "{guessed}");
    let tests = |cause: &Value| cause["tests"].as_u64().unwrap();
    assert!(
        tests(&guessed) + 8 <= tests(&searched),
        "{guessed} {searched}"
    );
}

#[test]
fn causes_are_searched_inside_operations_first() {
    let dir = TestDir::with("crash/opened.c", &["-g"]);
    // Of two searches at a time, either may end first.
    let check = [
        "check",
        "--jobs",
        "1",
        "--strategy",
        "prefix",
        "--op",
        "put",
    ];
    let command = [
        "--recover",
        "./opened {pm} check",
        "--",
        "./opened",
        "pool",
        "put",
    ];
    let run = dir.brownout(&[&check[..], &command].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let stores = |cause: &Value| cause["present"][0]["stack"].to_string();
    let first = first_cause(&dir);
    assert!(stores(&first).contains("\"put\""), "{first}");
    assert!(!stores(&first).contains("open_pool"), "{first}");

    let found = dir.findings();
    assert_eq!(crash_rules(&found), ["recovery-failed"; 2], "{found:?}");
    for finding in &found {
        let there = functions(finding, "store that is there");
        assert!(!there.is_empty(), "both are explained: {finding}");
    }
    let run_file = run_file(&dir.path("brownout.out"));
    assert_eq!(run_file["exit_code"], 1, "{run_file}");
    assert_eq!(run_file["verdict"], "findings", "{run_file}");
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("failures=\"2\""), "{junit}");
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{sarif}");
}
