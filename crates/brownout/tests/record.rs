//! Tests of `brownout record`: exit statuses, signals, standard streams, full disks.
//!
//! The target is the example store, compiled with the system's C compiler.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
const SIGTERM: i32 = 15;

/// A directory to record in.
struct RecordingDirectory {
    root: tempfile::TempDir,
}

impl RecordingDirectory {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `brownout record` with the given options and command, in this directory.
    fn record(&self, options: &[&str], command: &[&str]) -> Command {
        let mut record = Command::new(env!("CARGO_BIN_EXE_brownout"));
        record
            .args(["record", "-o", "trace"])
            .args(options)
            .arg("--")
            .args(command)
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        record
    }

    /// The example store, compiled.
    fn kvlog(&self) -> &'static str {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kvlog.c");
        let compiled = Command::new("cc")
            .args(["-O1", "-g", "-o"])
            .arg(self.path("kvlog"))
            .arg(source)
            .status();
        assert!(compiled.unwrap().success());
        "./kvlog"
    }

    fn stat(&self) -> String {
        let stat = Command::new(env!("CARGO_BIN_EXE_brownout"))
            .arg("stat")
            .arg(self.path("trace"))
            .output()
            .unwrap();
        text(&stat.stdout)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn send(child: &Child, signal: i32) {
    let status = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg(child.id().to_string())
        .status();
    assert!(status.unwrap().success());
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !path.exists() {
        assert!(
            Instant::now() < deadline,
            "{} was not created",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Maps a file, and calls `io_submit`, which is not followed, with no requests.
const ASYNCHRONOUS: &str = "
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  int fd = open(\"pool\", O_RDWR | O_CREAT, 0600);
  if (ftruncate(fd, 4096) != 0) return 1;
  volatile char *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  pool[0] = 1;
  syscall(SYS_io_submit, 0L, 0L, (void *)0);
  return 0;
}";

#[test]
fn what_could_not_be_recorded_is_reported_by_record_and_by_stat() {
    let directory = RecordingDirectory::new();
    fs::write(directory.path("asynchronous.c"), ASYNCHRONOUS).unwrap();
    let compiled = Command::new("cc")
        .args(["-o", "asynchronous", "asynchronous.c"])
        .current_dir(directory.root.path())
        .status();
    assert!(compiled.unwrap().success());
    let recorded = run(&mut directory.record(&["--pm", "pool"], &["./asynchronous"]));
    assert!(recorded.status.success());
    let message = "the program uses io_submit";
    assert!(text(&recorded.stderr).contains(message));
    let stat = directory.stat();
    let (_, notes) = stat.split_once("Notes\n").expect("notes are shown");
    assert!(notes.trim_start().starts_with(message));
}

#[test]
fn record_has_the_output_and_status_of_the_target() {
    let directory = RecordingDirectory::new();
    let kvlog = directory.kvlog();
    let output = run(&mut directory.record(&[], &[kvlog, "store", "put", "10"]));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "8 entries\n");
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.starts_with("brownout: ") && message.contains(" events, "),
        "{message}"
    );
    assert!(message.trim_end().ends_with(" bytes -> trace"), "{message}");
    assert!(directory.stat().contains("/store"), "{}", directory.stat());

    let usage = run(&mut directory.record(&["--quiet"], &[kvlog]));
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).starts_with("usage: kvlog"));
}

#[test]
fn record_ends_with_the_signal_of_the_target() {
    let directory = RecordingDirectory::new();
    for (signal, name) in [
        (SIGKILL, "SIGKILL"),
        (SIGTERM, "SIGTERM"),
        (SIGSEGV, "SIGSEGV"),
    ] {
        let script = format!("kill -{signal} $$");
        let output = run(&mut directory.record(&[], &["sh", "-c", &script]));
        assert_eq!(output.status.signal(), Some(signal));
        assert!(!output.status.core_dumped(), "only the target dumps core");
        assert!(directory.stat().contains(&format!("killed by {name}")));
    }
}

#[test]
fn signals_sent_to_brownout_reach_the_target() {
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        let directory = RecordingDirectory::new();
        let script = format!(
            "trap 'echo caught; exit 9' {signal}; touch ready; while :; do sleep 0.05; done"
        );
        let record = directory.record(&["-q"], &["sh", "-c", &script]);
        // The caller of the tests may ignore signals, as `nohup` does, and a shell cannot trap ignored signals.
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(record.get_program())
            .args(record.get_args())
            .current_dir(record.get_current_dir().unwrap());
        // Detached from the terminal that the tests run in.
        let child = command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = child.spawn().unwrap();
        wait_for(&directory.path("ready"));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(9), "signal {signal}");
        assert_eq!(text(&output.stdout), "caught\n");
    }
}

