//! `brownout merge`.

use std::path::PathBuf;

use clap::Args;

use super::FindingArgs;

/// Join the results of several parts of a crash test
///
/// The parts were made with --shard from the same trace with the same options. Parts that are missing
/// are named. Exits as `brownout crash` would have.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  for i in 1 2 3 4; do brownout crash run.trace --recover ./check --shard $i/4 --out part$i & done; wait
  brownout merge part1 part2 part3 part4 --out brownout.out")]
pub struct MergeArgs {
    /// Where the parts wrote their results
    #[arg(required = true, value_name = "DIR")]
    pub parts: Vec<PathBuf>,

    /// Where to write the joined results [default: brownout.out]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub findings: FindingArgs,
}
