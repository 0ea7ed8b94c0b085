//! What the runtime keeps per thread of the program; reached through GS.
//!
//! The first part is known to generated code and to the gate by offset. While the thread runs
//! translated code, its registers are in the CPU; while it is in Rust code, they are in `gpr`, `flags`
//! and `xmm` here, and the rest of the CPU's state is where the program left it.

use crate::instruments::calls::OpenCalls;
use crate::instruments::pm::ThreadState;
use crate::memory;
use crate::translator::signal::{Actions, Pending};
use crate::wire::Producer;
use core::arch::asm;
use core::mem::offset_of;

/// Index of a general-purpose register in [`Context::gpr`], in the hardware's numbering.
pub mod reg {
    pub const RAX: usize = 0;
    pub const RCX: usize = 1;
    pub const RDX: usize = 2;
    pub const RBX: usize = 3;
    pub const RSP: usize = 4;
    pub const RBP: usize = 5;
    pub const RSI: usize = 6;
    pub const RDI: usize = 7;
    pub const R8: usize = 8;
    pub const R9: usize = 9;
    pub const R10: usize = 10;
    pub const R11: usize = 11;
}

/// Why generated code or the gate entered [`crate::translator::dispatch::dispatch`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A direct branch that is not linked yet; `argument` is its number.
    Link = 0,
    /// An indirect jump or return to `pc`, which has no entry yet.
    Indirect = 1,
    /// An indirect call to `pc`, which has no call entry yet.
    IndirectCall = 2,
    /// A system call of the program; `next_pc` is the instruction after it.
    Syscall = 3,
    /// Go on at `pc`.
    Resync = 4,
    /// An access to persistent memory was made; `argument` is its site.
    PmDone = 5,
    /// The place of an access at `ea` has to be looked up.
    PmLookup = 6,
    /// An instruction of site `argument` is to be carried out by the runtime.
    PmEmulate = 7,
    /// A fence or a flush of site `argument` is about to happen.
    PmOrder = 8,
    /// An instruction the engine cannot run; `argument` is its site.
    Unsupported = 9,
    /// The instruction at `pc` raised the signal in `pending`.
    Fault = 10,
    /// The code at `pc` is no longer what was translated.
    Stale = 11,
    /// The thread enters the watched function whose number is `ea`, or may have returned from one, at site
    /// `argument`.
    Watch = 12,
}

/// Two vector registers in memory, each on a cache line of its own: a dump that crosses lines cannot be
/// read back at once.
#[repr(C, align(64))]
pub struct Vectors(pub [[u8; 64]; 2]);

#[repr(C, align(64))]
pub struct Context {
    /// The program's registers while the thread is in Rust code.
    pub gpr: [u64; 16],
    pub flags: u64,
    /// The program's instruction pointer, where the exit defines it.
    pub pc: u64,
    pub exit: u32,
    pub argument: u32,
    /// Where in the code cache the thread goes on.
    pub resume: u64,
    pub spill_rcx: u64,
    pub spill_rax: u64,
    pub spill_scratch: u64,
    pub spill_flags: u64,
    pub spill_r11: u64,
    /// Effective address of an access to what may be persistent memory.
    pub ea: u64,
    /// Where the access is really made.
    pub alias: u64,
    /// The lock that the access holds, or 0.
    pub stripe: u64,
    /// The second lock of an access that crosses a page, or 0.
    pub stripe2: u64,
    /// Size of the access in bytes.
    pub size: u64,
    /// Size of an access that is made on a copy, or 0.
    pub split: u64,
    /// Extra word of the access: mask bits of a masked store, a flags byte of `cmpxchg`.
    pub extra: u64,
    /// Where the gate's PM routines return to.
    pub pm_return: u64,
    /// The hull of all candidate mappings.
    pub hull_start: u64,
    pub hull_len: u64,
    /// The candidate mapping that the thread used last, and the distances to its alias and to the numbers
    /// by which its stripes are chosen.
    pub near_start: u64,
    pub near_len: u64,
    pub near_delta: u64,
    pub near_stripe: u64,
    /// A range inside the hull known to be no candidate.
    pub gap_start: u64,
    pub gap_len: u64,
    pub stripes: u64,
    /// Non-zero while the process has one thread: its accesses need no locks.
    pub alone: u64,
    /// Entry points that generated code jumps to through GS.
    pub to_link: u64,
    pub to_indirect: u64,
    pub to_indirect_call: u64,
    pub to_syscall: u64,
    pub to_resync: u64,
    pub to_pm_begin: u64,
    pub to_pm_end: u64,
    pub to_pm_emulate: u64,
    pub to_pm_order: u64,
    pub to_unsupported: u64,
    pub to_stale: u64,
    pub to_hash: u64,
    pub to_call: u64,
    pub to_return: u64,
    /// Table of the hash lookup of branch targets.
    pub hash_table: u64,
    /// One byte per system call number, non-zero if it goes through Rust code.
    pub syscall_table: u64,
    pub next_pc: u64,
    /// Where the system-call gate goes on; another thread may redirect it.
    pub sys_resume: u64,
    /// Non-zero while in the system-call gate, where `sys_resume` may still be redirected.
    pub in_call: u64,
    /// Top of the runtime's own stack of this thread.
    pub stack: u64,
    pub this: u64,
    /// Non-zero while a signal waits for delivery.
    pub pending_flag: u64,
    /// Non-zero while in Rust code.
    pub in_rust: u64,
    /// Non-zero if the thread had a PM event since its last recorded fence.
    pub dirty: u64,
    /// The program's GS base, which is not in the CPU.
    pub app_gs: u64,
    /// Table of the sites.
    pub sites: u64,
    /// The stacks that the thread has met, and the one that it met last; or 0.
    pub memos: u64,
    pub last_memo: u64,
    /// Distance from an address in the mapping used last to where it is flushed.
    pub flush_delta: u64,
    pub xmm: [[u64; 2]; 16],
    /// Vector registers: the value of a non-temporal store, the operands of scatters.
    pub vectors: Vectors,

