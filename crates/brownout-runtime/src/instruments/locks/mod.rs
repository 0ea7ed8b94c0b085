//! The instrument that recognises locks by their atomic instructions.
//!
//! Each locked instruction leaves in a log of its thread what it did to which word ([`AtomicOperation`]). The log is read when it
//! matters whether the thread holds a lock: before an event of persistent memory is recorded, before a system call, and when the log
//! is full ([`settle`]). [`held`] decides what is a lock. Acquires are then recorded before the first event under the lock, and
//! releases before the first one that no longer is. Critical sections without events leave no trace. While a lock is held, the
//! assembly that records events compares its word with what the acquire wrote; Rust code is entered only if that has changed.
//!
//! Atomic instructions in functions that are known to acquire or release a lock, such as `pthread_mutex_lock`, are left alone
//! ([`lock_functions`]).
//!
//! Without `--loads` or a second thread no code is emitted. With it, a locked instruction on a word in the cache takes two to five times as
//! long ([`crate::arch::instruments::locks`]).
//!
//! What it can miss, and what it can take for a lock: see [`held`] and [`owners`]. Locks in memory that processes share at different
//! addresses are known by each process's own address.

pub mod held;
pub mod operation;
pub mod owners;
mod usefulness;

pub use held::{HeldLocks, LockEvent, MAX_HELD};
pub use operation::{AtomicOperation, Change};

use crate::arch::instruments::locks::{code, note};
use crate::arch::translator::guarded;
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction};
use crate::instruments::calls::lock_functions;
use crate::instruments::pm::candidates;
use crate::instruments::pm::repeated_loads::Lockset;
use crate::instruments::{Instrument, Resumption, exit_number};
use crate::translator::context::Context;
use crate::wire::{self, Head, Producer};
use brownout_ring::{kind, lock};
use held::Surroundings;
use owners::ChangeByOthers;

/// The instrument.
pub struct LockRecogniser;

/// Instructions that the log of a thread has room for.
pub const LOG: usize = 64;

/// What an instruction did, as generated code leaves it. Known by offset to assembly.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct LoggedInstruction {
    pub word: u64,
    pub first: u64,
    pub second: u64,
    pub pc: u64,
    /// The form of the instruction, as the architecture numbers it.
    pub form: u64,
}

/// A word that is held, as the assembly that records events compares it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ComparedWord {
    /// The eight aligned bytes around the word, and the bits that are set in them while it is held.
    pub place: u64,
    pub bits: u64,
    /// Where the thread is that has exchanged the word last: this one. 0 if that is not known.
    pub owner: u64,
}

/// What a thread keeps for the instrument. Known by offset to assembly and generated code.
#[repr(C)]
pub struct LocksArea {
    /// Entry points that generated code jumps to.
    pub to_exchanged: u64,
    pub to_changed: u64,
    /// The instruction that is being carried out: its address, the word, and an operand that it overwrites.
    pub pc: u64,
    pub word: u64,
    pub operand: u64,
    /// The table of exchanges.
    pub owners: u64,
    /// Where the next instruction is logged, and for how many there is room.
    pub next: u64,
    pub room: u64,
    /// Non-zero if there is something to look at before an event: the log, or a word to compare.
    pub busy: u64,
    pub compared_count: u64,
    pub compared: [ComparedWord; MAX_HELD],
    pub log: [LoggedInstruction; LOG],
    held: HeldLocks,
}

/// The instrument's only exit: the log is full.
pub const FULL: u32 = exit_number::<LockRecogniser>(0);

impl Instrument for LockRecogniser {
    type Area = LocksArea;
    /// Whether code is emitted.
    type Code = bool;

    fn create() {
        owners::create();
    }

    fn area() -> LocksArea {
        LocksArea {
            to_exchanged: 0,
            to_changed: 0,
            pc: 0,
            word: 0,
            operand: 0,
            owners: 0,
            next: 0,
            room: 0,
            busy: 0,
            compared_count: 0,
            compared: [ComparedWord::default(); MAX_HELD],
            log: [LoggedInstruction::default(); LOG],
            held: HeldLocks::new(),
        }
    }

    fn code() -> bool {
        wire::wants_locks()
    }

    fn connect(context: &mut Context) {
        note::connect(&mut context.areas.locks);
        context.areas.locks.owners = owners::table();
        empty_log(&mut context.areas.locks);
    }

    fn process_started(context: &mut Context) {
        // The log was read before the system call. A word in persistent memory is the parent's: it was not copied.
        let is_own = |word| candidates::find(word).is_none();
        context.areas.locks.held.forked(is_own);
        compare_held_words(context);
    }

    fn before(code: &mut bool, insn: &Instruction, out: &mut Emission<'_>) {
        if *code && code::is_logged(insn) && !lock_functions::hold(arch::pc(insn)) {
            code::before(insn, out);
        }
    }

