//! The instrument that explores a recovery: the bytes of its loads from persistent files are chosen by a controller, and
//! the process forks where there is more than one choice (Jaaru, ASPLOS'21, §4, on processes).
//!
//! Which bytes are *open*, because a crash can leave them different, is in a table of the wire. A shared mapping of such a file is made
//! private to the process, so that a fork gives each branch a file of its own. Its pages with open bytes are candidates of the instrument
//! for persistent memory, which finds every instruction that accesses them; other pages are ordinary memory and cost nothing. Before an
//! access reads open bytes, the process asks for them ([`before_read`]). They are then decided. Bytes that the process stores are its own
//! ([`before_write`]).
//!
//! With an answer the controller can ask for a fork: the child continues with the answer, and the parent waits for another one. What a
//! fork cannot make private (threads, other processes, files that are written…) ends the branch with a reason: see [`calls`]. The
//! controller then has it run in another way. A copy takes the id of the first process for its own, so that all copies do the same.
//!
//! The controller can also let the process answer its next questions itself. It then reads the bytes from the file, where the controller
//! has put them, through a [view](mapping::FileMappings::view) that shows what the file holds now.
//!
//! What it can miss: bytes that a masked load or store leaves out are asked for like those that it accesses.

mod calls;
mod file_reads;
mod locks;
mod mailbox;
mod mapping;
mod open_bytes;
pub(crate) mod other_files;
mod read_calls;

use crate::instruments::Instrument;
use crate::instruments::pm::candidates::{self, Candidate};
use crate::lock::Lock;
use crate::memory::PAGE;
use crate::sys::{self, Raw, is_err};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::map_lock::MapLock;
use crate::translator::process;
use crate::translator::syscall::{Outcome, attend_all};
use crate::wire;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use brownout_ring::explore::{QUESTION_BYTES, shared_effect};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use locks::FileLocks;
use mailbox::{Answer, Question};
use open_bytes::ExploredFile;

/// The instrument.
pub struct ChosenLoads;

/// What the process knows of its exploration.
struct State {
    files: Vec<ExploredFile>,
    /// Whether the process was forked at a choice, or is a copy that was.
    was_forked: bool,
    /// Descriptors that were opened since, whose position is therefore not shared with another process.
    own_descriptors: BTreeSet<u32>,
    /// The locks that the process has taken. Once it was forked, they are only noted here.
    locks: FileLocks,
    /// The ids that the process takes for its own and for that of its parent: those of the one of which all others are copies.
    id: u32,
    parent: u32,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static STATE: Lock<State> = Lock::new(State {
    files: Vec::new(),
    was_forked: false,
    own_descriptors: BTreeSet::new(),
    locks: FileLocks::new(),
    id: 0,
    parent: 0,
});

/// Whether the process is explored.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// The process is about to read: asks for the open bytes among what it reads. The caller holds no locks.
pub fn before_read(context: &mut Context, address: u64, len: u64) {
    if is_active() {
        for_each_page(address, len, |mapping, at, len| {
            decide(context, mapping, at, len)
        });
    }
}

/// The process is about to write: the bytes are its own from now on.
pub fn before_write(address: u64, len: u64) {
    if is_active() {
        for_each_page(address, len, |mapping, at, len| {
            // A store without the right to write faults.
            if mapping.observes(true)
                && let Some((_, file)) = STATE.lock().file(mapping)
            {
                file.close(offset_of(mapping, at), len);
            }
        });
    }
}

/// The addresses around one in a candidate at which accesses need not be looked up: they can read or write no open bytes.
pub fn settled(mapping: &Candidate, address: u64) -> Range<u64> {
    // A store without the right to write has to fault.
    if !(mapping.observes(true) && mapping.observes(false)) {
        return address..address;
    }
    let first = mapping.file.offset;
    let within = first..first + (mapping.end - mapping.start);
    let mut state = STATE.lock();
    let Some((_, file)) = state.file(mapping) else {
        return address..address;
    };
    let settled = file.settled(offset_of(mapping, address), within);
    let address_of = |offset: u64| mapping.start + (offset - first);
    address_of(settled.start)..address_of(settled.end)
}

/// An instruction reads several mappings at once.
pub fn refuse_gather() {
    if is_active() {
        mailbox::give_up(shared_effect::GATHER, 0);
    }
}

/// Visits the parts of a range that are in candidates, page by page.
fn for_each_page(address: u64, len: u64, mut visit: impl FnMut(&Candidate, u64, usize)) {
    let end = address.saturating_add(len);
    let mut at = address;
    while at < end {
        let next = (at - at % PAGE + PAGE).min(end);
        if let Some(mapping) = candidates::find(at) {
            visit(&mapping, at, (next - at) as usize);
        }
        at = next;
    }
}

fn offset_of(mapping: &Candidate, address: u64) -> u64 {
    mapping.file.offset + (address - mapping.start)
}

impl State {
    /// From now on another process shares what is open.
    fn forked(&mut self) {
        self.was_forked = true;
        self.own_descriptors.clear();
    }

