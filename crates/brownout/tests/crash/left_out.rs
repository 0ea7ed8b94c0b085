//! What crash testing leaves out: every result says so, and nothing that was left out makes a run pass.

use std::fs;

use serde_json::Value;

use crate::{Completed, TestDir, run_file};

/// A program with a log beside its pool, in a directory of their own.
fn wal() -> TestDir {
    let dir = TestDir::with("crash/wal.c", &["-g"]);
    fs::create_dir(dir.path("d")).unwrap();
    dir
}

fn check(dir: &TestDir, recover: &str, options: &[&str]) -> Completed {
    let mut arguments = vec!["check", "--recover", recover];
    arguments.extend(options);
    arguments.extend(["--", "./wal", "d", "put", "3"]);
    dir.brownout(&arguments)
}

/// The names of the files that are left out.
fn files(run: &Value) -> Vec<&str> {
    let files = run["left_out"]["files"].as_array().unwrap().iter();
    files
        .map(|file| file.as_str().unwrap().rsplit('/').next().unwrap())
        .collect()
}

#[test]
fn a_recovery_that_fails_on_an_incomplete_image_is_a_warning_and_no_pass() {
    let dir = wal();
    let run = check(&dir, "./wal d check", &[]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("not in the crash images"),
        "{}",
        run.stderr
    );
    let findings = dir.findings();
    let failed = findings
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed");
    let failed = failed.unwrap();
    assert_eq!(failed["severity"], "warning");
    assert!(
        failed["message"].to_string().contains("lacks files"),
        "{failed}"
    );
    assert!(failed["evidence"].to_string().contains("/log"), "{failed}");
    let run = run_file(&dir.path("brownout.out"));
    assert_eq!(
        (&run["verdict"], &run["exit_code"]),
        (&"nothing-tested".into(), &3.into())
    );
    // `log.new` was written and renamed before the pool was mapped: no crash is tried before that.
    assert_eq!(files(&run), ["log"]);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(
        junit.contains("<error") && junit.contains("not in the crash images"),
        "{junit}"
    );
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let invocation = &sarif["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert!(
        invocation.to_string().contains("not in the crash images"),
        "{invocation}"
    );
    assert!(
        dir.read("brownout.out/report.html")
            .contains("not in the crash images")
    );

    // Parts of the same test come to the same result.
    for part in ["1", "2"] {
        let shard = format!("{part}/2");
        let run = dir.brownout(&[
            "crash",
            "brownout.out/trace",
            "--recover",
            "./wal d check",
            "--shard",
            &shard,
            "--out",
            part,
        ]);
        assert!(matches!(run.status, Some(0 | 3)), "{}", run.stderr);
    }
    let run = dir.brownout(&["merge", "1", "2", "--out", "whole"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert_eq!(files(&run_file(&dir.path("whole"))), ["log"]);
}

#[test]
fn files_are_named_even_if_recovery_passes() {
    let dir = wal();
    let run = check(&dir, "cat {pm}", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("not in the crash images"),
        "{}",
        run.stderr
    );
    assert_eq!(files(&run_file(&dir.path("brownout.out"))), ["log"]);
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains("not in the crash images"), "{sarif}");
}

#[test]
fn the_output_of_the_program_is_not_one_of_its_files() {
    let dir = TestDir::new();
    let script = "./slots pool put 2; echo done";
    let output = fs::File::create(dir.path("output")).unwrap();
    let run = dir
        .command(&[
            "check",
            "--recover",
            "./slots {pm} check",
            "--",
            "sh",
            "-c",
            script,
        ])
        .stdout(output)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(dir.read("output"), "done\n");
    assert_eq!(run_file(&dir.path("brownout.out"))["left_out"], Value::Null);
}

/// A program that creates its pool with libpmemobj. `None` where that library is not installed.
fn with_libpmemobj() -> Option<TestDir> {
    let dir = TestDir::new();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/clean");
    let compiled = std::process::Command::new("cc")
        .args(["-g", "-O1", "-D_GNU_SOURCE", "-o"])
        .arg(dir.path("object"))
        .arg(format!("{corpus}/recovery_failed_obj_unlogged.c"))
        .args(["-lpmemobj", "-lpmem"])
        .output();
    if compiled.is_ok_and(|compiled| compiled.status.success()) {
        return Some(dir);
    }
    println!("left out: there is no libpmemobj here");
    None
}

#[test]
fn crashes_inside_pool_creation_are_left_out_and_counted() {
    let Some(dir) = with_libpmemobj() else { return };
    let check = |options: &[&str]| {
        // There is none the first time.
        let _ = fs::remove_file(dir.path("pool"));
        let mut arguments = vec![
            "check",
            "--no-narrowing",
            "--recover",
            "./object pool check",
        ];
        arguments.extend(options);
        arguments.extend(["--", "./object", "pool"]);
        let command = &mut dir.command(&arguments);
        Completed::from(command.env("PMEM_IS_PMEM_FORCE", "1").output().unwrap())
    };
    let run = check(&[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let left_out = run_file(&dir.path("brownout.out"))["left_out"].clone();
    let count = left_out["failure_points"].as_u64().unwrap();
    assert!(count > 1, "{left_out}");
    assert_eq!(left_out["functions"][0], "pmemobj_create");
    let sentence = format!(
        "{count} failure points inside `pmemobj_create` left out; `--from-start` includes them"
    );
    assert!(run.stderr.contains(&sentence), "{}", run.stderr);
    assert!(
        dir.read("brownout.out/junit.xml")
            .contains("inside `pmemobj_create` left out")
    );
    assert!(
        dir.read("brownout.out/report.sarif")
            .contains("inside `pmemobj_create` left out")
    );
    assert!(
        dir.read("brownout.out/report.html")
            .contains("inside `pmemobj_create` left out")
    );

    let stat = dir.brownout(&[
        "stat",
        "brownout.out",
        "--failure-points",
        "--format",
        "json",
    ]);
    let stat: Value = serde_json::from_str(&stat.stdout).unwrap();
    assert_eq!(stat["left_out"]["failure_points"], count);
    let report = dir.brownout(&["report", "brownout.out"]);
    assert!(report.stderr.contains(&sentence), "{}", report.stderr);

    let run = check(&["--in-function", "pmemobj_create"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("no crash was tested"), "{}", run.stderr);
    assert_eq!(
        run_file(&dir.path("brownout.out"))["verdict"],
        "nothing-tested"
    );
    let run = check(&["--in-function", "pmemobj_create", "--from-start"]);
    assert_eq!(
        run.status,
        Some(1),
        "a half-created pool cannot be opened: {}",
        run.stderr
    );
}

#[test]
fn a_server_that_a_signal_ends_can_be_tested() {
    let dir = TestDir::new();
    let check = |end: &str, options: &[&str]| {
        // There is none the first time.
        let _ = fs::remove_file(dir.path("pool"));
        let script = format!("./slots pool put 3 early; {end}");
        let mut arguments = vec!["check", "--no-narrowing", "--recover", "./slots pool check"];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", &script]);
        dir.brownout(&arguments)
    };
    for (end, how, argument) in [
        ("kill -TERM $$", "was killed by SIGTERM", "SIGTERM"),
        ("exit 3", "exited with status 3", "3"),
    ] {
        let run = check(end, &[]);
        assert_eq!(run.status, Some(4), "{}", run.stderr);
        for text in [how, &format!("--target-success {argument}")] {
            assert!(run.stderr.contains(text), "{}", run.stderr);
        }
        let continued = format!(
            "brownout crash brownout.out/trace --no-narrowing --recover './slots pool check' --target-success {argument}`"
        );
        assert!(run.stderr.contains(&continued), "{}", run.stderr);
        let run = check(
            end,
            &["--target-success", "7", "--target-success", argument],
        );
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let findings = dir.findings();
        assert!(
            findings
                .iter()
                .any(|finding| finding["rule"] == "recovery-failed")
        );
    }
    // What the message names works.
    let run = dir.brownout(&[
        "crash",
        "brownout.out/trace",
        "--no-narrowing",
        "--recover",
        "./slots pool check",
    ]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let run = check("exit 0", &["--target-success", "SIGNAL"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("SIG15"), "{}", run.stderr);
}

#[test]
fn all_processes_of_a_daemon_are_counted() {
    let dir = TestDir::new();
    // The program that was started ends first, and so does the child that it waits for.
    let script = "sh -c '(sleep 0.2; ./slots pool put 5) & exit 0'";
    let run = dir.brownout(&["record", "-o", "trace", "--", "sh", "-c", script]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run = dir.brownout(&["stat", "trace", "--format", "json"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let stat: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(stat["events"]["store"], 15, "{stat}");
    assert!(run.stdout.contains("./slots"), "{stat}");
}
