//! Complete recordings with a shell in place of the loader. It runs a script and publishes nothing.

use super::*;
use crate::sys::signals::ONE_AT_A_TIME;
use brownout_trace::TraceReader;
use rustix::process::Signal;
use std::path::Path;
use std::sync::MutexGuard;

struct Recorded {
    recording: Recording,
    directory: tempfile::TempDir,
}

impl Recorded {
    /// What the script wrote to the file `out`.
    fn output(&self) -> String {
        fs::read_to_string(self.directory.path().join("out")).unwrap()
    }
}

fn options(directory: &Path, script: &str) -> RecordOptions {
    let script = format!("cd '{}'\n{script}", directory.display());
    RecordOptions {
        command: vec!["sh".into(), "-c".into(), script.into()],
        trace: directory.join("trace"),
        pm: vec!["pool*".into()],
        loads: false,
        shared_loads: false,
        coverage: false,
        watch: Vec::new(),
        on_full: OnFull::Continue,
        schedule: None,
        patch: None,
        symbolic: Vec::new(),
    }
}

fn run(script: &str) -> Recorded {
    run_alone(&ONE_AT_A_TIME.lock().unwrap(), script)
}

fn run_alone(_alone: &MutexGuard<'_, ()>, script: &str) -> Recorded {
    let directory = tempfile::tempdir().unwrap();
    let shell = fs::read("/bin/sh").unwrap();
    let options = options(directory.path(), script);
    let recording = record_with(&shell, &options, &mut |_| ()).unwrap();
    Recorded {
        recording,
        directory,
    }
}

#[test]
fn the_exit_status_is_returned_and_written_to_the_trace() {
    let recorded = run("exit 7");
    let end = ProcessEnd::Exited { status: 7 };
    assert_eq!(recorded.recording.end, end);
    assert!(recorded.recording.stopped.is_none());
    let reader = TraceReader::open(recorded.directory.path().join("trace")).unwrap();
    assert_eq!(reader.header().pm, ["pool*"]);
    assert_eq!(reader.header().command[0], "sh");
    let ending = &reader.summary().unwrap().ending;
    assert_eq!(ending.target, Some(end));
    assert_eq!(ending.stopped, None);
    assert!(ending.wall.is_some() && ending.cpu.is_some());
    let trace = fs::metadata(recorded.directory.path().join("trace")).unwrap();
    assert_eq!(recorded.recording.bytes, trace.len());
}

#[test]
fn death_by_a_signal_is_reported() {
    assert_eq!(
        run("kill -KILL $$").recording.end,
        ProcessEnd::Signaled {
            signal: Signal::KILL.as_raw()
        }
    );
    assert_eq!(
        run("kill -TERM $$").recording.end,
        ProcessEnd::Signaled {
            signal: Signal::TERM.as_raw()
        }
    );
}

#[test]
fn the_loader_finds_the_wire_and_the_program() {
    let recorded = run("echo $BROWNOUT_WIRE >out; readlink /proc/$$/fd/${BROWNOUT_WIRE%%:*} >>out");
    let output = recorded.output();
    let (variable, link) = output.split_once('\n').unwrap();
    let (descriptor, path) = variable.split_once(':').unwrap();
    assert!(
        descriptor.parse::<u32>().unwrap() > 200,
        "above the descriptors of the target"
    );
    assert!(path.ends_with("/sh"), "{path}");
    assert!(link.contains("brownout-wire"), "{link}");
}

#[test]
fn nothing_else_reaches_the_target() {
    let recorded = run("ls -l /proc/$$/fd >out; env | sort >environment");
    let descriptors = recorded.output();
    let ours: Vec<&str> = descriptors
        .lines()
        .filter(|line| {
            line.contains("brownout") || line.contains("trace") || line.contains("signalfd")
        })
        .collect();
    assert_eq!(ours.len(), 1, "only the wire: {ours:?}");
    let environment = fs::read_to_string(recorded.directory.path().join("environment")).unwrap();
    // The shell itself sets these.
    let by_shell = ["PWD=", "OLDPWD=", "_=", "SHLVL=", "BROWNOUT_WIRE="];
    let kept = |line: &&str| !by_shell.iter().any(|name| line.starts_with(name));
    let theirs: Vec<&str> = environment.lines().filter(kept).collect();
    for (name, value) in std::env::vars()
        .filter(|(name, value)| kept(&format!("{name}=").as_str()) && !value.contains('\n'))
    {
        assert!(
            theirs.contains(&format!("{name}={value}").as_str()),
            "{name} is missing"
        );
    }
}

#[test]
fn the_target_has_the_callers_signal_mask_and_dispositions() {
    let masks = |status: String| -> Vec<u64> {
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
        };
        vec![of("SigBlk"), of("SigIgn")]
    };
    let alone = ONE_AT_A_TIME.lock().unwrap();
    let before = masks(fs::read_to_string("/proc/thread-self/status").unwrap());
    let recorded = run_alone(
        &alone,
        "while read -r line; do echo \"$line\"; done </proc/$$/status >out",
    );
    let target = masks(recorded.output());
    let after = masks(fs::read_to_string("/proc/thread-self/status").unwrap());
    let pipe = 1 << (Signal::PIPE.as_raw() - 1);
    assert_eq!(target[0], before[0]);
    // Rust's start-up code ignores SIGPIPE in this process, regardless of the caller's disposition.
    assert_eq!(target[1] & !pipe, before[1] & !pipe);
    assert_eq!(
        after, before,
        "the recorder restores the mask and dispositions"
    );
}

#[test]
fn the_processor_time_of_children_is_counted() {
    let recorded = run("sh -c 'i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done'");
    assert!(
        recorded.recording.cpu >= Duration::from_millis(5),
        "{:?}",
        recorded.recording.cpu
    );
    assert!(recorded.recording.wall >= recorded.recording.cpu / 2);
}

#[test]
fn a_target_that_cannot_be_started_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), "");
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let not_elf = record_with(b"no program", &options, &mut |_| ()).unwrap_err();
    assert!(
        matches!(not_elf, RecordError::Target(TargetError::Start { .. })),
        "{not_elf:?}"
    );
    assert!(!options.trace.exists());
    options.command = vec!["/no/such/program".into()];
    fs::write(&options.trace, "an earlier trace").unwrap();
    let missing = record_with(b"", &options, &mut |_| ()).unwrap_err();
    assert!(
        matches!(missing, RecordError::Target(TargetError::Program(_))),
        "{missing:?}"
    );
    assert_eq!(
        fs::read(&options.trace).unwrap(),
        b"an earlier trace",
        "the earlier trace is not overwritten"
    );
}

#[test]
fn a_trace_that_cannot_be_created_is_reported_before_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), "touch started");
    options.trace = directory.path().join("missing/trace");
    let shell = fs::read("/bin/sh").unwrap();
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let error = record_with(&shell, &options, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, RecordError::CreateTrace { .. }),
        "{error:?}"
    );
    assert!(!directory.path().join("started").exists());
}
