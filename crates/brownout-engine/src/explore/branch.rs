//! A process of an exploration, and what it has read and written so far.

use super::end_process;
use crate::arch::call_name;
use crate::sys::process::Pid;
use brownout_ring::explore::shared_effect;
use brownout_trace::ProcessEnd;
use std::fmt;

/// A process that waits at a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchId(pub u32);

/// A process is about to read bytes of which at least one is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The process that waits for the answer.
    pub branch: BranchId,
    /// Which of the files it is.
    pub file: usize,
    pub offset: u64,
    /// How many bytes are read at once, all of them on one page.
    pub len: usize,
    /// Which of them are open. The others are as in the file, or were answered before, or the process has stored them.
    pub open: Vec<bool>,
}

/// A part of what a process wrote to its standard output or error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPiece {
    /// 1 for standard output, 2 for standard error.
    pub stream: u8,
    pub bytes: Vec<u8>,
}

/// How a branch ended, with all that it did since the start of the target.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BranchEnd {
    pub end: ProcessEnd,
    /// It was killed because it had used too much processor time.
    pub hung: bool,
    /// In the order in which it was written.
    pub output: Vec<OutputPiece>,
    /// The questions and answers, in order, without the questions that the process has answered itself.
    pub reads: Vec<(Question, Vec<u8>)>,
}

impl BranchEnd {
    /// All that was written to one stream.
    pub fn output_of(&self, stream: u8) -> Vec<u8> {
        let pieces = self.output.iter().filter(|piece| piece.stream == stream);
        pieces.flat_map(|piece| &piece.bytes).copied().collect()
    }
}

/// What a process was about to do that its copies would see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedEffect {
    /// A system call, by its number.
    Call(u32),
    /// A mapping that is shared with other processes, or a second one of an explored file.
    Mapping,
    /// A gather from several mappings at once.
    Gather,
    /// More output than is kept between two questions.
    Output,
    /// A copy of the process could not be made.
    Fork,
}

impl SharedEffect {
    pub(super) fn numbered(number: u32, call: u32) -> Self {
        match number {
            shared_effect::MAPPING => Self::Mapping,
            shared_effect::GATHER => Self::Gather,
            shared_effect::OUTPUT => Self::Output,
            shared_effect::FORK => Self::Fork,
            _ => Self::Call(call),
        }
    }
}

impl fmt::Display for SharedEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(number) => match call_name(*number) {
                Some(name) => write!(f, "it makes the system call {name}"),
                None => write!(f, "it makes system call {number}"),
            },
            Self::Mapping => f.write_str("it shares a mapping, or maps a persistent file again"),
            Self::Gather => f.write_str("an instruction reads several mappings at once"),
            Self::Output => f.write_str("it writes much output"),
            Self::Fork => f.write_str("the system does not allow more processes"),
        }
    }
}

/// A process of the exploration.
#[derive(Clone)]
pub(super) struct ExploredProcess {
    /// Its id, once it is known.
    pub(super) pid: Option<Pid>,
    pub(super) question: Option<Question>,
    pub(super) output: Vec<OutputPiece>,
    reads: Vec<(Question, Vec<u8>)>,
}

impl ExploredProcess {
    pub(super) fn first(pid: Pid) -> Self {
        Self {
            pid: Some(pid),
            question: None,
            output: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// The branch once its question has been answered.
    pub(super) fn answered(&self, bytes: &[u8]) -> Self {
        let mut next = self.clone();
        let question = next.question.take();
        next.reads
            .extend(question.map(|question| (question, bytes.to_vec())));
        next
    }

    pub(super) fn ended(
        mut self,
        end: ProcessEnd,
        hung: bool,
        rest: Vec<OutputPiece>,
    ) -> BranchEnd {
        self.output.extend(rest);
        BranchEnd {
            end,
            hung,
            output: self.output,
            reads: self.reads,
        }
    }

    pub(super) fn kill(&self) {
        if let Some(pid) = self.pid {
            end_process(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_the_system_call() {
        let number = (0..1000).find(|&number| call_name(number) == Some("openat"));
        let open = SharedEffect::Call(number.unwrap());
        assert_eq!(open.to_string(), "it makes the system call openat");
        let unknown = SharedEffect::Call(100_000);
        assert_eq!(unknown.to_string(), "it makes system call 100000");
    }
}
