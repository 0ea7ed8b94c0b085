//! `brownout check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{CrashTestArgs, FindingArgs, RecordingArgs};

/// Run a program once and find the crash-consistency bugs in what it does
///
/// Results are written to brownout.out/: findings.jsonl, report.html, report.sarif, junit.xml and
/// the trace. The program's output is passed on; what brownout finds goes to standard error, unless
/// another format than human is asked for, so that check can stand in front of any command.
///
/// With --recover, crashes are tried too: see `brownout crash --help`.
///
/// Exits with 1 if there are bugs, with 4 if the program failed on its own, whatever was found, or recovery
/// fails without any crash, and with 3 if nothing persistent was seen.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout check -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout check --recover './kvstore /mnt/pmem/pool check' -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout check --out results --baseline known.json -- ./kvstore pool insert 1
  brownout check --profile ci -- make test
  meson test --wrap 'brownout check --out brownout-{pid} --'")]
pub struct CheckArgs {
    /// Take files that match GLOB as persistent memory
    ///
    /// `*` and `?` stop at a slash, `**` does not. A GLOB without a slash is matched against file
    /// names, any other against absolute paths. May be given several times. Without it, DAX and
    /// MAP_SYNC mappings are taken, and shared writable mappings of files that the program flushes
    /// or syncs.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,

    /// Where to write the results [default: brownout.out]
    ///
    /// `{pid}` stands for brownout's process number. A directory that holds anything but earlier
    /// results is left alone.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub findings: FindingArgs,

    #[command(flatten)]
    pub crash: CrashTestArgs,

    #[command(flatten)]
    pub recording: RecordingArgs,
}
