//! Instructions that the runtime carries out itself when they touch candidates: those whose address is
//! implicit, computed in an unusual way, or many.

use super::access::record_store;
use super::site::{Site, SiteKind, effective_address, site};
use super::{calls, lock_stripe, mappings, split, string, stripe_of, unlock_stripe};
use crate::context::{Context, reg};
use crate::guest;
use crate::memory::{PAGE, page_down};
use crate::signal::{Info, Pending, SIGSEGV};
use crate::sys::{self, linux};
use crate::translate::number;
use crate::{fatal, gate};
use alloc::vec::Vec;
use brownout_ring::store;
use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// An access of the instruction could not be made.
pub struct BadAccess {
    address: u64,
    write: bool,
}

impl BadAccess {
    pub fn read(address: u64) -> BadAccess {
        BadAccess {
            address,
            write: false,
        }
    }

    pub fn write(address: u64) -> BadAccess {
        BadAccess {
            address,
            write: true,
        }
    }

    /// The same fault as that of a store, which was only preceded by a look.
    pub fn of_write(self) -> BadAccess {
        BadAccess {
            write: true,
            ..self
        }
    }
}

/// Carries out the instruction of the site. True if the thread is to go on at `pc` instead of at
/// `resume`: the instruction faulted and a signal is pending.
pub fn emulate(context: &mut Context) -> bool {
    let site = site(context.argument);
    context.pc = site.pc;
    let result = match site.kind {
        SiteKind::String => string::run(context, site),
        SiteKind::Push => push(context, site),
        SiteKind::Enter => enter(context, site),
        SiteKind::Pop => pop(context, site),
        SiteKind::BitString => bit_string(context, site),
        SiteKind::Scatter => scatter(context, site),
        _ => fatal::unsupported(format_args!(
            "the instruction {:?} at {:#x} touches persistent memory in a way the engine does not support",
            site.insn.code(),
            site.pc
        )),
    };
    match result {
        Ok(()) => false,
        Err(bad) => {
            raise(context, bad);
            true
        }
    }
}

/// Makes the program see the fault of an access that the runtime was to make for it.
pub(super) fn raise(context: &mut Context, bad: BadAccess) {
    const NOT_MAPPED: i32 = 1;
    const NO_RIGHT: i32 = 2;
    /// Bits of the CPU's error code: the page is there; a write; by the program.
    const PRESENT: u64 = 1;
    const WRITE: u64 = 2;
    const USER: u64 = 4;
    const PAGE_FAULT: u64 = 14;
    let BadAccess { address, write } = bad;
    let mut resident = 0u8;
    // SAFETY: asks about one page; the answer is one byte.
    let answer = unsafe {
        crate::sys!(
            linux::__NR_mincore,
            page_down(address),
            PAGE,
            &raw mut resident
        )
    };
    let code = if sys::is_err(answer) {
        NOT_MAPPED
    } else {
        NO_RIGHT
    };
    let mut error = USER;
    if write {
        error |= WRITE;
    }
    if gate::load(address & !7).is_some() {
        error |= PRESENT;
    }
    context.pending = Pending {
        signal: SIGSEGV,
        info: Info::fault(SIGSEGV, code, address),
        trap: [PAGE_FAULT, error],
        synchronous: true,
    };
    context.pending_flag = 1;
}

/// Stores bytes for the program wherever the address leads, and records what lands in candidates.
pub(super) fn store_bytes(
    context: &mut Context,
    flags: u16,
    address: u64,
    bytes: &[u8],
) -> Result<(), BadAccess> {
    if (address & 4095) + bytes.len() as u64 > 4096 {
        // Nothing is stored if any of it cannot be.
        let mut old = [0u8; 64];
        let old = &mut old[..bytes.len().min(64)];
        load_bytes(address, old).map_err(BadAccess::of_write)?;
        split::writable(address, old)?;
    }
    let caller = calls::context_of(context);
    let mut done = 0;
    while done < bytes.len() {
        let at = address + done as u64;
        // One page at a time: one stripe, one mapping.
        let len = (4096 - (at & 4095) as usize).min(bytes.len() - done);
        let piece = &bytes[done..done + len];
        match mappings::find(at).filter(|mapping| mapping.observes(true)) {
            Some(mapping) => {
                let stripe = stripe_of(at);
                lock_stripe(stripe);
                let written = guest::write_bytes(at.wrapping_add(mapping.delta), piece);
                if written.is_ok() {
                    context.ea = at;
                    record_store(context, flags, caller, 0, piece);
                }
                unlock_stripe(stripe);
                written.map_err(|_| BadAccess::write(at))?;
            }
            None => guest::write_bytes(at, piece).map_err(|_| BadAccess::write(at))?,
        }
        done += len;
    }
    Ok(())
}

