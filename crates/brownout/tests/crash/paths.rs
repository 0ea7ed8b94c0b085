//! Paths of all kinds: files whose names are not UTF-8, and results that belong to another trace.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use crate::{Completed, TestDir, crashes, findings, run_file};

/// brownout in a directory whose name is not UTF-8, with these arguments.
fn odd_command(dir: &TestDir, arguments: &[&[u8]]) -> Completed {
    let odd = dir.directory.path().join(OsStr::from_bytes(b"d\xfe"));
    fs::create_dir_all(&odd).unwrap();
    fs::copy(dir.path("slots"), odd.join("slots")).unwrap();
    let arguments = arguments.iter().map(|bytes| OsStr::from_bytes(bytes));
    let mut command = Command::new(env!("CARGO_BIN_EXE_brownout"));
    let output = command.args(arguments).current_dir(&odd).output();
    output.unwrap().into()
}

#[test]
fn a_file_and_a_directory_whose_names_are_not_utf_8() {
    let dir = TestDir::new();
    let pool: &[u8] = b"it's \xff";
    let program: [&[u8]; 5] = [b"./slots", pool, b"put", b"3", b"early"];
    for recover in [&b"./slots {pm} check"[..], b"./slots {pm} check || exit 1"] {
        // There is none the first time.
        let odd = dir.directory.path().join(OsStr::from_bytes(b"d\xfe"));
        let _ = fs::remove_file(odd.join(OsStr::from_bytes(pool)));
        let check: [&[u8]; 6] = [b"check", b"--recover", recover, b"--out", b"../out", b"--"];
        let run = odd_command(&dir, &[&check[..], &program].concat());
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let found = findings(&dir.path("out"));
        let rules: Vec<&str> = crashes(&found).iter().map(|crash| crash.0).collect();
        assert_eq!(rules, ["recovery-failed"], "{}", run.stderr);
        let id = found[0]["id"].as_str().unwrap();
        for what in [id, found[0]["replay"].as_str().unwrap()] {
            let again = odd_command(&dir, &[b"replay", b"../out", what.as_bytes()]);
            assert_eq!(again.status, Some(1), "{}", again.stderr);
            assert!(
                again.stdout.contains("slot 0 is damaged"),
                "{}",
                again.stdout
            );
        }
    }
}

#[test]
fn a_trace_whose_path_is_not_utf_8() {
    let dir = TestDir::new();
    let record: [&[u8]; 8] = [
        b"record", b"-o", b"t\xff", b"--", b"./slots", b"pool", b"put", b"2",
    ];
    assert_eq!(odd_command(&dir, &record).status, Some(0));
    let crash: [&[u8]; 4] = [b"crash", b"t\xff", b"--recover", b"./slots {pm} check"];
    let run = odd_command(&dir, &crash);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run = odd_command(&dir, &[b"stat", b"brownout.out"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn a_test_of_another_trace_is_not_resumed_and_nothing_is_lost() {
    let dir = TestDir::new();
    dir.record(&[], &["3", "early"]);
    let first = dir.crash(&["--out", "out"]);
    assert_eq!(first.status, Some(1), "{}", first.stderr);
    let content = || -> Vec<Vec<u8>> {
        let names = ["findings.jsonl", "crash.jsonl"];
        let path = |name| dir.path(&format!("out/{name}"));
        names.map(|name| fs::read(path(name)).unwrap()).into()
    };
    let before = content();
    dir.record(&[], &["3", "early"]);
    let second = dir.crash(&["--out", "out", "--resume"]);
    assert_eq!(second.status, Some(2), "{}", second.stderr);
    assert!(second.stderr.contains("another trace"), "{}", second.stderr);
    assert!(content() == before, "the earlier results have changed");
    let run = run_file(&dir.path("out"));
    assert_eq!(run["verdict"], "error", "{run}");
}

#[test]
fn a_token_of_another_trace_is_refused() {
    let dir = TestDir::new();
    dir.record(&[], &["3", "early"]);
    dir.crash(&["--out", "out"]);
    let found = findings(&dir.path("out"));
    let token = found[0]["replay"].as_str().unwrap();
    fs::rename(dir.path("trace"), dir.path("moved")).unwrap();
    let run = dir.brownout(&["replay", "moved", token]);
    assert_eq!(run.status, Some(1), "wherever the trace is: {}", run.stderr);
    dir.record(&[], &["3", "early"]);
    let run = dir.brownout(&["replay", "trace", token]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("a different trace"), "{}", run.stderr);
}

#[test]
fn crash_tests_the_trace_of_a_results_directory() {
    let dir = TestDir::new();
    let program = ["--", "./slots", "pool", "put", "3", "early"];
    dir.brownout(&[&["check"], &program[..]].concat());
    let lint = dir.findings();
    let run = dir.brownout(&["crash", "brownout.out", "--recover", "./slots {pm} check"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let both = dir.findings();
    assert_eq!(crashes(&both).len(), 1);
    assert!(both.len() > lint.len(), "what lint found is kept");
}
