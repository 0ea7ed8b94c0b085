//! Traces and programs with missing information: what is missing is reported, and findings are reported as far as
//! possible.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::{TestDir, bugs};

#[test]
fn another_version_of_the_program() {
    let dir = TestDir::new();
    dir.check(&[], &["last"]);
    dir.compile("check/counter.c", &["-g", "-DSIZE=8192"]);
    let run = dir.brownout(&["lint", "brownout.out/trace"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let warnings = run
        .stderr
        .lines()
        .filter(|line| line.contains("has changed since it was recorded"));
    assert_eq!(warnings.count(), 1, "{}", run.stderr);
    assert!(
        !run.stderr.contains("no debug information"),
        "{}",
        run.stderr
    );
    assert!(
        !run.stdout.contains("counter.c"),
        "no wrong lines: {}",
        run.stdout
    );
    assert!(run.stdout.contains("/counter+0x"), "{}", run.stdout);
}

#[test]
fn a_stripped_program() {
    let dir = TestDir::compiled(&["-s"]);
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("/counter has no debug information"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("/counter+0x"), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
}

#[test]
fn a_missing_source_file() {
    let dir = TestDir::new();
    fs::remove_file(dir.path("counter.c")).unwrap();
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("counter.c: No such file"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("main at counter.c:"), "{}", run.stderr);
    assert!(
        dir.read("brownout.out/report.html")
            .contains("cannot read source file")
    );
}

#[test]
fn a_source_file_that_was_edited_since() {
    let dir = TestDir::new();
    let run = dir.check(&[], &["last"]);
    assert!(!run.stderr.contains("is newer than"), "{}", run.stderr);
    let edited = fs::File::options().append(true).open(dir.path("counter.c"));
    let later = SystemTime::now() + Duration::from_secs(60);
    edited.unwrap().set_modified(later).unwrap();
    let run = dir.brownout(&["lint", "brownout.out/trace"]);
    assert!(
        run.stderr.contains("counter.c is newer than /"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_trace_that_is_cut_off() {
    let dir = TestDir::new();
    dir.check(&[], &["last"]);
    let trace = dir.path("brownout.out/trace");
    let whole = fs::read(&trace).unwrap();
    let mut found_part = false;
    for eighths in 1..8 {
        fs::write(&trace, &whole[..whole.len() * eighths / 8]).unwrap();
        let run = dir.brownout(&["lint", "brownout.out/trace"]);
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        let message = run.stderr.lines().find(|line| line.contains("trace"));
        let message = message.unwrap_or_default();
        assert!(message.starts_with("brownout: "), "{}", run.stderr);
        found_part |= message.contains("only the part before the damage was read");
    }
    assert!(found_part, "no cut left a part that can be read");
}

#[test]
fn a_full_disk() {
    let dir = TestDir::new();
    // The pool has its size already: the limit is for files that grow.
    dir.check(&[], &[]);
    let brownout = env!("CARGO_BIN_EXE_brownout");
    let script = format!("ulimit -S -f 256; exec {brownout} check -- ./counter pool noise");
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir.directory.path())
        .output()
        .unwrap();
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(2),
        "nothing found is not to be trusted: {warnings}"
    );
    assert!(
        warnings.contains("no room left for the trace"),
        "{warnings}"
    );
}

#[test]
fn a_sparse_pool_of_ten_gibibytes() {
    let dir = TestDir::compiled(&["-g", "-DSIZE=(10LL<<30)"]);
    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bugs(&dir.findings()), ["missing-flush"]);
    let size = fs::metadata(dir.path("brownout.out/trace")).unwrap().len();
    assert!(size < 1 << 20, "the trace has {size} bytes");
}
