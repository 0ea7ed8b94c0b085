//! `brownout demo`: checks the example program, so that a newcomer sees all of it work with one command.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::check::{self, Stay};
use crate::arguments::{CheckArgs, CrashTestArgs, DemoArgs, FindingArgs, RecordingArgs};
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::settings::Settings;

const SOURCE: &str = include_str!("../../../../examples/kvlog.c");
/// Entries the example puts into its store.
const ENTRIES: &str = "50";

pub fn run(arguments: &DemoArgs, console: &Console) -> Result<ExitCode, Failure> {
    let demo = DemoDirectory::new(arguments.keep.as_deref())?;
    let directory = demo.path();
    let program = compile(directory, console)?;
    let pool = directory.join("store");
    // A second demo in the same directory starts afresh.
    let _ = fs::remove_file(&pool);
    let arguments = CheckArgs {
        patterns: Vec::new(),
        out: None,
        findings: FindingArgs::default(),
        crash: CrashTestArgs {
            recover: Some(recovery(&program)),
            ..CrashTestArgs::default()
        },
        recording: RecordingArgs {
            command: vec![program.into(), pool.into(), "put".into(), ENTRIES.into()],
            ..RecordingArgs::default()
        },
    };
    // Whatever brownout.toml is around here, it is not about the example.
    let settings = Settings::usual(directory);
    let out = directory.join("brownout.out");
    let stay = match demo {
        DemoDirectory::Kept(_) => Stay::Kept,
        DemoDirectory::Temporary(_) => Stay::Removed,
    };
    let code = check::check(&arguments, &settings, (&out, stay), Stream::Output, console)?;
    if stay == Stay::Removed {
        console.remark("with --keep DIR the program and the results stay");
    }
    match code {
        // It was made to be found.
        ExitCode::BugsFound => {
            console.remark(
                "these are the mistakes that kvlog.c admits in its opening comment; \
                 now your own program: brownout check -- PROGRAM ARGS",
            );
            Ok(ExitCode::Success)
        }
        // Nothing found where there is something is a fault.
        ExitCode::Success => Ok(ExitCode::Internal),
        other => Ok(other),
    }
}

/// The example is its own recovery. With a placeholder it works on machines without namespaces too.
fn recovery(program: &Path) -> String {
    let quoted = program.to_string_lossy().replace('\'', "'\\''");
    format!("'{quoted}' {{pm}} check")
}

/// Where the demo happens.
enum DemoDirectory {
    Kept(PathBuf),
    /// Removed at the end.
    Temporary(tempfile::TempDir),
}

impl DemoDirectory {
    fn new(keep: Option<&Path>) -> Result<Self, Failure> {
        let made = match keep {
            Some(directory) => {
                fs::create_dir_all(directory).map(|()| Self::Kept(directory.to_owned()))
            }
            None => tempfile::Builder::new()
                .prefix("brownout-demo-")
                .tempdir()
                .map(Self::Temporary),
        };
        made.map_err(Failure::DemoDirectory)
    }

    fn path(&self) -> &Path {
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
