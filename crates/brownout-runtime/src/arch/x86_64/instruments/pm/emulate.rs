//! Instructions that the runtime carries out itself when they touch candidates: those with an implicit
//! address, an address that is computed in an unusual way, or many addresses.

mod stack;

use super::effective_address::{effective_address, segment_base};
use super::form::EmulatedForm;
use crate::arch::instruments::pm::string;
use crate::arch::instruments::pm::string::Progress;
use crate::arch::instruments::pm::{tile, vector};
use crate::arch::translator::cpu::reg;
use crate::arch::translator::guarded;
use crate::arch::translator::translate::number;
use crate::fatal;
use crate::instruments::Resumption;
use crate::instruments::events::calling_context;
use crate::instruments::explore;
use crate::instruments::pm::access::record_store;
use crate::instruments::pm::site::{PmSite, SiteKind, site};
use crate::instruments::pm::stripes::Stripe;
use crate::instruments::pm::{candidates, intent, split};
use crate::sys::linux::SIGILL;
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::signal::{Info, Pending, SIGBUS, SIGSEGV, SIGTRAP};
use crate::wire::Head;
use brownout_ring::{kind, store};
use core::sync::atomic::{AtomicU8, Ordering};
use iced_x86::{Code, Mnemonic, Register};

/// An access of the instruction could not be made, at this address.
pub enum BadAccess {
    Read(u64),
    Write(u64),
    /// The CPU refuses the operand.
    Refused,
    /// The target has forbidden misaligned accesses.
    Misaligned,
    /// The instruction is undefined in the present state of the CPU.
    Undefined,
}

impl BadAccess {
    pub fn read(address: u64) -> BadAccess {
        BadAccess::at(address, BadAccess::Read)
    }

    pub fn write(address: u64) -> BadAccess {
        BadAccess::at(address, BadAccess::Write)
    }

    fn at(address: u64, kind: fn(u64) -> BadAccess) -> BadAccess {
        // Addresses that cannot exist have their upper bits mixed.
        let top = address as i64 >> 47;
        if top == 0 || top == -1 {
            kind(address)
        } else {
            BadAccess::Refused
        }
    }

    /// Checks the alignment of an operand, if the target has asked for that by its flags.
    pub fn unless_aligned(context: &Context, address: u64, size: usize) -> Result<(), BadAccess> {
        const ALIGNMENT_CHECK: u64 = 0x4_0000;
        if context.cpu.flags & ALIGNMENT_CHECK != 0 && !address.is_multiple_of(size as u64) {
            return Err(BadAccess::Misaligned);
        }
        Ok(())
    }

    /// The fault of a store, if the bytes were only read to prepare it.
    pub fn of_write(self) -> BadAccess {
        match self {
            BadAccess::Read(address) => BadAccess::Write(address),
            other => other,
        }
    }
}

/// Carries out the instruction of the site. Resumes at `pc` if the instruction faulted or is stepped
/// through: then a signal is pending.
pub fn emulate(context: &mut Context) -> Resumption {
    let site = &site(context.argument);
    context.pc = site.pc;
    let SiteKind::Emulated(form) = site.kind else {
        fatal::fault(format_args!(
            "site {:#x} of kind {:?} is not emulated",
            site.pc, site.kind
        ))
    };
    let result = match form {
        EmulatedForm::String => match string::run(context, site) {
            Ok(Progress::Repeating) => {
                step(context);
                return Resumption::AtPc;
            }
            Ok(Progress::Done) => Ok(()),
            Err(bad) => Err(bad),
        },
        EmulatedForm::Push => stack::push(context, site),
        EmulatedForm::Enter => stack::enter(context, site),
        EmulatedForm::Pop => stack::pop(context, site),
        EmulatedForm::BitString => bit_string(context, site),
        EmulatedForm::Scatter => vector::scatter(context, site),
        EmulatedForm::Gather => vector::gather(context, site),
        EmulatedForm::Leave => stack::leave(context, site),
        EmulatedForm::PopFlags => stack::pop_flags(context, site),
        EmulatedForm::Target => target(context),
        EmulatedForm::Translate => translate(context, site),
        EmulatedForm::Line => line(context, site),
        EmulatedForm::ZeroLine => zero_line(context, site),
        EmulatedForm::TileStore => tile::store(context, site),
        EmulatedForm::TileLoad => tile::fill(context, site),
        EmulatedForm::Unsupported => fatal::unsupported(format_args!(
            "the instruction {:?} at {:#x} touches persistent memory in a way the engine does not support",
            site.insn.code(),
            site.pc
        )),
    };
    match result {
        Ok(()) => Resumption::InPlace,
        Err(bad) => {
            raise(context, bad);
            Resumption::AtPc
        }
    }
}

