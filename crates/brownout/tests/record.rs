//! `brownout record` as a user meets it: statuses, signals, streams, full disks.
//!
//! The recorded program is the example store, compiled with the machine's C compiler.

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
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `brownout record` with the given options and command, in this directory.
    fn record(&self, options: &[&str], command: &[&str]) -> Command {
        let mut record = Command::new(env!("CARGO_BIN_EXE_brownout"));
        record
            .args(["record", "-o", "trace"])
            .args(options)
            .arg("--")
            .args(command)
            .current_dir(self.directory.path())
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
        assert!(Instant::now() < deadline, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Maps a file, and submits nothing by the kernel's own asynchronous interface, which is not followed.
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
fn what_could_not_be_recorded_is_told_at_once_and_by_stat() {
    let place = Place::new();
    fs::write(place.path("asynchronous.c"), ASYNCHRONOUS).unwrap();
    let compiled = Command::new("cc")
        .args(["-o", "asynchronous", "asynchronous.c"])
        .current_dir(place.directory.path())
        .status();
    assert!(compiled.unwrap().success());
    let recorded = run(&mut place.record(&["--pm", "pool"], &["./asynchronous"]));
    assert!(recorded.status.success());
    let told = "the target uses io_submit";
    assert!(text(&recorded.stderr).contains(told));
    let stat = place.stat();
    let (_, notes) = stat.split_once("Notes\n").expect("notes are shown");
    assert!(notes.trim_start().starts_with(told));
}

#[test]
fn output_and_status_are_the_programs() {
    let place = Place::new();
    let kvlog = place.kvlog();
    let output = run(&mut place.record(&[], &[kvlog, "store", "put", "10"]));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "8 entries\n");
    let told = text(&output.stderr);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.starts_with("brownout: ") && told.contains(" events, "),
        "{told}"
    );
    assert!(told.trim_end().ends_with(" bytes -> trace"), "{told}");
    assert!(place.stat().contains("/store"), "{}", place.stat());

    let usage = run(&mut place.record(&["--quiet"], &[kvlog]));
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).starts_with("usage: kvlog"));
}

#[test]
fn death_by_a_signal_is_passed_on() {
    let place = Place::new();
    for signal in [SIGKILL, SIGTERM, SIGSEGV] {
        let script = format!("kill -{signal} $$");
        let output = run(&mut place.record(&[], &["sh", "-c", &script]));
        assert_eq!(output.status.signal(), Some(signal));
        assert!(!output.status.core_dumped(), "that was the program's to do");
        assert!(place.stat().contains(&format!("killed by signal {signal}")));
    }
}

#[test]
fn signals_sent_to_brownout_reach_the_program() {
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        let place = Place::new();
        let script = format!(
            "trap 'echo caught; exit 9' {signal}; touch ready; while :; do sleep 0.05; done"
        );
        let record = place.record(&["-q"], &["sh", "-c", &script]);
        // Whoever runs the tests may ignore signals, as `nohup` does, and a shell cannot trap those.
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(record.get_program())
            .args(record.get_args())
            .current_dir(record.get_current_dir().unwrap());
        // Away from the terminal of whoever runs the tests.
        let child = command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = child.spawn().unwrap();
        wait_for(&place.path("ready"));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(9), "signal {signal}");
        assert_eq!(text(&output.stdout), "caught\n");
    }
}

#[test]
fn processes_that_outlive_the_program_are_recorded_to_their_end() {
    let place = Place::new();
    let kvlog = place.kvlog();
    let script = format!("(sleep 0.4; exec {kvlog} store put 10) & exit 3");
    let output = run(&mut place.record(&["-q"], &["sh", "-c", &script]));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "8 entries\n");
    assert!(
        place.stat().contains("kvlog store put 10  (exit status 0)"),
        "{}",
        place.stat()
    );
}

#[test]
fn what_cannot_be_run_is_told_with_exit_code_2() {
    let place = Place::new();
    let mut header = vec![0; 64];
    header[..20].copy_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0");
    fs::write(place.path("old"), header).unwrap();
    fs::write(place.path("script"), "#!/no/such/interpreter\n").unwrap();
    let made_executable = Command::new("chmod")
        .arg("+x")
        .args([place.path("old"), place.path("script")])
        .status();
    assert!(made_executable.unwrap().success());
    for (command, why) in [
        ("no-such-program-anywhere", "no such program"),
        ("./missing", "No such file"),
        (".", "directory"),
        ("/etc/passwd", "Permission denied"),
        ("./old", "32-bit"),
        ("./script", "needs /no/such/interpreter"),
    ] {
        let output = run(&mut place.record(&[], &[command]));
        assert_eq!(output.status.code(), Some(2), "{command}");
        let told = text(&output.stderr);
        assert!(
            told.starts_with("brownout: ") && told.contains(why),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(!place.path("trace").exists());
    }
}

#[test]
fn a_run_without_persistent_memory_is_warned_about() {
    let place = Place::new();
    let output = run(&mut place.record(&[], &["true"]));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("warning: nothing persistent was seen"));

    let kvlog = place.kvlog();
    assert!(
        run(&mut place.record(&["-q"], &[kvlog, "store", "put", "1"]))
            .stderr
            .is_empty()
    );
    let output = run(&mut place.record(&[], &[kvlog, "store", "check"]));
    let told = text(&output.stderr);
    let store = place.path("store");
    assert!(told.contains("nothing persistent was seen"), "{told}");
    assert!(
        told.contains(&format!("\n  {}\n", store.display())),
        "considered: {told}"
    );
    assert!(told.contains("--pm '"), "how to name one: {told}");

    let named = run(&mut place.record(&["--pm", "store"], &[kvlog, "store", "check"]));
    assert!(
        !text(&named.stderr).contains("nothing persistent"),
        "{}",
        text(&named.stderr)
    );
}

/// Records an endless amount of events with room for a trace of 8 KiB.
fn record_with_little_room(place: &Place, on_full: &str) -> io::Result<Output> {
    let kvlog = place.kvlog();
    // The store has its size already: the limit is for files that grow.
    run(Command::new(kvlog)
        .args(["store", "put", "1"])
        .current_dir(place.directory.path()));
    let program =
        format!("{kvlog} store put 2000; sleep 1; {kvlog} store check; touch survived; exit 5");
    let record = format!(
        "ulimit -S -f 16; exec {} record -o trace --on-full {on_full} -- sh -c '{program}'",
        env!("CARGO_BIN_EXE_brownout")
    );
    Command::new("sh")
        .args(["-c", &record])
        .current_dir(place.directory.path())
        .output()
}

#[test]
fn on_a_full_disk_the_program_goes_on_if_asked() {
    let place = Place::new();
    let output = record_with_little_room(&place, "continue").unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(place.path("survived").exists());
    let told = text(&output.stderr);
    assert!(
        told.contains("recording stopped: no room left for the trace"),
        "{told}"
    );
    assert!(told.contains("the program continues"), "{told}");
    assert!(
        place.stat().contains("the disk was full"),
        "{}",
        place.stat()
    );
}

#[test]
fn on_a_full_disk_the_program_is_stopped_if_asked() {
    let place = Place::new();
    let output = record_with_little_room(&place, "stop").unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!place.path("survived").exists());
    assert!(text(&output.stderr).contains("the program is killed"));
}