    /// The explored file that is mapped, and its number.
    fn file(&mut self, mapping: &Candidate) -> Option<(u32, &mut ExploredFile)> {
        self.file_of(mapping.file.dev, mapping.file.ino)
    }

    fn file_of(&mut self, dev: u64, ino: u64) -> Option<(u32, &mut ExploredFile)> {
        let files = self.files.iter_mut().enumerate();
        let mut found = files.filter(|(_, file)| (file.dev, file.ino) == (dev, ino));
        found.next().map(|(number, file)| (number as u32, file))
    }
}

/// Makes the open bytes of a range on one page what the controller has chosen.
fn decide(context: &mut Context, mapping: &Candidate, at: u64, len: usize) {
    let offset = offset_of(mapping, at);
    let asked = STATE.lock().file(mapping).and_then(|(number, file)| {
        let open = file.open(offset, len)?;
        Some((number, open, file.mappings.view(offset)))
    });
    let Some((file, open, view)) = asked else {
        return;
    };
    let question = Question {
        file,
        offset,
        len,
        open: &open,
    };
    let alias = at.wrapping_add(mapping.delta);
    let mut bytes = [0u8; QUESTION_BYTES];
    let bytes = &mut bytes[..len];
    if !answer_freely(&question, view, bytes) {
        bytes.copy_from_slice(&ask(context, &question).bytes[..len]);
    }
    for (index, byte) in bytes.iter().enumerate() {
        if open[index / 64] >> (index % 64) & 1 != 0 {
            // Behind the end of the file there is nothing to change, and the access will fault.
            let _ = target_memory::write_bytes(alias + index as u64, core::slice::from_ref(byte));
        }
    }
    if let Some((_, file)) = STATE.lock().file(mapping) {
        file.close(offset, len);
    }
}

/// Answers a question with the bytes of the file, if the controller lets the process do that.
fn answer_freely(question: &Question<'_>, view: Option<u64>, bytes: &mut [u8]) -> bool {
    let Some(view) = view.filter(|_| mailbox::is_free()) else {
        return false;
    };
    target_memory::read_into(view, bytes) == bytes.len() && mailbox::note_free(question)
}

/// Asks the controller, and forks as often as it wants. Returns the answer of the process that goes on.
fn ask(context: &mut Context, question: &Question<'_>) -> Answer {
    let mut answer = mailbox::ask(question);
    while let Some(copy) = answer.copy {
        let raw = process::fork_copy(context);
        if is_err(raw) {
            mailbox::report_failed_fork(copy);
        } else {
            STATE.lock().forked();
        }
        if raw == 0 {
            mailbox::open(copy);
            break;
        }
        answer = mailbox::wait_again();
    }
    mailbox::set_free(answer.free);
    answer
}

impl Instrument for ChosenLoads {
    type Area = ();
    type Code = ();

    fn create() {
        if !wire::wants_exploration() {
            return;
        }
        let mut state = STATE.lock();
        state.files = open_bytes::read_table();
        state.id = sys::getpid();
        state.parent = process::parent_pid();
        drop(state);
        mailbox::open(0);
        attend_all();
        ACTIVE.store(true, Ordering::Relaxed);
    }

    fn area() {}

    fn code() {}

    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        let state = STATE.lock();
        let result = fork();
        drop(state);
        result
    }

    fn stop() {
        if is_active() {
            mailbox::end();
        }
    }

    fn before_syscall(context: &mut Context) {
        if is_active() {
            calls::check(context);
        }
    }

    fn syscall(
        context: &mut Context,
        nr: u32,
        args: [u64; 6],
        make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
    ) -> Outcome {
        if is_active() {
            calls::make(context, nr, args, make)
        } else {
            make(context, nr, args)
        }
    }

    fn map(context: &mut Context, map_lock: MapLock, args: [u64; 6]) -> Result<Raw, MapLock> {
        if is_active() {
            mapping::map(context, map_lock, args)
        } else {
            Err(map_lock)
        }
    }
}
