//! Traces that are missing, cut off or damaged: brownout shows the readable part and a message, and never panics.

use std::fs;
use std::path::Path;
use std::process::Command;

use brownout_trace::Ending;

use crate::traces::{POOL, Recording, pool_and_semaphore};
use crate::{CommandResult, brownout};

/// Runs each command that reads a trace.
fn each_command(trace: &Path) -> Vec<(&'static str, CommandResult)> {
    let trace = trace.to_str().unwrap();
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    let image = ["image", trace, "-o", out.to_str().unwrap()];
    vec![
        ("stat", brownout(&["stat", trace])),
        ("dump", brownout(&["dump", trace])),
        ("image", brownout(&image)),
        ("lint", brownout(&["lint", trace])),
    ]
}

fn all_reject(trace: &Path, reason: &str) {
    for (command, run) in each_command(trace) {
        assert_eq!(run.status, Some(2), "{command}: {}", run.stderr);
        assert!(run.stderr.contains(reason), "{command}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
    }
}

#[test]
fn a_missing_file_is_reported() {
    all_reject(Path::new("/nonexistent/trace"), "No such file");
}

#[test]
fn a_directory_without_results_is_rejected() {
    all_reject(Path::new("/usr"), "is not a results directory");
}

#[test]
fn files_that_are_not_traces_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    for content in [&b""[..], b"x", b"#!/bin/sh\necho hello world\n"] {
        fs::write(&path, content).unwrap();
        all_reject(&path, "not a brownout trace");
    }
}

#[test]
fn a_trace_cut_off_in_its_header_is_rejected() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..20]).unwrap();
    all_reject(&path, "readable only up to byte");
}

#[test]
fn a_trace_without_events_is_accepted() {
    let (_directory, path) = Recording::without_events(&[]).finish_with(Ending::default());
    for (command, run) in each_command(&path) {
        let nothing_persistent = command == "lint";
        let status = if nothing_persistent { 3 } else { 0 };
        assert_eq!(run.status, Some(status), "{command}: {}", run.stderr);
        assert_eq!(
            run.stdout.contains("total                     0"),
            command == "stat"
        );
    }
}

/// A trace of several chunks.
fn long_recording() -> Recording {
    let mut recording = pool_and_semaphore(&[]);
    let mut value = 1_u64;
    for _ in 0..200_000 {
        value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        recording.store(POOL + (value >> 33) % 8000, &value.to_le_bytes());
    }
    recording
}

#[test]
fn the_readable_part_of_a_truncated_trace_is_shown() {
    let (_directory, path) = long_recording().finish();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for (command, run) in each_command(&path) {
        assert_eq!(run.status, Some(2), "{command}");
        let message = "is damaged; only the part before the damage was read";
        assert!(run.stderr.contains(message), "{command}: {}", run.stderr);
        assert!(
            run.stderr.contains("the file ends in the middle"),
            "{}",
            run.stderr
        );
        assert!(!run.stdout.is_empty(), "{command}");
    }
}

/// Every command reports the damage of these bytes, and exits with 2.
fn all_report_damage(path: &Path, what: &str, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    for (command, run) in each_command(path) {
        assert_eq!(run.status, Some(2), "{command}, {what}: {}", run.stderr);
        let reported = ["is damaged", "cannot open trace"];
        assert!(
            reported.iter().any(|words| run.stderr.contains(words)),
            "{command}, {what}: {}",
            run.stderr
        );
    }
}

/// That every bit counts is tested with the reader; here a few bits in each part of the file, of which the smallest is the
/// trailer.
#[test]
fn altered_bits_are_reported_by_every_command() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let whole = fs::read(&path).unwrap();
    let ends = [8, 13, whole.len() - 20, whole.len() - 11, whole.len() - 1];
    for at in (0..whole.len()).step_by(whole.len() / 12).chain(ends) {
        let mut altered = whole.clone();
        altered[at] ^= 1 << (at % 8);
        all_report_damage(&path, &format!("byte {at}"), &altered);
    }
}

#[test]
fn a_missing_end_is_reported_by_every_command() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let whole = fs::read(&path).unwrap();
    for cut in 1..=4 {
        let rest = &whole[..whole.len() - cut];
        all_report_damage(&path, &format!("{cut} bytes cut off"), rest);
    }
}

#[test]
fn damage_is_reported_before_the_results() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let mut altered = fs::read(&path).unwrap();
    altered.pop();
    fs::write(&path, &altered).unwrap();
    for command in ["stat", "lint"] {
        // Both streams into one, to see the order.
        let script = format!(
            "{} {command} {} 2>&1",
            env!("CARGO_BIN_EXE_brownout"),
            path.display()
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let first = output.lines().next().unwrap_or_default();
        assert!(first.contains("is damaged"), "{command}: {output}");
    }
}

#[test]
fn a_trace_whose_recorder_was_killed_is_usable_and_not_complete() {
    let (_directory, path) = pool_and_semaphore(&[]).abandon();
    for (command, run) in each_command(&path) {
        let stderr = &run.stderr;
        assert!(matches!(run.status, Some(1 | 3)), "{command}: {stderr}");
        assert!(stderr.contains("is cut short"), "{command}: {stderr}");
        assert!(!run.stdout.is_empty(), "{command}: {stderr}");
    }
}