/// Raises the trap of a single step.
fn step(context: &mut Context) {
    const TRACE: i32 = 2;
    const DEBUG: u64 = 1;
    context.pending = Pending {
        signal: SIGTRAP,
        info: Info::fault(SIGTRAP, TRACE, context.pc),
        trap: [DEBUG, 0],
        synchronous: true,
    };
    context.pending_flag = 1;
}

/// Raises the fault of an access that the runtime could not make for the target.
pub(crate) fn raise(context: &mut Context, bad: BadAccess) {
    const NOT_MAPPED: i32 = 1;
    const NO_RIGHT: i32 = 2;
    const BY_KERNEL: i32 = 128;
    /// Bits of the CPU's error code: the page is there; a write; by the target.
    const PRESENT: u64 = 1;
    const WRITE: u64 = 2;
    const USER: u64 = 4;
    const ALIGNMENT: i32 = 1;
    const PAGE_FAULT: u64 = 14;
    const GENERAL_PROTECTION: u64 = 13;
    const ALIGNMENT_CHECK: u64 = 17;
    const OPERAND: i32 = 2;
    const INVALID_OPCODE: u64 = 6;
    let page_fault = |address: u64, kind: u64| {
        let present = guarded::load(address & !7).map_or(0, |_| PRESENT);
        let mapped = target_memory::is_mapped(address);
        let code = if mapped { NO_RIGHT } else { NOT_MAPPED };
        (SIGSEGV, code, address, [PAGE_FAULT, kind | present])
    };
    let (signal, code, address, trap) = match bad {
        BadAccess::Read(address) => page_fault(address, USER),
        BadAccess::Write(address) => page_fault(address, USER | WRITE),
        BadAccess::Refused => (SIGSEGV, BY_KERNEL, 0, [GENERAL_PROTECTION, 0]),
        BadAccess::Misaligned => (SIGBUS, ALIGNMENT, 0, [ALIGNMENT_CHECK, 0]),
        BadAccess::Undefined => (SIGILL, OPERAND, context.pc, [INVALID_OPCODE, 0]),
    };
    context.pending = Pending {
        signal,
        info: Info::fault(signal, code, address),
        trap,
        synchronous: true,
    };
    context.pending_flag = 1;
}

/// Stores bytes for the target, and records those that are stored to candidates.
pub(crate) fn store_bytes(
    context: &mut Context,
    flags: u16,
    address: u64,
    bytes: &[u8],
) -> Result<(), BadAccess> {
    explore::before_write(address, bytes.len() as u64);
    if (address & 4095) + bytes.len() as u64 > 4096 {
        // If a part cannot be stored, nothing is.
        let mut old = [0u8; 64];
        let old = &mut old[..bytes.len().min(64)];
        load_bytes(address, old).map_err(BadAccess::of_write)?;
        split::writable(address, old)?;
    }
    let caller = calling_context::context_of(context);
    let mut done = 0;
    while done < bytes.len() {
        let at = address + done as u64;
        // One page at a time: one stripe, one mapping.
        let len = (4096 - (at & 4095) as usize).min(bytes.len() - done);
        let piece = &bytes[done..done + len];
        match candidates::find(at).filter(|mapping| mapping.observes(true)) {
            Some(mapping) => {
                let stripe = mapping.stripe(at);
                stripe.lock();
                let alias = at.wrapping_add(mapping.delta);
                intent::store(context, (kind::STORE, flags), at, alias, len);
                let written = target_memory::write_bytes(alias, piece);
                if written.is_ok() {
                    context.areas.events.address = at;
                    record_store(context, flags, caller, 0, piece);
                }
                stripe.unlock();
                written.map_err(|_| BadAccess::write(at))?;
            }
            None => target_memory::write_bytes(at, piece).map_err(|_| BadAccess::write(at))?,
        }
        done += len;
    }
    Ok(())
}

/// Reads bytes for the target, through the alias where the target's own mapping is unreadable.
pub(crate) fn load_bytes(address: u64, bytes: &mut [u8]) -> Result<(), BadAccess> {
    let mut done = 0;
    while done < bytes.len() {
        let at = address + done as u64;
        let len = (4096 - (at & 4095) as usize).min(bytes.len() - done);
        let delta = candidates::find(at)
            .filter(|mapping| mapping.observes(false))
            .map_or(0, |mapping| mapping.delta);
        let piece = &mut bytes[done..done + len];
        if target_memory::read_into(at.wrapping_add(delta), piece) != len {
            return Err(BadAccess::read(at));
        }
        done += len;
    }
    Ok(())
}

/// Reads bytes for the target, and records those that are read from candidates.
pub(crate) fn load(context: &mut Context, address: u64, bytes: &mut [u8]) -> Result<(), BadAccess> {
    explore::before_read(context, address, bytes.len() as u64);
    load_bytes(address, bytes)?;
    if candidates::find(address).is_some_and(|mapping| mapping.observes(false)) {
        let caller = calling_context::context_of(context);
        record_load(context, address, bytes, caller);
    }
    Ok(())
}

