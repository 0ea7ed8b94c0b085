//! `brownout stat`.

use brownout_trace::{EarlyStop, Ending};
use serde_json::Value;

use crate::traces::{POOL, Recording, compile, pool_and_semaphore};
use crate::{brownout, clean, line_with};

#[test]
fn text_output_has_processes_files_events_and_times() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let path = path.to_str().unwrap();
    let shown = clean(&["stat", path]);
    line_with(&shown, "Command:   ./program insert");
    line_with(
        &shown,
        "  0  pid 4711  /home/user/program insert  (exit status 0)",
    );
    line_with(&shown, "thread 4711: 9 events");
    assert_eq!(
        line_with(&shown, "/mnt/pmem/pool"),
        "  /mnt/pmem/pool  8.0 KiB, flushed; 1 mapping, 1 store (8 B), 1 flush, 0 writes"
    );
    line_with(&shown, "0.500 s elapsed, 0.400 s processor, 18 events/s");
    line_with(&shown, "bytes per event");
    for count in ["store                     2", "flush                     1"] {
        line_with(&shown, count);
    }
    let (before, after) = shown.split_once("Other mapped files").unwrap();
    assert!(before.contains("/mnt/pmem/pool") && after.contains("/dev/shm/sem"));
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&clean(arguments)).unwrap()
}

#[test]
fn json_output_has_the_same_statistics() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let stat = json(&["stat", path.to_str().unwrap(), "--format", "json"]);
    assert_eq!(stat["command"][1], "insert");
    assert_eq!(stat["processes"][0]["threads"][0]["events"], 9);
    assert_eq!(stat["events"]["store"], 2);
    assert_eq!(stat["files"][0]["path"], "/mnt/pmem/pool");
    assert_eq!(stat["files"][0]["reason"], "flushed");
    assert_eq!(stat["files"][1]["persistent"], false);
    assert_eq!(stat["wall_seconds"], 0.5);
    assert_eq!(stat["end"]["status"], 0);
}

#[test]
fn given_patterns_override_those_of_the_recording() {
    let (_directory, path) = pool_and_semaphore(&["sem"]).finish();
    let path = path.to_str().unwrap();
    let persistent = |stat: Value| {
        let files = stat["files"].as_array().unwrap().clone();
        files
            .iter()
            .map(|file| file["persistent"].as_bool().unwrap())
            .collect::<Vec<_>>()
    };
    let recorded = json(&["stat", path, "--format", "json"]);
    assert_eq!(persistent(recorded), [false, true]);
    let given = json(&["stat", path, "--format", "json", "--pm", "/mnt/**"]);
    assert_eq!(persistent(given), [true, false]);
}

#[test]
fn call_sites_have_source_lines() {
    let mut recording = pool_and_semaphore(&[]);
    recording.run_compiled();
    for _ in 0..5 {
        recording.store(POOL, &[1]);
    }
    let (_directory, path) = recording.finish();
    let shown = clean(&["stat", path.to_str().unwrap()]);
    let site = line_with(&shown, "put at ");
    assert!(site.ends_with("program.c:5:8  (store 5)"), "{site}");
}

#[test]
fn top_limits_the_number_of_call_sites() {
    let mut recording = pool_and_semaphore(&[]);
    recording.run_compiled();
    recording.store(POOL, &[1]);
    let (_directory, path) = recording.finish();
    let path = path.to_str().unwrap();
    assert!(!clean(&["stat", path, "--top", "0"]).contains("Busiest"));
}

#[test]
fn a_rebuilt_program_is_reported_and_not_symbolised() {
    let mut recording = pool_and_semaphore(&[]);
    recording.run_compiled();
    recording.store(POOL, &[1]);
    let (directory, path) = recording.finish();
    compile(directory.path(), "-O2");
    let run = brownout(&["stat", path.to_str().unwrap()]);
    assert_eq!(run.status, Some(0));
    assert!(
        run.stderr.contains("has changed since it was recorded"),
        "{}",
        run.stderr
    );
    assert!(!run.stdout.contains("program.c"));
}

#[test]
fn without_persistent_files_the_mapped_files_are_listed() {
    let mut recording = Recording::start(&[]);
    let file = recording.file(1, "/dev/shm/sem");
    recording.map(file, POOL, 4096);
    let (_directory, path) = recording.finish();
    let shown = clean(&["stat", path.to_str().unwrap()]);
    line_with(&shown, "none; select one with --pm GLOB");
    line_with(&shown, "/dev/shm/sem");
}

#[test]
fn an_unfinished_recording_is_reported() {
    let (_directory, path) = pool_and_semaphore(&[]).abandon();
    let run = brownout(&["stat", path.to_str().unwrap()]);
    assert_eq!(run.status, Some(3));
    assert!(
        run.stderr.contains("the recorder did not finish"),
        "{}",
        run.stderr
    );
    line_with(&run.stdout, "store                     2");
    line_with(&run.stdout, "(end not recorded)");
}

#[test]
fn a_recording_that_ended_on_a_full_disk_is_reported() {
    let (_directory, path) = pool_and_semaphore(&[]).finish_with(Ending {
        stopped: Some(EarlyStop::StorageFull),
        ..Ending::default()
    });
    let run = brownout(&["stat", path.to_str().unwrap()]);
    assert_eq!(run.status, Some(0));
    assert!(run.stderr.contains("the disk was full"), "{}", run.stderr);
}
