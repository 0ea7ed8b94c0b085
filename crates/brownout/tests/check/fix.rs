//! `brownout fix` as users see it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::{TestDir, bugs};

/// How the tests' program is built.
const BUILD: &str = "cc -O1 -g -Wall -o counter counter.c";

/// What is said where the program cannot be run again because users cannot create namespaces.
const NO_NAMESPACES: &str = "does not let users create namespaces";

/// A directory with results that have a `missing-flush`.
fn checked() -> TestDir {
    let dir = TestDir::new();
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    dir
}

#[test]
fn a_patch_is_printed_and_the_sources_stay_as_they_are() {
    let dir = checked();
    let before = dir.read("counter.c");
    let run = dir.brownout(&["fix", "brownout.out", "--patch", "fix.diff"]);
    let has_namespaces = !run.stdout.contains(NO_NAMESPACES);
    let status = i32::from(!has_namespaces);
    assert_eq!(run.status, Some(status), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("1 of 1 finding repaired"),
        "{}",
        run.stdout
    );
    let patch = dir.read("fix.diff");
    assert!(run.stdout.ends_with(&patch), "{}", run.stdout);
    assert!(
        patch.contains("-\t\tif (strcmp(argv[i], \"last\") == 0)\n"),
        "{patch}"
    );
    assert!(
        patch.contains("+\t\tif (strcmp(argv[i], \"last\") == 0) {\n"),
        "{patch}"
    );
    assert!(
        patch.contains("+\t\t\tFLUSH(&counter->steps);\n+\t\t\t_mm_sfence();\n+\t\t}\n"),
        "{patch}"
    );
    assert_eq!(dir.read("counter.c"), before);
    let finding = &dir.findings()[0];
    let proof = if has_namespaces { "running" } else { "trace" };
    assert_eq!(finding["fix"]["proof"], proof);
    assert_eq!(finding["fix"]["diff"], patch);
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let fixes = &sarif["runs"][0]["results"][0]["fixes"];
    assert!(
        fixes[0]["artifactChanges"][0]["replacements"].is_array(),
        "{fixes}"
    );
}

#[test]
fn an_applied_patch_repairs_the_program() {
    let dir = checked();
    let run = dir.brownout(&["fix", "brownout.out", "--apply"]);
    assert!(
        run.stderr.contains("changed "),
        "{}{}",
        run.stdout,
        run.stderr
    );
    dir.compile_again();
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), [""; 0]);
}

#[test]
fn a_program_that_cannot_be_run_again_is_repaired_by_the_trace_alone() {
    let dir = checked();
    let mut permissions = fs::metadata(dir.path("counter")).unwrap().permissions();
    permissions.set_mode(0o644);
    fs::set_permissions(dir.path("counter"), permissions).unwrap();
    let run = dir.brownout(&["fix", "brownout.out"]);
    assert_eq!(run.status, Some(1), "{}{}", run.stdout, run.stderr);
    let said = "as far as the trace shows; the edited source was not built; the program was not run with it";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    assert_eq!(dir.findings()[0]["fix"]["proof"], "trace");
}

#[test]
fn running_the_program_again_changes_no_file() {
    let dir = checked();
    fs::write(dir.path("pool"), "mine").unwrap();
    let run = dir.brownout(&["fix", "brownout.out", "--format", "json"]);
    if run.stdout.contains(NO_NAMESPACES) {
        return;
    }
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    let first: Value = serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["proof"], "running");
    assert_eq!(dir.read("pool"), "mine");
}

#[test]
fn only_the_rebuilt_program_proves_a_repair() {
    let dir = checked();
    let before = [
        fs::read(dir.path("counter")).unwrap(),
        fs::read(dir.path("pool")).unwrap(),
    ];
    let run = dir.brownout(&["fix", "brownout.out", "--build", BUILD]);
    if run.stderr.contains("cannot create a private view") {
        assert_eq!(run.status, Some(2));
        return;
    }
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout
            .contains("proven: the rebuilt program does not show it"),
        "{}",
        run.stdout
    );
    assert_eq!(dir.findings()[0]["fix"]["proof"], "rebuilt");
    let after = [
        fs::read(dir.path("counter")).unwrap(),
        fs::read(dir.path("pool")).unwrap(),
    ];
    assert!(before == after, "the build has changed files");
}

