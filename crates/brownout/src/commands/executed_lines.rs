//! Prints which source lines a recorded program has executed, for `brownout fix`, which starts this inside of a sandbox.

use std::io::Write as _;
use std::path::Path;

use crate::console::{self, Console};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::fix::ExecutedLines;

pub fn run(trace: &Path, console: &Console) -> Result<ExitCode, Failure> {
    let lines = ExecutedLines::of(trace, console)?;
    let mut out = console::results();
    serde_json::to_writer(&mut out, &lines)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush())
        .map_err(Failure::Output)?;
    Ok(ExitCode::Success)
}
