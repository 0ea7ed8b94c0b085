//! `brownout demo`: compiles and checks the example program, to show every step with one command.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::check;
use crate::arguments::{CheckArgs, CrashTestArgs, DemoArgs, FindingArgs, RecordingArgs};
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::output_directory::Stay;
use crate::settings::Settings;

const SOURCE: &str = include_str!("../../demo/kvlog.c");
/// Number of entries that the example stores.
const ENTRIES: &str = "50";

pub fn run(arguments: &DemoArgs, console: &Console) -> Result<ExitCode, Failure> {
    let demo = DemoDirectory::new(arguments.keep.as_deref())?;
    let directory = demo.path();
    let program = compile(directory, console)?;
    let pool = directory.join("store");
    // A second demo in the same directory starts with an empty store.
    let _ = fs::remove_file(&pool);
    let arguments = CheckArgs {
        patterns: Vec::new(),
        out: None,
        resume: false,
        confirm: false,
        target_success: Vec::new(),
        findings: FindingArgs::default(),
        crash: CrashTestArgs {
            recover: Some(recovery(&program)),
            ..CrashTestArgs::default()
        },
        schedules: None,
        recording: RecordingArgs {
            command: vec![program.into(), pool.into(), "put".into(), ENTRIES.into()],
            ..RecordingArgs::default()
        },
    };
    // A brownout.toml in the working directory does not apply to the example.
    let settings = Settings::defaults(directory);
    let out = directory.join("brownout.out");
    let stay = match demo {
        DemoDirectory::Kept(_) => Stay::Kept,
        DemoDirectory::Temporary(_) => Stay::Removed,
    };
    let code = check::check(&arguments, &settings, (&out, stay), Stream::Output, console)?;
    if stay == Stay::Removed {
        console.remark(
            "to keep the program and the results, and to replay the crashes, use `brownout demo --keep DIR`",
        );
    }
    match code {
        // The example has bugs on purpose.
        ExitCode::BugsFound => {
            console.remark(
                "these are the bugs described in the opening comment of kvlog.c; \
                 to check your own program: brownout check -- PROGRAM ARGS",
            );
            Ok(ExitCode::Success)
        }
        // Missing the bugs of the example is an error in brownout.
        ExitCode::Success => Ok(ExitCode::Internal),
        other => Ok(other),
    }
}

/// The example is its own recovery. The `{pm}` placeholder makes it work on machines without namespaces too.
fn recovery(program: &Path) -> String {
    let quoted = program.to_string_lossy().replace('\'', "'\\''");
    format!("'{quoted}' {{pm}} check")
}

/// The directory of the demo.
enum DemoDirectory {
    Kept(PathBuf),
    /// Removed when the demo ends.
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

/// Compiles the example with debug information, so that findings have source lines.
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

/// The compiler in `CC`, or else the common names of C compilers.
fn compilers() -> Vec<OsString> {
    match std::env::var_os("CC").filter(|compiler| !compiler.is_empty()) {
        Some(compiler) => vec![compiler],
        None => ["cc", "gcc", "clang"].map(OsString::from).to_vec(),
    }
}
