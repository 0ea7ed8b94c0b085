//! Tests of the command line on traces that the tests write.

mod dump;
mod image;
mod stat;
mod traces;
mod unusable;
mod usage;

use std::ffi::OsStr;
use std::process::{Command, Output};

/// The result of a brownout command.
struct CommandResult {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for CommandResult {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn command(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brownout"));
    command.args(arguments);
    command
}

fn brownout(arguments: &[impl AsRef<OsStr>]) -> CommandResult {
    command(arguments).output().unwrap().into()
}

/// Runs brownout, which must succeed without messages. Returns its output.
fn clean(arguments: &[impl AsRef<OsStr>]) -> String {
    let run = brownout(arguments);
    assert_eq!(
        (run.status, run.stderr.as_str()),
        (Some(0), ""),
        "{}",
        run.stdout
    );
    run.stdout
}

/// The only line of `text` that contains `part`.
#[track_caller]
fn line_with<'a>(text: &'a str, part: &str) -> &'a str {
    let mut lines = text.lines().filter(|line| line.contains(part));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("no line with {part:?} in:\n{text}"));
    assert_eq!(lines.next(), None, "more than one line with {part:?}");
    line
}
