//! Interruptions, kills, full disks: nothing lost, nothing left.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Completed, TestDir, crashes, private_mounts_are_possible, run_file};

const OPTIONS: [&str; 4] = ["--occurrences", "100", "--no-narrowing", "--quiet"];

/// A recovery that takes some milliseconds, so that there is something to interrupt.
const SLOW: &str = "sh -c './slots {pm} check; s=$?; sleep 0.01; exit $s'";

fn crash(dir: &TestDir, more: &[&str]) -> Command {
    let mut arguments = vec!["crash", "trace", "--recover", SLOW];
    arguments.extend(OPTIONS);
    arguments.extend(more);
    dir.command(&arguments)
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_goes_on() {
    for signal in ["-INT", "-HUP"] {
        interrupt(signal);
    }
}

fn interrupt(signal: &str) {
    let dir = TestDir::new();
    dir.record(&[], &["100", "early"]);
    // The tests themselves may run where hanging up is ignored.
    let crash_test = crash(&dir, &[]);
    let child = Command::new("env")
        .arg("--default-signal")
        .arg(crash_test.get_program())
        .args(crash_test.get_args())
        .current_dir(dir.path("."))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_trials(&dir, 3);
    let interrupted = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(interrupted.unwrap().success());
    let run: Completed = child.wait_with_output().unwrap().into();
    assert!(
        matches!(run.status, Some(1 | 3)),
        "{:?} {}",
        run.status,
        run.stderr
    );
    assert!(run.stderr.contains("it was interrupted"), "{}", run.stderr);
    let first = crashes(&dir.findings()).first().map_or(0, |found| found.1);
    let run: Completed = crash(&dir, &["--resume"]).output().unwrap().into();
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(crashes(&dir.findings())[0].1 > first);
    assert!(!run.stderr.contains("only"), "{}", run.stderr);
}

#[test]
fn killed_at_any_moment_nothing_is_lost_and_nothing_left() {
    let dir = TestDir::new();
    dir.record(&[], &["100", "early"]);
    let pool = fs::read(dir.path("pool")).unwrap();
    let journal = dir.path("brownout.out/crash.jsonl");
    let written = || fs::read_to_string(&journal).map_or(0, |text| text.matches('\n').count());
    let mut tried = 0;
    for round in 0..50_u64 {
        let mut child = crash(&dir, &["--resume"]).spawn().unwrap();
        // Moments spread over the first half second, and, however slow the machine is, also such at which crashes are tried.
        let mut moments = 500;
        if round % 2 == 1 {
            wait_until("a crash is tried", || {
                written() > tried || child.try_wait().unwrap().is_some()
            });
            moments = 30;
        }
        sleep(Duration::from_millis(round * 37 % moments));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(
            status.signal() == Some(9) || status.code() == Some(1),
            "{status:?}"
        );
        let now = written();
        assert!(now >= tried, "what was tried is still there");
        tried = now;
    }
    assert!(tried > 0, "crashes are tried before the process is killed");
    let here = dir.directory.path().to_str().unwrap();
    wait_until("no recovery is left", || !any_process_about(here));
    assert!(fs::read(dir.path("pool")).unwrap() == pool);
    let run: Completed = crash(&dir, &["--resume"]).output().unwrap().into();
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    // At each slot, when it counts and is not written yet.
    assert_eq!(crashes(&dir.findings()), [("recovery-failed", 100)]);
    let journal = dir.read("brownout.out/crash.jsonl");
    let trials = journal.lines().filter(|line| line.contains("\"verdict\""));
    let recoveries = trials.filter(|line| !line.contains("\"same_as\"")).count();
    let results = run_file(&dir.path("brownout.out"));
    assert_eq!(results["crash"]["recoveries"], recoveries, "{results}");

    // Merged with itself, and with trials that are there twice, a test is the same test.
    let mut doubled = journal.clone();
    for line in journal.lines().filter(|line| line.contains("\"verdict\"")) {
        doubled.push_str(line);
        doubled.push('\n');
    }
    fs::write(dir.path("brownout.out/crash.jsonl"), doubled).unwrap();
    let merge = ["merge", "brownout.out", "brownout.out", "--out", "merged"];
    let run = dir.brownout(&merge);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let merged = run_file(&dir.path("merged"));
    for number in ["recoveries", "failure_points", "occurrences"] {
        assert_eq!(
            merged["crash"][number], results["crash"][number],
            "{merged}"
        );
    }
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = TestDir::new();
    dir.record(&[], &["100", "early"]);
    fs::create_dir(dir.path("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=40k none small && {} crash trace --recover './slots {{pm}} check' \
         --occurrences 100 --no-narrowing --out small/out; s=$?; cat small/out/crash.jsonl > kept; exit $s",
        env!("CARGO_BIN_EXE_brownout")
    );
    let run: Completed = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(dir.directory.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(run.status, Some(2), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("No space left"), "{}", run.stderr);
    let kept = fs::read_to_string(dir.path("kept")).unwrap();
    assert!(kept.lines().count() > 3, "{kept}");
}

#[test]
fn a_damaged_trace_is_reported() {
    let dir = TestDir::new();
    dir.record(&[], &["100", "early"]);
    let whole = fs::read(dir.path("trace")).unwrap();
    let recover = "./slots {pm} check";
    let crash = |bytes: &[u8]| -> Completed {
        fs::write(dir.path("other"), bytes).unwrap();
        let arguments = ["crash", "other", "--recover", recover, "--out", "out"];
        dir.brownout(&arguments)
    };
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 0xff;
    let run = crash(&altered);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("is damaged"), "{}", run.stderr);
    let len = whole.len();
    for len in [0, 10, len / 3, len / 2, len - 21, len - 4, len - 1] {
        let run = crash(&whole[..len]);
        let messages = ["damaged", "did not finish", "cannot open trace"];
        let reported = messages.iter().any(|words| run.stderr.contains(words));
        assert!(
            reported && run.status != Some(0),
            "{len}: {:?} {}",
            run.status,
            run.stderr
        );
    }
}

/// Records an update of many stores, and tries its failure points with a recovery that takes so many seconds. The search for the
/// store that makes it fail takes more than ten recoveries.
fn crash_slowly(dir: &TestDir, seconds: &str, options: &[&str]) -> Command {
    let record = [
        "record", "-q", "-o", "trace", "--", "./begun", "pool", "put",
    ];
    let recorded = dir.brownout(&record);
    assert_eq!(recorded.status, Some(0), "{}", recorded.stderr);
    // Without the guess that would find it at once.
    fs::write(
        dir.path("brownout.toml"),
        "[rules]\nmissing-flush = \"off\"\n",
    )
    .unwrap();
    let recover = format!("sh -c 'sleep {seconds}; ./begun {{pm}} check'");
    let crash = [
        "crash",
        "trace",
        "--recover",
        &recover,
        "--strategy",
        "prefix",
    ];
    dir.command(&[&crash[..], options].concat())
}

#[test]
fn a_search_for_causes_that_takes_too_long_is_cut_and_reported() {
    let dir = TestDir::with("crash/begun.c", &["-g"]);
    let run = crash_slowly(&dir, "0.5", &["--time-limit", "4s"]).output();
    let run: Completed = run.unwrap().into();
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let why = "the search for causes ended early, after 0 of 1 finding: its part of the time limit was used up";
    assert!(run.stderr.contains(why), "{}", run.stderr);
    assert_eq!(crashes(&dir.findings()).len(), 1);
    let results = run_file(&dir.path("brownout.out"));
    assert_eq!(results["crash"]["complete"], true, "{results}");
    assert!(results["gaps"].to_string().contains(why), "{results}");
    assert!(dir.read("brownout.out/report.html").contains(why));
}

#[test]
fn a_signal_ends_the_search_for_causes() {
    let dir = TestDir::with("crash/begun.c", &["-g"]);
    let mut command = crash_slowly(&dir, "1", &[]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let searching = "searching for the stores that cause 1 finding";
    let begins = lines.any(|line| line.unwrap().contains(searching));
    assert!(begins);
    let signalled = Instant::now();
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    let said: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said:?}");
    // The search itself would take more than ten seconds.
    assert!(signalled.elapsed() < Duration::from_secs(6), "{said:?}");
    let why = "the search for causes ended early, after 0 of 1 finding: it was interrupted";
    assert!(said.iter().any(|line| line.contains(why)), "{said:?}");
    assert_eq!(crashes(&dir.findings()).len(), 1);
}

fn wait_for_trials(dir: &TestDir, count: usize) {
    let journal = dir.path("brownout.out/crash.jsonl");
    wait_until("some crashes are tried", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > count)
    });
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "not in a minute: {what}"
        );
        sleep(Duration::from_millis(20));
    }
}

/// Whether a process works in this directory.
fn any_process_about(directory: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok())
        .any(|cwd| cwd.starts_with(directory))
}