/// Reads bytes for the program, through the alias where the program's own mapping is unreadable.
pub(super) fn load_bytes(address: u64, bytes: &mut [u8]) -> Result<(), BadAccess> {
    let mut done = 0;
    while done < bytes.len() {
        let at = address + done as u64;
        let len = (4096 - (at & 4095) as usize).min(bytes.len() - done);
        let delta = mappings::find(at)
            .filter(|mapping| mapping.observes(false))
            .map_or(0, |mapping| mapping.delta);
        let piece = &mut bytes[done..done + len];
        if guest::read_into(at.wrapping_add(delta), piece) != len {
            return Err(BadAccess::read(at));
        }
        done += len;
    }
    Ok(())
}

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
        _ => return context.gpr[usize::from(number(register))],
    }
    selector
}

/// `push`, `pushf`, and the push of a call.
fn push(context: &mut Context, site: &Site) -> Result<(), BadAccess> {
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
                context.flags & !0x3_0000
            }
            OpKind::Register => register_value(context, insn.op0_register()),
            OpKind::Memory => {
                let mut bytes = [0u8; 8];
                load_bytes(effective_address(insn, context), &mut bytes[..size])?;
                u64::from_le_bytes(bytes)
            }
            _ => insn.immediate(0),
        }
    };
    let address = context.gpr[reg::RSP].wrapping_sub(size as u64);
    store_bytes(context, 0, address, &value.to_le_bytes()[..size])?;
    context.gpr[reg::RSP] = address;
    Ok(())
}

/// `enter`: pushes rbp and the frame pointers of the outer levels, and makes a frame.
fn enter(context: &mut Context, site: &Site) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let size = if insn.code() == Code::Enterw_imm16_imm8 {
        2
    } else {
        8
    };
    let level = insn.immediate8_2nd() & 31;
    let (mut rsp, mut rbp) = (context.gpr[reg::RSP], context.gpr[reg::RBP]);
    // All is pushed in the end, so that a fault leaves everything as it was.
    let mut words = Vec::with_capacity(32);
    words.push(rbp);
    rsp = rsp.wrapping_sub(size);
    let frame = rsp;
    if level > 0 {
        for _ in 1..level {
            rbp = rbp.wrapping_sub(size);
            let mut bytes = [0u8; 8];
            load_bytes(rbp, &mut bytes[..size as usize])?;
            words.push(u64::from_le_bytes(bytes));
        }
        words.push(frame);
    }
    rsp = context.gpr[reg::RSP];
    for word in words {
        rsp = rsp.wrapping_sub(size);
        store_bytes(context, 0, rsp, &word.to_le_bytes()[..size as usize])?;
    }
    rsp = rsp.wrapping_sub(u64::from(insn.immediate16()));
    // The CPU makes sure that the new top of the stack can be written.
    let mut top = [0u8; 8];
    let top = &mut top[..size as usize];
    load_bytes(rsp, top).map_err(BadAccess::of_write)?;
    split::writable(rsp, top)?;
    set_register(&mut context.gpr[reg::RBP], frame, size as usize);
    context.gpr[reg::RSP] = rsp;
    Ok(())
}

/// Sets the low `size` bytes of a register as an instruction with that operand size does.
pub(super) fn set_register(slot: &mut u64, value: u64, size: usize) {
    *slot = match size {
        1 => *slot & !0xff | value & 0xff,
        2 => *slot & !0xffff | value & 0xffff,
        _ => value,
    };
}