#[test]
fn a_rebuilt_program_that_still_shows_the_finding_is_not_proven() {
    let dir = checked();
    fs::copy(dir.path("counter.c"), dir.path("as-before.c")).unwrap();
    let build = format!("cp as-before.c counter.c && {BUILD}");
    let run = dir.brownout(&["fix", "brownout.out", "--build", &build]);
    if run.stderr.contains("cannot create a private view") {
        return;
    }
    assert_eq!(run.status, Some(1), "{}{}", run.stdout, run.stderr);
    let still = "the rebuilt program still shows it";
    assert!(run.stdout.contains(still), "{}", run.stdout);
}

#[test]
fn a_build_that_fails_proves_nothing() {
    let dir = checked();
    let run = dir.brownout(&[
        "fix",
        "brownout.out",
        "--apply",
        "--build",
        "echo no luck; false",
    ]);
    if run.stderr.contains("cannot create a private view") {
        return;
    }
    assert_eq!(run.status, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stderr.contains("could not be built\nno luck"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("the sources were not changed"),
        "{}",
        run.stderr
    );
    assert!(
        !dir.read("counter.c")
            .contains("FLUSH(&counter->steps);\n\t\t}")
    );
    assert_eq!(dir.findings()[0]["fix"], Value::Null);
}

#[test]
fn a_source_that_is_newer_than_the_program_is_refused() {
    let dir = checked();
    let source = fs::File::options().append(true).open(dir.path("counter.c"));
    let later = SystemTime::now() + Duration::from_secs(60);
    source.unwrap().set_modified(later).unwrap();
    let run = dir.brownout(&["fix", "brownout.out"]);
    assert_eq!(run.status, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("it is newer than the program"),
        "{}",
        run.stdout
    );
}

#[test]
fn other_findings_are_refused_with_a_reason_unless_they_are_named() {
    let dir = TestDir::new();
    dir.check(&[], &["scratch"]);
    let run = dir.brownout(&["fix", "brownout.out"]);
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("brownout fix DIR transient-data"),
        "{}",
        run.stdout
    );
    let run = dir.brownout(&["fix", "brownout.out", "transient-data", "--format", "json"]);
    let first: Value = serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["repaired"], true);
    if !run.stdout.contains(NO_NAMESPACES) {
        assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
        assert_eq!(first["proof"], "running");
    }
    let code = first["code"][0].as_str().unwrap();
    assert_eq!(code, "FLUSH(&counter->scratch);");
}

#[test]
fn a_finding_that_is_not_there_is_an_error() {
    let dir = checked();
    let run = dir.brownout(&["fix", "brownout.out", "ffffffff"]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("does not identify one finding"),
        "{}",
        run.stderr
    );
}

#[test]
fn every_patch_for_the_findings_of_the_demo_applies_builds_and_is_proven() {
    let dir = TestDir::new();
    dir.brownout(&["demo", "--keep", "demo"]);
    let build = "cd demo && cc -g -O2 -Wall -Wextra -Werror -o kvlog kvlog.c";
    let results = "demo/brownout.out";
    let run = dir.brownout(&["fix", results, "--build", build, "--apply"]);
    if run.stderr.contains("cannot create a private view") {
        return;
    }
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    let order = "flushes and fences cannot change the order of stores";
    assert!(run.stdout.contains(order), "{}", run.stdout);
    let added = "+\tflush(&store->entries, sizeof(store->entries));\n";
    assert!(run.stdout.contains(added), "{}", run.stdout);
    let findings = crate::test_dir::findings(&dir.path(results));
    let proofs = findings.iter().map(|finding| &finding["fix"]["proof"]);
    let proofs: Vec<&Value> = proofs.filter(|proof| !proof.is_null()).collect();
    assert!(!proofs.is_empty());
    assert!(proofs.iter().all(|proof| *proof == "rebuilt"), "{proofs:?}");
    let compiled = Command::new("sh")
        .args(["-c", build])
        .current_dir(dir.path("."))
        .status();
    assert!(compiled.unwrap().success());
    let check = ["check", "--", "demo/kvlog", "demo/new-store", "put", "50"];
    let run = dir.brownout(&check);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), [""; 0]);
}
