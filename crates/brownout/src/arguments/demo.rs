//! `brownout demo`.

use std::path::PathBuf;

use clap::Args;

/// Check a small example program that is part of brownout
///
/// The program is a key-value store in a memory-mapped file with four deliberate bugs. brownout compiles it
/// with the system's C compiler.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout demo
  brownout demo --keep demo && brownout stat demo/brownout.out/trace")]
pub struct DemoArgs {
    /// Keep the program, its data file and the results in DIR
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}
