//! Suppressions and baselines.

use crate::run_end::run_file;
use crate::{TestDir, bugs, rules_of};

const SUPPRESSION: &str = "\
[[suppression]]
rule = 'missing-flush'
function = 'main'
reason = 'counted anew at start'
";

#[test]
fn suppressed_findings_do_not_fail() {
    let dir = TestDir::new();
    dir.write("accepted.toml", SUPPRESSION);
    let run = dir.check(&["--suppressions", "accepted.toml"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("1 suppressed"), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), [] as [&str; 0]);
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(
        sarif.contains("counted anew at start"),
        "kept with its reason"
    );
    let shown = dir.brownout(&["report", "brownout.out"]).stdout;
    assert!(shown.contains("1 suppressed"), "{shown}");
    assert!(!shown.contains("counted anew"), "{shown}");
    let shown = dir.brownout(&["report", "brownout.out", "--suppressed"]);
    let line = "suppressed: counted anew at start";
    assert!(shown.stdout.contains("missing-flush"), "{}", shown.stdout);
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
}

#[test]
fn suppressions_in_valgrinds_format() {
    let dir = TestDir::new();
    dir.write(
        "known.supp",
        "{\n  fine\n  Brownout:missing-flush\n  fun:main\n}\n",
    );
    let run = dir.check(&["--suppressions", "known.supp"], &["last", "fence"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        rules_of(&dir.findings(), "performance"),
        ["redundant-fence"]
    );
}

#[test]
fn an_unused_suppression_is_reported() {
    let dir = TestDir::new();
    dir.write("accepted.toml", SUPPRESSION);
    let run = dir.check(&["--suppressions", "accepted.toml"], &[]);
    let expected = "accepted.toml:1: unused suppression: counted anew at start";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
}

#[test]
fn a_mistake_in_a_suppression_is_reported_before_the_program_runs() {
    let dir = TestDir::new();
    dir.write("accepted.toml", "[[suppression]]\nrule = 'x'\n");
    let run = dir.check(&["--suppressions", "accepted.toml"], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("line 1: missing field `reason`"),
        "{}",
        run.stderr
    );
    assert!(!dir.path("pool").exists());
    let run = dir.check(&["--suppressions", "missing.toml"], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("missing.toml`: No such file"),
        "{}",
        run.stderr
    );
}

#[test]
fn generated_suppressions_suppress() {
    let dir = TestDir::new();
    dir.check(&[], &["last", "fence"]);
    let generated = dir.brownout(&["lint", "brownout.out/trace", "--gen-suppressions"]);
    assert_eq!(generated.status, Some(1));
    dir.write("accepted.toml", &generated.stdout);
    let arguments = [
        "lint",
        "brownout.out/trace",
        "--suppressions",
        "accepted.toml",
    ];
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}\n{}", generated.stdout, run.stdout);
    assert!(!run.stderr.contains("unused suppression"), "{}", run.stderr);
}

