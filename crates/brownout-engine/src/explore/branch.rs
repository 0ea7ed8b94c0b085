//! A process of an exploration, and what it has read and written so far.

use super::end_process;
use crate::arch::call_name;
use crate::sys::process::Pid;
use brownout_ring::explore::shared_effect;
use brownout_trace::ProcessEnd;
use std::fmt;
use std::sync::Arc;

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

/// What a process was about to do that its copies would see, or that cannot be explored for another reason.
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
    /// It waits for something that does not happen.
    Wait,
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
            Self::Wait => f.write_str("it waits for something"),
        }
    }
}

/// A process of the exploration.
pub(super) struct ExploredProcess {
    /// Its id, once it is known.
    pub(super) pid: Option<Pid>,
    pub(super) question: Option<Question>,
    /// What it has written since its last answer.
    pub(super) output: Vec<OutputPiece>,
    past: Option<Arc<Past>>,
}

/// What a process, or one that it is a copy of, has done up to an answer. Copies share it, so that a question costs the same however many
/// there were before.
struct Past {
    before: Option<Arc<Past>>,
    /// What was written since the answer before.
    output: Vec<OutputPiece>,
    question: Question,
    answer: Vec<u8>,
}

impl Drop for Past {
    /// One after the other: there may be so many that the stack does not suffice.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut past) = next.and_then(Arc::into_inner) {
            next = past.before.take();
        }
    }
}

impl ExploredProcess {
    pub(super) fn first(pid: Pid) -> Self {
        Self {
            pid: Some(pid),
            question: None,
            output: Vec::new(),
            past: None,
        }
    }

    /// The branch once its question has been answered.
    pub(super) fn answered(&self, question: Question, bytes: &[u8]) -> Self {
        let past = Past {
            before: self.past.clone(),
            output: self.output.clone(),
            question,
            answer: bytes.to_vec(),
        };
        Self {
            pid: self.pid,
            question: None,
            output: Vec::new(),
            past: Some(Arc::new(past)),
        }
    }

    pub(super) fn ended(
        self,
        end: ProcessEnd,
        hung: bool,
        rest: impl IntoIterator<Item = OutputPiece>,
    ) -> BranchEnd {
        let all = std::iter::successors(self.past.as_deref(), |past| past.before.as_deref());
        let mut all: Vec<&Past> = all.collect();
        all.reverse();
        let output = all.iter().flat_map(|past| past.output.iter().cloned());
        let reads = all
            .iter()
            .map(|past| (past.question.clone(), past.answer.clone()));
        BranchEnd {
            end,
            hung,
            output: output.chain(self.output).chain(rest).collect(),
            reads: reads.collect(),
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

    fn asked(offset: u64) -> Question {
        Question {
            branch: BranchId(0),
            file: 0,
            offset,
            len: 1,
            open: vec![true],
        }
    }

    fn written(byte: u8) -> OutputPiece {
        OutputPiece {
            stream: 1,
            bytes: vec![byte],
        }
    }

    #[test]
    fn copies_share_what_was_before_and_have_their_own_end() {
        let mut first = ExploredProcess::first(Pid(1));
        first.output.push(written(1));
        let mut second = first.answered(asked(8), &[2]);
        second.output.push(written(3));
        let [one, other] = [4, 5].map(|answer| second.answered(asked(16), &[answer]));
        for (copy, answer) in [(one, 4), (other, 5)] {
            let end = copy.ended(ProcessEnd::Exited { status: 0 }, false, [written(6)]);
            assert_eq!(end.output_of(1), [1, 3, 6]);
            let expected = [(asked(8), vec![2]), (asked(16), vec![answer])];
            assert_eq!(end.reads, expected);
        }
    }

    #[test]
    fn very_many_questions_need_no_deep_stack() {
        let mut process = ExploredProcess::first(Pid(1));
        for offset in 0..200_000 {
            process = process.answered(asked(offset), &[0]);
        }
        let past = process.past.take();
        drop(past);
        assert!(process.past.is_none());
    }

    #[test]
    fn reasons_name_the_system_call() {
        let number = (0..1000).find(|&number| call_name(number) == Some("openat"));
        let open = SharedEffect::Call(number.unwrap());
        assert_eq!(open.to_string(), "it makes the system call openat");
        let unknown = SharedEffect::Call(100_000);
        assert_eq!(unknown.to_string(), "it makes system call 100000");
    }
}
