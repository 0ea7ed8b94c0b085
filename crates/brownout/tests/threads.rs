//! Compares the parents and joins of threads in a trace with those that the target itself reports
//! (`tests/programs/threads/joins*`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_trace::{EventIndex, EventKind, ProcessId, ThreadId, TraceReader};

/// Which thread started or joined which, in the format that the target prints, sorted.
type Relations = Vec<String>;

fn program(name: &str) -> PathBuf {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs");
    Path::new(programs).join("threads").join(name)
}

fn compile(command: &mut Command, source: &str, to: &Path) {
    let includes = program("..");
    if !source.ends_with(".rs") {
        command.arg("-I").arg(includes);
        command.args(["-pthread", "-D_GNU_SOURCE"]);
    }
    let built = command.arg(program(source)).arg("-o").arg(to);
    assert!(
        built.status().unwrap().success(),
        "{source} cannot be built"
    );
}

/// Records a program. Returns the relations in the trace and those that the program reports.
fn record(compiler: &str, flags: &[&str], source: &str) -> (Relations, Relations) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    compile(Command::new(compiler).args(flags), source, &path("program"));
    let output = Command::new(env!("CARGO_BIN_EXE_brownout"))
        .args(["record", "-o", "trace", "--", "./program", "relations"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source} {flags:?}: {stderr}");
    let said = std::fs::read_to_string(path("relations")).unwrap();
    let mut said: Relations = said.lines().map(str::to_owned).collect();
    said.sort();
    (traced(&path("trace")), said)
}

fn traced(trace: &Path) -> Relations {
    let mut reader = TraceReader::open(trace).unwrap();
    let mut relations = Relations::new();
    let mut exits: HashMap<(ProcessId, ThreadId), EventIndex> = HashMap::new();
    while let Some(event) = reader.next().unwrap() {
        let thread = event.thread;
        match event.kind {
            EventKind::ThreadStart {
                parent: Some(parent),
            } => {
                assert!(parent.created <= event.index, "{event:?}");
                relations.push(format!("start {thread} {}", parent.thread));
            }
            EventKind::ThreadExit => {
                exits.insert((event.process, thread), event.index);
            }
            EventKind::ThreadJoin { joined } => {
                let exit = exits.remove(&(event.process, joined));
                assert!(exit.is_some(), "{joined} is joined before it ends");
                relations.push(format!("join {thread} {joined}"));
            }
            _ => {}
        }
    }
    relations.sort();
    relations
}

#[test]
fn c_threads_have_their_parents_and_joins() {
    let builds: [&[&str]; 3] = [&["-O1"], &["-O1", "-static"], &["-O0", "-static-pie"]];
    for flags in builds {
        for _ in 0..3 {
            let (traced, said) = record("cc", flags, "joins.c");
            assert!(said.len() > 60, "{said:?}");
            assert_eq!(traced, said, "{flags:?}");
        }
    }
}

#[test]
fn threads_of_musl_have_their_parents_and_joins() {
    for flags in [&[][..], &["-static"]] {
        let (traced, said) = record("musl-gcc", flags, "joins.c");
        assert_eq!(traced, said, "{flags:?}");
    }
}

#[test]
fn cxx_threads_have_their_parents_and_joins() {
    let (traced, said) = record("c++", &["-std=c++20"], "joins_cxx.cpp");
    assert_eq!(traced, said);
}

#[test]
fn rust_threads_have_their_parents_and_joins() {
    let (traced, said) = record("rustc", &["--edition=2024"], "joins_rust.rs");
    assert_eq!(traced, said);
}

#[test]
fn a_thread_of_a_raw_clone_has_a_parent() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("program");
    compile(&mut Command::new("cc"), "clone_thread_raw.c", &binary);
    let trace = directory.path().join("trace");
    let status = Command::new(env!("CARGO_BIN_EXE_brownout"))
        .args(["record", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(&binary)
        .status()
        .unwrap();
    assert!(status.success());
    let starts = traced(&trace);
    assert!(!starts.is_empty());
    assert!(starts.iter().all(|line| line.starts_with("start")));
}