#[test]
fn a_recorder_that_is_killed_takes_the_target_with_it() {
    let directory = RecordingDirectory::new();
    let script = "echo $$ > number; mv number pid; exec sleep 600";
    let mut recorder = directory
        .record(&[], &["sh", "-c", script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&directory.path("pid"));
    let target = fs::read_to_string(directory.path("pid")).unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/stat", target.trim()));
    assert!(state().is_ok(), "it runs");
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // The process that inherits it may leave it as a zombie.
    let is_gone = || !state().is_ok_and(|state| !state.contains(") Z "));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_gone() {
        assert!(Instant::now() < deadline, "the target goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn processes_that_outlive_the_target_are_recorded_to_their_end() {
    let directory = RecordingDirectory::new();
    let kvlog = directory.kvlog();
    let script = format!("(sleep 0.4; exec {kvlog} store put 10) & exit 3");
    let output = run(&mut directory.record(&["-q"], &["sh", "-c", &script]));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "8 entries\n");
    assert!(
        directory
            .stat()
            .contains("kvlog store put 10  (exit status 0)"),
        "{}",
        directory.stat()
    );
}

#[test]
fn a_command_that_cannot_be_run_is_reported_with_exit_code_2() {
    let directory = RecordingDirectory::new();
    let mut header = vec![0; 64];
    header[..20].copy_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0");
    fs::write(directory.path("old"), header).unwrap();
    fs::write(directory.path("script"), "#!/no/such/interpreter\n").unwrap();
    let made_executable = Command::new("chmod")
        .arg("+x")
        .args([directory.path("old"), directory.path("script")])
        .status();
    assert!(made_executable.unwrap().success());
    for (command, why) in [
        ("no-such-program-anywhere", "no such program"),
        ("./missing", "No such file"),
        (".", "no such program in PATH"),
        ("/", "is a directory"),
        ("/etc/passwd", "Permission denied"),
        ("./old", "32-bit"),
        ("./script", "needs /no/such/interpreter"),
    ] {
        let output = run(&mut directory.record(&[], &[command]));
        assert_eq!(output.status.code(), Some(2), "{command}");
        let message = text(&output.stderr);
        assert!(
            message.starts_with("brownout: ") && message.contains(why),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(!directory.path("trace").exists());
    }
}

#[test]
fn a_run_without_persistent_memory_causes_a_warning() {
    let directory = RecordingDirectory::new();
    let output = run(&mut directory.record(&[], &["true"]));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("warning: nothing persistent was seen"));

    let kvlog = directory.kvlog();
    assert!(
        run(&mut directory.record(&["-q"], &[kvlog, "store", "put", "1"]))
            .stderr
            .is_empty()
    );
    let output = run(&mut directory.record(&[], &[kvlog, "store", "check"]));
    let message = text(&output.stderr);
    let store = directory.path("store");
    assert!(message.contains("nothing persistent was seen"), "{message}");
    assert!(
        message.contains(&format!("\n  {}\n", store.display())),
        "the mapped file is listed: {message}"
    );
    assert!(message.contains("--pm '"), "how to select one: {message}");

    let named = run(&mut directory.record(&["--pm", "store"], &[kvlog, "store", "check"]));
    assert!(
        !text(&named.stderr).contains("nothing persistent"),
        "{}",
        text(&named.stderr)
    );
}

/// Records more events than fit in a trace of 8 KiB, which is all the room there is.
fn record_with_little_room(directory: &RecordingDirectory, on_full: &str) -> io::Result<Output> {
    let kvlog = directory.kvlog();
    // Creates the store at its full size: the limit applies to files that grow.
    run(Command::new(kvlog)
        .args(["store", "put", "1"])
        .current_dir(directory.root.path()));
    let program =
        format!("{kvlog} store put 2000; sleep 1; {kvlog} store check; touch survived; exit 5");
    let record = format!(
        "ulimit -S -f 16; exec {} record -o trace --on-full {on_full} -- sh -c '{program}'",
        env!("CARGO_BIN_EXE_brownout")
    );
    Command::new("sh")
        .args(["-c", &record])
        .current_dir(directory.root.path())
        .output()
}

#[test]
fn on_a_full_disk_the_target_continues_if_requested() {
    let directory = RecordingDirectory::new();
    let output = record_with_little_room(&directory, "continue").unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(directory.path("survived").exists());
    let message = text(&output.stderr);
    assert!(
        message.contains("recording stopped: no room left for the trace"),
        "{message}"
    );
    assert!(message.contains("the program continues"), "{message}");
    assert!(
        directory.stat().contains("the disk was full"),
        "{}",
        directory.stat()
    );
}

#[test]
fn on_a_full_disk_the_target_is_stopped_if_requested() {
    let directory = RecordingDirectory::new();
    let output = record_with_little_room(&directory, "stop").unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!directory.path("survived").exists());
    assert!(text(&output.stderr).contains("the program is killed"));
}
