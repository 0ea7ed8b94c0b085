//! `brownout fuzz`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use brownout_fuzz::SymbolicBytes;
use clap::Args;

use super::CampaignArgs;
use super::symex::symbolic_source;
use super::values::{duration, length};

/// Generate inputs and persistent files for a program, and report the bugs that they reach
///
/// The program runs many times, each time with an input and with persistent files: none, your own, those that an earlier input has left, or
/// those that a loss of power during an earlier input can leave. Your own files are never written. Inputs that take the program along a new
/// path through persistent memory are recorded once, and examined as `brownout check` does. A program that crashes or hangs is a finding,
/// too.
///
/// The input replaces @@ in ARGS with the path of a file; without @@, it is standard input. With --server, it is what clients send to the
/// program.
///
/// The results are those of `brownout check` and corpus/, the inputs that were kept, as a queue that AFL can read. The same command with
/// the same --out continues a campaign. Without --time-limit it runs until Ctrl-C. See docs/fuzz.md.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  brownout fuzz --time-limit 10m -- ./kvstore /mnt/pmem/pool
  brownout fuzz --seeds commands/ --recover './kvstore /mnt/pmem/pool check' -- ./kvstore /mnt/pmem/pool @@
  brownout fuzz --server --seeds requests/ -- ./kvserver --port 7000 /mnt/pmem/pool
  brownout fuzz --fork-at serve -- ./kvstore /mnt/pmem/pool
  brownout fuzz --grammar kv.grammar --jobs 8 --out nightly -- ./kvstore /mnt/pmem/pool
  brownout replay nightly 3f2a")]
pub struct FuzzArgs {
    /// The program is a server: the input is what clients send to the socket at which it listens
    ///
    /// A line of two percent signs in the input begins another connection. When the input is consumed and all threads wait, the program is
    /// asked to end by SIGTERM, and killed if it waits again. The network is private, so all ports are free.
    #[arg(long, conflicts_with = "symex")]
    pub server: bool,

    /// Use the tokens of a dictionary in AFL's format; words from the program's own strings are always used
    #[arg(long, value_name = "FILE")]
    pub dict: Option<PathBuf>,

    /// Generate lines of input from a grammar: see docs/fuzz.md
    ///
    /// Without it, lines and words of known inputs are recombined.
    #[arg(long, value_name = "FILE")]
    pub grammar: Option<PathBuf>,

    /// The longest input to generate
    #[arg(long, value_name = "SIZE", value_parser = length, default_value = "64K")]
    pub longest_input: u64,

    /// Let one worker solve for inputs that no mutation finds, as `brownout symex` does
    ///
    /// There are at least two workers then.
    #[arg(long)]
    pub symex: bool,

    /// What --symex solves for [default: the input]: see `brownout symex --help`
    #[arg(long, value_name = "SOURCE", value_parser = symbolic_source, requires = "symex")]
    pub symbolic: Vec<SymbolicBytes>,

    /// How long --symex tries to solve for one branch
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s", requires = "symex")]
    pub query_time: Duration,

    #[command(flatten)]
    pub campaign: CampaignArgs,
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
