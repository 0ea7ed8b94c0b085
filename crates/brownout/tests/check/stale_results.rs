//! A run that fails before it has results leaves no earlier results that pass for its own.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::run_end::{assert_ends, run_file};
use crate::{Completed, TestDir};

#[test]
fn earlier_results_say_that_a_later_run_failed() {
    let dir = TestDir::new();
    dir.write("broken.toml", "out = 'brownout.out'\nmodle = 'adr'\n");
    dir.write("rules.toml", "[rules]\nmissing-flsh = 'off'\n");
    dir.write(
        "accepted.toml",
        "[[suppression]]\nrule = 'no-such-rule'\nreason = 'x'\n",
    );
    for (options, reason) in [
        (&["--suppressions", "no-such-file"][..], "no-such-file"),
        (&["--suppressions", "accepted.toml"], "no-such-rule"),
        (&["--baseline", "no-such-file"], "no-such-file"),
        (&["--config", "no-such.toml"], "no-such.toml"),
        (&["--config", "broken.toml"], "modle"),
        (&["--config", "rules.toml"], "missing-flsh"),
        (&["--recover", "./no-such-recovery"], "no-such-recovery"),
        (&["--recover", "true", "--expect-output", "none"], "none"),
        (&["--jobs", "2"], "--jobs: no effect"),
    ] {
        assert_eq!(dir.check(&[], &[]).status, Some(0));
        let run = dir.check(options, &[]);
        assert_ends(&dir, &run, 2, "error", reason);
        let reasons = run_file(&dir)["reasons"].to_string();
        assert!(reasons.contains("those of an earlier run"), "{reasons}");
    }
    assert_eq!(dir.check(&[], &[]).status, Some(0), "it can be used again");
    assert_eq!(run_file(&dir)["verdict"], "passed");
}

#[test]
fn every_command_that_writes_results_marks_them() {
    let dir = TestDir::new();
    let bad = ["--suppressions", "no-such-file"];
    for command in [
        &["lint", "brownout.out", "--out", "brownout.out"][..],
        &["crash", "brownout.out", "--recover", "true"],
        &["crash", "brownout.out/trace", "--recover", "true"],
        &["merge", "brownout.out"],
    ] {
        assert_eq!(dir.check(&[], &[]).status, Some(0));
        let run = dir.brownout(&[command, &bad].concat());
        assert_ends(&dir, &run, 2, "error", "no-such-file");
    }
    // Without --out, lint writes no results.
    assert_eq!(dir.check(&[], &[]).status, Some(0));
    assert_eq!(
        dir.brownout(&["lint", "brownout.out", bad[0], bad[1]])
            .status,
        Some(2)
    );
    assert_eq!(run_file(&dir)["verdict"], "passed");
}

#[test]
fn only_results_of_brownout_are_touched() {
    let dir = TestDir::new();
    fs::create_dir(dir.path("mine")).unwrap();
    dir.write("mine/junit.xml", "<testsuites/>");
    let options = ["--out", "mine", "--suppressions", "no-such-file"];
    assert_eq!(dir.check(&options, &[]).status, Some(2));
    assert_eq!(dir.read("mine/junit.xml"), "<testsuites/>");
    let options = ["--out", "new", "--suppressions", "no-such-file"];
    assert_eq!(dir.check(&options, &[]).status, Some(2));
    assert!(!dir.path("new").exists());
}

#[test]
fn rules_that_were_not_applied_have_not_passed() {
    let dir = TestDir::new();
    assert_eq!(dir.check(&[], &[]).status, Some(0));
    let crash = ["crash", "brownout.out/trace", "--recover", "cat pool"];
    let run = dir.brownout(&[&crash[..], &["--out", "crashes"]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let junit = dir.read("crashes/junit.xml");
    assert!(junit.contains("classname=\"recovery-failed\""), "{junit}");
    assert!(!junit.contains("missing-flush"), "{junit}");
    let results = dir.read("crashes/run.json");
    assert!(!results.contains("missing-flush"), "{results}");
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let path = results["files"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("/pool"), "{results}");

    // Where the same trace was linted before, both have passed.
    let run = dir.brownout(&crash);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("classname=\"recovery-failed\""), "{junit}");
    assert!(junit.contains("classname=\"missing-flush\""), "{junit}");
    assert!(
        run_file(&dir)["tested"]
            .to_string()
            .contains("events were linted")
    );
    let run = dir.brownout(&["lint", "brownout.out", "--out", "brownout.out"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run_file(&dir)["crash"]["complete"], true);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("classname=\"recovery-failed\""), "{junit}");
}

#[test]
fn killed_at_any_moment_nothing_passes_and_the_directory_can_be_used_again() {
    let dir = TestDir::new();
    for round in 0..24_u64 {
        let _ = fs::remove_dir_all(dir.path("brownout.out"));
        let has_earlier = round % 2 == 0;
        if has_earlier {
            assert_eq!(dir.check(&[], &["last"]).status, Some(1));
        }
        let mut check = dir.command(&["check", "-q", "--", "./counter", "pool"]);
        let mut child = check.stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(round * 3 / 2));
        child.kill().unwrap();
        let has_ended = child.wait().unwrap().code() == Some(0);
        let reported = dir.brownout(&["report", "brownout.out"]);
        match reported.status {
            Some(0) => assert!(has_ended, "{round}: {}", reported.stdout),
            Some(1) => assert!(has_earlier && reported.stdout.contains("missing-flush")),
            status => assert_eq!(status, Some(2), "{round}: {}", reported.stderr),
        }
        let again = dir.check(&[], &[]);
        assert_eq!(again.status, Some(0), "{round}: {}", again.stderr);
        let names = fs::read_dir(dir.path("brownout.out")).unwrap().flatten();
        let mut names = names.map(|entry| entry.file_name().into_string().unwrap());
        let left = names.find(|name| name.starts_with('.') || name.contains("unfinished"));
        assert_eq!(left, None, "{round}");
    }
}

#[test]
fn findings_are_shown_even_if_they_cannot_be_written() {
    let dir = TestDir::new();
    assert_eq!(dir.check(&[], &["last"]).status, Some(1));
    // No file can grow, as if the disk were full. A shell that ignores the signal lets writing fail.
    let brownout = env!("CARGO_BIN_EXE_brownout");
    let script =
        format!("trap '' XFSZ; ulimit -f 0; exec {brownout} lint brownout.out --out other");
    let run: Completed = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir.directory.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stdout.contains("missing-flush"), "{}", run.stdout);
    assert!(run.stderr.contains("cannot write"), "{}", run.stderr);
    assert!(!dir.path("other/junit.xml").exists());
}

#[test]
fn lint_does_not_turn_an_unfinished_crash_test_into_a_pass() {
    let dir = TestDir::new();
    let run = dir.check(&["--recover", "cat pool"], &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let whole = dir.read("brownout.out/run.json");
    let cut = whole.replace("\"complete\": true", "\"complete\": false");
    assert_ne!(whole, cut);
    dir.write("brownout.out/run.json", &cut);
    let run = dir.brownout(&["lint", "brownout.out", "--out", "brownout.out"]);
    assert_ends(
        &dir,
        &run,
        3,
        "nothing-tested",
        "crash testing was not finished",
    );
}
