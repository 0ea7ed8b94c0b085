//! `brownout stat`.

use std::path::PathBuf;

use clap::Args;

use super::{FailurePointArgs, Format, SelectionArgs};

/// Summarise a trace: processes, threads, files, event counts and the busiest call sites
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout stat run.trace
  brownout stat run.trace --top 30
  brownout stat run.trace --failure-points --after pmemobj_create
  brownout stat run.trace --behaviours
  brownout stat run.trace --format json | jq '.files[] | select(.persistent).path'")]
pub struct StatArgs {
    /// The trace to read, or a results directory with one
    #[arg(value_name = "TRACE-OR-DIR")]
    pub trace: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Number of call sites, types or fields to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,

    /// Show the failure points that `brownout crash` would test, as a call tree
    #[arg(long)]
    pub failure_points: bool,

    /// Show the types and fields of persistent objects that the stores change, the updates of them, and which updates represent others
    #[arg(long, conflicts_with = "failure_points")]
    pub behaviours: bool,

    #[command(flatten)]
    pub points: FailurePointArgs,

    #[command(flatten)]
    pub selection: SelectionArgs,
}
