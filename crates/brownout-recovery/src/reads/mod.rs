//! What a recovery opens and reads of the persistent files.
//!
//! Recovery is a function of what it reads: a state that differs only in bytes that recovery never reads is no other
//! state to it. The [`observer`] learns it from one run under the engine.
//!
//! Can miss: what programs read that cannot run under the engine, and the client of a server, which runs natively
//! ([`RecoveryReads::gaps`] then says so). Counts as read: all of a private mapping. [`load_stacks`] adds where recovery reads.

mod action_recorder;
mod actions;
mod byte_ranges;
mod first_reads;
mod hexadecimal;
mod load_stacks;
mod observation;
pub(crate) mod observer;
mod outliving;

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use actions::RecoveryActions;
pub use byte_ranges::ByteRanges;
pub use first_reads::FirstRead;
pub use load_stacks::RecoveryLoad;
pub(crate) use load_stacks::{LoadWriter, read_loads};
pub use observation::{Observation, ReadBytes};

/// What a recovery has opened and read of the persistent files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReads {
    /// The persistent files that existed when recovery started.
    pub files: Vec<FileReads>,
    /// Why recovery may have read more, in sentences. If there is none, it has read nothing else.
    pub gaps: Vec<String>,
    /// Whether processes that use persistent files outlive the first process of recovery.
    #[serde(default)]
    pub left_processes: bool,
}

/// What a recovery has opened and read of a persistent file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReads {
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// Whether it was opened, or looked up by its name.
    pub opened: bool,
    /// The bytes that were read and that recovery had not written itself before.
    pub ranges: ByteRanges,
    /// The bytes that recovery wrote before it had read them, as far as they are known: what a crash leaves there has no effect
    /// on this run.
    #[serde(default)]
    pub overwritten: ByteRanges,
}

/// What an engine host is asked about the reads of a recovery.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReadsQuestion {
    /// The bytes of each persistent file whose first reads are wanted in order.
    pub in_order: Vec<ByteRanges>,
    /// Whether to write each of these first reads at once, with its stack, behind the question. Otherwise a [`ReadsMessage`]
    /// takes the place of the question when recovery has ended.
    pub with_stacks: bool,
    /// Whether it is also wanted what recovery does.
    pub actions: bool,
}

/// What an engine host writes about the reads of a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadsMessage {
    pub reads: RecoveryReads,
    pub first_reads: Vec<FirstRead>,
    pub actions: Option<RecoveryActions>,
    /// What recovery has used that is not the same in each run.
    pub other_inputs: Vec<String>,
}

impl RecoveryReads {
    /// Adds what another run of the same recovery has read.
    pub fn unite(&mut self, other: Self) {
        for file in other.files {
            match self.files.iter_mut().find(|known| known.path == file.path) {
                Some(known) => {
                    known.opened |= file.opened;
                    for range in file.ranges.ranges() {
                        known.ranges.insert(range);
                    }
                    for range in file.overwritten.ranges() {
                        known.overwritten.insert_if_room(range);
                    }
                }
                None => self.files.push(file),
            }
        }
        self.left_processes |= other.left_processes;
        for gap in other.gaps {
            if !self.gaps.contains(&gap) {
                self.gaps.push(gap);
            }
        }
    }

    /// Whether recovery overwrites all of these bytes of a file, and never reads one of them before.
    pub fn is_overwritten(&self, path: &Path, range: Range<u64>) -> bool {
        let mut files = self.files.iter().filter(|file| file.path == path);
        self.gaps.is_empty()
            && files.any(|file| {
                file.overwritten.missing(range.clone()).is_empty()
                    && !file.ranges.overlaps(range.clone())
            })
    }

    /// Whether recovery has certainly not read a byte of any file.
    pub fn is_nothing_read(&self) -> bool {
        let mut files = self.files.iter();
        self.gaps.is_empty() && files.all(|file| file.ranges.bytes() == 0)
    }

    /// The files that recovery has certainly not opened.
    pub fn never_opened(&self) -> impl Iterator<Item = &FileReads> {
        let is_complete = self.gaps.is_empty();
        self.files
            .iter()
            .filter(move |file| is_complete && !file.opened)
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::single_range_in_vec_init,
        reason = "a list of one range is meant"
    )]

    use super::*;

    fn file(path: &str, opened: bool, read: &[std::ops::Range<u64>]) -> FileReads {
        let mut file = FileReads {
            path: path.into(),
            opened,
            ..FileReads::default()
        };
        for range in read {
            file.ranges.insert(range.clone());
        }
        file
    }

    #[test]
    fn runs_add_up() {
        let mut reads = RecoveryReads {
            files: vec![file("a", true, &[0..8]), file("b", false, &[])],
            gaps: vec!["a client".to_owned()],
            left_processes: false,
        };
        assert_eq!(reads.never_opened().count(), 0, "there is a gap");
        reads.gaps.clear();
        assert_eq!(reads.never_opened().count(), 1);
        reads.unite(RecoveryReads {
            files: vec![
                file("b", true, &[0..4]),
                file("a", true, &[4..12]),
                file("c", false, &[]),
            ],
            gaps: Vec::new(),
            left_processes: true,
        });
        assert!(reads.left_processes && !reads.is_nothing_read());
        let expected = [
            file("a", true, &[0..12]),
            file("b", true, &[0..4]),
            file("c", false, &[]),
        ];
        assert_eq!(reads.files, expected);
    }

    #[test]
    fn what_one_run_reads_is_not_overwritten_by_the_recovery() {
        let mut first = file("a", true, &[0..8]);
        first.overwritten.insert(16..32);
        let mut reads = RecoveryReads {
            files: vec![first],
            ..RecoveryReads::default()
        };
        let path = Path::new("a");
        assert!(reads.is_overwritten(path, 16..24));
        assert!(!reads.is_overwritten(path, 24..40), "only a part is");
        assert!(!reads.is_overwritten(path, 0..8), "it is read");
        assert!(!reads.is_overwritten(Path::new("b"), 16..24));
        reads.unite(RecoveryReads {
            files: vec![file("a", true, &[20..21])],
            ..RecoveryReads::default()
        });
        assert!(!reads.is_overwritten(path, 16..24), "another run reads it");
        assert!(reads.is_overwritten(path, 24..32));
        reads.gaps.push("a client".to_owned());
        assert!(!reads.is_overwritten(path, 24..32), "there is a gap");
    }
}
