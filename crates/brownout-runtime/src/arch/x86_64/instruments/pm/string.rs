//! String instructions on candidates.
//!
//! `movs` and `stos` run in pieces that stay on one page: the architecture allows interrupts between
//! elements, so other threads see nothing that they could not see anyway. The others, which only read,
//! go element by element.

use super::effective_address::segment_base;
use crate::arch::instruments::pm::emulate::{BadAccess, load_bytes, record_load, set_register};
use crate::arch::translator::cpu::TRAP_FLAG;
use crate::arch::translator::cpu::reg;
use crate::arch::translator::guarded;
use crate::instruments::events::calling_context;
use crate::instruments::explore;
use crate::instruments::pm::access::record_store;
use crate::instruments::pm::site::PmSite;
use crate::instruments::pm::{candidates, intent, split};
use crate::translator::context::Context;
use crate::{fatal, target_memory};
use brownout_ring::{kind, store};
use iced_x86::{Instruction, Mnemonic, OpKind};

const DIRECTION: u64 = 0x400;
const ZERO: u64 = 0x40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum StringOperation {
    Move,
    Fill,
    Load,
    /// The accumulator with the destination.
    Scan,
    /// The source with the destination.
    Compare,
}

/// What does not change while the instruction repeats.
struct Repetition {
    operation: StringOperation,
    element: u64,
    backwards: bool,
    /// Address size 32: only the low halves of the registers count.
    narrow: bool,
    source_base: u64,
    caller: u32,
}

/// How far a string instruction got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// The target steps through itself, which shows it each repetition.
    Repeating,
}

/// Runs a string instruction, with or without a repeat prefix.
pub fn run(context: &mut Context, site: &PmSite) -> Result<Progress, BadAccess> {
    let insn = &site.insn;
    let repetition = Repetition {
        operation: operation(insn),
        element: insn.memory_size().size() as u64,
        backwards: context.cpu.flags & DIRECTION != 0,
        narrow: insn
            .op_kinds()
            .any(|kind| matches!(kind, OpKind::MemoryESEDI | OpKind::MemorySegESI)),
        source_base: segment_base(insn.memory_segment(), context),
        caller: calling_context::context_of(context),
    };
    let compares = matches!(
        repetition.operation,
        StringOperation::Scan | StringOperation::Compare
    );
    let repeats = insn.has_rep_prefix() || insn.has_repne_prefix();
    let mut left = if repeats {
        repetition.register(context, reg::RCX)
    } else {
        1
    };
    let flags = context.cpu.flags;
    let steps = flags & TRAP_FLAG != 0;
    while left > 0 {
        let done = match repetition.some(context, if steps { 1 } else { left }) {
            Ok(done) => done,
            Err(bad) => {
                // The registers show what was done before the fault; whether the flags do depends on the CPU.
                if compares && !guarded::faulting_comparison_sets_flags() {
                    context.cpu.flags = flags;
                }
                return Err(bad);
            }
        };
        left -= done;
        repetition.advance(context, done);
        if repeats {
            context.cpu.gpr[reg::RCX] = left;
        }
        let equal = context.cpu.flags & ZERO != 0;
        if compares && equal == insn.has_repne_prefix() {
            break;
        }
        if steps && left > 0 {
            return Ok(Progress::Repeating);
        }
    }
    Ok(Progress::Done)
}

fn operation(insn: &Instruction) -> StringOperation {
    match insn.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => {
            StringOperation::Move
        }
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => {
            StringOperation::Fill
        }
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => {
            StringOperation::Load
        }
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => {
            StringOperation::Scan
        }
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => {
            StringOperation::Compare
        }
        _ => fatal::unsupported(format_args!(
            "the string instruction {:?} at {:#x} touches persistent memory in a way the engine does not support",
            insn.code(),
            insn.ip()
        )),
    }
}

impl Repetition {
    fn register(&self, context: &Context, index: usize) -> u64 {
        let value = context.cpu.gpr[index];
        if self.narrow {
            value & 0xffff_ffff
        } else {
            value
        }
    }

