//! The process's end of its mailbox: questions and answers, output, and why the copy has to be run anew.

use crate::memory;
use crate::sys;
use crate::wire;
use brownout_ring::explore::{self, Mailbox, shared_effect, turn};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

static MAILBOX: AtomicPtr<Mailbox> = AtomicPtr::new(core::ptr::null_mut());
/// How many further questions the process answers itself, or [`explore::ALL_FREE`].
static FREE: AtomicU32 = AtomicU32::new(0);
/// Nanoseconds after which a waiting process looks whether the controller still exists.
const CHECK_INTERVAL: u64 = 1_000_000_000;

/// What a process asks for.
pub struct Question<'a> {
    pub file: u32,
    pub offset: u64,
    pub len: usize,
    /// The open bytes, one bit for each.
    pub open: &'a [u64],
}

/// What the controller answers.
pub struct Answer {
    pub bytes: [u8; explore::QUESTION_BYTES],
    /// The mailbox of the process that is to be forked.
    pub copy: Option<u32>,
    /// How many further questions the process that goes on answers itself.
    pub free: u32,
}

/// Makes the mailbox with this number that of the calling process.
pub fn open(number: u32) {
    let Some(mailbox) = map(number) else {
        crate::fatal::unsupported(format_args!("the engine cannot map its mailbox"));
    };
    mailbox.pid.store(sys::getpid(), Ordering::Release);
    MAILBOX.store((&raw const *mailbox).cast_mut(), Ordering::Relaxed);
}

/// Maps a mailbox. It stays mapped until the process ends; copies of the process do not have it.
fn map(number: u32) -> Option<&'static Mailbox> {
    let offset = explore::mailbox_offset(number as usize);
    let addr = wire::map(wire::READ_WRITE, offset, size_of::<Mailbox>())?;
    memory::leave_out_of_forks(addr, size_of::<Mailbox>() as u64);
    // SAFETY: a mapping of that size that is never unmapped; every field is atomic.
    Some(unsafe { &*(addr as *const Mailbox) })
}

fn own() -> Option<&'static Mailbox> {
    // SAFETY: null, or from `map`.
    unsafe { MAILBOX.load(Ordering::Relaxed).as_ref() }
}

/// Asks, and waits for the answer.
pub fn ask(question: &Question<'_>) -> Answer {
    let Some(mailbox) = own() else {
        crate::fatal::fault(format_args!("there is no mailbox"));
    };
    mailbox.file.store(question.file, Ordering::Relaxed);
    mailbox.offset.store(question.offset, Ordering::Relaxed);
    mailbox.len.store(question.len as u32, Ordering::Relaxed);
    for (to, from) in mailbox.open.iter().zip(question.open) {
        to.store(*from, Ordering::Relaxed);
    }
    give_turn(mailbox, turn::QUESTION);
    wait(mailbox)
}

/// So many further questions are answered by the process itself.
pub fn set_free(free: u32) {
    FREE.store(free, Ordering::Relaxed);
}

/// Whether the process answers the next question itself, as far as it can note it.
pub fn is_free() -> bool {
    FREE.load(Ordering::Relaxed) > 0
}

/// Notes a question that the process answers itself. Returns whether there was room for it.
pub fn note_free(question: &Question<'_>) -> bool {
    let Some(mailbox) = own() else { return false };
    let words = &question.open[..question.len.div_ceil(64)];
    let used = mailbox.reads_len.load(Ordering::Relaxed) as usize;
    let end = used + explore::READ_HEAD + 8 * words.len();
    let Some(room) = mailbox.reads.get(used..end) else {
        return false;
    };
    let (head, rest) = room.split_at(explore::READ_HEAD);
    put(&head[..4], &question.file.to_le_bytes());
    put(&head[4..8], &(question.len as u32).to_le_bytes());
    put(&head[8..], &question.offset.to_le_bytes());
    for (to, word) in rest.chunks_exact(8).zip(words) {
        put(to, &word.to_le_bytes());
    }
    mailbox.reads_len.store(end as u32, Ordering::Release);
    let free = FREE.load(Ordering::Relaxed);
    if free != explore::ALL_FREE {
        FREE.store(free - 1, Ordering::Relaxed);
    }
    true
}

fn put(to: &[AtomicU8], bytes: &[u8]) {
    for (to, from) in to.iter().zip(bytes) {
        to.store(*from, Ordering::Relaxed);
    }
}

/// Waits for a further answer to the last question.
pub fn wait_again() -> Answer {
    let Some(mailbox) = own() else {
        crate::fatal::fault(format_args!("there is no mailbox"));
    };
    give_turn(mailbox, turn::QUESTION);
    wait(mailbox)
}

fn wait(mailbox: &Mailbox) -> Answer {
    while mailbox.turn.load(Ordering::Acquire) != turn::ANSWER {
        sys::futex_wait(&mailbox.turn, turn::QUESTION, CHECK_INTERVAL);
        if !wire::has_recorder() {
            sys::exit_group(0);
        }
    }
    let mut bytes = [0u8; explore::QUESTION_BYTES];
    let asked = mailbox.len.load(Ordering::Relaxed) as usize;
    for (to, from) in bytes.iter_mut().zip(&mailbox.bytes).take(asked) {
        *to = from.load(Ordering::Relaxed);
    }
    let copy = mailbox.copy.load(Ordering::Relaxed);
    mailbox.turn.store(turn::RUNNING, Ordering::Release);
    Answer {
        bytes,
        copy: (copy != explore::NO_COPY).then_some(copy),
        free: mailbox.free.load(Ordering::Relaxed),
    }
}

fn give_turn(mailbox: &Mailbox, turn: u32) {
    mailbox.turn.store(turn, Ordering::Release);
    sys::futex_wake(&mailbox.turn);
}

/// The process is about to end.
pub fn end() {
    if let Some(mailbox) = own() {
        give_turn(mailbox, turn::ENDING);
    }
}

/// Puts into the mailbox of a process that could not be forked that there is none.
pub fn report_failed_fork(copy: u32) {
    if let Some(mailbox) = map(copy) {
        mailbox.effect.store(shared_effect::FORK, Ordering::Relaxed);
        give_turn(mailbox, turn::RUN_ANEW);
    }
}

/// Ends the process: what it is about to do cannot be undone for its copies.
pub fn give_up(effect: u32, call: u32) -> ! {
    if let Some(mailbox) = own() {
        mailbox.effect.store(effect, Ordering::Relaxed);
        mailbox.call.store(call, Ordering::Relaxed);
        give_turn(mailbox, turn::RUN_ANEW);
    }
    sys::exit_group(0)
}

/// Appends output of a standard stream.
pub fn put_output(stream: u8, bytes: &[u8]) {
    const HEAD: usize = 5;
    let Some(mailbox) = own() else { return };
    let used = mailbox.output_len.load(Ordering::Relaxed) as usize;
    let Some(room) = mailbox.output.get(used..used + HEAD + bytes.len()) else {
        give_up(shared_effect::OUTPUT, 0);
    };
    let len = (bytes.len() as u32).to_le_bytes();
    let piece = [stream].into_iter().chain(len).chain(bytes.iter().copied());
    for (to, from) in room.iter().zip(piece) {
        to.store(from, Ordering::Relaxed);
    }
    let used = (used + HEAD + bytes.len()) as u32;
    mailbox.output_len.store(used, Ordering::Release);
}
