//! `brownout demo`.

use std::path::PathBuf;

use clap::Args;

/// Find the bugs of a small program that comes with brownout
///
/// The program is a key-value store in a memory-mapped file, with mistakes. It is compiled with the
/// C compiler of this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout demo
  brownout demo --keep demo && brownout stat demo/brownout.out/trace")]
pub struct DemoArgs {
    /// Keep the program, its file and the results in DIR
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}
