//! `brownout fuzz`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::FindingArgs;
use super::values::{duration, length, probability, size};

/// Generate inputs and persistent files for a program, and report the bugs that they reach
///
/// The program runs many times, each time on an input and on the persistent files of one of: none, those that you have, those that an
/// earlier input has left, or those that a loss of power during an earlier input can leave. Your own files are never written. Inputs that take the program along a
/// new path through persistent memory are recorded once, and examined as `brownout check` does. A program that crashes or hangs is a
/// finding, too.
///
/// The input replaces @@ in ARGS with the path of a file; without @@, it is standard input. With --server, it is what clients send to the
/// program.
///
/// Results are those of `brownout check`, and corpus/: the inputs that were kept, as a queue that AFL can read. The same command
/// with the same --out continues a campaign. Without --time-limit it runs until Ctrl-C. docs/fuzz.md says more.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  brownout fuzz --time-limit 10m -- ./kvstore /mnt/pmem/pool
  brownout fuzz --seeds commands/ --recover './kvstore /mnt/pmem/pool check' -- ./kvstore /mnt/pmem/pool @@
  brownout fuzz --server --seeds requests/ -- ./kvserver --port 7000 /mnt/pmem/pool
  brownout fuzz --grammar kv.grammar --jobs 8 --out nightly -- ./kvstore /mnt/pmem/pool
  brownout replay nightly 3f2a")]
pub struct FuzzArgs {
    /// Treat files that match GLOB as persistent memory
    ///
    /// As for `brownout check`. Can be given more than once.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,

    /// Where to write the results [default: brownout.out]
    ///
    /// A campaign of the same program in DIR is continued; other results of brownout in DIR are replaced. A directory that holds anything else is
    /// refused.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// The program is a server: the input is what clients send to the socket at which it listens
    ///
    /// A line of two percent signs in the input begins another connection. When the input is consumed and all threads wait, the program is asked to end
    /// by SIGTERM, and killed if it waits again. The network is private, so that ports are free.
    #[arg(long)]
    pub server: bool,

    /// Begin with the inputs in DIR, such as a test suite has them; a queue of AFL is one, too
    #[arg(long, value_name = "DIR")]
    pub seeds: Option<PathBuf>,

    /// Use the tokens of a dictionary in AFL's format; words from the program's own strings are always used
    #[arg(long, value_name = "FILE")]
    pub dict: Option<PathBuf>,

    /// Generate lines of input from a grammar: see docs/fuzz.md
    ///
    /// Without it, lines and words of the inputs that are known are recombined.
    #[arg(long, value_name = "FILE")]
    pub grammar: Option<PathBuf>,

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

    /// Number of executions at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub jobs: Option<u32>,

    /// Stop after this time, such as 30s, 10m or 8h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,

    /// How long an execution may take before the program counts as hung
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub timeout: Duration,

    /// The probability with which a crash image is taken before a store; it is always taken before a fence or sync that orders stores
    #[arg(long, value_name = "P", value_parser = probability, default_value = "0.02")]
    pub crash_rate: f64,

    /// How much disk the images to start on may take; images beyond that are built again when they are needed
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    pub disk_limit: u64,

    /// Inputs are not longer than this
    #[arg(long, value_name = "SIZE", value_parser = length, default_value = "64K")]
    pub longest_input: u64,

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

/// Of the process that becomes a server, or of its client.
#[derive(Clone, Debug, Args)]
pub struct SendInputArgs {
    /// Do not end the server after the last client.
    #[arg(long)]
    pub keep_running: bool,

    /// The server, if this process is its client.
    #[arg(long)]
    pub server: Option<i32>,

    /// The file that holds the input.
    pub input: PathBuf,

    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}
