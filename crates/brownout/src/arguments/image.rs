//! `brownout image`.

use std::path::PathBuf;
use std::str::FromStr;

use brownout_trace::EventIndex;
use clap::Args;

use super::SelectionArgs;

/// Write the persistent files as they were at one point of the recorded run
///
/// Each file is written below DIR at its absolute path: DIR/mnt/pmem/pool is the image of
/// /mnt/pmem/pool. Existing files are never overwritten: if any of the images exists, none is written.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout image run.trace -o images
  brownout image run.trace --at 1234 -o images")]
pub struct ImageArgs {
    /// The trace to read, or a results directory with one
    #[arg(value_name = "TRACE-OR-DIR")]
    pub trace: PathBuf,

    /// `end`, or the number of the last event to include
    #[arg(long, value_name = "EVENT", default_value = "end")]
    pub at: Moment,

    /// Directory to write to; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// A point of a recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the last event.
    End,
    /// Right after this event.
    After(EventIndex),
}

impl FromStr for Moment {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "end" => Ok(Self::End),
            number => number
                .parse()
                .map(|index| Self::After(EventIndex(index)))
                .map_err(|_| NotAMoment),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected `end` or an event number")]
pub struct NotAMoment;
