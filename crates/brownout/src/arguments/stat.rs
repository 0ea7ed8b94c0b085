//! `brownout stat`.

use std::path::PathBuf;

use clap::Args;

use super::{FailurePointArgs, Format, SelectionArgs};

/// Summarise a trace: processes, threads, files, events, and where they come from
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout stat run.trace
  brownout stat run.trace --top 30
  brownout stat run.trace --failure-points --after pmemobj_create
  brownout stat run.trace --format json | jq '.files[] | select(.persistent).path'")]
pub struct StatArgs {
    /// The trace to read
    pub trace: PathBuf,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// How many call sites to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,

    /// Show where `brownout crash` would try crashes instead, as a tree of calls
    #[arg(long)]
    pub failure_points: bool,

    #[command(flatten)]
    pub points: FailurePointArgs,

    #[command(flatten)]
    pub selection: SelectionArgs,
}
