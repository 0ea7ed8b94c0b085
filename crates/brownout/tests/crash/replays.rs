//! `replay`: the environment of the run, other results than before, and the debugger.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::{Completed, TestDir, findings};

const RECOVER: &str = "sh -c 'test \"$NEEDED\" = yes || exit 9; ./slots {pm} check'";

/// A check whose recovery needs a variable, and the id of its finding.
fn checked(dir: &TestDir) -> String {
    let program = ["--", "./slots", "pool", "put", "3", "early"];
    let arguments = [&["check", "--recover", RECOVER][..], &program].concat();
    let run: Completed = dir
        .command(&arguments)
        .env("NEEDED", "yes")
        .env("API_TOKEN", "hidden")
        .output()
        .unwrap()
        .into();
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let crash = dir
        .findings()
        .into_iter()
        .find(|finding| finding["rule"] == "recovery-failed");
    let id = crash.unwrap()["id"].as_str().unwrap().to_owned();
    // The command in the output can be copied.
    let command = format!("brownout replay brownout.out {id}");
    assert!(run.stderr.contains(&command), "{}", run.stderr);
    let last = run.stderr.lines().last().unwrap();
    assert!(last.contains("next: ") && last.contains(&command), "{last}");
    id
}

#[test]
fn replay_restores_the_environment_of_the_run() {
    let dir = TestDir::new();
    let id = checked(&dir);
    let again = dir.brownout(&["replay", "brownout.out", &id]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stdout.contains("slot 0 is damaged"),
        "{}",
        again.stdout
    );
    assert!(
        !again.stderr.contains("the result differs"),
        "{}",
        again.stderr
    );
    let elsewhere = dir
        .command(&["replay", "../brownout.out", &id])
        .current_dir({
            fs::create_dir(dir.path("sub")).unwrap();
            dir.path("sub")
        })
        .output()
        .unwrap();
    assert_eq!(
        elsewhere.status.code(),
        Some(1),
        "in the directory of the run"
    );
}

#[test]
fn secrets_are_not_kept_with_the_environment() {
    let dir = TestDir::new();
    checked(&dir);
    let path = dir.path("brownout.out/environment.json");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(kept["variables"]["NEEDED"], "yes");
    assert_eq!(kept["variables"].get("API_TOKEN"), None);
    let left_out = kept["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|name| name == "API_TOKEN"));
}

#[test]
fn a_recovery_that_returns_from_main_shows_no_frames_of_the_c_library() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let id = dir.findings()[0]["id"].as_str().unwrap().to_owned();
    let again = dir.brownout(&["replay", "brownout.out", &id]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stdout.contains("`main` had returned"),
        "{}",
        again.stdout
    );
    assert!(!again.stdout.contains("_start"), "{}", again.stdout);
}

#[test]
fn another_result_than_before_is_reported() {
    let dir = TestDir::new();
    let id = checked(&dir);
    for status in [0, 55] {
        fs::write(dir.path("slots"), format!("#!/bin/sh\nexit {status}\n")).unwrap();
        let again = dir.brownout(&["replay", "brownout.out", &id]);
        assert_eq!(
            again.status,
            Some(i32::from(status != 0)),
            "{}",
            again.stderr
        );
        let expected = "the result differs from the earlier one, which was \"recovery fails with exit status 1\"";
        assert!(again.stderr.contains(expected), "{}", again.stderr);
    }
}

#[test]
fn gdb_stops_where_a_failing_recovery_exits() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("left out: gdb is not installed");
        return;
    }
    let dir = TestDir::new();
    fs::write(
        dir.path("check.sh"),
        "#!/bin/sh\n./slots \"$1\" check || exit 1\n",
    )
    .unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path("check.sh"), executable).unwrap();
    for recover in ["./slots {pm} check", "./check.sh {pm}"] {
        let run = dir.check(recover, &[], &["3", "early"]);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let findings = dir.findings();
        let id = findings[0]["id"].as_str().unwrap();
        let mut command = dir.command(&["replay", "brownout.out", id, "--gdb"]);
        let shown: Completed = command.output().unwrap().into();
        if shown.stderr.contains("ptrace") {
            println!("left out: processes may not be traced here");
            return;
        }
        let text = format!("{}{}", shown.stdout, shown.stderr);
        assert!(text.contains("exit_group"), "{text}");
        // Of a script, gdb follows the program that it starts.
        let is_checked = |line: &str| {
            let starts = line.starts_with("Starting program") || line.contains("new program");
            starts && line.contains("/slots")
        };
        assert!(text.lines().any(is_checked), "{text}");
        let mut frames = text.lines().filter(|line| line.starts_with('#'));
        assert!(frames.next().is_some(), "no stack in:\n{text}");
    }
}

#[test]
fn an_unexpected_output_is_replayed() {
    let dir = TestDir::new();
    fs::write(
        dir.path("expected"),
        "an output that recovery prints only without a crash\n",
    )
    .unwrap();
    // The state after the run is the one with three complete slots.
    let recover =
        "sh -c 'if ./slots {pm} check >/dev/null; then cat expected; else echo other; fi'";
    let run = dir.check(recover, &["--expect-output", "expected"], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    let crash = findings
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed");
    let crash = crash.unwrap_or_else(|| panic!("{}", run.stderr));
    let id = crash["id"].as_str().unwrap();
    fs::write(dir.path("expected"), "changed\n").unwrap();
    let again = dir.brownout(&["replay", "brownout.out", id]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stdout.contains("does not print what is expected"),
        "{}",
        again.stdout
    );
    assert!(
        !again.stderr.contains("the result differs"),
        "{}",
        again.stderr
    );
    // The trace alone does not have the expected output, which is not hidden.
    let token = crash["replay"].as_str().unwrap();
    let bare = dir.brownout(&["replay", "brownout.out/trace", token]);
    assert!(
        bare.stderr
            .contains("the output of recovery is not compared"),
        "{}",
        bare.stderr
    );
}

#[test]
fn merged_results_have_what_replay_needs() {
    let dir = TestDir::new();
    dir.record(&[], &["3", "early"]);
    // Recovery fails only by what it prints, and depends on its environment.
    let recover = "sh -c './slots {pm} check >/dev/null && echo \"$NEEDED\" || echo no'";
    fs::write(dir.path("expected"), "yes\n").unwrap();
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let crash = ["crash", "trace", "--recover", recover];
        let options = ["--expect-output", "expected", "--shard", part, "--out"];
        let arguments = [&crash[..], &options, &[&out]].concat();
        let run: Completed = dir
            .command(&arguments)
            .env("NEEDED", "yes")
            .output()
            .unwrap()
            .into();
        assert!(matches!(run.status, Some(0 | 1)), "{}", run.stderr);
    }
    let merged = dir.brownout(&["merge", "part1", "part2", "--out", "merged"]);
    assert_eq!(merged.status, Some(1), "{}", merged.stderr);
    for name in ["expected.json", "environment.json"] {
        let file = dir.path("merged").join(name);
        assert_eq!(
            fs::read(&file).unwrap(),
            fs::read(dir.path("part1").join(name)).unwrap()
        );
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let found = findings(&dir.path("merged"));
    let crash = found.iter().find(|one| one["rule"] == "recovery-failed");
    let id = crash.unwrap_or_else(|| panic!("{found:?}"))["id"]
        .as_str()
        .unwrap();
    let again = dir.brownout(&["replay", "merged", id]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(!again.stderr.contains("not compared"), "{}", again.stderr);
    assert!(
        !again.stderr.contains("the result differs"),
        "{}",
        again.stderr
    );
}
