//! Compares the locks in a trace with what the programs do (`tests/programs/threads/locks_*`).
//!
//! Events of a case are letters: `A` and `R` for the acquire and release of a lock, `a` and `r` if it is shared, and `s` for the
//! store that shows where in the case they are. Counts that their thread never undoes are left out, and so are locks that only the C
//! library takes. What several threads or processes do is separated by a slash. An `A` without an `R` is no lock.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_trace::{Address, EventKind, ProcessId, RecognisedLocks, ThreadId, TraceReader};

fn program(name: &str) -> PathBuf {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs");
    Path::new(programs).join("threads").join(name)
}

/// Builds and records a program, and returns the letters of its cases.
fn record(compiler: &str, flags: &[&str], source: &str, option: &str) -> Vec<String> {
    let (directory, trace) = recorded(compiler, flags, source, option);
    let letters = cases(&trace, |_| true);
    drop(directory);
    letters
}

/// Builds and records a program, and returns its trace.
fn recorded(
    compiler: &str,
    flags: &[&str],
    source: &str,
    option: &str,
) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut command = Command::new(compiler);
    command.args(flags);
    if !source.ends_with(".rs") {
        command.arg("-I").arg(program(".."));
        command.args(["-pthread", "-D_GNU_SOURCE"]);
    }
    let built = command.arg(program(source)).arg("-o").arg(path("program"));
    assert!(built.status().unwrap().success(), "{source} {flags:?}");
    let output = Command::new(env!("CARGO_BIN_EXE_brownout"))
        .args(["record", option, "-o", "trace", "--", "./program", "."])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source} {flags:?}: {stderr}");
    let trace = path("trace");
    (directory, trace)
}

/// The letters of each case, of its threads in the order of their first letters, and of the locks whose words are
/// selected.
fn cases(trace: &Path, mut selects: impl FnMut(Address) -> bool) -> Vec<String> {
    let mut locks = RecognisedLocks::default();
    let mut reader = TraceReader::open(trace).unwrap();
    while let Some(event) = reader.next().unwrap() {
        locks.event(&event);
    }
    let mut reader = TraceReader::open(trace).unwrap();
    let mut start = Address(0);
    let mut code: Range<u64> = 0..0;
    let mut own: HashSet<Address> = HashSet::new();
    let mut cases: Vec<BTreeMap<(usize, ProcessId, ThreadId), String>> = Vec::new();
    let mut ended = true;
    while let Some(event) = reader.next().unwrap() {
        if let EventKind::LockAcquire { word, .. } = event.kind
            && code.contains(&event.pc.0)
        {
            own.insert(word);
        }
        let letter = match event.kind {
            EventKind::Module {
                addr, len, path, ..
            } => {
                if path.ends_with("program") {
                    code = addr.0..addr.0 + len;
                }
                continue;
            }
            EventKind::Map(mapping) => {
                start = mapping.addr;
                continue;
            }
            EventKind::Store { addr, bytes, .. } if addr == start => {
                ended = bytes[0] == 0;
                if !ended {
                    assert_eq!(usize::from(bytes[0]), cases.len() + 1);
                    cases.push(BTreeMap::new());
                }
                continue;
            }
            EventKind::Store { addr, .. } if addr.0 == start.0 + 64 => 's',
            EventKind::LockAcquire { word, .. } | EventKind::LockRelease { word, .. }
                if ended || !own.contains(&word) || !selects(word) =>
            {
                continue;
            }
            EventKind::LockAcquire { shared: false, .. } => 'A',
            // The C library counts its threads.
            EventKind::LockAcquire { shared: true, .. } if locks.mode(event.index).is_none() => {
                continue;
            }
            EventKind::LockAcquire { shared: true, .. } => 'a',
            EventKind::LockRelease { shared: false, .. } => 'R',
            EventKind::LockRelease { shared: true, .. } => 'r',
            _ => continue,
        };
        if ended {
            continue;
        }
        let case = cases.last_mut().unwrap();
        let known = case
            .keys()
            .find(|(_, process, thread)| (*process, *thread) == (event.process, event.thread));
        let key = known.copied();
        let key = key.unwrap_or((case.len(), event.process, event.thread));
        case.entry(key).or_default().push(letter);
    }
    cases
        .into_iter()
        .map(|case| case.into_values().collect::<Vec<_>>().join("/"))
        .collect()
}

const ATOMIC: [&str; 13] = [
    "AssRsAssRs",
    "AsRsAsRs",
    "AsRs",
    "AsRs",
    "AsRs",
    "asrsAsRs",
    "sss",
    "Assssssss",
    "s",
    "AsAsRsRs",
    "AsRs",
    "AssRs/AsRs",
    "AsRs",
];

#[test]
fn locks_are_recognised_by_their_instructions() {
    for flags in [&["-O0"], &["-O2"]] {
        let letters = record("cc", flags, "locks_atomic.c", "--loads");
        assert_eq!(letters, ATOMIC, "{flags:?}");
    }
}

#[test]
fn locks_of_cxx_are_recognised() {
    let expected = ["AsRs", "AsRs", "AssRs", "asrsasrs"];
    for flags in [&["-std=c++20", "-O0"], &["-std=c++20", "-O2"]] {
        let letters = record("c++", flags, "locks_cxx.cpp", "--loads");
        assert_eq!(letters, expected, "{flags:?}");
    }
}

#[test]
fn locks_of_rust_are_recognised() {
    let expected = ["AsRsAsRs", "AsrsAsRs", "AssRs", "AssRs"];
    for flags in [&["--edition=2024"][..], &["--edition=2024", "-O"]] {
        let (directory, trace) = recorded("rustc", flags, "locks_rust.rs", "--loads");
        // The first two words that are locked are those of the program; the library uses others when it starts a thread.
        let mut words = Vec::new();
        let letters = cases(&trace, |word| {
            if words.len() < 2 && !words.contains(&word) {
                words.push(word);
            }
            words.contains(&word)
        });
        drop(directory);
        let first: Vec<&str> = letters.iter().map(|case| before_slash(case)).collect();
        assert_eq!(first, expected, "{flags:?}");
    }
}

fn before_slash(case: &str) -> &str {
    case.split('/').next().unwrap_or_default()
}

#[test]
fn nothing_is_recorded_before_memory_is_shared() {
    let letters = record("cc", &["-O1"], "locks_atomic.c", "--shared-loads");
    let (alone, shared) = letters.split_at(11);
    let only_stores = |case: &&str| case.chars().filter(|&letter| letter == 's').collect();
    let expected: Vec<String> = ATOMIC[..11].iter().map(only_stores).collect();
    assert_eq!(alone, expected);
    // The first lock was acquired before the fork.
    assert_eq!(shared, ["sss/ss", "AsRs"]);
}
