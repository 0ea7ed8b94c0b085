//! What an instrument can do: the hooks that the translator calls.
//!
//! Every hook has a default that does nothing. Hooks about code run under the translator's lock and get
//! what the instrument keeps there ([`Instrument::Code`]); hooks about a thread get its context, in which
//! the instrument has an area of its own ([`Instrument::Area`]).

use crate::arch::Instruction;
use crate::arch::translator::translate::Emission;
use crate::sys::Raw;
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::map_lock::MapLock;
use crate::translator::signal::Info;
use crate::translator::syscall::Outcome;
use core::ops::RangeInclusive;

/// How a thread continues after an exit that an instrument served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// In the generated code that it came from, at `Context::resume`.
    InPlace,
    /// At the target's instruction at `Context::pc`, after pending signals.
    AtPc,
}

/// What an instrument takes over of a call, an indirect branch or a return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchRequest {
    /// Generated code must not write to the target's stack: [`Instrument::push`] emits the push of a call.
    pub stack: bool,
    /// Generated code must not read the branch target from memory: [`Instrument::load_target`] emits that.
    pub target: bool,
}

impl BranchRequest {
    /// Everything that either of two instruments takes over.
    pub fn or(self, other: BranchRequest) -> BranchRequest {
        BranchRequest {
            stack: self.stack || other.stack,
            target: self.target || other.target,
        }
    }
}

/// A load in an instrument's assembly that an alignment check interrupted.
#[derive(Clone, Copy, Debug)]
pub struct MisalignedLoad {
    /// Bytes that it loads.
    pub size: usize,
    /// The instruction after it.
    pub next: u64,
}

/// An instrument. The implementing type is never constructed.
///
/// CONTRIBUTING.md shows a minimal one.
pub trait Instrument {
    /// What the instrument keeps in the context of each thread. Generated code and assembly reach it by
    /// offset (`slot!(areas.NAME.FIELD)`).
    type Area;
    /// What the instrument keeps under the translator's lock.
    type Code;

    /// System calls that go through [`Instrument::syscall`] at all times. Others do once
    /// [`crate::translator::syscall::attend_all`] was called.
    const SYSTEM_CALLS: &'static [u32] = &[];

    // --- the process -----------------------------------------------------------------------------------

    /// Whether the random bytes that the kernel gives the program have to be the same in each run.
    fn fixes_random_bytes() -> bool {
        false
    }

    /// Whether the program must not find the vDSO, which shows the time without a system call.
    fn hides_vdso() -> bool {
        false
    }

    /// Sets the instrument up, before the first thread has a context.
    fn create() {}

    /// The area of a new thread.
    fn area() -> Self::Area;

    /// What is kept under the translator's lock, at the start.
    fn code() -> Self::Code;

    /// A process starts with the thread of `context`: a program image was loaded, or the process was forked and has
    /// inherited everything.
    fn process_started(_context: &mut Context) {}

