//! The messages between a [`FuzzSandbox`](super::FuzzSandbox) and the host of its target. What does not fit into a packet is in a file that
//! both have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_engine::fuzz::{
    CodePlace, Comparison, CopyEnd, FuzzTarget, InputChannel, OperationKind, PmOperation,
    Transition,
};
use brownout_engine::{Repetition, ThreadSchedule};
use serde::{Deserialize, Serialize};

use super::FuzzOutcome;
use crate::path_text;

/// To the host. It answers each with [`FuzzReply`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FuzzCommand {
    /// Start the target; the descriptor of the common file comes with it.
    Start(SentTarget),
    /// Use an image: the files that exist, whose content comes with it, one descriptor each.
    SetImage { exists: Vec<bool> },
    /// Execute on the input, which is in the common file, with this length.
    Execute { len: u64 },
    /// Put what the last execution has changed of the image into the common file.
    Files,
    /// Find an operation.
    Operation { identity: u64 },
}

/// The answer of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FuzzReply {
    /// So many bytes of the common file are the answer.
    Done {
        len: u64,
    },
    Failed(String),
}

/// A target. Paths and arguments are as in [`path_text`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SentTarget {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    directory: Option<String>,
    /// The path of the input; none if it is standard input.
    input: Option<String>,
    is_server: bool,
    fork_at: Option<String>,
    timeout: Duration,
    seed: u64,
    steps: u64,
    comparisons: bool,
}

impl SentTarget {
    pub(crate) fn of(target: &FuzzTarget) -> Self {
        let text = |word: &OsString| path_text::to_text(Path::new(word));
        Self {
            command: target.command.iter().map(text).collect(),
            environment: (target.environment.iter())
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            directory: target.directory.as_deref().map(path_text::to_text),
            input: match &target.input {
                InputChannel::Stdin => None,
                InputChannel::File(path) | InputChannel::Clients(path) => {
                    Some(path_text::to_text(path))
                }
            },
            is_server: matches!(target.input, InputChannel::Clients(_)),
            fork_at: target.fork_at.clone(),
            timeout: target.timeout,
            seed: target.schedule.seed,
            steps: target.schedule.length,
            comparisons: target.comparisons,
        }
    }

    /// The target with persistent files at these paths; `None` if a text is no path.
    pub(crate) fn target(&self, files: Vec<PathBuf>, repetition: Repetition) -> Option<FuzzTarget> {
        let path = |text: &String| path_text::from_text(text);
        let word = |text: &String| path(text).map(OsString::from);
        Some(FuzzTarget {
            command: self.command.iter().map(word).collect::<Option<_>>()?,
            environment: (self.environment.iter())
                .map(|(name, value)| Some((word(name)?, word(value)?)))
                .collect::<Option<_>>()?,
            directory: match &self.directory {
                None => None,
                Some(text) => Some(path(text)?),
            },
            input: match &self.input {
                None => InputChannel::Stdin,
                Some(text) if self.is_server => InputChannel::Clients(path(text)?),
                Some(text) => InputChannel::File(path(text)?),
            },
            files,
            fork_at: self.fork_at.clone(),
            timeout: self.timeout,
            schedule: ThreadSchedule {
                seed: self.seed,
                length: self.steps,
            },
            repetition,
            comparisons: self.comparisons,
        })
    }
}

/// What [`FuzzCommand::Start`] has led to: where the target is copied, and what is not the same in each execution.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SentState {
    pub fork_point: String,
    pub is_copied: bool,
    pub unpinned: Vec<String>,
}