    // Known to Rust code only from here on.
    pub tid: u32,
    /// The cache's epoch at the thread's last pass through the dispatcher.
    pub epoch: u64,
    /// Non-zero while single-stepping to a boundary, and the address stepped from.
    pub stepping: u64,
    pub last_step: u64,
    /// Non-zero if the next boundary is not a step that the program made.
    pub skip_trap: u64,
    /// Non-zero if the pending fault came from an access already observed.
    pub fault_repair: u64,
    /// Instruction and address of the last write to code that was repeated, and how often in a row.
    pub repeated: ((u64, u64), u32),
    /// The last change of the address space that the thread knows of.
    pub seen_change: u32,
    /// An indirect branch that has just met a target beyond the branch table, or 0.
    pub far_branch: u64,
    /// The program's signal mask as it would be without the engine.
    pub mask: u64,
    /// Mask to be in force while the handler of a signal runs that ended a wait (`sigsuspend`, `ppoll`…).
    pub wait_mask: Option<u64>,
    pub pending: Pending,
    /// A signal that was pending when an instruction faulted; delivered after the fault.
    pub postponed: Pending,
    /// Signals that were sent while blocked and that the kernel could not keep.
    pub held: [Pending; 3],
    /// What the process does on signals: shared by its threads.
    pub actions: *const Actions,
    pub altstack: crate::translator::signal::AltStack,
    pub wire: Producer,
    pub pm: ThreadState,
    pub watch: OpenCalls,
    pub block: ThreadBlock,
}

/// The mapping that holds a context, its stack and its signal stack.
#[derive(Clone, Copy)]
pub struct ThreadBlock {
    pub addr: u64,
    pub signal_stack: u64,
    state_area: u64,
}

/// Room for the extended CPU state, tiles included.
const STATE_AREA: u64 = 16 << 10;
const STACK: u64 = 256 << 10;
const SIGNAL_STACK: u64 = 128 << 10;

/// Offset of a field for generated code.
#[macro_export]
macro_rules! gs {
    ($($field:tt)+) => { core::mem::offset_of!($crate::translator::context::Context, $($field)+) as i32 };
}

impl Context {
    /// Makes the context of a new thread, with its stacks, all in one mapping.
    pub fn create() -> *mut Context {
        let head = memory::page_up(size_of::<Context>() as u64);
        let len = head + STATE_AREA + STACK + SIGNAL_STACK;
        let addr = crate::translator::process::spare_block().unwrap_or_else(|| memory::map(len));
        let context = addr as *mut Context;
        let state_area = addr + head;
        let block = ThreadBlock {
            addr,
            signal_stack: state_area + STATE_AREA + STACK,
            state_area,
        };
        // SAFETY: the mapping is this thread's alone and large enough; zero is valid for the plain part,
        // and the fields that have no valid zero are written here before anyone reads them.
        unsafe {
            core::ptr::write_bytes(context, 0, 1);
            (&raw mut (*context).postponed).write(Pending::none());
            (&raw mut (*context).held).write([Pending::none(); 3]);
            (&raw mut (*context).pending).write(Pending::none());
            (&raw mut (*context).altstack).write(crate::translator::signal::AltStack::disabled());
            (&raw mut (*context).wire).write(Producer::none());
            (&raw mut (*context).pm).write(ThreadState::new());
            (&raw mut (*context).watch).write(OpenCalls::new());
            (&raw mut (*context).wait_mask).write(None);
            (*context).block = block;
            (*context).this = addr;
            (*context).stack = block.signal_stack;
            (*context).flags = 0x202;
            crate::arch::translator::gate::fill_entry_points(&mut *context);
        }
        context
    }

    /// The actions of the thread's process.
    pub fn actions(&self) -> &'static Actions {
        // SAFETY: set before the thread runs, to actions that live as long as the process.
        unsafe { &*self.actions }
    }

    /// Room to save the extended CPU state, 64-byte aligned.
    pub fn state_area(&mut self) -> &'static mut [u8] {
        // SAFETY: part of the thread's block; used by this thread only, one use at a time.
        unsafe {
            core::slice::from_raw_parts_mut(self.block.state_area as *mut u8, STATE_AREA as usize)
        }
    }

    /// Size of the signal stack that belongs to [`ThreadBlock::signal_stack`].
    pub const SIGNAL_STACK: u64 = SIGNAL_STACK;

    /// The context of the calling thread.
    ///
    /// # Safety
    /// GS must have been set by [`Context::install`], and no other reference may be in use.
    pub unsafe fn current<'a>() -> &'a mut Context {
        let this: u64;
        // SAFETY: GS points to a context whose `this` points to itself.
        unsafe { asm!("mov {}, gs:[{}]", out(reg) this, const offset_of!(Context, this)) };
        // SAFETY: as above.
        unsafe { &mut *(this as *mut Context) }
    }

    /// Puts the context behind GS.
    ///
    /// # Safety
    /// `self` must live as long as the thread.
    pub unsafe fn install(&mut self) {
        // SAFETY: the start-up code has checked that the CPU and kernel allow wrgsbase.
        unsafe { asm!("wrgsbase {}", in(reg) self.this) };
    }
}
