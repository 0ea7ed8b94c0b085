//! Runs a command with a limit on its time. The processes that it starts are in its process group and end with it.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result};

/// How a command ended and what it wrote.
pub struct Ended {
    /// None if it was stopped because its time was over.
    pub status: Option<ExitStatus>,
    /// Standard output and standard error together.
    pub output: String,
}

impl Ended {
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// How it ended, and its last lines.
    pub fn describe(&self) -> String {
        let end = match self.status {
            Some(status) => status.to_string(),
            None => "no end within the time limit".to_owned(),
        };
        let lines: Vec<&str> = self.output.lines().collect();
        let last = &lines[lines.len().saturating_sub(12)..];
        std::iter::once(end.as_str())
            .chain(last.iter().copied())
            .collect::<Vec<_>>()
            .join("\n    ")
    }
}

/// Runs `command` to its end, or to that of `limit`; `log` is a file for its output.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Ended> {
    let out = File::create(log).map_err(Error::io(log))?;
    let err = out.try_clone().map_err(Error::io(log))?;
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let mut child = command.spawn().map_err(|source| Error::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    let status = wait(&mut child, limit).map_err(Error::io(log))?;
    let mut bytes = Vec::new();
    File::open(log)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(Error::io(log))?;
    fs::remove_file(log).map_err(Error::io(log))?;
    Ok(Ended {
        status,
        output: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            // It may have ended in the meantime.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/sh");
        run(command.args(["-c", script]), &dir.path().join("log"), limit).unwrap()
    }

    #[test]
    fn status_and_output_are_kept() {
        let ended = shell("echo out; echo err >&2; exit 3", Duration::from_secs(20));
        assert_eq!(ended.code(), Some(3));
        assert_eq!(ended.output, "out\nerr\n");
    }

    #[test]
    fn what_does_not_end_is_stopped() {
        let ended = shell("sleep 100", Duration::from_millis(50));
        assert!(ended.status.is_none());
        assert!(ended.describe().contains("time limit"));
    }

    #[test]
    fn a_command_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("/there/is/no/such/program");
        let result = run(
            &mut command,
            &dir.path().join("log"),
            Duration::from_secs(1),
        );
        assert!(matches!(result, Err(Error::Start { .. })));
    }
}
