//! `brownout record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::RecordingArgs;

/// Run a program and record all it does to persistent memory
///
/// The program is neither changed nor told; its output, its exit status and the signal it dies of
/// are passed on. Its children are recorded too.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  brownout record -o run.trace -- ./kvstore /mnt/pmem/pool insert 1 2 3"
)]
pub struct RecordArgs {
    /// Take files that match GLOB as persistent memory
    ///
    /// `*` and `?` stop at a slash, `**` does not. A GLOB without a slash is matched against file
    /// names, any other against absolute paths. May be given several times. Without it, DAX and
    /// MAP_SYNC mappings are taken, and shared writable mappings of files that the program flushes
    /// or syncs. All candidates are recorded either way, so the choice can be changed afterwards.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,

    /// Where to write the trace
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,

    #[command(flatten)]
    pub recording: RecordingArgs,
}
