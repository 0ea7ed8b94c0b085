//! What `brownout fuzz` and `brownout symex` have in common.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::FindingArgs;
use super::values::{duration, probability, size};

/// A campaign, however its inputs come about.
#[derive(Clone, Debug, Args)]
pub struct CampaignArgs {
    /// Treat files that match GLOB as persistent memory
    ///
    /// As for `brownout check`. Can be given more than once.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,

    /// Where to write the results [default: brownout.out]
    ///
    /// A campaign of the same program in DIR is continued; other results of brownout in DIR are replaced. A directory that holds anything
    /// else is refused.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Begin with the inputs in DIR: those of a test suite, or the queue of AFL
    #[arg(long, value_name = "DIR")]
    pub seeds: Option<PathBuf>,

    /// Test crashes of inputs with a new path: run CMD on crash images, as `brownout check --recover` does
    #[arg(long, value_name = "CMD")]
    pub recover: Option<String>,

    /// Exit statuses of recovery that mean success [default: 0]
    #[arg(
        long,
        value_name = "STATUS",
        value_delimiter = ',',
        requires = "recover"
    )]
    pub recover_success: Vec<i32>,

    /// The time limit of a recovery [default: from its duration without a crash]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "recover")]
    pub recover_time_limit: Option<Duration>,

    /// How long crashes of one input are tested [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "recover")]
    pub crash_budget: Option<Duration>,

    /// How many executions run at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub jobs: Option<u32>,

    /// Stop after this time, such as 30s, 10m or 8h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,

    /// How long an execution may take before the program counts as hung
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub timeout: Duration,

    /// Copy the program for each execution before it calls FUNCTION, instead of where it first uses its input
    ///
    /// What it does before happens once for each image. Give a function that it calls after its preparations and before it uses the input;
    /// it must have only one thread there.
    #[arg(long, value_name = "FUNCTION")]
    pub fork_at: Option<String>,

    /// The probability with which a crash image is taken before a store; it is always taken before a fence or sync that orders stores
    #[arg(long, value_name = "P", value_parser = probability, default_value = "0.02")]
    pub crash_rate: f64,

    /// Disk space for the images that the program starts on; those beyond it are rebuilt when they are needed
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    pub disk_limit: u64,

    /// Determines all random choices; with --jobs 1, the same number gives the same campaign
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub random_seed: u64,

    #[command(flatten)]
    pub findings: FindingArgs,

    /// The program to run, and its arguments; @@ stands for the path of the input file
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        num_args = 1..
    )]
    pub command: Vec<OsString>,
}