/// An execution, if there was one, and how it is now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SentExecution {
    pub outcome: Option<SentOutcome>,
    pub state: SentState,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum SentEnd {
    Exited(i32),
    Killed(i32),
    TimedOut,
    AtInput,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SentOutcome {
    end: SentEnd,
    duration: Duration,
    transitions: Vec<(u64, u64, u32)>,
    lost_transitions: u32,
    edges: Vec<(u32, u8)>,
    comparisons: Vec<(u64, Vec<u8>, Vec<u8>, bool)>,
    may_have_changed_files: bool,
    wrote_files: bool,
    started_processes: bool,
    used_input: bool,
}

impl SentOutcome {
    pub(crate) fn of(execution: &brownout_engine::fuzz::FuzzExecution<'_>) -> Self {
        let edges = execution.edges().iter().enumerate();
        let taken = edges.filter(|(_, count)| **count > 0);
        Self {
            end: match execution.end {
                CopyEnd::Exited(status) => SentEnd::Exited(status),
                CopyEnd::Killed(signal) => SentEnd::Killed(signal),
                CopyEnd::TimedOut => SentEnd::TimedOut,
                CopyEnd::AtInput => SentEnd::AtInput,
            },
            duration: execution.duration,
            transitions: (execution.transitions().into_iter())
                .map(|(transition, count)| (transition.from, transition.to, count))
                .collect(),
            lost_transitions: execution.lost_transitions(),
            edges: taken.map(|(index, &count)| (index as u32, count)).collect(),
            comparisons: (execution.comparisons().into_iter())
                .map(|one| (one.place, one.left, one.right, one.is_call))
                .collect(),
            may_have_changed_files: execution.may_have_changed_files(),
            wrote_files: execution.wrote_files(),
            started_processes: execution.started_processes(),
            used_input: execution.used_input(),
        }
    }

    pub(crate) fn outcome(self) -> FuzzOutcome {
        FuzzOutcome {
            end: match self.end {
                SentEnd::Exited(status) => CopyEnd::Exited(status),
                SentEnd::Killed(signal) => CopyEnd::Killed(signal),
                SentEnd::TimedOut => CopyEnd::TimedOut,
                SentEnd::AtInput => CopyEnd::AtInput,
            },
            duration: self.duration,
            transitions: (self.transitions.into_iter())
                .map(|(from, to, count)| (Transition { from, to }, count))
                .collect(),
            lost_transitions: self.lost_transitions,
            edges: self.edges,
            comparisons: (self.comparisons.into_iter())
                .map(|(place, left, right, is_call)| Comparison {
                    place,
                    left,
                    right,
                    is_call,
                })
                .collect(),
            may_have_changed_files: self.may_have_changed_files,
            wrote_files: self.wrote_files,
            started_processes: self.started_processes,
            used_input: self.used_input,
        }
    }
}

/// A persistent file as an execution has left it, by its difference from the image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SentFile {
    pub len: u64,
    /// Pages that differ, with their content.
    pub pages: Vec<(u64, Vec<u8>)>,
}

/// An operation, by file and offset, and its caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SentOperation {
    kind: u8,
    place: Option<(String, u64)>,
    caller: Option<(String, u64)>,
}

const KINDS: [OperationKind; 5] = [
    OperationKind::Load,
    OperationKind::Store,
    OperationKind::Flush,
    OperationKind::Fence,
    OperationKind::Call,
];

impl SentOperation {
    pub(crate) fn of(operation: &PmOperation) -> Self {
        let sent = |place: &CodePlace| (path_text::to_text(&place.path), place.offset);
        let kind = KINDS.iter().position(|&kind| kind == operation.kind);
        Self {
            kind: kind.unwrap_or(0) as u8,
            place: operation.place.as_ref().map(sent),
            caller: operation.caller.as_ref().map(sent),
        }
    }

    pub(crate) fn operation(self) -> PmOperation {
        let place = |(text, offset): (String, u64)| {
            let path = path_text::from_text(&text)?;
            Some(CodePlace { path, offset })
        };
        PmOperation {
            kind: KINDS[usize::from(self.kind).min(KINDS.len() - 1)],
            place: self.place.and_then(place),
            caller: self.caller.and_then(place),
        }
    }
}
