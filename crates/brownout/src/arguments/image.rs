//! `brownout image`.

use std::path::PathBuf;
use std::str::FromStr;

use brownout_trace::EventIndex;
use clap::Args;

use super::SelectionArgs;

/// Write the persistent files as they were at one moment of the run
///
/// Each file is written below DIR at its absolute path, so that DIR/mnt/pmem/pool is the image of
/// /mnt/pmem/pool. Nothing that exists is overwritten: if one of the images is there already, none
/// is written.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout image run.trace -o images
  brownout image run.trace --at 1234 -o images")]
pub struct ImageArgs {
    /// The trace to read
    pub trace: PathBuf,

    /// The moment: `end`, or the number of the last event to take in
    #[arg(long, value_name = "EVENT", default_value = "end")]
    pub at: Moment,

    /// Directory to write into; made if it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// A moment of a run.
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
#[error("neither `end` nor the number of an event")]
pub struct NotAMoment;
