//! Calls of watched functions, recorded from programs that print what the trace must contain (`tests/programs/calls/`).

use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_trace::{EventKind, ThreadId, TraceReader};

/// An event of a watched function.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Call(String, Vec<i64>),
    Return(String, i64),
    Left(String),
}

/// A program that was built and recorded.
struct Recorded {
    directory: tempfile::TempDir,
    stdout: String,
    /// The functions that the test watches, besides those that brownout always does.
    functions: Vec<String>,
}

impl Recorded {
    /// Builds `source` and records it with `functions` watched.
    fn new(source: &str, flags: &[&str], libraries: &[&[&str]], functions: &[&str]) -> Recorded {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        compile(source, flags, &path("program"));
        let mut arguments = Vec::new();
        for (index, flags) in libraries.iter().enumerate() {
            let library = path(&format!("lib{index}.so"));
            let flags = [&["-DLIB", "-shared", "-fPIC"], *flags].concat();
            compile(source, &flags, &library);
            arguments.push(library);
        }
        let mut record = Command::new(env!("CARGO_BIN_EXE_brownout"));
        record.args(["record", "-o", "trace"]);
        for function in functions {
            record.args(["--watch", function]);
        }
        let output = record
            .arg("--")
            .arg("./program")
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{source}: {stderr}");
        Recorded {
            stdout: String::from_utf8(output.stdout).unwrap(),
            directory,
            functions: functions.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    /// The entries of the trace, with their threads.
    fn traced(&self) -> Vec<(ThreadId, Entry)> {
        let mut reader = TraceReader::open(self.directory.path().join("trace")).unwrap();
        let mut entries = Vec::new();
        while let Some((event, definitions)) = reader.next_defined().unwrap() {
            let name = |function| definitions.function(function).unwrap().to_owned();
            if let EventKind::Call { function, .. } | EventKind::Return { function, .. } =
                event.kind
                && !self.functions.contains(&name(function))
            {
                continue;
            }
            let entry = match event.kind {
                EventKind::Call { function, args } => {
                    let args = args.as_slice().iter().map(|&arg| arg as i64);
                    Entry::Call(name(function), args.collect())
                }
                EventKind::Return { function, value } => match value {
                    Some([result, _]) => Entry::Return(name(function), result as i64),
                    None => Entry::Left(name(function)),
                },
                _ => continue,
            };
            entries.push((event.thread, entry));
        }
        entries
    }

    /// Checks that the trace has exactly the calls that the program has printed.
    fn expect_reported_calls(&self) {
        let traced: Vec<String> = self
            .traced()
            .iter()
            .map(|(_, entry)| match entry {
                Entry::Call(name, args) => format!("call {name} {}", args[0]),
                Entry::Return(name, result) => format!("return {name} {result}"),
                Entry::Left(name) => format!("left {name}"),
            })
            .collect();
        let reported: Vec<&str> = self.stdout.lines().collect();
        assert!(!reported.is_empty());
        assert_eq!(traced, reported);
    }
}

fn compile(source: &str, flags: &[&str], to: &Path) {
    let programs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs"));
    let compiler = if source.ends_with(".cpp") {
        "c++"
    } else {
        "cc"
    };
    let status = Command::new(compiler)
        .arg("-I")
        .arg(&programs)
        .args(flags)
        .arg(programs.join("calls").join(source))
        .arg("-o")
        .arg(to)
        .status()
        .unwrap();
    assert!(status.success(), "{source} cannot be built");
}

#[test]
fn recursion_and_calls_through_pointers() {
    for flags in [
        &["-O1"][..],
        &["-O2"],
        &["-O1", "-static"],
        &["-O0", "-no-pie", "-fno-pie"],
    ] {
        let functions = ["factorial", "even", "odd"];
        Recorded::new("recursion.c", flags, &[], &functions).expect_reported_calls();
    }
}

#[test]
fn a_function_that_ends_with_a_jump_to_another_returns_with_it() {
    let flags = ["-O2", "-fno-ipa-icf"];
    Recorded::new("tail_calls.c", &flags, &[], &["first", "last"]).expect_reported_calls();
}

#[test]
fn functions_left_by_longjmp() {
    for flags in [&["-O1"][..], &["-O1", "-static"]] {
        let functions = ["inner", "outer", "whole"];
        Recorded::new("jumps.c", flags, &[], &functions).expect_reported_calls();
    }
}

#[test]
fn functions_left_by_exceptions() {
    let functions = ["thrower", "catcher"];
    Recorded::new("exceptions.cpp", &["-O1"], &[], &functions).expect_reported_calls();
}

#[test]
fn libraries_that_are_loaded_and_unloaded() {
    let libraries: [&[&str]; 2] = [&["-DNUMBER=1"], &["-DNUMBER=2", "-DPADDING"]];
    Recorded::new("libraries.c", &["-O1"], &libraries, &["number"]).expect_reported_calls();
}

#[test]
fn coroutines_keep_their_open_calls() {
    Recorded::new("coroutines.c", &["-O1"], &[], &["step", "part"]).expect_reported_calls();
}

#[test]
fn an_instruction_that_is_executed_again_is_not_a_second_call() {
    let flags = ["-O2", "-fcf-protection=none"];
    let recorded = Recorded::new("first_instruction_faults.c", &flags, &[], &["put"]);
    let values: Vec<i64> = recorded
        .traced()
        .iter()
        .filter_map(|(_, entry)| match entry {
            Entry::Call(_, args) => Some(args[1]),
            _ => None,
        })
        .collect();
    assert_eq!(values, [0, 1, 2, 3]);
    assert_eq!(recorded.traced().len(), 8);
}

#[test]
fn each_thread_has_its_own_calls() {
    let recorded = Recorded::new("threads.c", &["-O1", "-pthread"], &[], &["descend"]);
    let traced = recorded.traced();
    for thread in 0..4 {
        let starts = |entry: &Entry| matches!(entry, Entry::Call(_, args) if args[0] == thread);
        let (tid, _) = traced.iter().find(|(_, entry)| starts(entry)).unwrap();
        let found: Vec<&Entry> = traced
            .iter()
            .filter(|(of, _)| of == tid)
            .map(|(_, entry)| entry)
            .collect();
        let mut expected = Vec::new();
        for depth in (0..50).map(|round| round % 5) {
            expected.extend((0..=depth).rev().map(|n| (Some(n), 0)));
            expected.extend((0..=depth).map(|n| (None, thread + n)));
        }
        let found: Vec<(Option<i64>, i64)> = found
            .iter()
            .map(|entry| match entry {
                Entry::Call(_, args) => (Some(args[1]), 0),
                Entry::Return(_, result) => (None, *result),
                Entry::Left(name) => panic!("{name} was left"),
            })
            .collect();
        assert_eq!(found, expected, "thread {thread}");
    }
}

#[test]
fn a_forked_child_ends_the_calls_of_its_parent() {
    let recorded = Recorded::new("forks.c", &["-O1"], &[], &["outer", "inner"]);
    let text = |wanted: bool| -> Vec<String> {
        let mut threads: Vec<ThreadId> = Vec::new();
        let mut lines = Vec::new();
        for (thread, entry) in recorded.traced() {
            if !threads.contains(&thread) {
                threads.push(thread);
            }
            if (thread == threads[0]) == wanted {
                lines.push(match entry {
                    Entry::Call(name, args) => format!("call {name} {}", args[0]),
                    Entry::Return(name, result) => format!("return {name} {result}"),
                    Entry::Left(name) => format!("left {name}"),
                });
            }
        }
        lines
    };
    let parent = [
        "call outer 1",
        "call inner 7",
        "return inner 8",
        "return outer 8",
    ];
    assert_eq!(text(true), parent);
    let child = ["call inner 20", "return inner 21", "return outer 21"];
    assert_eq!(text(false), child);
}

#[test]
fn calls_stay_nested_when_signals_come_at_any_time() {
    let recorded = Recorded::new("signals.c", &["-O1"], &[], &["tick", "descend"]);
    let mut open = Vec::new();
    let mut ticks = 0;
    for (_, entry) in recorded.traced() {
        match entry {
            Entry::Call(name, args) => {
                if name == "tick" {
                    assert_eq!(args[0], ticks);
                    ticks += 1;
                }
                open.push((name, args[0]));
            }
            Entry::Return(name, result) => {
                let (called, argument) = open.pop().expect("a call comes before its return");
                assert_eq!(name, called);
                let expected = if name == "tick" {
                    argument + 1
                } else {
                    argument
                };
                assert_eq!(result, expected);
            }
            Entry::Left(name) => panic!("{name} was left"),
        }
    }
    assert!(open.is_empty());
    assert!(ticks >= 20);
}
