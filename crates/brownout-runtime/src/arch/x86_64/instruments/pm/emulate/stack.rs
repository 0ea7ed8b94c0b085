//! Instructions that work on the stack, when it is in a candidate.

use super::{BadAccess, load, load_bytes, set_register, store_bytes};
use crate::arch::instruments::pm::effective_address::effective_address;
use crate::arch::translator::cpu::reg;
use crate::arch::translator::translate::number;
use crate::instruments::pm::site::PmSite;
use crate::instruments::pm::split;
use crate::translator::context::Context;
use core::arch::asm;
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

fn operand_size(insn: &Instruction) -> usize {
    match insn.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop if insn.op0_kind() == OpKind::Memory => {
            insn.memory_size().size()
        }
        _ => insn.stack_pointer_increment().unsigned_abs() as usize,
    }
}

fn register_value(context: &Context, register: Register) -> u64 {
    let selector: u64;
    match register {
        // SAFETY: these read selectors, which the engine leaves as they are.
        Register::FS => unsafe { asm!("mov {}, fs", out(reg) selector, options(nomem, nostack)) },
        // SAFETY: as above.
        Register::GS => unsafe { asm!("mov {}, gs", out(reg) selector, options(nomem, nostack)) },
        _ => return context.cpu.gpr[usize::from(number(register))],
    }
    selector
}

/// `push`, `pushf`, and the push of a call.
pub(super) fn push(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let is_call = matches!(
        insn.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    let size = if is_call { 8 } else { operand_size(insn) };
    let value = if is_call {
        insn.next_ip()
    } else {
        match insn.op0_kind() {
            _ if matches!(insn.mnemonic(), Mnemonic::Pushf | Mnemonic::Pushfq) => {
                context.cpu.flags & !0x3_0000
            }
            OpKind::Register => register_value(context, insn.op0_register()),
            OpKind::Memory => {
                let mut bytes = [0u8; 8];
                load(
                    context,
                    effective_address(insn, context),
                    &mut bytes[..size],
                )?;
                u64::from_le_bytes(bytes)
            }
            _ => insn.immediate(0),
        }
    };
    let address = context.cpu.gpr[reg::RSP].wrapping_sub(size as u64);
    BadAccess::unless_aligned(context, address, size)?;
    store_bytes(context, 0, address, &value.to_le_bytes()[..size])?;
    context.cpu.gpr[reg::RSP] = address;
    Ok(())
}

/// `enter`: pushes rbp and the frame pointers of the outer levels, and makes a frame.
pub(super) fn enter(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let size = if insn.code() == Code::Enterw_imm16_imm8 {
        2
    } else {
        8
    };
    let level = insn.immediate8_2nd() & 31;
    let (mut rsp, mut rbp) = (context.cpu.gpr[reg::RSP], context.cpu.gpr[reg::RBP]);
    BadAccess::unless_aligned(context, rsp, size as usize)?;
    // What was pushed before a fault stays in memory, as it does when the CPU executes it.
    let push = |context: &mut Context, rsp: &mut u64, word: u64| {
        *rsp = rsp.wrapping_sub(size);
        store_bytes(context, 0, *rsp, &word.to_le_bytes()[..size as usize])
    };
    push(context, &mut rsp, rbp)?;
    let frame = rsp;
    for _ in 1..level {
        rbp = rbp.wrapping_sub(size);
        let mut bytes = [0u8; 8];
        load(context, rbp, &mut bytes[..size as usize])?;
        push(context, &mut rsp, u64::from_le_bytes(bytes))?;
    }
    if level > 0 {
        push(context, &mut rsp, frame)?;
    }
    rsp = rsp.wrapping_sub(u64::from(insn.immediate16()));
    // The CPU checks that the new top of the stack can be written.
    let mut top = [0u8; 8];
    let top = &mut top[..size as usize];
    load_bytes(rsp, top).map_err(BadAccess::of_write)?;
    split::writable(rsp, top)?;
    set_register(&mut context.cpu.gpr[reg::RBP], frame, size as usize);
    context.cpu.gpr[reg::RSP] = rsp;
    Ok(())
}

/// `pop` to memory or to a register.
pub(super) fn pop(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let size = operand_size(insn);
    let rsp = context.cpu.gpr[reg::RSP];
    let mut bytes = [0u8; 8];
    BadAccess::unless_aligned(context, rsp, size)?;
    load(context, rsp, &mut bytes[..size])?;
    // The address of a destination that uses rsp is computed after the increment.
    context.cpu.gpr[reg::RSP] = rsp + size as u64;
    if insn.op0_kind() == OpKind::Memory {
        let address = effective_address(insn, context);
        let stored = BadAccess::unless_aligned(context, address, size)
            .and_then(|()| store_bytes(context, 0, address, &bytes[..size]));
        if stored.is_err() {
            context.cpu.gpr[reg::RSP] = rsp;
        }
        return stored;
    }
    let slot = &mut context.cpu.gpr[usize::from(number(insn.op0_register()))];
    set_register(slot, u64::from_le_bytes(bytes), size);
    Ok(())
}

/// `leave`: drops the frame and pops rbp.
pub(super) fn leave(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let size = if site.insn.code() == Code::Leavew {
        2
    } else {
        8
    };
    let frame = context.cpu.gpr[reg::RBP];
    let mut bytes = [0u8; 8];
    BadAccess::unless_aligned(context, frame, size)?;
    load(context, frame, &mut bytes[..size])?;
    context.cpu.gpr[reg::RSP] = frame.wrapping_add(size as u64);
    set_register(
        &mut context.cpu.gpr[reg::RBP],
        u64::from_le_bytes(bytes),
        size,
    );
    Ok(())
}

/// `popf`.
pub(super) fn pop_flags(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    /// What the target may change: arithmetic, trap, direction, nested task, alignment check, id.
    const CHANGEABLE: u64 = 0x24_4dd5;
    let size = operand_size(&site.insn);
    let mut bytes = [0u8; 8];
    let rsp = context.cpu.gpr[reg::RSP];
    BadAccess::unless_aligned(context, rsp, size)?;
    load(context, rsp, &mut bytes[..size])?;
    let changeable = if size == 2 {
        CHANGEABLE & 0xffff
    } else {
        CHANGEABLE
    };
    context.cpu.flags = context.cpu.flags & !changeable | u64::from_le_bytes(bytes) & changeable;
    context.cpu.gpr[reg::RSP] = rsp.wrapping_add(size as u64);
    Ok(())
}
