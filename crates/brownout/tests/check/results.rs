//! The findings, results and exit codes of a check.

use std::fs;

use serde_json::Value;

use crate::{TestDir, bugs, rules_of};

#[test]
fn a_program_without_mistakes() {
    let dir = TestDir::new();
    let run = dir.check(&[], &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout, "counted\n", "standard output is the program's");
    assert_eq!(bugs(&dir.findings()), [] as [&str; 0], "{}", run.stderr);
}

#[test]
fn bugs_are_shown_with_their_source_and_kept() {
    let dir = TestDir::new();
    let run = dir.check(&[], &["last", "fence"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(run.stdout, "counted\n");
    let findings = dir.findings();
    assert_eq!(bugs(&findings), ["missing-flush"]);
    assert_eq!(rules_of(&findings, "performance"), ["redundant-fence"]);
    let frame = &findings[0]["stacks"][0]["frames"][0];
    assert_eq!(frame["function"], "main");
    let line = frame["line"].as_u64().unwrap() as usize;
    let source = dir.read("counter.c");
    assert!(
        source
            .lines()
            .nth(line - 1)
            .unwrap()
            .contains("/* missing-flush */")
    );
    for part in [
        "bug[missing-flush]: ",
        "counter->steps = 99; /* missing-flush */",
        "performance[redundant-fence]: ",
        "1 bug, 1 performance finding, ",
        "results are in brownout.out",
    ] {
        assert!(
            run.stderr.contains(part),
            "{part} is not in:\n{}",
            run.stderr
        );
    }
    assert!(!run.stderr.contains('\x1b'), "no colours off a terminal");
}

#[test]
fn results_are_written_in_every_format() {
    let dir = TestDir::new();
    dir.check(&[], &["last"]);
    let html = dir.read("brownout.out/report.html");
    assert!(html.contains("missing-flush") && html.contains("counter-&gt;steps = 99"));
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert!(
        results
            .iter()
            .any(|result| result["ruleId"] == "missing-flush")
    );
    assert!(
        dir.read("brownout.out/junit.xml")
            .contains("failures=\"1\"")
    );
    let trace = dir.path("brownout.out/trace");
    assert!(fs::metadata(trace).unwrap().len() > 0);
    let names = fs::read_dir(dir.path("brownout.out")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "baseline.json",
            "findings.jsonl",
            "junit.xml",
            "report.html",
            "report.sarif",
            "run.json",
            "trace"
        ]
    );
}

#[test]
fn ids_are_the_same_in_every_run() {
    let dir = TestDir::new();
    let ids = || {
        dir.check(&[], &["last", "fence"]);
        let findings = dir.findings();
        findings
            .iter()
            .map(|finding| finding["id"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(), ids());
}

#[test]
fn other_formats_go_to_standard_output() {
    let dir = TestDir::new();
    let run = dir.check(&["--format", "json", "-q"], &["last"]);
    assert_eq!(run.status, Some(1));
    let (program, json) = run.stdout.split_once('\n').unwrap();
    assert_eq!(program, "counted");
    let finding: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(finding["rule"], "missing-flush");
    assert_eq!(run.stderr, "");
    let lint = |format| {
        let run = dir.brownout(&["lint", "brownout.out/trace", "--format", format]);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        run.stdout
    };
    assert_eq!(lint("json"), json);
    assert_eq!(lint("sarif"), dir.read("brownout.out/report.sarif"));
    assert_eq!(lint("junit"), dir.read("brownout.out/junit.xml"));
    assert!(lint("github").contains("::error file=counter.c,line="));
    assert!(lint("human").contains("bug[missing-flush]"));
}

#[test]
fn a_program_that_fails_on_its_own_has_its_own_exit_code() {
    let dir = TestDir::new();
    let run = dir.check(&[], &["last", "fail"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    assert!(
        run.stderr.contains("the program exited with status 7"),
        "{}",
        run.stderr
    );
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
    let run = dir.check(&[], &["crash"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    assert!(
        run.stderr.contains("was killed by SIGABRT"),
        "{}",
        run.stderr
    );
}

#[test]
fn nothing_persistent_is_distinguished_from_nothing_found() {
    let dir = TestDir::new();
    let run = dir.brownout(&["check", "--", "true"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("nothing persistent was seen"),
        "{}",
        run.stderr
    );
    let run = dir.check(&["--pm", "/elsewhere/*"], &["last"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("no mapped file matches --pm"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("/pool\n"),
        "what was considered: {}",
        run.stderr
    );
    let lint = dir.brownout(&["lint", "brownout.out/trace"]);
    assert_eq!(lint.status, Some(3), "{}", lint.stderr);
    let lint = dir.brownout(&["lint", "brownout.out/trace", "--pm", "pool"]);
    assert_eq!(
        lint.status,
        Some(1),
        "the choice can be changed: {}",
        lint.stderr
    );
}

#[test]
fn a_program_that_cannot_be_run_leaves_nothing() {
    let dir = TestDir::new();
    let run = dir.brownout(&["check", "--", "./no-such-program"]);
    assert_eq!(run.status, Some(2));
    assert!(!dir.path("brownout.out").exists());
}

#[test]
fn directories_with_other_files_are_refused() {
    let dir = TestDir::new();
    let run = dir.check(&["--out", "."], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr
            .contains("contains files that brownout did not write"),
        "{}",
        run.stderr
    );
    assert!(!dir.path("pool").exists(), "the program was not even run");
    assert_eq!(dir.check(&["--out", "a/b"], &[]).status, Some(0));
    assert_eq!(
        dir.check(&["--out", "a/b"], &["last"]).status,
        Some(1),
        "again"
    );
}

#[test]
fn results_can_be_shown_again() {
    let dir = TestDir::new();
    dir.check(&[], &["last"]);
    let shown = dir.brownout(&["report", "brownout.out"]);
    assert_eq!(shown.status, Some(1), "as the check");
    assert!(
        shown.stdout.contains("bug[missing-flush]"),
        "{}",
        shown.stdout
    );
    let forms = [
        "report",
        "brownout.out",
        "--html",
        "h",
        "--sarif",
        "s",
        "--junit",
        "j",
    ];
    let written = dir.brownout(&forms);
    assert_eq!((written.status, written.stdout.as_str()), (Some(1), ""));
    assert_eq!(dir.read("s"), dir.read("brownout.out/report.sarif"));
    assert_eq!(dir.read("j"), dir.read("brownout.out/junit.xml"));
    assert_eq!(dir.read("h"), dir.read("brownout.out/report.html"));
    let none = dir.brownout(&["report", "."]);
    assert_eq!(none.status, Some(2));
    assert!(
        none.stderr
            .contains("is not a results directory of `brownout check`"),
        "{}",
        none.stderr
    );
}

#[test]
fn annotations_on_github() {
    let dir = TestDir::new();
    let mut command = dir.command(&["check", "--", "./counter", "pool", "last"]);
    command.env("GITHUB_ACTIONS", "true");
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("bug[missing-flush]"), "{stderr}");
    assert!(
        stderr.contains("\n::error file=counter.c,line="),
        "{stderr}"
    );
}

#[test]
fn rules_are_explained() {
    let dir = TestDir::new();
    let all = dir.brownout(&["explain"]);
    assert_eq!(all.status, Some(0));
    for line in all.stdout.lines() {
        let rule = line.split_whitespace().next().unwrap();
        let one = dir.brownout(&["explain", rule]);
        assert_eq!(one.status, Some(0));
        assert!(one.stdout.starts_with(&format!("{rule} (")));
        assert!(one.stdout.lines().count() > 5, "{}", one.stdout);
    }
    let typo = dir.brownout(&["explain", "missing-flsh"]);
    assert_eq!(typo.status, Some(2));
    assert!(
        typo.stderr.contains("did you mean `missing-f"),
        "{}",
        typo.stderr
    );
}

#[test]
fn under_msync_messages_speak_of_pages() {
    let dir = TestDir::new();
    let run = dir.check(&["--model", "msync"], &[]);
    let expected = "stored here in a page that is never synced";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    assert!(!run.stderr.contains("cache line"), "{}", run.stderr);
}

#[test]
fn the_verdict_does_not_depend_on_who_reads_the_findings() {
    let dir = TestDir::new();
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut lint = dir.command(&["lint", "brownout.out"]);
    let status = lint.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