    /// Runs `fork` while nothing of the instrument is under way and its locks are held.
    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        fork()
    }

    /// The process is about to create a thread, or to fork (`forks`). It may still turn out that it cannot.
    fn about_to_share(_forks: bool) {}

    /// The process is about to end: no other thread may do anything that is observed from now on.
    fn stop() {}

    // --- threads ---------------------------------------------------------------------------------------

    /// The thread of `context` is about to create that of `child`, which shares its process. `cleared` is the word that the
    /// kernel clears when the new thread ends, or 0. If it cannot be created, [`Instrument::thread_left`] follows.
    fn thread_created(_context: &mut Context, _child: &mut Context, _cleared: u64) {}

    /// A new thread runs its first code. Nothing of it can be observed before this returns.
    fn thread_begins(_context: &mut Context) {}

    /// A context was made: fills the entry points in its area.
    fn connect(_context: &mut Context) {}

    /// A thread has joined the list of threads.
    fn thread_joined(_context: &mut Context) {}

    /// A new thread of a process that has others runs its first code; it has its end of the wire.
    fn thread_started(_context: &mut Context) {}

    /// Whether the process has one thread only has changed, for the thread of `context`.
    ///
    /// # Safety
    /// `context` is in the list of threads. Its thread may be running: only words that its code reads
    /// afresh may be written.
    unsafe fn set_alone(_context: *mut Context, _alone: bool) {}

    /// A thread ends: frees what its area holds. It has no events any more.
    fn thread_left(_context: &mut Context) {}

    // --- code ------------------------------------------------------------------------------------------

    /// From now on code is emitted to this unit of the cache; what was there is gone.
    fn begin_unit(_code: &mut Self::Code, _unit: usize) {}

    /// The code in a range of the target is gone.
    fn forget_code(_code: &mut Self::Code, _start: u64, _end: u64) {}

    /// The instruction at `pc` has to be observed: an exit or a fault of this process has shown that, or of another one
    /// of its fork tree ([`crate::translator::translate::Translator::observe`]). False if that was known.
    fn observe(_code: &mut Self::Code, _pc: u64) -> bool {
        false
    }

    /// The instruction at `pc` is observed by an instrument from now on, this one or another, and will be translated again.
    fn observed_by_any(_code: &mut Self::Code, _pc: u64) {}

    /// A block begins at `pc`: may emit code that runs each time it is entered.
    fn block(_code: &mut Self::Code, _pc: u64, _out: &mut Emission<'_>) {}

    /// An instruction comes next: may emit code that runs before it. For the last instruction of a block
    /// this is the place for code at an edge.
    fn before(_code: &mut Self::Code, _insn: &Instruction, _out: &mut Emission<'_>) {}

    /// An instruction that falls through was emitted, in whatever way: may emit code that runs behind it.
    fn after(_code: &mut Self::Code, _insn: &Instruction, _out: &mut Emission<'_>) {}

    /// A conditional branch was emitted: may emit code that runs each time it is not taken.
    fn fall_through(_code: &mut Self::Code, _insn: &Instruction, _out: &mut Emission<'_>) {}

    /// May emit an instruction that falls through in another way than by copying it. True if it did: the instruments
    /// that come later in the registry are then not asked about this instruction.
    fn replace(
        _code: &mut Self::Code,
        _insn: &Instruction,
        _bytes: &[u8],
        _out: &mut Emission<'_>,
    ) -> bool {
        false
    }

    /// What the instrument takes over of a branch. At most one instrument may take over the push, and at most one the
    /// load of the target; debug builds check this.
    fn branch(_code: &Self::Code, _insn: &Instruction) -> BranchRequest {
        BranchRequest::default()
    }

    /// Emits the push of a call. Only called if asked for by [`Instrument::branch`].
    fn push(_code: &mut Self::Code, _insn: &Instruction, _out: &mut Emission<'_>) {}

    /// Emits the load of a branch target into `Context::next_pc`. Only called if asked for by
    /// [`Instrument::branch`].
    fn load_target(_code: &mut Self::Code, _insn: &Instruction, _out: &mut Emission<'_>) {}

    // --- exits and faults ------------------------------------------------------------------------------

    /// Serves an exit of the instrument's own; `exit` is what was given to [`super::exit_number`].
    fn exit(_context: &mut Context, exit: u32) -> Resumption {
        crate::fatal::fault(format_args!("exit {exit} is not known to its instrument"))
    }

    /// The thread was stopped inside a block that it had entered, before the instruction at `Context::pc`. If it
    /// continues there, it enters a block that begins there.
    fn interrupted(_context: &mut Context) {}

    /// An instruction of the target raised the pending signal. True if that is explained by the
    /// instrument, so that the instruction is run again.
    fn fault(_context: &mut Context) -> bool {
        false
    }

    /// An access that the instrument had moved elsewhere (`Repair::Moved`) faulted: undoes what was begun
    /// and corrects the address for the target. Only page faults have an address.
    fn undo_access(_context: &mut Context, _is_page_fault: bool, _info: &mut Info) {}

    /// Where a thread that faulted at `pc` continues, if that is an instruction of the instrument's assembly
    /// that may fault.
    fn recovery_point(_pc: u64) -> Option<u64> {
        None
    }

    /// The load at `pc`, if it is one of the instrument's assembly that is subject to alignment checks.
    fn misaligned_load(_pc: u64) -> Option<MisalignedLoad> {
        None
    }

    // --- system calls ----------------------------------------------------------------------------------

    /// A signal was delivered: the thread continues at the target's handler.
    fn delivered(_context: &mut Context) {}

    /// A system call is about to be served.
    fn before_syscall(_context: &mut Context) {}

    /// Makes a system call of the target by `make`, with what the instrument does before and after it.
    fn syscall(
        context: &mut Context,
        nr: u32,
        args: [u64; 6],
        make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
    ) -> Outcome {
        make(context, nr, args)
    }

    /// Writes bytes to the target's memory on behalf of the kernel: the results of calls that the runtime
    /// serves itself, and signal frames. `None` if the instrument has no interest in the address.
    fn write(
        _context: &mut Context,
        _to: u64,
        _bytes: &[u8],
    ) -> Option<Result<(), target_memory::Fault>> {
        None
    }

    /// Descriptors were closed by other calls than `close`.
    fn closed(_descriptors: RangeInclusive<u32>) {}

    // --- the address space -----------------------------------------------------------------------------

    /// Makes the target's `mmap` if the instrument handles mappings of this kind; gives the lock back if
    /// not.
    fn map(_context: &mut Context, map_lock: MapLock, _args: [u64; 6]) -> Result<Raw, MapLock> {
        Err(map_lock)
    }

    /// The target is about to replace a range: marks the change if other threads may be using it.
    fn replacing(_map_lock: &mut MapLock, _start: u64, _len: u64) {}

    /// The target has unmapped or replaced a range.
    fn unmapped(_context: &mut Context, _start: u64, _end: u64) {}

    /// Makes the target's `mprotect` if it concerns the instrument.
    fn protect(_context: &mut Context, _args: [u64; 6]) -> Option<Raw> {
        None
    }

    /// Makes the target's `mremap` if it concerns the instrument.
    fn remap(_context: &mut Context, _map_lock: &mut MapLock, _args: [u64; 6]) -> Option<Raw> {
        None
    }

    /// Whether a range touches memory that the instrument has mapped for itself.
    fn owns(_start: u64, _end: u64) -> bool {
        false
    }

    /// Whether the target has a page at `address` that it cannot read only because of the instrument.
    fn hides(_address: u64) -> bool {
        false
    }

    /// Code of the file behind `fd` was mapped: `len` bytes at `start`, from `offset` on.
    fn module_mapped(_fd: i32, _start: u64, _len: u64, _offset: u64) {}
}
