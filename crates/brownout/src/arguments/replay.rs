//! `brownout replay`.

use std::path::PathBuf;

use clap::Args;

/// Rebuild the crash image of a finding and run recovery on it again
///
/// Recovery runs in the working directory and with the environment of the run, as far as the results directory has it. The
/// exit code is 0 if recovery passes this time and 1 if it fails.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout replay brownout.out 3f2a
  brownout replay brownout.out 3f2a --gdb
  brownout replay brownout.out 3f2a --keep image
  brownout replay run.trace crash4:4711:eyJl…")]
pub struct ReplayArgs {
    /// Results directory of `brownout check` or `brownout crash`, or a trace
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The id of the finding, a unique prefix of it, or the token in its `replay` field
    #[arg(value_name = "FINDING")]
    pub finding: String,

    /// Run recovery under gdb, which stops where recovery crashes or exits and shows the stack
    ///
    /// Before that, brownout prints the loads of recovery that can read from several stores after the crash, and which stores they read.
    #[arg(long, conflicts_with = "keep")]
    pub gdb: bool,

    /// Write the crash image to IMAGE instead of running recovery; if it has several files, IMAGE is a directory
    #[arg(long, value_name = "IMAGE")]
    pub keep: Option<PathBuf>,
}
