//! The target's registers while its thread is in Rust code, and the slots where generated code spills them.

use crate::translator::context::Context;
use core::arch::asm;
use core::mem::offset_of;

/// Index of a general-purpose register in [`Cpu::gpr`], in the hardware's numbering.
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

/// The flag with which a target steps through itself, and the engine through the target.
pub const TRAP_FLAG: u64 = 0x100;
/// Flags of a new thread: interrupts enabled, and the bit that is always set.
pub const INITIAL_FLAGS: u64 = 0x202;
/// Bytes of the instruction that makes a system call.
pub const SYSCALL_BYTES: u64 = 2;

/// The first part of a [`Context`], known by offset to assembly and generated code.
#[repr(C)]
pub struct Cpu {
    /// The target's registers while the thread is in Rust code.
    pub gpr: [u64; 16],
    pub flags: u64,
    pub spill_rcx: u64,
    pub spill_rax: u64,
    pub spill_scratch: u64,
    pub spill_flags: u64,
    pub spill_r11: u64,
    /// The target's GS base, which is not in the CPU.
    pub target_gs: u64,
    pub xmm: [[u64; 2]; 16],
}

impl Cpu {
    pub const fn new() -> Cpu {
        Cpu {
            gpr: [0; 16],
            flags: INITIAL_FLAGS,
            spill_rcx: 0,
            spill_rax: 0,
            spill_scratch: 0,
            spill_flags: 0,
            spill_r11: 0,
            target_gs: 0,
            xmm: [[0; 2]; 16],
        }
    }

    /// The registers of a thread that is cloned from this one.
    pub fn cloned(&self) -> Cpu {
        Cpu {
            gpr: self.gpr,
            flags: self.flags,
            target_gs: self.target_gs,
            xmm: self.xmm,
            ..Cpu::new()
        }
    }

    pub fn stack_pointer(&self) -> u64 {
        self.gpr[reg::RSP]
    }

    pub fn set_stack_pointer(&mut self, value: u64) {
        self.gpr[reg::RSP] = value;
    }

    /// Sets what a system call or a function returns.
    pub fn set_result(&mut self, value: u64) {
        self.gpr[reg::RAX] = value;
    }

    pub fn syscall_number(&self) -> u64 {
        self.gpr[reg::RAX]
    }

    pub fn syscall_arguments(&self) -> [u64; 6] {
        const ARGUMENTS: [usize; 6] = [reg::RDI, reg::RSI, reg::RDX, reg::R10, reg::R8, reg::R9];
        ARGUMENTS.map(|register| self.gpr[register])
    }

    /// Sets the registers as the kernel leaves them after a system call that returns to `next_pc`.
    pub fn finish_syscall(&mut self, result: u64, next_pc: u64) {
        self.gpr[reg::RAX] = result;
        self.gpr[reg::RCX] = next_pc;
        self.gpr[reg::R11] = self.flags;
    }

    /// The arguments of a call, at the first instruction of the function.
    pub fn call_arguments(&self) -> [u64; 6] {
        const ARGUMENTS: [usize; 6] = [reg::RDI, reg::RSI, reg::RDX, reg::RCX, reg::R8, reg::R9];
        ARGUMENTS.map(|register| self.gpr[register])
    }

    /// The results of a call, at the instruction that it returns to.
    pub fn call_results(&self) -> [u64; 2] {
        [self.gpr[reg::RAX], self.gpr[reg::RDX]]
    }

    /// Whether the target steps through itself.
    pub fn single_steps(&self) -> bool {
        self.flags & TRAP_FLAG != 0
    }

    pub fn set_single_step(&mut self, on: bool) {
        if on {
            self.flags |= TRAP_FLAG;
        } else {
            self.flags &= !TRAP_FLAG;
        }
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu::new()
    }
}

/// Address of the context of the calling thread.
///
/// # Safety
/// The thread's context must have been installed.
pub unsafe fn current_context() -> *mut Context {
    let this: u64;
    // SAFETY: GS points to a context whose `this` points to itself.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) this, const offset_of!(Context, this)) };
    this as *mut Context
}

/// Makes a context that of the calling thread.
///
/// # Safety
/// The context must live as long as the thread.
pub unsafe fn install_context(context: *mut Context) {
    // SAFETY: the start-up code has checked that the CPU and kernel allow wrgsbase.
    unsafe { asm!("wrgsbase {}", in(reg) context as u64) };
}

/// Makes a system call.
///
/// # Safety
/// The call must be sound with these arguments: it may write where they point.
#[inline(always)]
pub unsafe fn syscall(nr: u32, args: [u64; 6]) -> u64 {
    let mut rax = u64::from(nr);
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; the rest is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inout("rax") rax,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            out("rcx") _, out("r11") _,
            options(nostack),
        );
    }
    rax
}
