//! Severities, `--fail-on`, `--pedantic` and `[rules]`, in every artefact of a check.

use serde_json::Value;

use crate::{TestDir, bugs, rules_of};

impl TestDir {
    fn run_file(&self) -> Value {
        serde_json::from_str(&self.read("brownout.out/run.json")).unwrap()
    }

    /// The SARIF levels of the results of a rule.
    fn sarif_levels(&self, rule: &str) -> Vec<String> {
        let sarif: Value = serde_json::from_str(&self.read("brownout.out/report.sarif")).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        results
            .iter()
            .filter(|result| result["ruleId"] == rule)
            .map(|result| result["level"].as_str().unwrap().to_owned())
            .collect()
    }

    fn junit_failures(&self, count: usize) -> bool {
        let junit = self.read("brownout.out/junit.xml");
        junit.contains(&format!(" failures=\"{count}\""))
    }
}

#[test]
fn a_redundant_fence_is_a_performance_finding_and_does_not_fail() {
    let dir = TestDir::new();
    let run = dir.check(&[], &["fence"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        rules_of(&dir.findings(), "performance"),
        ["redundant-fence"]
    );
    assert!(
        run.stderr.contains("no bugs, 1 performance finding, "),
        "{}",
        run.stderr
    );
    let lines = run.stderr.lines();
    let shown: Vec<&str> = lines
        .filter(|line| line.contains("redundant-fence]"))
        .collect();
    assert_eq!(shown.len(), 1, "one line, no stack: {}", run.stderr);
    assert!(!run.stderr.contains("_mm_sfence"), "{}", run.stderr);
    assert_eq!(dir.sarif_levels("redundant-fence"), ["note"]);
    assert!(dir.junit_failures(0));
    assert_eq!(dir.run_file()["fail_on"], "bug");
    assert_eq!(dir.run_file()["rules"]["redundant-fence"], "performance");
    let html = dir.read("brownout.out/report.html");
    assert!(html.contains("name=\"severity\" value=\"performance\""));

    let run = dir.check(&["--verbose"], &["fence"]);
    assert!(run.stderr.contains("_mm_sfence"), "{}", run.stderr);
    let github = dir.brownout(&["lint", "brownout.out/trace", "--format", "github"]);
    assert!(
        github.stdout.contains("::notice file=counter.c"),
        "{}",
        github.stdout
    );
}

#[test]
fn fail_on_decides_exit_code_and_junit() {
    let dir = TestDir::new();
    for (fail_on, mistakes, status) in [
        ("bug", &["fence"][..], 0),
        ("performance", &["fence"], 1),
        ("warning", &["fence"], 1),
        ("bug", &["last"], 1),
        ("performance", &["last"], 1),
        ("never", &["last"], 0),
    ] {
        let run = dir.check(&["--fail-on", fail_on], mistakes);
        assert_eq!(
            run.status,
            Some(status),
            "{fail_on} {mistakes:?} {}",
            run.stderr
        );
        assert_eq!(dir.junit_failures(0), status == 0, "{fail_on} {mistakes:?}");
        assert_eq!(dir.run_file()["fail_on"], fail_on);
        let lint = dir.brownout(&["lint", "brownout.out/trace", "--fail-on", fail_on]);
        assert_eq!(lint.status, Some(status), "{fail_on} {mistakes:?}");
        dir.brownout(&["report", "brownout.out", "--junit", "again.xml"]);
        assert_eq!(dir.read("again.xml"), dir.read("brownout.out/junit.xml"));
    }
    let run = dir.check(&["--fail-on", "error"], &[]);
    assert_eq!(run.status, Some(2));
}

#[test]
fn rules_have_levels_in_the_configuration() {
    let dir = TestDir::new();
    dir.write(
        "brownout.toml",
        "[rules]\nmissing-flush = 'off'\nredundant-fence = 'bug'\n",
    );
    let run = dir.check(&[], &["last", "fence"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), ["redundant-fence"]);
    assert!(
        run.stderr.contains("bug[redundant-fence]: "),
        "{}",
        run.stderr
    );
    assert_eq!(dir.sarif_levels("redundant-fence"), ["error"]);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(
        !junit.contains("missing-flush"),
        "a rule that is off does not pass: {junit}"
    );
    assert_eq!(dir.run_file()["rules"].get("missing-flush"), None);
    dir.brownout(&["report", "brownout.out", "--junit", "again.xml"]);
    assert_eq!(dir.read("again.xml"), junit);

    dir.write("brownout.toml", "[rules]\nmissing-flush = 'warning'\n");
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(dir.sarif_levels("missing-flush"), ["warning"]);

    dir.write("brownout.toml", "[rules]\nmising-flush = 'off'\n");
    let run = dir.check(&[], &[]);
    assert_eq!(run.status, Some(2));
    let expected = "line 2: no rule `mising-flush`; did you mean `missing-flush`?";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
}

#[test]
fn pedantic_rules_are_off_by_default() {
    let dir = TestDir::with("check/overwrite.c", &["-g"]);
    let check = |options: &[&str]| {
        let mut arguments = vec!["check"];
        arguments.extend(options);
        arguments.extend(["--", "./overwrite", "pool"]);
        let run = dir.brownout(&arguments);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let found = dir.findings();
        found
            .iter()
            .any(|finding| finding["rule"] == "dirty-overwrite")
    };
    assert!(!check(&[]));
    assert!(
        !dir.read("brownout.out/junit.xml")
            .contains("dirty-overwrite")
    );
    assert!(check(&["--pedantic"]));
    dir.write("brownout.toml", "[rules]\ndirty-overwrite = 'warning'\n");
    assert!(check(&[]));
    dir.write("brownout.toml", "pedantic = true\n");
    assert!(check(&[]));
    let explained = dir.brownout(&["explain", "dirty-overwrite"]).stdout;
    assert!(explained.contains("This rule is pedantic"), "{explained}");
}

#[test]
fn turning_a_rule_off_shows_the_findings_that_its_own_stood_for() {
    let dir = TestDir::with("check/early_pointer.c", &["-g"]);
    let check = ["check", "--", "./early_pointer", "pool"];
    let run = dir.brownout(&check);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), [""; 0]);
    assert_eq!(rules_of(&dir.findings(), "warning"), ["unpersisted-target"]);

    dir.write("brownout.toml", "[rules]\nunpersisted-target = \"off\"\n");
    let run = dir.brownout(&check);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(bugs(&findings), [""; 0]);
    assert!(
        rules_of(&findings, "warning").contains(&"delayed-persist"),
        "{findings:?}"
    );
}
