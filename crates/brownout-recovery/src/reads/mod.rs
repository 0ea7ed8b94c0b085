//! What a recovery opens and reads of the PM files.
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

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use actions::RecoveryActions;
pub use byte_ranges::ByteRanges;
pub use first_reads::FirstRead;
pub use load_stacks::RecoveryLoad;
pub(crate) use load_stacks::{LoadWriter, read_loads};
pub use observation::{Observation, ReadBytes};

/// What a recovery has opened and read of the PM files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReads {
    /// The PM files that existed when recovery started.
    pub files: Vec<FileReads>,
    /// Why recovery may have read more, in sentences. If there is none, it has read nothing else.
    pub gaps: Vec<String>,
    /// Whether processes that use PM files outlive the first process of recovery.
    #[serde(default)]
    pub left_processes: bool,
}

/// What a recovery has opened and read of a PM file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReads {
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// Whether it was opened, or looked up by its name.
    pub opened: bool,
    /// The bytes that were read and that recovery had not written itself before.
    pub ranges: ByteRanges,
}

/// What an engine host is asked about the reads of a recovery.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReadsQuestion {
    /// The bytes of each PM file whose first reads are wanted in order.
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
}
