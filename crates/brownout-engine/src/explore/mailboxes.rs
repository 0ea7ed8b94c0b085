//! The controller's end of the mailboxes.

use super::branch::{BranchId, OutputPiece, Question, SharedEffect};
use crate::sys::memory::{self, MailboxMap};
use crate::sys::process::Pid;
use brownout_ring::explore::{
    Mailbox, NO_COPY, OUTPUT_BYTES, QUESTION_BYTES, READ_HEAD, READS_BYTES, turn,
};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Bytes before each piece of output: the stream and the length.
const PIECE_HEAD: usize = 5;

pub(super) struct Mailboxes(MailboxMap);

impl Mailboxes {
    pub(super) fn map(wire: &File) -> io::Result<Self> {
        MailboxMap::map(wire).map(Self)
    }

    fn get(&self, number: u32) -> &Mailbox {
        self.0.mailbox(number)
    }

    /// Makes a mailbox ready for a process that is about to be forked.
    pub(super) fn clear(&self, number: u32) {
        let mailbox = self.get(number);
        mailbox.pid.store(0, Relaxed);
        mailbox.output_len.store(0, Relaxed);
        mailbox.reads_len.store(0, Relaxed);
        mailbox.turn.store(turn::RUNNING, Release);
    }

    /// Waits until a process has something to say, at most for `timeout`. Whose turn it is then.
    pub(super) fn wait(&self, number: u32, timeout: Duration) -> u32 {
        let mailbox = self.get(number);
        let seen = mailbox.turn.load(Acquire);
        if !matches!(seen, turn::RUNNING | turn::ANSWER) {
            return seen;
        }
        memory::futex_wait(&mailbox.turn, seen, timeout);
        mailbox.turn.load(Acquire)
    }

    pub(super) fn pid(&self, number: u32) -> Option<Pid> {
        let pid = self.get(number).pid.load(Acquire) as i32;
        (pid > 0).then_some(Pid(pid))
    }

    /// The question of a process that waits.
    pub(super) fn question(&self, number: u32) -> Question {
        let mailbox = self.get(number);
        let len = (mailbox.len.load(Relaxed) as usize).min(QUESTION_BYTES);
        let is_open =
            |index: usize| mailbox.open[index / 64].load(Relaxed) >> (index % 64) & 1 != 0;
        Question {
            branch: BranchId(number),
            file: mailbox.file.load(Relaxed) as usize,
            offset: mailbox.offset.load(Relaxed),
            len,
            open: (0..len).map(is_open).collect(),
        }
    }

    /// Answers the question of a process. If `child` is given, the process forks, and that is the mailbox of the copy. The process that
    /// goes on answers `free` further questions itself.
    pub(super) fn answer(&self, number: u32, bytes: &[u8], child: Option<u32>, free: u32) {
        let mailbox = self.get(number);
        for (to, from) in mailbox.bytes.iter().zip(bytes) {
            to.store(*from, Relaxed);
        }
        mailbox.copy.store(child.unwrap_or(NO_COPY), Relaxed);
        mailbox.free.store(free, Relaxed);
        mailbox.turn.store(turn::ANSWER, Release);
        memory::futex_wake(&mailbox.turn);
    }

    pub(super) fn effect(&self, number: u32) -> SharedEffect {
        let mailbox = self.get(number);
        SharedEffect::numbered(mailbox.effect.load(Relaxed), mailbox.call.load(Relaxed))
    }

    /// What a process has written since this was last called. The process waits or has ended.
    pub(super) fn take_output(&self, number: u32) -> Vec<OutputPiece> {
        let mailbox = self.get(number);
        let len = (mailbox.output_len.swap(0, Acquire) as usize).min(OUTPUT_BYTES);
        pieces(&mailbox.output[..len])
    }
}

impl Mailboxes {
    /// The questions that a process has answered itself since this was last called. The process waits or has ended.
    pub(super) fn take_reads(&self, number: u32) -> Vec<Question> {
        let mailbox = self.get(number);
        let len = (mailbox.reads_len.swap(0, Acquire) as usize).min(READS_BYTES);
        let reads = mailbox.reads[..len].iter();
        let reads: Vec<u8> = reads.map(|byte| byte.load(Relaxed)).collect();
        free_questions(BranchId(number), &reads)
    }
}

/// The questions in what a process has noted.
fn free_questions(branch: BranchId, mut rest: &[u8]) -> Vec<Question> {
    let mut questions = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<READ_HEAD>() {
        let word = |from: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| head[from + at]));
        let len = (word(4) as usize).min(QUESTION_BYTES);
        let Some((open, next)) = after.split_at_checked(len.div_ceil(64) * 8) else {
            break;
        };
        questions.push(Question {
            branch,
            file: word(0) as usize,
            offset: u64::from(word(8)) | u64::from(word(12)) << 32,
            len,
            open: (0..len)
                .map(|index| open[index / 8] >> (index % 8) & 1 != 0)
                .collect(),
        });
        rest = next;
    }
    questions
}

fn pieces(mut rest: &[AtomicU8]) -> Vec<OutputPiece> {
    let read =
        |bytes: &[AtomicU8]| -> Vec<u8> { bytes.iter().map(|byte| byte.load(Relaxed)).collect() };
    let mut pieces = Vec::new();
    while let Some((head, after)) = rest.split_at_checked(PIECE_HEAD) {
        let head = read(head);
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((bytes, next)) = after.split_at_checked(len) else {
            break;
        };
        pieces.push(OutputPiece {
            stream: head[0],
            bytes: read(bytes),
        });
        rest = next;
    }
    pieces
}
