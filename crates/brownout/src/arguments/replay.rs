//! `brownout replay`.

use std::path::PathBuf;

use clap::Args;

/// Rebuild the crash image of a finding and run recovery on it again, or the program on the input of a finding
///
/// A finding of `brownout fuzz` that needs no crash is repeated by running the program on its input and its persistent files; the exit code
/// is 1 if that shows it again. Recovery runs in the working directory and with the environment of the run, as far as the results directory
/// has it. The exit code is 0 if recovery passes this time and 1 if it fails.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout replay brownout.out 3f2a
  brownout replay brownout.out 3f2a --gdb
  brownout replay brownout.out 3f2a --keep image
  brownout replay run.trace crash4:4711:eyJl…")]
pub struct ReplayArgs {
    /// Results directory of `brownout check`, `brownout crash` or `brownout fuzz`, or a trace
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The id of the finding, a unique prefix of it, or the token in its `replay` field
    #[arg(value_name = "FINDING")]
    pub finding: String,

    /// Run recovery, or the program, under gdb, which stops where it crashes and shows the stack
    ///
    /// Before that, brownout prints the loads of recovery that can read from several stores after the crash, and which stores they read.
    #[arg(long, conflicts_with = "keep")]
    pub gdb: bool,

    /// Write the crash image, or the files on which the program starts, to IMAGE instead; if there are several files, IMAGE is a directory
    #[arg(long, value_name = "IMAGE")]
    pub keep: Option<PathBuf>,
}
