//! `brownout race`.

use std::path::PathBuf;
use std::time::Duration;

use brownout_trace::ProcessEnd;
use clap::Args;

use super::target_end::target_end;
use super::values::duration;
use super::{FindingArgs, SelectionArgs};

/// Report loads in a trace that can read what another thread has stored before it is durable
///
/// The trace must contain loads: record it with --loads. Locks and the order of threads decide which loads can do that, so one run
/// shows races that did not happen in it. `brownout explain persistency-race` describes them.
///
/// Exits with 1 if a finding reaches --fail-on; with 3 if the trace has no loads, or no two threads that access persistent
/// memory, or if not everything could be examined; with 4 if the recorded program failed on its own, regardless of findings.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout record --loads -o run.trace -- ./kvstore /mnt/pmem/pool --threads 8
  brownout race run.trace
  brownout race run.trace --verbose --fail-on warning
  brownout race brownout.out --out brownout.out --confirm --recover './kvstore {pm} check'")]
pub struct RaceArgs {
    /// The trace to read, or a results directory with one
    #[arg(value_name = "TRACE-OR-DIR")]
    pub trace: PathBuf,

    /// Also write the results to DIR: findings.jsonl, report.html, report.sarif, junit.xml and run.json
    ///
    /// Findings of other analyses of the same trace in DIR are kept.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Also report stores to memory that no other thread knew of yet
    #[arg(long)]
    pub no_init_removal: bool,

    /// Force each race: run the program again while the storing thread is held before its persist
    ///
    /// The program runs with the recorded arguments, from the persistent files with which the recorded run started, in a sandbox that
    /// discards what it writes; it has no network, and its standard input is empty. If another thread loads the store, and then makes
    /// something durable or sends something out, the race is reproduced. The finding says so, or why it was not reproduced. With --recover,
    /// recovery runs on the image of a crash at that instant, in which only this store is lost; if it fails, the race is confirmed.
    /// Races that were not reproduced are still reported.
    #[arg(long)]
    pub confirm: bool,

    /// The command that recovers the persistent files after a forced race, as in `brownout crash`
    #[arg(long, value_name = "CMD", requires = "confirm")]
    pub recover: Option<String>,

    /// Exit statuses with which recovery passes [default: 0]
    #[arg(
        long,
        value_name = "STATUS",
        value_delimiter = ',',
        requires = "confirm"
    )]
    pub recover_success: Vec<i32>,

    /// Stop forcing races after this time [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "confirm")]
    pub confirm_time_limit: Option<Duration>,

    /// Also count this exit status, or death by this signal, as success of the recorded program: 3, SIGTERM; can be given more
    /// than once
    ///
    /// Exit status 0 always counts as success, and so does what counted as success for the results in a directory.
    #[arg(long, value_name = "STATUS|SIGNAL", value_parser = target_end, value_delimiter = ',')]
    pub target_success: Vec<ProcessEnd>,

    #[command(flatten)]
    pub selection: SelectionArgs,

    #[command(flatten)]
    pub findings: FindingArgs,
}
