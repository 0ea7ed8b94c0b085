//! The memory of the explore instrument: a part of the wire's memfd that is used only if [`crate::option::EXPLORE`]
//! is set.
//!
//! A table, written before the start, names the files that are explored and their *open* bytes: those whose values the
//! controller chooses. Each process of the exploration has a [`Mailbox`]. The first process has mailbox 0; the controller
//! chooses that of a process that is forked. A process writes a message to its mailbox and sets [`Mailbox::turn`], a futex,
//! on which both sides wait.
//!
//! With an answer, the controller can let the process answer further questions itself, with the bytes that the explored files hold.
//! The process notes these questions in its mailbox and does not wait.

use crate::coverage;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Offset in the memfd of the table of open bytes, and its size. The table consists of 64-bit words: the number of
/// files; for each file its device, its inode and the number of ranges; for each range its first byte and its end.
pub const TABLE: usize = coverage::END;
pub const TABLE_BYTES: usize = 4 << 20;
/// Offset of mailbox 0 in the memfd, and the bytes reserved for each mailbox.
pub const MAILBOXES: usize = TABLE + TABLE_BYTES;
pub const MAILBOX_BYTES: usize = 128 << 10;
/// How many processes of an exploration can exist at the same time.
pub const PROCESSES: usize = 4096;
/// The end of all mailboxes.
pub const END: usize = MAILBOXES + PROCESSES * MAILBOX_BYTES;

/// The most bytes that one question can ask for.
pub const QUESTION_BYTES: usize = 4096;
/// The most bytes of output that a process keeps in its mailbox.
pub const OUTPUT_BYTES: usize = 96 << 10;
/// The bytes that a process has for the questions which it answers itself.
pub const READS_BYTES: usize = 16 << 10;
/// Bytes of such a question before the words with its open bytes: the number of the file, the number of bytes, and the offset.
pub const READ_HEAD: usize = 16;
/// Stands in [`Mailbox::copy`] for no mailbox: the process does not fork.
pub const NO_COPY: u32 = u32::MAX;
/// Stands in [`Mailbox::free`] for all further questions.
pub const ALL_FREE: u32 = u32::MAX;

const _: () = assert!(size_of::<Mailbox>() <= MAILBOX_BYTES);

/// Offset in the memfd of the mailbox with this number.
pub const fn mailbox_offset(number: usize) -> usize {
    MAILBOXES + number * MAILBOX_BYTES
}

/// Where a process and the controller exchange messages.
#[repr(C)]
pub struct Mailbox {
    /// One of [`turn`].
    pub turn: AtomicU32,
    /// The process id, once the process runs.
    pub pid: AtomicU32,
    /// Of a question: the number of the file in the table, the offset in it, and the number of bytes.
    pub file: AtomicU32,
    pub len: AtomicU32,
    pub offset: AtomicU64,
    /// Of an answer: the mailbox of the process that is to be forked, or [`NO_COPY`].
    pub copy: AtomicU32,
    /// Of an answer: how many further questions the process answers itself, or [`ALL_FREE`].
    pub free: AtomicU32,
    /// Bytes in `reads`.
    pub reads_len: AtomicU32,
    /// Why the branch has to be run anew: one of [`shared_effect`], and the system call if it is one.
    pub effect: AtomicU32,
    pub call: AtomicU32,
    /// Bytes in `output`.
    pub output_len: AtomicU32,
    /// Of a question: the open ones among its bytes, one bit for each.
    pub open: [AtomicU64; QUESTION_BYTES / 64],
    /// Of an answer: the bytes.
    pub bytes: [AtomicU8; QUESTION_BYTES],
    /// What the process has written to its standard streams: pieces, each of which begins with the number of the stream in
    /// one byte and its length in four.
    pub output: [AtomicU8; OUTPUT_BYTES],
    /// The questions that the process has answered itself: for each a head of [`READ_HEAD`] bytes, then one bit for each byte, in words of
    /// 64 bits. If there is no room for another one, the process asks.
    pub reads: [AtomicU8; READS_BYTES],
}

/// Values of [`Mailbox::turn`].
pub mod turn {
    /// The process runs, or is about to be forked.
    pub const RUNNING: u32 = 0;
    /// The process waits for an answer.
    pub const QUESTION: u32 = 1;
    /// The process has an answer and has not taken it yet.
    pub const ANSWER: u32 = 2;
    /// The process is about to end.
    pub const ENDING: u32 = 3;
    /// The process has ended because of an [`super::shared_effect`].
    pub const RUN_ANEW: u32 = 4;
}

/// What keeps a process from being explored further, because its copies would disturb each other.
pub mod shared_effect {
    /// A system call.
    pub const CALL: u32 = 1;
    /// An explored file is mapped in a way that is not private to the process, or once more.
    pub const MAPPING: u32 = 2;
    /// An instruction reads several mappings at once.
    pub const GATHER: u32 = 3;
    /// There is too much output.
    pub const OUTPUT: u32 = 4;
    /// The process could not be forked.
    pub const FORK: u32 = 5;
}
