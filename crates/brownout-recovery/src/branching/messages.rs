//! The messages between a [`BranchingRecovery`](super::BranchingRecovery) and the host of its processes.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ByteRanges, End};

/// To the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum BranchCommand {
    /// Start recovery. A descriptor of a file with [`OpenBytes`] comes with it.
    Start,
    /// Let a waiting process read these bytes, or a copy of it if it is to be kept.
    Answer {
        branch: u32,
        bytes: Vec<u8>,
        keep: bool,
    },
    /// Let a waiting process, or a copy of it if it is to be kept, read these bytes, and let it answer so many further questions
    /// itself, with the bytes of the persistent files.
    AnswerFreely {
        branch: u32,
        bytes: Vec<u8>,
        keep: bool,
        free: u32,
    },
    /// End a waiting process.
    Release { branch: u32 },
}

/// What the host has to know before it starts recovery.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenBytes {
    /// For each persistent file, the bytes that are chosen when recovery reads them.
    pub files: Vec<ByteRanges>,
    /// The processor time after which a process counts as hung.
    pub cpu_limit: Duration,
}

/// The answer of the host to [`BranchCommand::AnswerFreely`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FreeStep {
    /// The questions that the process has answered itself, in order.
    pub free: Vec<Question>,
    pub step: BranchStep,
}

/// The answer of the host to [`BranchCommand::Start`] and [`BranchCommand::Answer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum BranchStep {
    /// A process waits.
    Waits { branch: u32, question: Question },
    /// A process has ended.
    Ended(BranchOutcome),
    /// Recovery has to be run anew from here: its copies would disturb each other. Completes the sentence "recovery is run anew
    /// because …".
    RunAnew(String),
}

/// What a process is about to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Number of the persistent file.
    pub file: usize,
    pub offset: u64,
    pub len: usize,
    /// The parts that are chosen, relative to the offset. The others are known.
    pub open: Vec<Range<usize>>,
}

/// How a process has ended, with what it and those that it is a copy of have printed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct BranchOutcome {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What recoveries that share its start have used that is not the same in each run.
    pub other_inputs: Vec<String>,
}
