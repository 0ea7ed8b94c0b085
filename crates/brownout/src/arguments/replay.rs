//! `brownout replay`.

use std::path::PathBuf;

use clap::Args;

/// Rebuild the files of a finding and run recovery on them once more
///
/// The end of recovery is passed on as the exit status: 0 if it passes this time, 1 if it does not.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout replay brownout.out 3f2a
  brownout replay brownout.out 3f2a --gdb
  brownout replay brownout.out 3f2a --keep image
  brownout replay run.trace crash1:4711:eyJl…")]
pub struct ReplayArgs {
    /// Where `brownout check` or `brownout crash` wrote its results, or a trace
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The id of the finding, or the start of it, or the whole token of its field `replay`
    #[arg(value_name = "FINDING")]
    pub finding: String,

    /// Run recovery under gdb, which stops where it crashes
    #[arg(long, conflicts_with = "keep")]
    pub gdb: bool,

    /// Write the crash image to IMAGE instead of running recovery; with several files, below the directory IMAGE
    #[arg(long, value_name = "IMAGE")]
    pub keep: Option<PathBuf>,
}