    fn after(code: &mut bool, insn: &Instruction, out: &mut Emission<'_>) {
        if *code && code::is_logged(insn) && !lock_functions::hold(arch::pc(insn)) {
            code::after(insn, out);
        }
    }

    fn exit(context: &mut Context, _exit: u32) -> Resumption {
        settle_log(context, false);
        Resumption::InPlace
    }

    fn recovery_point(pc: u64) -> Option<u64> {
        note::recovery_point(pc)
    }

    fn before_syscall(context: &mut Context) {
        // What it holds is reported if the call has an event. A thread that waits or ends has released the rest.
        if context.areas.locks.busy != 0 {
            settle_log(context, false);
        }
    }
}

/// An event of the thread is about to be recorded: records first which locks it holds, and which it no longer does.
#[inline]
pub fn settle(context: &mut Context) {
    if context.areas.locks.busy != 0 {
        settle_log(context, candidates::any());
    }
}

/// Reads the log, finds out what was released, and reports what is held if that is wanted.
#[cold]
fn settle_log(context: &mut Context, report: bool) {
    let thread = context.this;
    let area = &mut context.areas.locks;
    let target = &mut TargetThread {
        wire: &mut context.wire,
        lockset: &mut context.areas.pm.lockset,
        thread,
    };
    let logged = LOG - area.room as usize;
    for logged in &area.log[..logged] {
        if let Some(operation) = code::operation(logged) {
            if code::sets_numbered_bit(logged) {
                note_bit(&operation, thread);
            }
            area.held.operation(&operation, target);
        }
    }
    empty_log(area);
    area.held.check(target);
    if report {
        area.held.report(target);
    }
    compare_held_words(context);
}

/// Notes the exchange of a bit whose word generated code did not know. The other bits pass for set.
fn note_bit(operation: &AtomicOperation, thread: u64) {
    if let Change::SetBit(bit) = operation.change {
        let values = (operation.mask() & !bit, operation.mask());
        owners::entry(operation.word).note(operation.word, values, thread);
    }
}

fn empty_log(area: &mut LocksArea) {
    area.next = area.log.as_ptr() as u64;
    area.room = LOG as u64;
}

/// Lets the assembly compare the words that are held.
fn compare_held_words(context: &mut Context) {
    let this = context.this;
    let area = &mut context.areas.locks;
    let mut count = 0;
    for held in area.held.iter() {
        if let Some((place, bits)) = held.compared_bits() {
            let entry = owners::entry(held.word());
            let is_known = entry.is_by(held.word(), this) && !held.is_contended();
            area.compared[count] = ComparedWord {
                place,
                bits,
                owner: if is_known {
                    &raw const entry.thread as u64
                } else {
                    0
                },
            };
            count += 1;
        }
    }
    area.compared_count = count as u64;
    area.busy = area.compared_count;
}

/// The target, as a thread sees it.
struct TargetThread<'a> {
    wire: &'a mut Producer,
    lockset: &'a mut Lockset,
    thread: u64,
}

impl Surroundings for TargetThread<'_> {
    fn place(&mut self, word: u64) -> u64 {
        candidates::find(word).map_or(word, |candidate| word.wrapping_add(candidate.delta))
    }

    fn load(&mut self, aligned: u64) -> Option<u64> {
        guarded::load(aligned)
    }

    fn change_by_others(&mut self, word: u64) -> Option<ChangeByOthers> {
        owners::entry(word).by_others(word, self.thread)
    }

    fn set_published(&mut self, word: u64) {
        usefulness::set_published(word);
    }

    fn is_published(&mut self, word: u64) -> bool {
        usefulness::is_published(word)
    }

    fn is_worthwhile(&mut self, pc: u64) -> bool {
        usefulness::is_worthwhile(pc)
    }

    fn forgotten(&mut self) {
        self.lockset.renew();
    }

    fn event(&mut self, event: LockEvent) {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let (kind, word, flags, pc) = match event {
            LockEvent::Acquire {
                word,
                size,
                shared,
                pc,
            } => {
                usefulness::acquired(pc);
                self.lockset.acquired(word);
                let size = u16::from(size) << lock::SIZE_SHIFT;
                let flags = size | flag(shared, lock::SHARED);
                (kind::LOCK_ACQUIRE, word, flags, pc)
            }
            LockEvent::Release {
                word,
                shared,
                exchanged,
                pc,
            } => {
                usefulness::released(pc);
                self.lockset.released(word);
                let flags = flag(shared, lock::SHARED) | flag(exchanged, lock::EXCHANGED);
                (kind::LOCK_RELEASE, word, flags, pc)
            }
        };
        let head = Head {
            kind,
            flags,
            pc,
            context: 0,
            addr: word,
        };
        let intended = self.wire.has_open_intent();
        self.wire.record_short(head, &[]);
        if intended {
            self.wire.renew_intent();
        }
    }
}
