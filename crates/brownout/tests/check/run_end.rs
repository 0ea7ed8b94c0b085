//! How a run ended, in every format: a run that tested too little never looks like one that passed.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Completed, TestDir, bugs, test_crashes};

/// Asserts that all results say that the run ended in this way, and that `report` exits in the same way.
fn assert_inconclusive(dir: &TestDir, code: i32, verdict: &str, reason: &str) {
    let run = run_file(dir);
    assert_eq!(run["verdict"], verdict, "{run}");
    assert!(run["reasons"].to_string().contains(reason), "{run}");
    let junit = dir.read("brownout.out/junit.xml");
    assert!(
        junit.contains("<error") && junit.contains("errors=\"1\""),
        "{junit}"
    );
    assert!(junit.contains(reason), "{junit}");
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let invocation = &sarif["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false, "{invocation}");
    let notification = &invocation["toolExecutionNotifications"][0];
    assert_eq!(notification["level"], "error", "{invocation}");
    let text = notification["message"]["text"].as_str().unwrap();
    assert!(text.contains(reason), "{text}");
    let html = dir.read("brownout.out/report.html");
    assert!(html.contains("Not a pass") && !html.contains("No findings."));
    let again = dir.brownout(&["report", "brownout.out"]);
    assert_eq!(again.status, Some(code), "{}", again.stderr);
    assert!(again.stderr.contains(reason), "{}", again.stderr);
    assert!(!again.stdout.contains("nothing found"), "{}", again.stdout);
}

pub fn run_file(dir: &TestDir) -> Value {
    serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap()
}

pub fn assert_ends(dir: &TestDir, run: &Completed, code: i32, verdict: &str, reason: &str) {
    assert_eq!(run.status, Some(code), "{}", run.stderr);
    assert!(run.stderr.contains(reason), "{}", run.stderr);
    assert!(!run.stderr.contains("nothing found"), "{}", run.stderr);
    assert_eq!(run_file(dir)["exit_code"], code);
    assert_inconclusive(dir, code, verdict, reason);
}

#[test]
fn conclusive_runs_have_their_exit_code_in_the_results() {
    let dir = TestDir::new();
    for (mistakes, code, verdict) in [(&[][..], 0, "passed"), (&["last"][..], 1, "findings")] {
        assert_eq!(dir.check(&[], mistakes).status, Some(code));
        let run = run_file(&dir);
        assert_eq!(run["verdict"], verdict);
        assert_eq!(run["exit_code"], code);
        assert!(
            run["tested"][0]
                .as_str()
                .unwrap()
                .contains("events were linted")
        );
        assert_eq!(dir.brownout(&["report", "brownout.out"]).status, Some(code));
        assert!(!dir.read("brownout.out/junit.xml").contains("<error"));
    }
}

#[test]
fn nothing_persistent() {
    let dir = TestDir::new();
    let run = dir.brownout(&["check", "--", "true"]);
    assert_ends(
        &dir,
        &run,
        3,
        "nothing-tested",
        "nothing persistent was seen",
    );
    let printed = dir.brownout(&["lint", "brownout.out/trace", "--format", "junit"]);
    assert_eq!(printed.status, Some(3));
    assert!(printed.stdout.contains("<error"), "{}", printed.stdout);
}

#[test]
fn a_target_that_fails() {
    let dir = TestDir::new();
    let run = dir.check(&["--recover", "true"], &["fail"]);
    assert_ends(&dir, &run, 4, "target-failed", "exited with status 7");
}

#[test]
fn bugs_do_not_hide_that_not_everything_was_tested() {
    let dir = TestDir::new();
    let recover = "sh -c 'cat {pm} && sleep 0.2'";
    let options = ["--recover", recover, "--time-limit", "50ms"];
    let run = dir.check(&[&options[..], &["--jobs", "1"]].concat(), &["last"]);
    assert_ends(&dir, &run, 1, "findings", "the time limit was reached");
    let junit = dir.read("brownout.out/junit.xml");
    for rule in ["recovery-failed", "recovery-crashed", "recovery-hung"] {
        let case = junit.split("<testcase").find(|case| case.contains(rule));
        assert!(case.unwrap().contains("<skipped"), "{junit}");
    }
    let failed = junit.split("<testcase").find(|c| c.contains("<failure"));
    assert!(failed.unwrap().contains("missing-flush"), "{junit}");
}

#[test]
fn a_recovery_that_fails_without_a_crash() {
    let dir = TestDir::new();
    let run = dir.check(&["--recover", "false"], &[]);
    assert_ends(&dir, &run, 4, "target-failed", "without any crash");
    let next = "next: make recovery pass on the files that the program leaves";
    assert!(run.stderr.contains(next), "{}", run.stderr);
    let run = dir.brownout(&["crash", "brownout.out/trace", "--recover", "false"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    assert_inconclusive(&dir, 4, "target-failed", "without any crash");
}

#[test]
fn an_error_in_crash_testing_keeps_the_findings_of_lint() {
    let dir = TestDir::new();
    let options = ["--recover", "true", "--op", "no_such_function"];
    let run = dir.check(&options, &["last"]);
    assert_ends(&dir, &run, 2, "error", "--op no_such_function");
    assert_ends(&dir, &run, 2, "error", "no crash was tested");
    let label = "brownout: error: --op no_such_function";
    assert!(run.stderr.contains(label), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
    dir.check(&[], &["last"]);
    let mut crash = vec!["crash", "brownout.out/trace"];
    crash.extend(options);
    let run = dir.brownout(&crash);
    assert_ends(&dir, &run, 2, "error", "--op no_such_function");
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
}

#[test]
fn a_program_that_does_not_start_replaces_earlier_results() {
    let dir = TestDir::new();
    assert_eq!(dir.check(&[], &[]).status, Some(0));
    let run = dir.brownout(&["check", "--", "./no-such-program"]);
    assert_ends(&dir, &run, 2, "error", "no-such-program");
}

/// A check whose recovery does not end while there is a file `slow`.
const SLOW_CHECK: [&str; 7] = [
    "check",
    "--recover",
    "sh -c 'test ! -e slow || sleep 60'",
    "--",
    "./counter",
    "pool",
    "last",
];

/// Starts the check and waits until it tests crashes.
fn start_slow_check(dir: &TestDir) -> Child {
    dir.write("slow", "");
    let mut command = dir.command(&SLOW_CHECK);
    let child = command
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let testing = || {
        let run = fs::read_to_string(dir.path("brownout.out/run.json"));
        run.is_ok_and(|run| run.contains("testing crashes"))
    };
    while !testing() {
        assert!(Instant::now() < deadline, "crash testing begins");
        sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn two_signals_leave_the_findings_of_lint() {
    let dir = TestDir::new();
    let mut child = start_slow_check(&dir);
    let pid = child.id().to_string();
    // As `timeout -k` does it: to the process, and again if that does not help.
    for signal in ["-TERM", "-TERM", "-KILL"] {
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .stderr(Stdio::null())
            .status();
        // It may have ended already, after which there is no such process until it is waited for.
        sent.unwrap();
    }
    child.wait().unwrap();
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
    let run = run_file(&dir);
    assert_ne!(run["verdict"], "passed", "{run}");
    assert_ne!(run["exit_code"], 0, "{run}");
    let again = dir.brownout(&["report", "brownout.out"]);
    assert!(!matches!(again.status, None | Some(0)), "{}", again.stderr);
    assert!(again.stdout.contains("missing-flush"), "{}", again.stdout);
}

#[test]
fn a_killed_check_keeps_the_findings_of_lint_and_can_be_resumed() {
    let dir = TestDir::new();
    let mut child = start_slow_check(&dir);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_inconclusive(&dir, 2, "unfinished", "testing crashes");
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
    assert!(run_file(&dir)["exit_code"].is_null());

    let run = dir.brownout(&["lint", "brownout.out", "--out", "brownout.out"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let reasons = run_file(&dir)["reasons"].to_string();
    assert!(reasons.contains("testing crashes"), "{reasons}");

    fs::remove_file(dir.path("slow")).unwrap();
    fs::remove_file(dir.path("pool")).unwrap();
    let mut resumed = vec!["check", "--resume"];
    resumed.extend(&SLOW_CHECK[1..]);
    let run = dir.brownout(&resumed);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(run.stdout, "", "the program did not run again");
    assert!(!dir.path("pool").exists());
    assert_eq!(run_file(&dir)["verdict"], "findings");
    resumed.push("fence");
    let other = dir.brownout(&resumed);
    assert_eq!(other.status, Some(2), "another command: {}", other.stderr);
}

/// Makes an executable that cannot be recorded, and says why it cannot.
fn unrecordable_programs(dir: &TestDir) -> Vec<(&'static str, &'static str)> {
    let make = |script: &str| {
        let made = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(dir.directory.path())
            .stderr(Stdio::null())
            .status();
        made.unwrap().success()
    };
    assert!(make("cp /bin/true own && chmod u+s own"));
    let mut header = vec![0; 64];
    header[..20].copy_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0");
    fs::write(dir.path("old"), header).unwrap();
    assert!(make("chmod +x old"));
    let mut programs = vec![("./own", "it is set-user-ID"), ("./old", "32-bit program")];
    // Only root may give capabilities, and only where there is the tool.
    if make("cp /bin/true capable && setcap cap_net_raw+ep capable") {
        programs.push(("./capable", "it has file capabilities"));
    }
    programs
}

#[test]
fn a_child_that_cannot_be_recorded() {
    let dir = TestDir::new();
    for (program, why) in unrecordable_programs(&dir) {
        let check = |mistake: &str| {
            let script = format!("./counter pool {mistake}; {program} 2>/dev/null; exit 0");
            dir.brownout(&["check", "--", "sh", "-c", &script])
        };
        let run = check("");
        assert_ends(&dir, &run, 3, "nothing-tested", why);
        let results = run_file(&dir);
        let reasons = results["reasons"].to_string();
        assert!(
            reasons.contains(&format!("ran {program}, which cannot")),
            "{reasons}"
        );
        let kinds = results["reason_kinds"].to_string();
        assert!(kinds.contains("unrecorded-program"), "{kinds}");
        assert_eq!(run.stderr.matches(why).count(), 1, "{}", run.stderr);
        let last = run.stderr.lines().last().unwrap();
        assert!(last.contains("next: check again with a build"), "{last}");
        let stat = dir.brownout(&["stat", "brownout.out/trace"]);
        assert!(stat.stdout.contains(why), "{}", stat.stdout);
        for again in [
            &["lint", "brownout.out/trace"][..],
            &test_crashes("brownout.out/trace", "crashes"),
        ] {
            let run = dir.brownout(again);
            assert_eq!(run.status, Some(3), "{again:?}: {}", run.stderr);
            assert!(run.stderr.contains(why), "{again:?}: {}", run.stderr);
        }
        assert!(dir.read("crashes/run.json").contains("nothing-tested"));
        assert!(dir.read("crashes/junit.xml").contains("<error"));
        let run = check("last");
        assert_eq!(run.status, Some(1), "bugs are still bugs: {}", run.stderr);
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
}

#[test]
fn a_run_that_failed_does_not_claim_that_nothing_was_found() {
    let dir = TestDir::new();
    for (how, words) in [
        ("fail", "exited with status 7"),
        ("crash", "was killed by SIGABRT"),
    ] {
        let run = dir.check(&[], &[how]);
        assert_eq!(run.status, Some(4), "{}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
        assert!(!run.stderr.contains("nothing found"), "{}", run.stderr);
    }
}

#[test]
fn the_last_line_is_what_to_do_next() {
    let dir = TestDir::new();
    for (mistakes, step) in [
        (
            &[][..],
            "next: test crashes with the program's own recovery: brownout crash 'my results' --recover CMD",
        ),
        (
            &["last"],
            "next: read the findings with their source lines: 'my results'/report.html; then test crashes: brownout crash 'my results' --recover CMD",
        ),
        (
            &["scratch"],
            "next: find out which warnings matter, with the program's own recovery: brownout crash 'my results' --recover CMD",
        ),
        // What only costs time can wait.
        (
            &["fence"],
            "next: test crashes with the program's own recovery: brownout crash 'my results' --recover CMD",
        ),
    ] {
        let run = dir.check(&["--out", "my results"], mistakes);
        let last = run.stderr.lines().last().unwrap();
        assert!(last.ends_with(step), "{}", run.stderr);
    }
    // What keeps the run from being conclusive comes before warnings.
    let run = dir.check(&["--recover", "true"], &["scratch"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    let step = "next: test crashes with a recovery that reads the persistent files: brownout crash brownout.out --recover CMD";
    let last = run.stderr.lines().last().unwrap();
    assert!(last.ends_with(step), "{}", run.stderr);
}

#[test]
fn the_model_for_a_program_that_syncs_and_never_flushes_is_named() {
    let dir = TestDir::compiled(&["-g", "-DSYNC=MS_SYNC"]);
    let hint = "use `--model msync` to check it";
    let run = dir.check(&[], &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run.stderr.matches(hint).count(), 1, "{}", run.stderr);
    let step = "brownout crash brownout.out --model msync --recover CMD";
    let last = run.stderr.lines().last().unwrap();
    assert!(last.ends_with(step), "{}", run.stderr);
    let run = dir.check(&["--recover", "cat {pm}"], &[]);
    let step = "brownout crash brownout.out --model msync --recover 'cat {pm}'";
    let last = run.stderr.lines().last().unwrap();
    assert!(last.ends_with(step), "{}", run.stderr);
    let run = dir.check(&["--model", "msync"], &[]);
    assert!(!run.stderr.contains(hint), "{}", run.stderr);
    let flushing = TestDir::new().check(&[], &[]);
    assert!(!flushing.stderr.contains(hint), "{}", flushing.stderr);
}

#[test]
fn an_asynchronous_sync_is_named_as_what_does_not_help() {
    let dir = TestDir::compiled(&["-g", "-DSYNC=MS_ASYNC"]);
    let reason = "msync with MS_ASYNC, which is called for it, does not wait for the storage";
    for model in ["adr", "msync"] {
        let run = dir.check(&["--model", model], &[]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
        let findings = dir.findings();
        assert_eq!(findings[0]["rule"], "transient-data", "{model}");
        let message = findings[0]["message"].as_str().unwrap();
        assert!(message.ends_with(reason), "{message}");
    }
}

#[test]
fn a_sync_that_fails_is_named_as_the_reason_in_all_results() {
    // msync refuses these flags together.
    let dir = TestDir::compiled(&["-g", "-DSYNC=(MS_SYNC|MS_ASYNC)"]);
    let run = dir.check(&[], &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let warning = "msync of a mapped file failed with EINVAL: its data was not made durable";
    assert_eq!(run.stderr.matches(warning).count(), 1, "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(findings[0]["rule"], "missing-flush", "{findings:?}");
    let reason = "msync, which is called for it, fails with EINVAL";
    let message = findings[0]["message"].as_str().unwrap();
    assert!(message.ends_with(reason), "{message}");
    let call = &findings[0]["stacks"][1];
    assert_eq!(call["role"], "failed call", "{call}");
    for artefact in ["junit.xml", "report.sarif", "report.html"] {
        let text = dir.read(&format!("brownout.out/{artefact}"));
        assert!(text.contains(reason), "{artefact}: {text}");
    }
    let run: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
    assert_eq!(run["exit_code"], 1, "{run}");
    let recorded = dir.brownout(&["record", "-o", "trace", "--", "./counter", "other"]);
    assert!(recorded.stderr.contains(warning), "{}", recorded.stderr);
    let dumped = dir.brownout(&["dump", "brownout.out"]);
    assert!(
        dumped.stdout.contains("failed with EINVAL"),
        "{}",
        dumped.stdout
    );
}
