//! `brownout dump`.

use std::io::Read as _;
use std::process::Stdio;

use brownout_trace::{CallArguments, EventKind, ThreadId};
use serde_json::Value;

use crate::traces::{POOL, Recording, pool_and_semaphore};
use crate::{brownout, clean, command, line_with};

fn dump(recording: Recording, options: &[&str]) -> String {
    let (_directory, path) = recording.finish();
    let mut arguments = vec!["dump", path.to_str().unwrap()];
    arguments.extend(options);
    clean(&arguments)
}

#[test]
fn each_event_is_one_line_with_bytes_and_file_location() {
    let shown = dump(pool_and_semaphore(&[]), &[]);
    assert_eq!(shown.lines().count(), 9);
    assert_eq!(
        line_with(&shown, "0x10000040 [8]"),
        "         4  0:4711      store         0x10000040 [8] 2a00000000000000 /mnt/pmem/pool:0x40"
    );
    assert!(line_with(&shown, "flush").ends_with("0x10000040 clwb /mnt/pmem/pool:0x40"));
    assert!(line_with(&shown, "fence").ends_with("fence         sfence"));
    assert!(line_with(&shown, "content").ends_with("/mnt/pmem/pool:0x0 [8] 504f4f4c48454144"));
}

#[test]
fn events_have_a_source_line_and_optionally_a_stack() {
    let recorded = || {
        let mut recording = pool_and_semaphore(&[]);
        recording.run_compiled();
        recording.store(POOL, &[0xee]);
        recording
    };
    let shown = dump(recorded(), &[]);
    assert!(line_with(&shown, "[1] ee").ends_with("program.c:5:8"));
    let shown = dump(recorded(), &["--stacks", "--from", "9", "--to", "9"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[1].contains("put at ") && lines[1].ends_with("program.c:5:8"));
    assert!(lines[2].contains("main at ") && lines[2].ends_with("program.c:8:3"));
}

#[test]
fn filters_by_number_kind_and_thread() {
    let shown = dump(pool_and_semaphore(&[]), &["--from", "4", "--to", "6"]);
    assert_eq!(shown.lines().count(), 3);
    let shown = dump(
        pool_and_semaphore(&[]),
        &["--kind", "fence", "--kind", "store"],
    );
    assert_eq!(shown.lines().count(), 3);
    let two_threads = || {
        let mut recording = pool_and_semaphore(&[]);
        recording.thread = ThreadId(5000);
        recording.store(POOL, &[1]);
        recording.thread = ThreadId(4711);
        recording
    };
    for (thread, lines) in [("5000", 1), ("0:5000", 1), ("1:5000", 0), ("0:4711", 9)] {
        let shown = dump(two_threads(), &["--thread", thread]);
        assert_eq!(shown.lines().count(), lines, "--thread {thread}");
    }
}

#[test]
fn a_range_without_events_is_reported() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let path = path.to_str().unwrap();
    for (range, message) in [
        (&["--from", "1000"][..], "event 1000 is not in trace"),
        (&["--from", "9"], "which has 9 events numbered from 0"),
        (&["--from", "5", "--to", "4"], "--from 5 is after --to 4"),
    ] {
        let run = brownout(&[&["dump", path], range].concat());
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    let beyond = clean(&["dump", path, "--from", "8", "--to", "1000"]);
    assert_eq!(beyond.lines().count(), 1);
}

#[test]
fn long_stores_are_shortened_without_full() {
    let long = || {
        let mut recording = pool_and_semaphore(&[]);
        recording.store(POOL, &[0xab; 64]);
        recording
    };
    let cut = format!("[64] {}... ", "ab".repeat(16));
    line_with(&dump(long(), &[]), &cut);
    let whole = format!("[64] {} ", "ab".repeat(64));
    line_with(&dump(long(), &["--full"]), &whole);
}

#[test]
fn json_output_is_one_object_per_line() {
    let mut recording = pool_and_semaphore(&[]);
    recording.run_compiled();
    recording.store(POOL, &[0xab; 64]);
    let shown = dump(recording, &["--format", "json", "--stacks"]);
    let events: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 11);
    assert_eq!(events[4]["kind"], "store");
    assert_eq!(events[4]["address"], "0x10000040");
    assert_eq!(events[4]["at"]["path"], "/mnt/pmem/pool");
    assert_eq!(events[4]["at"]["offset"], 64);
    let store = &events[9];
    assert_eq!(store["bytes"], "ab".repeat(64));
    assert_eq!(store["frames"][0]["function"], "put");
    assert_eq!(store["frames"][0]["line"], 5);
    assert_eq!(store["frames"][1]["function"], "main");
}

#[test]
fn calls_and_returns_name_their_function() {
    let traced = || {
        let mut recording = Recording::start(&[]);
        let function = recording.function("pmemobj_tx_begin");
        recording.add(EventKind::Call {
            function,
            args: CallArguments::new(&[0x7f00, 0]),
        });
        recording.add(EventKind::Return {
            function,
            value: Some([0, 0x10]),
        });
        recording.add(EventKind::Return {
            function,
            value: None,
        });
        recording
    };
    let kinds = ["--kind", "call", "--kind", "return"];
    let shown = dump(traced(), &kinds);
    line_with(&shown, "call          pmemobj_tx_begin(0x7f00, 0x0)");
    line_with(&shown, "return        pmemobj_tx_begin = 0x0, 0x10");
    line_with(&shown, "pmemobj_tx_begin left without returning");

    let shown = dump(traced(), &[&kinds[..], &["--format", "json"]].concat());
    let events: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["function"], "pmemobj_tx_begin");
    assert_eq!(events[0]["arguments"][0], "0x7f00");
    assert_eq!(events[1]["result"][1], "0x10");
    assert_eq!(events[2]["result"], Value::Null);
}

#[test]
fn text_from_the_target_stays_on_its_line() {
    let mut recording = Recording::start(&[]);
    recording.add(EventKind::Note {
        text: "two\nlines \x1b[31m",
    });
    let shown = dump(recording, &["--kind", "note"]);
    assert_eq!(shown.lines().count(), 1);
    assert!(shown.ends_with("two\\nlines \\u{1b}[31m\n"), "{shown}");
}

#[test]
fn closing_the_output_early_is_not_an_error() {
    let mut recording = pool_and_semaphore(&[]);
    for _ in 0..20_000 {
        recording.store(POOL, &[1]);
    }
    let (_directory, path) = recording.finish();
    let mut child = command(&["dump", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
