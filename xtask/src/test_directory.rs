//! Runs one command in a fresh directory at a fixed path, with a small fixed environment and a time limit, and keeps its
//! outputs. Processes that it leaves running are killed.
//!
//! The directory has the same path in every run of a case, so that paths in outputs are equal; the
//! outcome holds the produced files, not their place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, kill_process_group, setrlimit};

use crate::shell::SEARCH_PATH;
use crate::signal_names::signal_name;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Exit(i32),
    Signal(i32),
    TimedOut,
    /// What was to prepare its directory failed, so it was not started.
    Unprepared,
}

impl std::fmt::Display for End {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            End::Exit(code) => write!(out, "exit {code}"),
            End::Signal(number) => match signal_name(number) {
                Some(name) => write!(out, "killed by {name}"),
                None => write!(out, "killed by signal {number}"),
            },
            End::TimedOut => write!(out, "hung and was killed"),
            End::Unprepared => write!(out, "was not started, because its setup failed"),
        }
    }
}

/// A file that a run left in its directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Produced {
    File { mode: u32, bytes: Vec<u8> },
    Directory,
    Link(PathBuf),
}

/// All that is compared of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub files: BTreeMap<PathBuf, Produced>,
    pub wall: Duration,
}

/// What to run and for how long.
pub struct Job<'a> {
    pub argv: &'a [OsString],
    /// Run natively by `/bin/sh` in the fresh directory first.
    pub setup: &'a str,
    pub stdin: &'a [u8],
    pub env: &'a [(String, String)],
    pub limit: Duration,
}

/// A directory for the runs of one case: `cwd/`, emptied before each run, and the outputs.
pub struct TestDirectory {
    dir: PathBuf,
    marker: String,
}

/// Every process of a run has this variable in its environment, by which what it leaves behind is
/// found, even in other process groups and sessions.
const MARKER: &str = "BROWNOUT_TEST_RUN";

/// Core files would be produced natively but not, or elsewhere, under test.
pub fn forbid_core_files() -> Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).context("cannot forbid core files")
}

impl TestDirectory {
    /// Makes `dir` empty and uses it.
    pub fn create(dir: &Path) -> Result<TestDirectory> {
        remove_tree(dir)?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let marker = format!("{}:{}", std::process::id(), dir.display());
        Ok(TestDirectory {
            dir: dir.to_owned(),
            marker,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn cwd(&self) -> PathBuf {
        self.dir.join("cwd")
    }

    /// A place for a recording.
    pub fn trace(&self) -> PathBuf {
        self.dir.join("trace")
    }

    pub fn remove(self) -> Result<()> {
        remove_tree(&self.dir)
    }

    /// Runs a job and reads what it produced.
    pub fn run(&self, job: &Job) -> Result<Outcome> {
        let mut outcome = self.run_unread(job)?;
        collect(&self.cwd(), Path::new(""), &mut outcome.files)?;
        Ok(outcome)
    }

    /// Runs a job; what it produced stays on disk until the next run.
    pub fn run_unread(&self, job: &Job) -> Result<Outcome> {
        remove_tree(&self.cwd())?;
        remove_tree(&self.trace())?;
        fs::create_dir(self.cwd())?;
        let (end, wall) = if self.prepare(job)? {
            self.run_in_cwd(job)?
        } else {
            (End::Unprepared, Duration::ZERO)
        };
        let stdout = fs::read(self.dir.join("stdout"))?;
        let stderr = fs::read(self.dir.join("stderr"))?;
        Ok(Outcome {
            end,
            stdout,
            stderr,
            files: BTreeMap::new(),
            wall,
        })
    }

    /// Runs the job's setup; whether it succeeded. Its outputs are those of the run if it did not.
    fn prepare(&self, job: &Job) -> Result<bool> {
        if job.setup.is_empty() {
            return Ok(true);
        }
        let argv: Vec<OsString> = vec!["/bin/sh".into(), "-ec".into(), job.setup.into()];
        let (end, _) = self.run_in_cwd(&Job {
            argv: &argv,
            ..*job
        })?;
        Ok(end == End::Exit(0))
    }

    fn run_in_cwd(&self, job: &Job) -> Result<(End, Duration)> {
        let stdin = self.dir.join("stdin");
        fs::write(&stdin, job.stdin)?;
        let home = self.cwd();
        let started = Instant::now();
        let mut child = Command::new(&job.argv[0])
            .args(&job.argv[1..])
            .current_dir(self.cwd())
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", &home)
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env(MARKER, &self.marker)
            .envs(job.env.iter().map(|(name, value)| (name, value)))
            .stdin(File::open(&stdin)?)
            .stdout(File::create(self.dir.join("stdout"))?)
            .stderr(File::create(self.dir.join("stderr"))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", job.argv[0].display()))?;
        let end = wait(&mut child, job.limit)?;
        let wall = started.elapsed();
        self.kill_rest();
        Ok((end, wall))
    }

    /// The processes of the run.
    pub fn processes(&self) -> impl Iterator<Item = i32> {
        let wanted = format!("{MARKER}={}", self.marker);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            environment
                .split(|&byte| byte == 0)
                .any(|variable| variable == wanted.as_bytes())
                .then_some(pid)
        })
    }

    /// Kills the processes of the run that are left.
    fn kill_rest(&self) {
        for pid in self.processes().filter_map(Pid::from_raw) {
            // It may have ended in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits for `child`, the leader of a process group, at most `limit`; then kills the group.
pub fn wait(child: &mut Child, limit: Duration) -> Result<End> {
    let leader = Pid::from_child(child);
    let (finished, stop) = mpsc::channel::<()>();
    let (status, hung) = std::thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let hung = stop.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if hung {
                // Either may be gone already: the leader may have left its group, or just ended.
                let _ = kill_process_group(leader, Signal::KILL);
                let _ = kill_process(leader, Signal::KILL);
            }
            hung
        });
        let status = child.wait();
        drop(finished);
        (
            status,
            watchdog.join().expect("the watchdog does not panic"),
        )
    });
    let status = status?;
    Ok(match status.signal() {
        _ if hung => End::TimedOut,
        Some(signal) => End::Signal(signal),
        None => End::Exit(status.code().unwrap_or(-1)),
    })
}

/// Runs `argv` outside of any directory, for tools; its standard output if it succeeds.
pub fn output_of(argv: &[OsString], limit: Duration) -> Result<Vec<u8>> {
    let line = argv
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run `{line}`"))?;
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut bytes).map(|_| bytes)
    });
    let end = wait(&mut child, limit)?;
    let bytes = reader.join().expect("the reader does not panic")?;
    if end != End::Exit(0) {
        bail!("`{line}`: {end}");
    }
    Ok(bytes)
}

fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A recording may be one file.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(fs::remove_file(path)?),
        other => other.with_context(|| format!("cannot remove {}", path.display())),
    }
}

/// Gathers what is under `base/below`; sockets, pipes and devices have no content to compare.
fn collect(base: &Path, below: &Path, files: &mut BTreeMap<PathBuf, Produced>) -> Result<()> {
    for entry in fs::read_dir(base.join(below))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files.insert(name.clone(), Produced::Directory);
            collect(base, &name, files)?;
        } else if kind.is_symlink() {
            files.insert(name, Produced::Link(fs::read_link(entry.path())?));
        } else if kind.is_socket()
            || kind.is_fifo()
            || kind.is_block_device()
            || kind.is_char_device()
        {
            continue;
        } else {
            let mode = entry.metadata()?.permissions().mode() & 0o7777;
            let bytes = fs::read(entry.path())
                .with_context(|| format!("cannot read {}", name.display()))?;
            files.insert(name, Produced::File { mode, bytes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job<'a>(argv: &'a [OsString], limit: u64) -> Job<'a> {
        Job {
            argv,
            setup: "echo from-setup >given",
            stdin: b"in",
            env: &[],
            limit: Duration::from_millis(limit),
        }
    }

    fn directory(name: &str) -> TestDirectory {
        let dir = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
        TestDirectory::create(&dir).unwrap()
    }

    #[test]
    fn an_outcome_holds_status_outputs_and_files() {
        let directory = directory("outcome");
        let argv = [
            "/bin/sh",
            "-c",
            "cat; cat given >made; echo err >&2; kill -9 $$",
        ]
        .map(OsString::from);
        let outcome = directory.run(&job(&argv, 10_000)).unwrap();
        assert_eq!(outcome.end, End::Signal(9));
        assert_eq!(outcome.stdout, b"in");
        assert_eq!(outcome.stderr, b"err\n");
        let Produced::File { bytes, .. } = &outcome.files[Path::new("made")] else {
            panic!()
        };
        assert_eq!(bytes, b"from-setup\n");
        directory.remove().unwrap();
    }

    #[test]
    fn what_cannot_be_prepared_is_not_started() {
        let directory = directory("unprepared");
        let argv = ["/bin/sh", "-c", "echo started"].map(OsString::from);
        let outcome = directory
            .run(&Job {
                setup: "echo why >&2; exit 3",
                ..job(&argv, 10_000)
            })
            .unwrap();
        assert_eq!(outcome.end, End::Unprepared);
        assert_eq!(outcome.stderr, b"why\n");
        assert!(outcome.stdout.is_empty());
        directory.remove().unwrap();
    }

    #[test]
    fn a_hang_is_killed_with_what_it_started() {
        let directory = directory("hang");
        let argv = ["/bin/sh", "-c", "setsid sleep 987 & wait"].map(OsString::from);
        let outcome = directory.run(&job(&argv, 300)).unwrap();
        assert_eq!(outcome.end, End::TimedOut);
        let left = Command::new("/bin/sh")
            .args(["-c", "ps ax | grep '[s]leep 987'"])
            .output()
            .unwrap();
        assert!(left.stdout.is_empty());
        directory.remove().unwrap();
    }
}