/// `pop` to memory or to a register.
fn pop(context: &mut Context, site: &Site) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let size = operand_size(insn);
    let rsp = context.gpr[reg::RSP];
    let mut bytes = [0u8; 8];
    load_bytes(rsp, &mut bytes[..size])?;
    // The address of a destination that uses rsp is computed after the increment.
    context.gpr[reg::RSP] = rsp + size as u64;
    if insn.op0_kind() == OpKind::Memory {
        let address = effective_address(insn, context);
        let stored = store_bytes(context, 0, address, &bytes[..size]);
        if stored.is_err() {
            context.gpr[reg::RSP] = rsp;
        }
        return stored;
    }
    let slot = &mut context.gpr[usize::from(number(insn.op0_register()))];
    set_register(slot, u64::from_le_bytes(bytes), size);
    Ok(())
}

/// `bt`, `bts`, `btr`, `btc` with the bit's number in a register: it selects a byte far from the operand.
fn bit_string(context: &mut Context, site: &Site) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let index = context.gpr[usize::from(number(insn.op1_register()))];
    let index = match insn.op1_register().size() {
        2 => i64::from(index as i16),
        4 => i64::from(index as i32),
        _ => index as i64,
    };
    let address = effective_address(insn, context).wrapping_add_signed(index >> 3);
    let bit = 1u8 << (index & 7);
    let locked = insn.has_lock_prefix();
    let delta = mappings::find(address).map_or(0, |mapping| mapping.delta);
    let mut old = [0u8];
    load_bytes(address, &mut old)?;
    if insn.mnemonic() != Mnemonic::Bt {
        if delta == 0 && guest::write_bytes(address, &old).is_err() {
            return Err(BadAccess::write(address));
        }
        // SAFETY: the alias of a mapped byte, or the program's own byte that was just written.
        let byte = unsafe { &*(address.wrapping_add(delta) as *const AtomicU8) };
        let stripe = stripe_of(address);
        lock_stripe(stripe);
        old[0] = match insn.mnemonic() {
            Mnemonic::Bts => byte.fetch_or(bit, Ordering::SeqCst),
            Mnemonic::Btr => byte.fetch_and(!bit, Ordering::SeqCst),
            _ => byte.fetch_xor(bit, Ordering::SeqCst),
        };
        let new = [byte.load(Ordering::Relaxed)];
        if delta != 0 {
            let caller = calls::context_of(context);
            context.ea = address;
            record_store(
                context,
                if locked { store::LOCKED } else { 0 },
                caller,
                0,
                &new,
            );
        }
        unlock_stripe(stripe);
    }
    const CARRY: u64 = 1;
    context.flags = context.flags & !CARRY | u64::from(old[0] & bit != 0);
    Ok(())
}

/// A scatter: its elements, lowest first, as the CPU orders overlapping ones.
fn scatter(context: &mut Context, site: &Site) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let base = effective_address(insn, context);
    let element = insn.memory_size().size();
    let wide_index = matches!(
        insn.mnemonic(),
        Mnemonic::Vpscatterqd
            | Mnemonic::Vpscatterqq
            | Mnemonic::Vscatterqps
            | Mnemonic::Vscatterqpd
    );
    let index_size = if wide_index { 8 } else { 4 };
    let index_bytes = insn.memory_index().size();
    let data_bytes = insn.op1_register().size();
    let count = (index_bytes / index_size).min(data_bytes / element);
    let mask = context.extra;
    for lane in (0..count).filter(|lane| mask >> lane & 1 != 0) {
        let raw = &context.vectors[1][lane * index_size..(lane + 1) * index_size];
        let index = if wide_index {
            i64::from_le_bytes(raw.try_into().unwrap_or_default())
        } else {
            i64::from(i32::from_le_bytes(raw.try_into().unwrap_or_default()))
        };
        let address =
            base.wrapping_add_signed(index.wrapping_mul(i64::from(insn.memory_index_scale())));
        let mut bytes = [0u8; 8];
        bytes[..element].copy_from_slice(&context.vectors[0][lane * element..(lane + 1) * element]);
        store_bytes(context, 0, address, &bytes[..element])?;
    }
    Ok(())
}