#[test]
fn with_a_baseline_only_new_findings_fail() {
    let dir = TestDir::new();
    let run = dir.check(&["--write-baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(1));
    let run = dir.check(&["--baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("known from the baseline"),
        "{}",
        run.stderr
    );
    let again = dir.brownout(&["report", "brownout.out"]);
    let count = "1 known from the baseline";
    assert!(again.stdout.contains(count), "{}", again.stdout);
    assert_eq!(run_file(&dir)["known"], 1);
    let options = ["--baseline", "known.json", "--fail-on", "performance"];
    let run = dir.check(&options, &["last", "fence"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), [] as [&str; 0]);
    assert_eq!(
        rules_of(&dir.findings(), "performance"),
        ["redundant-fence"]
    );
}

#[test]
fn findings_are_printed_even_if_the_baseline_cannot_be_written() {
    let dir = TestDir::new();
    let run = dir.check(&["--write-baseline", "no/such/known.json"], &["last"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("bug[missing-flush]"), "{}", run.stderr);
    assert!(run.stderr.contains("known.json"), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
    let results = run_file(&dir);
    assert_eq!(results["verdict"], "error", "{results}");
    assert_eq!(results["exit_code"], 2, "{results}");
}

#[test]
fn a_baseline_outlives_lines_that_are_added_above() {
    let dir = TestDir::new();
    dir.check(&["--write-baseline", "known.json"], &["last"]);
    let moved = dir
        .read("counter.c")
        .replace("int main(", "\n\n\nint main(");
    dir.write("moved.c", &moved);
    let compiled = std::process::Command::new("cc")
        .args(["-O1", "-g", "-o", "counter", "-x", "c", "-", "-I."])
        .stdin(std::fs::File::open(dir.path("moved.c")).unwrap())
        .current_dir(dir.directory.path())
        .status();
    assert!(compiled.unwrap().success());
    let run = dir.check(&["--baseline", "known.json"], &["last"]);
    // The fingerprint includes the file name, which differs here.
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    dir.write("counter.c", &moved);
    dir.compile_again();
    let run = dir.check(&["--baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn a_new_bug_above_a_known_one_is_new() {
    let dir = TestDir::new();
    dir.check(&["--write-baseline", "known.json"], &["last"]);
    let known = dir.findings()[0]["id"].clone();
    let source = dir.read("counter.c");
    let loop_start = "\tfor (int i = 2; i < argc; i++) {\n";
    assert!(source.contains(loop_start));
    let new = format!("{loop_start}\t\tcounter->value = 98;\n");
    dir.write("counter.c", &source.replace(loop_start, &new));
    dir.compile_again();
    let run = dir.check(&["--baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(bugs(&findings), ["missing-flush"]);
    let line = findings[0]["stacks"][0]["frames"][0]["line"].as_u64();
    let expected = dir.read("counter.c");
    let expected = expected.lines().position(|text| text.contains("= 98"));
    assert_eq!(
        line,
        expected.map(|index| index as u64 + 1),
        "{}",
        run.stderr
    );
    let sarif = dir.read("brownout.out/report.sarif");
    let sarif: serde_json::Value = serde_json::from_str(&sarif).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let state = |id: &serde_json::Value| {
        let result = results
            .iter()
            .find(|result| result["partialFingerprints"]["brownoutFinding/v1"] == *id);
        result.map(|result| result["baselineState"].clone())
    };
    assert_eq!(state(&known), Some("unchanged".into()));
    assert_eq!(state(&findings[0]["id"]), Some("new".into()));
}

#[test]
fn a_file_that_is_not_a_baseline_is_refused() {
    let dir = TestDir::new();
    dir.write("known.json", "[]");
    let run = dir.check(&["--baseline", "known.json"], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("cannot use baseline `known.json`"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_misspelt_rule_in_a_suppression_is_reported_with_the_nearest_one() {
    let dir = TestDir::new();
    for (name, text, line) in [
        (
            "accepted.toml",
            "\n[[suppression]]\nrule = 'mising-flush'\nreason = 'r'\n",
            2,
        ),
        ("accepted.supp", "{\n r\n Brownout:mising-flush\n}\n", 1),
    ] {
        dir.write(name, text);
        let run = dir.check(&["--suppressions", name], &[]);
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        assert_eq!(run.stdout, "", "the program has not run");
        let expected =
            format!("`{name}`, line {line}: no rule `mising-flush`; did you mean `missing-flush`?");
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    }
}

#[test]
fn a_generated_suppression_hides_its_finding_and_no_other() {
    let dir = TestDir::new();
    let run = dir.check(&["--gen-suppressions"], &["last"]);
    let text = run.stdout.replace("counted\n", "");
    assert!(text.contains("source = \"counter->steps = 99;"), "{text}");
    dir.write("accepted.toml", &text);
    let run = dir.check(&["--suppressions", "accepted.toml"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    // The same mistake in another line of the same function.
    let source = dir.read("counter.c").replace("= 99;", "= 98;");
    dir.write("counter.c", &source);
    dir.compile_again();
    let run = dir.check(&["--suppressions", "accepted.toml"], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
}
