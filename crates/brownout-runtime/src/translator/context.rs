//! What the runtime keeps for each thread of the target.
//!
//! Assembly and generated code know the first part by offset: the registers ([`Cpu`]), the entry points of
//! the gate, and the areas of the instruments. While the thread runs translated code, its registers are in the
//! CPU; while it is in Rust code, they are here, and the rest of the CPU's state is as the target left it.

use crate::arch::translator::cpu::{self, Cpu};
use crate::hooks::{self, Areas};
use crate::memory;
use crate::translator::signal::{Actions, AltStack, Pending};
use crate::wire::Producer;

/// Why generated code or the gate entered [`crate::translator::dispatch::dispatch`]. Numbers from
/// [`hooks::FIRST_EXIT`] on belong to instruments.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A direct branch that is not linked yet; `argument` is its number.
    Link = 0,
    /// An indirect jump or return to `pc`, which has no entry yet.
    Indirect = 1,
    /// An indirect call to `pc`, which has no call entry yet.
    IndirectCall = 2,
    /// A system call of the target; `next_pc` is the instruction after it.
    Syscall = 3,
    /// Continue at `pc`.
    Resync = 4,
    /// The instruction at `pc` is one that the engine cannot run.
    Unsupported = 5,
    /// The instruction at `pc` raised the signal in `pending`.
    Fault = 6,
    /// The code at `pc` is no longer what was translated.
    Stale = 7,
}

#[repr(C, align(64))]
pub struct Context {
    pub cpu: Cpu,
    /// The target's instruction pointer, where the exit defines it.
    pub pc: u64,
    pub exit: u32,
    pub argument: u32,
    /// Where in the code cache the thread continues.
    pub resume: u64,
    /// Entry points that generated code jumps to.
    pub to_link: u64,
    pub to_indirect: u64,
    pub to_indirect_call: u64,
    pub to_syscall: u64,
    pub to_resync: u64,
    pub to_unsupported: u64,
    pub to_stale: u64,
    pub to_hash: u64,
    /// Table of the hash lookup of branch targets.
    pub hash_table: u64,
    /// One byte per system call number, non-zero if it goes through Rust code.
    pub syscall_table: u64,
    /// The instruction after a system call; also where instruments leave the target of a branch.
    pub next_pc: u64,
    /// Where the system-call gate continues; another thread may redirect it.
    pub sys_resume: u64,
    /// Non-zero while in the system-call gate, where `sys_resume` may still be redirected.
    pub in_call: u64,
    /// Top of the runtime's own stack of this thread.
    pub stack: u64,
    /// The address of this context.
    pub this: u64,
    /// Non-zero while a signal waits for delivery.
    pub pending_flag: u64,
    /// Non-zero while in Rust code.
    pub in_rust: u64,
    pub wire: Producer,
    pub areas: Areas,

    // Known to Rust code only from here on.
    pub tid: u32,
    /// The number that the thread's creator gave it; 0 for the first thread of a program image.
    pub creation: u64,
    /// The cache's epoch at the thread's last pass through the dispatcher.
    pub epoch: u64,
    /// Non-zero while single-stepping to a boundary, and the address stepped from.
    pub stepping: u64,
    pub last_step: u64,
    /// Whether the next boundary is not a step that the target made.
    pub skip_trap: bool,
    /// Instruction and address of the last write to code that was repeated, and how often in a row.
    pub repeated: ((u64, u64), u32),
    /// The generation of the address space that the thread saw last (`map_lock`).
    pub seen_map_generation: u32,
    /// An indirect branch whose branch target was just found to be beyond the branch table, or 0.
    pub far_branch: u64,
    /// The target's signal mask as it would be without the engine.
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
    pub altstack: AltStack,
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
macro_rules! slot {
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
        let new = Context {
            cpu: Cpu::new(),
            pc: 0,
            exit: 0,
            argument: 0,
            resume: 0,
            to_link: 0,
            to_indirect: 0,
            to_indirect_call: 0,
            to_syscall: 0,
            to_resync: 0,
            to_unsupported: 0,
            to_stale: 0,
            to_hash: 0,
            hash_table: 0,
            syscall_table: 0,
            next_pc: 0,
            sys_resume: 0,
            in_call: 0,
            stack: block.signal_stack,
            this: addr,
            pending_flag: 0,
            in_rust: 0,
            wire: Producer::none(),
            areas: Areas::new(),
            tid: 0,
            creation: 0,
            epoch: 0,
            stepping: 0,
            last_step: 0,
            skip_trap: false,
            repeated: ((0, 0), 0),
            seen_map_generation: 0,
            far_branch: 0,
            mask: 0,
            wait_mask: None,
            pending: Pending::none(),
            postponed: Pending::none(),
            held: [Pending::none(); 3],
            actions: core::ptr::null(),
            altstack: AltStack::disabled(),
            block,
        };
        // SAFETY: the mapping is this thread's alone, aligned to a page and large enough.
        unsafe { context.write(new) };
        // SAFETY: just written, and not shared yet.
        let created = unsafe { &mut *context };
        crate::arch::translator::gate::fill_entry_points(created);
        hooks::connect(created);
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

    /// The rest of the last page of the context, which nothing else uses.
    pub fn spare_room(&self) -> core::ops::Range<u64> {
        let end = self.this + size_of::<Context>() as u64;
        end..memory::page_up(end)
    }

    /// Size of the signal stack that belongs to [`ThreadBlock::signal_stack`].
    pub const SIGNAL_STACK: u64 = SIGNAL_STACK;

    /// The context of the calling thread.
    ///
    /// # Safety
    /// The context must have been installed by [`Context::install`], and no other reference may be in use.
    pub unsafe fn current<'a>() -> &'a mut Context {
        // SAFETY: the caller's promise.
        unsafe { &mut *cpu::current_context() }
    }

    /// Makes this the context of the calling thread.
    ///
    /// # Safety
    /// `self` must live as long as the thread.
    pub unsafe fn install(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { cpu::install_context(self) };
    }
}
