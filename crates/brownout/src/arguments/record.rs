//! `brownout record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

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

    /// Record loads from persistent memory too
    #[arg(long)]
    pub loads: bool,

    /// Record calls of FUNCTION too, with its first six integer arguments and its result
    ///
    /// FUNCTION is a name as in symbol tables; of C++ and Rust functions the mangled one. It is found in
    /// the program and in each library that has a symbol for it. May be given several times. Calls
    /// of libpmemobj's transactional functions are always recorded.
    #[arg(long = "watch", value_name = "FUNCTION")]
    pub watched: Vec<String>,

    /// Where to write the trace
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,

    /// What happens to the program when the disk is full
    #[arg(long, value_enum, default_value_t, value_name = "ACTION")]
    pub on_full: OnFull,

    /// The program to run, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        num_args = 1..
    )]
    pub command: Vec<OsString>,
}

/// What happens to the recorded program when there is no room left for the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFull {
    /// It goes on without being recorded
    #[default]
    Continue,
    /// It is killed
    Stop,
}
