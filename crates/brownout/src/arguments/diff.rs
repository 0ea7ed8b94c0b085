//! `brownout diff`.

use std::path::PathBuf;

use brownout_report::FailOn;
use clap::Args;

use super::{Format, fail_on};

/// Compare the findings of two runs: which are new, and which are gone
///
/// Findings are recognised by their rule, functions, file names and the text of their source lines, so that code may move. A
/// finding of the first run is gone only if the second one applied its rule, tested everything, and ran the same test: command, model,
/// strategy, recovery and failure points. Otherwise it is undecided. One that the second run has suppressed, or knew from
/// its baseline, is in both.
///
/// Exits with 1 if a new finding reaches --fail-on. Otherwise, if the second run did not test everything, it exits with the code of
/// that run, or with 3 if that is 0 or 1, or with 2 if the run has not finished. It also exits with 3 if an undecided finding reaches
/// --fail-on, and with 0 in all other cases.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout check --out before -- ./kvstore pool insert 1 2 3
  brownout check --out after -- ./kvstore pool insert 1 2 3
  brownout diff before after")]
pub struct DiffArgs {
    /// Results directory of the earlier run
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// Results directory of the later run
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Which new findings make the exit code 1, and which undecided ones 3 [default: as in the later run]
    #[arg(long, value_name = "SEVERITY", value_parser = fail_on())]
    pub fail_on: Option<FailOn>,

    /// Show every new finding in full; otherwise only bugs are, and others take one line per rule and location
    #[arg(long)]
    pub verbose: bool,

    /// Show all new findings; otherwise at most 20
    #[arg(long)]
    pub all: bool,
}