pub(crate) fn record_load(context: &mut Context, from: u64, bytes: &[u8], caller: u32) {
    if candidates::find(from).is_some_and(|mapping| mapping.observes(false)) {
        let head = Head {
            kind: kind::LOAD,
            flags: 0,
            pc: context.pc,
            context: caller,
            addr: from,
        };
        context.wire.record(head, &[bytes]);
    }
}

/// Sets the low `size` bytes of a register as an instruction with that operand size does.
pub(crate) fn set_register(slot: &mut u64, value: u64, size: usize) {
    *slot = match size {
        1 => *slot & !0xff | value & 0xff,
        2 => *slot & !0xffff | value & 0xffff,
        _ => value,
    };
}

/// `movdir64b`: 64 bytes from the operand to the address in a register.
fn line(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let mut to = context.cpu.gpr[usize::from(number(insn.op0_register()))];
    if insn.op0_register().size() == 4 {
        to &= 0xffff_ffff;
    }
    if !to.is_multiple_of(64) {
        return Err(BadAccess::Refused);
    }
    let mut bytes = [0u8; 64];
    load(context, effective_address(insn, context), &mut bytes)?;
    store_bytes(context, store::DIRECT, to, &bytes)
}

/// `clzero`: zeros the line around the address in rax, as weakly ordered as a non-temporal store.
fn zero_line(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let mut at = context.cpu.gpr[reg::RAX];
    if site.insn.code() == Code::Clzerod {
        at &= 0xffff_ffff;
    }
    store_bytes(context, store::NON_TEMPORAL, at & !63, &[0; 64])
}

/// `xlat`: the byte of a table that al selects.
fn translate(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let mut table = context.cpu.gpr[reg::RBX].wrapping_add(context.cpu.gpr[reg::RAX] & 0xff);
    if insn.memory_base() == Register::EBX {
        table &= 0xffff_ffff;
    }
    let mut byte = [0u8];
    let at = table.wrapping_add(segment_base(insn.memory_segment(), context));
    load(context, at, &mut byte)?;
    set_register(&mut context.cpu.gpr[reg::RAX], u64::from(byte[0]), 1);
    Ok(())
}

/// The target of a return, left in `next_pc`, which only system calls use.
fn target(context: &mut Context) -> Result<(), BadAccess> {
    let address = context.cpu.gpr[reg::RSP];
    let mut bytes = [0u8; 8];
    BadAccess::unless_aligned(context, address, bytes.len())?;
    load(context, address, &mut bytes)?;
    context.next_pc = u64::from_le_bytes(bytes);
    Ok(())
}

/// `bt`, `bts`, `btr`, `btc` with the bit's number in a register: it selects a byte far from the operand.
fn bit_string(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let index = context.cpu.gpr[usize::from(number(insn.op1_register()))];
    let index = match insn.op1_register().size() {
        2 => i64::from(index as i16),
        4 => i64::from(index as i32),
        _ => index as i64,
    };
    let operand = effective_address(insn, context);
    // The CPU advances by whole operands, so only their alignment matters.
    BadAccess::unless_aligned(context, operand, insn.op1_register().size())?;
    let address = operand.wrapping_add_signed(index >> 3);
    let bit = 1u8 << (index & 7);
    let locked = insn.has_lock_prefix();
    let mapping = candidates::find(address);
    let delta = mapping.map_or(0, |mapping| mapping.delta);
    let mut old = [0u8];
    explore::before_read(context, address, 1);
    load_bytes(address, &mut old)?;
    if insn.mnemonic() != Mnemonic::Bt {
        if delta == 0 && target_memory::write_bytes(address, &old).is_err() {
            return Err(BadAccess::write(address));
        }
        // SAFETY: the alias of a mapped byte, or the target's own byte that was just written.
        let byte = unsafe { &*(address.wrapping_add(delta) as *const AtomicU8) };
        let stripe = mapping.map_or_else(|| Stripe::of(address), |mapping| mapping.stripe(address));
        stripe.lock();
        let flags = if locked { store::LOCKED } else { 0 };
        if delta != 0 {
            let alias = address.wrapping_add(delta);
            intent::store(context, (kind::STORE, flags), address, alias, 1);
        }
        old[0] = match insn.mnemonic() {
            Mnemonic::Bts => byte.fetch_or(bit, Ordering::SeqCst),
            Mnemonic::Btr => byte.fetch_and(!bit, Ordering::SeqCst),
            _ => byte.fetch_xor(bit, Ordering::SeqCst),
        };
        let new = [byte.load(Ordering::Relaxed)];
        if delta != 0 {
            let caller = calling_context::context_of(context);
            context.areas.events.address = address;
            record_store(context, flags, caller, 0, &new);
        }
        stripe.unlock();
    }
    const CARRY: u64 = 1;
    context.cpu.flags = context.cpu.flags & !CARRY | u64::from(old[0] & bit != 0);
    Ok(())
}
