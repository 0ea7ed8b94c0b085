//! `brownout symex`.

use std::time::Duration;

use brownout_fuzz::{SearchOrder, SymbolicBytes};
use clap::{Args, ValueEnum};

use super::CampaignArgs;
use super::values::{duration, size};

/// Solve for inputs that take a program to code which modifies persistent memory, and report the bugs there
///
/// The program runs on an input while brownout records each instruction from the first byte of the input on. The recording is replayed with
/// the input as unknowns, and brownout solves for inputs that take other branches, beginning with those that lead to the most code that
/// modifies persistent memory. This finds what mutation does not: magic values, keywords, decimal fields, checksums. Inputs that take the
/// program along a new path through persistent memory are examined as `brownout check` does. Your own files are never written.
///
/// The input replaces @@ in ARGS with the path of a file; without @@, it is standard input.
///
/// The results are those of `brownout fuzz`. The campaign ends when nothing is left to solve, after --time-limit, or at Ctrl-C. The same
/// command with the same --out continues it. See docs/symex.md.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  brownout symex --time-limit 10m -- ./kvstore /mnt/pmem/pool
  brownout symex --seeds commands/ --recover './kvstore /mnt/pmem/pool check' -- ./kvstore /mnt/pmem/pool @@
  brownout symex --symbolic stdin@4..20 -- ./kvstore /mnt/pmem/pool
  brownout symex --symbolic arg:2 --symbolic env:KV_MODE -- ./kvstore /mnt/pmem/pool get
  brownout symex --symbolic pm:/mnt/pmem/pool@..4096 -- ./kvstore /mnt/pmem/pool check
  brownout replay brownout.out 3f2a")]
pub struct SymexArgs {
    /// Solve for these bytes [default: the input]
    ///
    /// stdin: standard input. file:PATH: the file at PATH; file:@@: the input in place of @@. arg:N: argument N of the program, from 1.
    /// env:NAME: the value of an environment variable. pm:PATH: a persistent file as the program finds it; bugs found that way are
    /// warnings, because no run may be able to leave such a file. Can be given more than once.
    ///
    /// Each can end with @RANGE, in bytes from 0: stdin@4..20 is bytes 4 to 19, stdin@4.. all from byte 4 on, stdin@4 is one byte. The
    /// other bytes stay as the seeds have them.
    #[arg(long, value_name = "SOURCE[@RANGE]", value_parser = symbolic_source)]
    pub symbolic: Vec<SymbolicBytes>,

    /// How long to try to solve for one branch
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub query_time: Duration,

    /// Which branches to solve for first
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    pub search: SearchArg,

    /// Try inputs that the program reads to their end with more bytes, up to this length
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256")]
    pub longest_input: u64,

    #[command(flatten)]
    pub campaign: CampaignArgs,
}

/// Which branches are solved for first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SearchArg {
    /// Those that lead to the most code which modifies persistent memory
    #[default]
    Pm,
    /// Those that no run has taken that often, wherever they lead; for comparison
    Coverage,
    /// Any, in an order that is the same each time; for comparison
    Random,
}

impl From<SearchArg> for SearchOrder {
    fn from(search: SearchArg) -> Self {
        match search {
            SearchArg::Pm => Self::Pm,
            SearchArg::Coverage => Self::Coverage,
            SearchArg::Random => Self::Random,
        }
    }
}

/// Reads a symbolic source.
pub fn symbolic_source(text: &str) -> Result<SymbolicBytes, String> {
    SymbolicBytes::parse(text).map_err(|error| error.to_string())
}
