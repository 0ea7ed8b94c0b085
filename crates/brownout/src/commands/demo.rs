//! `brownout demo`: records and summarises the example program, so that a newcomer sees all of it
//! work with one command.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_trace::ProcessEnd;

use super::{record, stat};
use crate::arguments::{DemoArgs, Format, OnFull, RecordArgs, SelectionArgs, StatArgs};
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;

const SOURCE: &str = include_str!("../../../../examples/kvlog.c");
/// Entries the example puts into its store.
const ENTRIES: &str = "50";

pub fn run(arguments: &DemoArgs, console: &Console) -> Result<ExitCode, Failure> {
    let place = Place::new(arguments.keep.as_deref())?;
    let directory = place.directory();
    let program = compile(directory, console)?;
    let pool = directory.join("store");
    // A second demo in the same directory starts afresh.
    let _ = fs::remove_file(&pool);
    let trace = directory.join("trace");
    let recorded = record::record(
        &RecordArgs {
            patterns: Vec::new(),
            loads: false,
            watched: Vec::new(),
            output: trace.clone(),
            on_full: OnFull::Continue,
            command: vec![program.into(), pool.into(), "put".into(), ENTRIES.into()],
        },
        console,
    )?;
    if recorded.end != (ProcessEnd::Exited { status: 0 }) {
        return Ok(ExitCode::TargetFailed);
    }
    let selection = SelectionArgs {
        patterns: Vec::new(),
    };
    stat::run(
        &StatArgs {
            trace,
            format: Format::Human,
            top: 10,
            selection,
        },
        console,
    )
}

/// Where the demo happens.
enum Place {
    Kept(PathBuf),
    /// Removed at the end.
    Temporary(tempfile::TempDir),
}

impl Place {
    fn new(keep: Option<&Path>) -> Result<Self, Failure> {
        let place = match keep {
            Some(directory) => {
                fs::create_dir_all(directory).map(|()| Self::Kept(directory.to_owned()))
            }
            None => tempfile::Builder::new()
                .prefix("brownout-demo-")
                .tempdir()
                .map(Self::Temporary),
        };
        place.map_err(Failure::DemoDirectory)
    }

    fn directory(&self) -> &Path {
        match self {
            Self::Kept(directory) => directory,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// Compiles the example, with debug information as any program under test should be.
fn compile(directory: &Path, console: &Console) -> Result<PathBuf, Failure> {
    let source = directory.join("kvlog.c");
    fs::write(&source, SOURCE).map_err(Failure::DemoDirectory)?;
    let program = directory.join("kvlog");
    for compiler in compilers() {
        let mut command = Command::new(&compiler);
        command.args(["-O1", "-g", "-o"]).arg(&program).arg(&source);
        match command.status() {
            Ok(status) if status.success() => {
                console.remark(format_args!(
                    "compiled {} with {}",
                    source.display(),
                    compiler.display()
                ));
                return Ok(program);
            }
            Ok(_) => return Err(Failure::DemoNotCompiled { compiler }),
            Err(_) => {}
        }
    }
    Err(Failure::NoCompiler)
}

/// The compiler that the user prefers, or else those that are common.
fn compilers() -> Vec<OsString> {
    match std::env::var_os("CC").filter(|compiler| !compiler.is_empty()) {
        Some(compiler) => vec![compiler],
        None => ["cc", "gcc", "clang"].map(OsString::from).to_vec(),
    }
}
