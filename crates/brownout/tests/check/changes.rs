//! `brownout diff`: what has changed between two runs.

use serde_json::Value;

use crate::TestDir;

/// The kinds of changes with the rules of the findings.
fn changes(dir: &TestDir, options: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let words = [&["diff", "before", "after", "--format", "json"], options].concat();
    let compared = dir.brownout(&words);
    let lines = compared.stdout.lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = lines.map(|line| (text(&line["change"]), text(&line["rule"])));
    (compared.status, found.collect())
}

fn change(kind: &str, rule: &str) -> (String, String) {
    (kind.to_owned(), rule.to_owned())
}

#[test]
fn new_findings_fail_and_gone_ones_are_listed() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["fence"]);
    // The same command does something else now.
    let source = dir.read("counter.c");
    let (fence, last) = ("\"fence\"", "\"last\"");
    let source = source.replace(fence, "\"other\"").replace(last, fence);
    dir.write("counter.c", &source);
    dir.compile_again();
    dir.check(&["--out", "after"], &["fence"]);
    let found = [
        change("new", "missing-flush"),
        change("gone", "redundant-fence"),
    ];
    assert_eq!(changes(&dir, &[]), (Some(1), found.to_vec()));
    let (status, _) = changes(&dir, &["--fail-on", "never"]);
    assert_eq!(status, Some(0));

    let shown = dir.brownout(&["diff", "before", "after"]);
    assert_eq!(shown.status, Some(1), "{}", shown.stderr);
    let text = shown.stdout;
    assert!(text.contains("bug[missing-flush]"), "{text}");
    assert!(
        text.contains("gone:\nperformance[redundant-fence]"),
        "{text}"
    );
    assert!(
        text.ends_with("1 new finding, 1 gone, 0 in both\n"),
        "{text}"
    );

    let shown = dir.brownout(&["diff", "after", "after"]);
    assert_eq!(shown.status, Some(0), "what is in both does not fail");
    assert_eq!(shown.stdout, "no new findings, 0 gone, 1 in both\n");
}

#[test]
fn moved_lines_change_nothing() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["last"]);
    let source = dir.read("counter.c");
    dir.write("counter.c", &format!("\n\n\n{source}"));
    dir.compile_again();
    dir.check(&["--out", "after"], &["last"]);
    let found = [change("common", "missing-flush")];
    assert_eq!(changes(&dir, &[]), (Some(0), found.to_vec()));
}

#[test]
fn a_run_that_tested_less_has_not_fixed_anything() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["last"]);
    let failed = dir.check(&["--out", "after"], &["fail"]);
    assert_eq!(failed.status, Some(4), "{}", failed.stderr);
    let found = [change("undecided", "missing-flush")];
    assert_eq!(changes(&dir, &[]), (Some(4), found.to_vec()));
    let shown = dir.brownout(&["diff", "before", "after"]);
    assert!(shown.stderr.contains("after: "), "{}", shown.stderr);
    assert!(shown.stdout.contains("0 gone, 0 in both, 1 undecided"));
}

#[test]
fn a_directory_without_results_is_an_error() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &[]);
    let compared = dir.brownout(&["diff", "before", "elsewhere"]);
    assert_eq!(compared.status, Some(2));
    assert!(compared.stderr.contains("elsewhere"), "{}", compared.stderr);
}

#[test]
fn a_run_of_something_else_has_not_fixed_anything() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["last"]);
    let differing: [(&[&str], &[&str], &str); 2] = [
        (&[], &["fence"], "the command changed from"),
        (
            &["--model", "eadr"],
            &["last"],
            "the model changed from adr to eadr",
        ),
    ];
    for (options, arguments, why) in differing {
        dir.check(&[&["--out", "after"], options].concat(), arguments);
        let (status, found) = changes(&dir, &["--fail-on", "bug"]);
        let undecided = change("undecided", "missing-flush");
        assert!(found.contains(&undecided), "{found:?}");
        assert_eq!(status, Some(3), "{why}");
        let shown = dir.brownout(&["diff", "before", "after"]);
        assert!(shown.stderr.contains(why), "{}", shown.stderr);
        assert!(shown.stdout.contains(why), "{}", shown.stdout);
        assert!(shown.stdout.contains("0 gone"), "{}", shown.stdout);
    }
}

#[test]
fn what_is_suppressed_or_known_in_one_run_is_in_both() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["last"]);
    let rule = "[[suppression]]\nrule = \"missing-flush\"\nreason = \"accepted\"\n";
    dir.write("accepted.toml", rule);
    let hiding = [
        ("--suppressions", "accepted.toml", "1 suppressed there"),
        (
            "--baseline",
            "before/baseline.json",
            "1 known from the baseline there",
        ),
    ];
    for (option, file, note) in hiding {
        let passed = dir.check(&["--out", "after", option, file], &["last"]);
        assert_eq!(passed.status, Some(0), "{}", passed.stderr);
        let found = [change("common", "missing-flush")];
        assert_eq!(changes(&dir, &[]), (Some(0), found.to_vec()));
        let shown = dir.brownout(&["diff", "before", "after"]).stdout;
        let end = format!("no new findings, 0 gone, 1 in both ({note})\n");
        assert!(shown.ends_with(&end), "{shown}");
        let back = dir.brownout(&["diff", "after", "before"]);
        assert_eq!(back.status, Some(0), "{}", back.stdout);
        assert_eq!(back.stdout, "no new findings, 0 gone, 1 in both\n");
    }
}

#[test]
fn known_findings_of_lint_stay_known_when_crashes_are_tested() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["last"]);
    let baseline = "before/baseline.json";
    dir.check(&["--out", "after", "--baseline", baseline], &["last"]);
    let crash = ["crash", "after", "--recover", "sha1sum {pm}"];
    let tested = dir.brownout(&[&crash[..], &["--baseline", baseline]].concat());
    assert_eq!(tested.status, Some(0), "{}", tested.stderr);
    let found = [change("common", "missing-flush")];
    assert_eq!(changes(&dir, &[]), (Some(0), found.to_vec()));
}

#[test]
fn a_missing_file_of_the_results_is_named() {
    let dir = TestDir::new();
    dir.check(&["--out", "before"], &["last"]);
    std::fs::remove_file(dir.path("before/findings.jsonl")).unwrap();
    let compared = dir.brownout(&["diff", "before", "before"]);
    assert_eq!(compared.status, Some(2));
    let message = "the results in `before` are incomplete: `findings.jsonl` cannot be read";
    assert!(compared.stderr.contains(message), "{}", compared.stderr);
}
