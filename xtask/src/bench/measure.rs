//! What one run costs: processor time of all its processes, and time on the clock.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell::{SEARCH_PATH, find_program};
use crate::sys::children_time;
use crate::test_directory::{End, wait};

const LIMIT: Duration = Duration::from_secs(300);
/// Requests of each kind that the client sends to the server.
const REQUESTS: &str = "60000";

#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu: Duration,
    pub wall: Duration,
}

impl Cost {
    pub const WORST: Cost = Cost {
        cpu: Duration::MAX,
        wall: Duration::MAX,
    };

    /// The lower of each: disturbances only ever add.
    pub fn best(self, other: Cost) -> Cost {
        Cost {
            cpu: self.cpu.min(other.cpu),
            wall: self.wall.min(other.wall),
        }
    }
}

/// Where a load runs.
pub struct WorkDirectories {
    /// Its working directory, prepared once.
    pub cwd: PathBuf,
    /// An empty directory in memory for persistent files.
    pub pm: PathBuf,
}

impl WorkDirectories {
    /// Runs a program to its end.
    pub fn run(&self, words: &[OsString]) -> Result<Cost> {
        let cpu = children_time()?;
        let started = Instant::now();
        let mut child = self.start(words)?;
        let end = wait(&mut child, LIMIT)?;
        let wall = started.elapsed();
        self.expect_success(end, words)?;
        Ok(Cost {
            cpu: children_time()? - cpu,
            wall,
        })
    }

    /// Runs a server, a client against it, and ends it. Its cost is the server's processor time and the
    /// client's time on the clock.
    pub fn serve(&self, words: &[OsString]) -> Result<Cost> {
        let socket = self.cwd.join("socket");
        if socket.exists() {
            fs::remove_file(&socket)?;
        }
        let mut server = self.start(words)?;
        let started = Instant::now();
        while !socket.exists() {
            if started.elapsed() > Duration::from_secs(60) || server.try_wait()?.is_some() {
                wait(&mut server, Duration::ZERO)?;
                bail!("the server did not come up");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let kinds = "set,get,incr,lpush,hset,zadd";
        let load = ["-n", REQUESTS, "-c", "20", "-P", "8", "-q", "-t", kinds];
        let started = Instant::now();
        let client = self.client("redis-benchmark", &load);
        let wall = started.elapsed();
        let stopped = self.client("redis-cli", &["shutdown", "nosave"]);
        let cpu = children_time()?;
        let end = wait(&mut server, Duration::from_secs(20))?;
        client.and(stopped)?;
        self.expect_success(end, words)?;
        Ok(Cost {
            cpu: children_time()? - cpu,
            wall,
        })
    }

    fn start(&self, words: &[OsString]) -> Result<Child> {
        if self.pm.exists() {
            fs::remove_dir_all(&self.pm)?;
        }
        fs::create_dir_all(&self.pm)?;
        Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&self.cwd)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("LANG", "C.UTF-8")
            .env("PMEM_IS_PMEM_FORCE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.cwd.join("stderr"))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", words[0].display()))
    }

    fn expect_success(&self, end: End, words: &[OsString]) -> Result<()> {
        if end == End::Exit(0) {
            return Ok(());
        }
        let stderr = fs::read_to_string(self.cwd.join("stderr")).unwrap_or_default();
        bail!(
            "{}: {end}: {}",
            words[0].display(),
            stderr.trim().lines().last().unwrap_or_default()
        )
    }

    fn client(&self, name: &str, args: &[&str]) -> Result<()> {
        let program = find_program(name).with_context(|| format!("{name} is not installed"))?;
        let mut command = Command::new(program);
        command
            .args(["-s", "socket"])
            .args(args)
            .current_dir(&self.cwd);
        let status = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("{name}: {status}");
        }
        Ok(())
    }
}
