//! `brownout lint`.

use std::path::PathBuf;

use brownout_trace::ProcessEnd;
use clap::Args;

use super::target_end::target_end;
use super::{FindingArgs, SelectionArgs};

/// Report stores that a crash can lose, and redundant flushes and fences, in a trace
///
/// `brownout explain` lists the rules. Exits with 1 if a finding reaches --fail-on; with 3 if the trace shows no
/// persistent memory, or if not everything could be examined; with 4 if the recorded program failed on its own,
/// regardless of findings.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout lint run.trace
  brownout lint run.trace --verbose --model eadr
  brownout lint run.trace --format sarif > report.sarif
  brownout lint brownout.out --out brownout.out
  brownout lint run.trace --gen-suppressions > accepted.toml
  brownout lint run.trace --suppressions accepted.toml")]
pub struct LintArgs {
    /// The trace to read, or a results directory with one
    #[arg(value_name = "TRACE-OR-DIR")]
    pub trace: PathBuf,

    /// Also write the results to DIR: findings.jsonl, report.html, report.sarif, junit.xml and run.json
    ///
    /// Findings of crash testing for the same trace in DIR are kept.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

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
