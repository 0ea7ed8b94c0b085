//! `brownout record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::RecordingArgs;

/// Run a program and record its accesses to persistent memory
///
/// The program is not modified. Its output goes where it would go without brownout, and brownout exits with
/// the program's exit status or dies of the same signal. Child processes are recorded too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout record -o run.trace -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout record --pm '/mnt/pmem/**' -o run.trace -- ./server --port 7000
  brownout record --schedule 7 -o run.trace -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout record -o run.trace --coverage run.info -- ./kvstore /mnt/pmem/pool insert 1 && genhtml -o html run.info")]
pub struct RecordArgs {
    /// Treat files that match GLOB as persistent memory
    ///
    /// `*` and `?` do not match a slash; `**` does. A GLOB without a slash is matched against file
    /// names, any other against absolute paths. Can be given more than once. By default, DAX and
    /// MAP_SYNC mappings are persistent memory, and so are shared writable mappings of files that the
    /// program flushes or syncs. All candidates are recorded in any case, so a later command can choose
    /// differently.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,

    /// Where to write the trace
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,

    /// Record loads only while persistent memory is shared
    ///
    /// Loads are recorded from the first thread that a process creates, from its first fork while it has mapped a file, or once another
    /// process has mapped the same file. No earlier load can race. `brownout check` always does this.
    #[arg(long, conflicts_with = "loads")]
    pub shared_loads: bool,

    /// Compare the recording with TRACE, an earlier one with the same schedule, and exit with 3 if an event differs
    ///
    /// Ids of processes and threads may differ. The first event that differs is shown. The program must find the same files as
    /// before. If TRACE was recorded with other options, so that it has other loads or calls of other functions, brownout
    /// reports that instead.
    #[arg(long, value_name = "TRACE", requires = "schedule")]
    pub same_as: Option<PathBuf>,

    #[command(flatten)]
    pub recording: RecordingArgs,
}