    fn source(&self, context: &Context) -> u64 {
        self.register(context, reg::RSI)
            .wrapping_add(self.source_base)
    }

    fn destination(&self, context: &Context) -> u64 {
        self.register(context, reg::RDI)
    }

    fn uses_source(&self) -> bool {
        matches!(
            self.operation,
            StringOperation::Move | StringOperation::Load | StringOperation::Compare
        )
    }

    /// Moves the registers on by `count` elements.
    fn advance(&self, context: &mut Context, count: u64) {
        let distance = count.wrapping_mul(self.element);
        let distance = if self.backwards {
            distance.wrapping_neg()
        } else {
            distance
        };
        let mut step = |index: usize| {
            context.cpu.gpr[index] = self.register(context, index).wrapping_add(distance);
            context.cpu.gpr[index] = self.register(context, index);
        };
        if self.uses_source() {
            step(reg::RSI);
        }
        if self.operation != StringOperation::Load {
            step(reg::RDI);
        }
    }

    /// Does at most `left` elements; how many.
    fn some(&self, context: &mut Context, left: u64) -> Result<u64, BadAccess> {
        let size = self.element as usize;
        if self.uses_source() {
            BadAccess::unless_aligned(context, self.source(context), size)?;
        }
        if self.operation != StringOperation::Load {
            BadAccess::unless_aligned(context, self.destination(context), size)?;
        }
        match self.operation {
            StringOperation::Move | StringOperation::Fill => {
                let count = self.piece(context, left);
                if count > 0 {
                    self.move_piece(context, count)?;
                    return Ok(count);
                }
                self.move_across_page(context)?;
            }
            StringOperation::Load => {
                let value = self.load(context, self.source(context))?;
                set_register(&mut context.cpu.gpr[reg::RAX], value, size);
            }
            StringOperation::Scan => {
                let value = self.load(context, self.destination(context))?;
                compare(context, context.cpu.gpr[reg::RAX], value, size);
            }
            StringOperation::Compare => {
                // The CPU reads the destination first, which shows if both fault.
                let second = self.load(context, self.destination(context))?;
                let first = self.load(context, self.source(context))?;
                compare(context, first, second, size);
            }
        }
        Ok(1)
    }

    fn load(&self, context: &mut Context, from: u64) -> Result<u64, BadAccess> {
        let mut buffer = [0u8; 8];
        let bytes = &mut buffer[..self.element as usize];
        explore::before_read(context, from, self.element);
        load_bytes(from, bytes)?;
        record_load(context, from, bytes, self.caller);
        Ok(u64::from_le_bytes(buffer))
    }

    /// How many elements can be done without leaving the pages of source and destination.
    fn piece(&self, context: &Context, left: u64) -> u64 {
        let element = self.element;
        let room = |at: u64| {
            let offset = at & 4095;
            match (offset + element <= 4096, self.backwards) {
                (false, _) => 0,
                (true, true) => (offset + element) / element,
                (true, false) => (4096 - offset) / element,
            }
        };
        let to = self.destination(context);
        let mut count = left.min(room(to));
        if self.operation == StringOperation::Move {
            let from = self.source(context);
            count = count.min(room(from));
            // A copy onto itself repeats what it has just written: no further than the distance at a time.
            let distance = to.abs_diff(from);
            if distance != 0 && count > 0 {
                count = count.min((distance / element).max(1));
            }
        }
        count
    }

    /// The lowest address of `count` elements that start at `at`.
    fn lowest(&self, at: u64, count: u64) -> u64 {
        if self.backwards {
            at.wrapping_sub((count - 1) * self.element)
        } else {
            at
        }
    }

    /// Reads the bytes to store: from the source, or copies of the accumulator.
    fn fetch(&self, context: &mut Context, from: u64, bytes: &mut [u8]) -> Result<(), BadAccess> {
        if self.operation == StringOperation::Move {
            explore::before_read(context, from, bytes.len() as u64);
            load_bytes(from, bytes)?;
            record_load(context, from, bytes, self.caller);
            return Ok(());
        }
        let value = context.cpu.gpr[reg::RAX].to_le_bytes();
        let element = self.element as usize;
        for chunk in bytes.chunks_exact_mut(element) {
            chunk.copy_from_slice(&value[..element]);
        }
        Ok(())
    }

