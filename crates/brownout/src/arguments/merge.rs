//! `brownout merge`.

use std::path::PathBuf;

use clap::Args;

use super::FindingArgs;

/// Merge the results of a crash test that was split with --shard
///
/// The parts must come from the same trace with the same options. The exit code is that of an undivided `brownout crash`.
/// Parts that are missing or unfinished are named; the exit code is then 3 unless bugs were found.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  for i in 1 2 3 4; do brownout crash run.trace --recover ./check --shard $i/4 --out part$i & done; wait
  brownout merge part1 part2 part3 part4 --out brownout.out")]
pub struct MergeArgs {
    /// Results directories of the parts
    #[arg(required = true, value_name = "DIR")]
    pub parts: Vec<PathBuf>,

    /// Where to write the merged results [default: brownout.out]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub findings: FindingArgs,
}
