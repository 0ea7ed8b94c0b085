//! Addresses that are entries to the kernel: those of the old vsyscall page, which no mapping shows and which the kernel
//! emulates.

use super::cpu::reg;
use crate::sys::linux;
use crate::target_memory;
use crate::translator::context::Context;

/// Makes the call that the target's call of `context.pc` stands for. False if that is no such address.
pub fn emulate(context: &mut Context) -> bool {
    let nr = match context.pc {
        0xffff_ffff_ff60_0000 => linux::__NR_gettimeofday,
        0xffff_ffff_ff60_0400 => linux::__NR_time,
        0xffff_ffff_ff60_0800 => linux::__NR_getcpu,
        _ => return false,
    };
    let Ok(back) = target_memory::read::<u64>(context.cpu.gpr[reg::RSP]) else {
        return false;
    };
    let (rdi, rsi, rdx) = (
        context.cpu.gpr[reg::RDI],
        context.cpu.gpr[reg::RSI],
        context.cpu.gpr[reg::RDX],
    );
    // SAFETY: the target's own call with its own pointers.
    context.cpu.gpr[reg::RAX] = unsafe { crate::sys!(nr, rdi, rsi, rdx) };
    context.cpu.gpr[reg::RSP] += 8;
    context.pc = back;
    true
}