    /// Never inlined: other exits should not pay for its buffer, whose pages a fork has copied.
    #[inline(never)]
    fn move_piece(&self, context: &mut Context, count: u64) -> Result<(), BadAccess> {
        let mut buffer = [0u8; 4096];
        let bytes = &mut buffer[..(count * self.element) as usize];
        let from = self.lowest(self.source(context), count);
        // A piece lies on one page: if it faults, its first element does.
        self.fetch(context, from, bytes)
            .map_err(|_| BadAccess::read(self.source(context)))?;
        let to = self.lowest(self.destination(context), count);
        write_piece(context, to, bytes, self.caller)
            .map_err(|_| BadAccess::write(self.destination(context)))
    }

    /// One element, of which the source or the destination lies on two pages.
    fn move_across_page(&self, context: &mut Context) -> Result<(), BadAccess> {
        let mut buffer = [0u8; 8];
        let bytes = &mut buffer[..self.element as usize];
        self.fetch(context, self.source(context), bytes)?;
        let to = self.destination(context);
        let first = (4096 - (to & 4095)).min(self.element) as usize;
        if first < bytes.len() {
            // Nothing of an element is stored if any of it cannot be.
            let mut old = [0u8; 8];
            load_bytes(to, &mut old[..bytes.len()]).map_err(BadAccess::of_write)?;
            split::writable(to, &old[..bytes.len()])?;
        }
        write_piece(context, to, &bytes[..first], self.caller)?;
        if first < bytes.len() {
            write_piece(context, to + first as u64, &bytes[first..], self.caller)?;
        }
        Ok(())
    }
}

/// Writes bytes that lie on one page.
fn write_piece(context: &mut Context, to: u64, bytes: &[u8], caller: u32) -> Result<(), BadAccess> {
    explore::before_write(to, bytes.len() as u64);
    let Some(mapping) = candidates::find(to).filter(|mapping| mapping.observes(true)) else {
        return target_memory::write_bytes(to, bytes).map_err(|_| BadAccess::write(to));
    };
    let stripe = mapping.stripe(to);
    stripe.lock();
    let (tag, alias) = ((kind::STORE, store::STRING), to.wrapping_add(mapping.delta));
    intent::store(context, tag, to, alias, bytes.len());
    let written = target_memory::write_bytes(alias, bytes);
    if written.is_ok() {
        context.areas.events.address = to;
        record_store(context, store::STRING, caller, 0, bytes);
    }
    stripe.unlock();
    written.map_err(|_| BadAccess::write(to))
}

/// Sets the flags as `cmp first, second` does with operands of `size` bytes.
fn compare(context: &mut Context, first: u64, second: u64, size: usize) {
    const CARRY: u64 = 1;
    const PARITY: u64 = 4;
    const ADJUST: u64 = 0x10;
    const SIGN: u64 = 0x80;
    const OVERFLOW: u64 = 0x800;
    let unused = 64 - 8 * size as u32;
    // The operands at the top of the word: carry, sign and overflow are then those of the full width.
    let (a, b) = (first << unused, second << unused);
    let (difference, carry) = a.overflowing_sub(b);
    let low = (difference >> unused) as u8;
    let mut flags = context.cpu.flags & !(CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW);
    let mut set = |flag: u64, condition: bool| {
        if condition {
            flags |= flag;
        }
    };
    set(CARRY, carry);
    set(PARITY, low.count_ones().is_multiple_of(2));
    set(ADJUST, first & 15 < second & 15);
    set(ZERO, difference == 0);
    set(SIGN, difference >> 63 != 0);
    set(OVERFLOW, ((a ^ b) & (a ^ difference)) >> 63 != 0);
    context.cpu.flags = flags;
}
