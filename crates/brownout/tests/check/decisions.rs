//! Suppressions and baselines.

use crate::{Place, bugs};

const SUPPRESSION: &str = "\
[[suppression]]
rule = 'missing-flush'
function = 'main'
reason = 'counted anew at start'
";

#[test]
fn suppressed_findings_do_not_fail() {
    let place = Place::new();
    place.write("accepted.toml", SUPPRESSION);
    let run = place.check(&["--suppressions", "accepted.toml"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("1 suppressed"), "{}", run.stderr);
    assert_eq!(bugs(&place.findings()), [] as [&str; 0]);
    let sarif = place.read("brownout.out/report.sarif");
    assert!(
        sarif.contains("counted anew at start"),
        "kept with its reason"
    );
    let shown = place.brownout(&["report", "brownout.out"]).stdout;
    assert!(shown.contains("1 suppressed"), "{shown}");
    assert!(!shown.contains("counted anew"), "{shown}");
    let shown = place.brownout(&["report", "brownout.out", "--suppressed"]);
    let line = "suppressed: counted anew at start";
    assert!(shown.stdout.contains("missing-flush"), "{}", shown.stdout);
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
}

#[test]
fn suppressions_of_valgrinds_form() {
    let place = Place::new();
    place.write(
        "known.supp",
        "{\n  fine\n  Brownout:missing-flush\n  fun:main\n}\n",
    );
    let run = place.check(&["--suppressions", "known.supp"], &["last", "fence"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bugs(&place.findings()), ["redundant-fence"]);
}

#[test]
fn a_suppression_that_is_not_used_is_told() {
    let place = Place::new();
    place.write("accepted.toml", SUPPRESSION);
    let run = place.check(&["--suppressions", "accepted.toml"], &[]);
    let told = "accepted.toml:1: this suppression was not used: counted anew at start";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_mistake_in_a_suppression_is_told_before_the_program_runs() {
    let place = Place::new();
    place.write("accepted.toml", "[[suppression]]\nrule = 'x'\n");
    let run = place.check(&["--suppressions", "accepted.toml"], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("line 1: missing field `reason`"),
        "{}",
        run.stderr
    );
    assert!(!place.path("pool").exists());
    let run = place.check(&["--suppressions", "missing.toml"], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("missing.toml cannot be read"),
        "{}",
        run.stderr
    );
}

#[test]
fn generated_suppressions_suppress() {
    let place = Place::new();
    place.check(&[], &["last", "fence"]);
    let generated = place.brownout(&["lint", "brownout.out/trace", "--gen-suppressions"]);
    assert_eq!(generated.status, Some(1));
    place.write("accepted.toml", &generated.stdout);
    let arguments = [
        "lint",
        "brownout.out/trace",
        "--suppressions",
        "accepted.toml",
    ];
    let run = place.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}\n{}", generated.stdout, run.stdout);
    assert!(!run.stderr.contains("was not used"), "{}", run.stderr);
}

#[test]
fn only_new_findings_fail_beside_a_baseline() {
    let place = Place::new();
    let run = place.check(&["--write-baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(1));
    let run = place.check(&["--baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("known from the baseline"),
        "{}",
        run.stderr
    );
    let run = place.check(&["--baseline", "known.json"], &["last", "fence"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bugs(&place.findings()), ["redundant-fence"]);
}

#[test]
fn a_baseline_outlives_lines_that_are_added_above() {
    let place = Place::new();
    place.check(&["--write-baseline", "known.json"], &["last"]);
    let moved = place
        .read("counter.c")
        .replace("int main(", "\n\n\nint main(");
    place.write("moved.c", &moved);
    let compiled = std::process::Command::new("cc")
        .args(["-O1", "-g", "-o", "counter", "-x", "c", "-", "-I."])
        .stdin(std::fs::File::open(place.path("moved.c")).unwrap())
        .current_dir(place.directory.path())
        .status();
    assert!(compiled.unwrap().success());
    let run = place.check(&["--baseline", "known.json"], &["last"]);
    // The name of the file counts, and it is another one here.
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    place.write("counter.c", &moved);
    let compiled = std::process::Command::new("cc")
        .args(["-O1", "-g", "-o", "counter", "counter.c"])
        .current_dir(place.directory.path())
        .status();
    assert!(compiled.unwrap().success());
    let run = place.check(&["--baseline", "known.json"], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn a_file_that_is_no_baseline() {
    let place = Place::new();
    place.write("known.json", "[]");
    let run = place.check(&["--baseline", "known.json"], &[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr
            .contains("the baseline known.json cannot be used"),
        "{}",
        run.stderr
    );
}
