//! Scatters and gathers: many addresses in one instruction.

use super::effective_address::effective_address;
use crate::arch::instruments::pm::emulate::{BadAccess, load, store_bytes};
use crate::fatal;
use crate::instruments::explore;
use crate::instruments::pm::candidates;
use crate::instruments::pm::site::PmSite;
use crate::translator::context::Context;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use iced_x86::{Instruction, Mnemonic, Register};

/// Whether the elements of the index are of 8 bytes, not 4.
fn has_wide_index(insn: &Instruction) -> bool {
    matches!(
        insn.mnemonic(),
        Mnemonic::Vpscatterqd
            | Mnemonic::Vpscatterqq
            | Mnemonic::Vscatterqps
            | Mnemonic::Vscatterqpd
            | Mnemonic::Vpgatherqd
            | Mnemonic::Vpgatherqq
            | Mnemonic::Vgatherqps
            | Mnemonic::Vgatherqpd
    )
}

/// Number of elements, with `data_bytes` in the register that is stored or loaded.
fn lanes(insn: &Instruction, data_bytes: usize) -> usize {
    let index_size = if has_wide_index(insn) { 8 } else { 4 };
    (insn.memory_index().size() / index_size).min(data_bytes / insn.memory_size().size())
}

/// Address of an element; the index was left in the second half of the payload.
fn address(context: &Context, insn: &Instruction, base: u64, lane: usize) -> u64 {
    let indexes = &context.areas.events.payload.0[1];
    let index = if has_wide_index(insn) {
        let raw = &indexes[lane * 8..(lane + 1) * 8];
        i64::from_le_bytes(raw.try_into().unwrap_or_default())
    } else {
        let raw = &indexes[lane * 4..(lane + 1) * 4];
        i64::from(i32::from_le_bytes(raw.try_into().unwrap_or_default()))
    };
    base.wrapping_add_signed(index.wrapping_mul(i64::from(insn.memory_index_scale())))
}

/// A scatter: its elements, lowest first, as the CPU orders overlapping ones.
pub fn scatter(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let base = effective_address(insn, context);
    let element = insn.memory_size().size();
    for lane in 0..lanes(insn, insn.op1_register().size()) {
        if context.areas.events.extra >> lane & 1 == 0 {
            continue;
        }
        let at = address(context, insn, base, lane);
        let mut bytes = [0u8; 8];
        bytes[..element].copy_from_slice(
            &context.areas.events.payload.0[0][lane * element..(lane + 1) * element],
        );
        if let Err(bad) = store_bytes(context, 0, at, &bytes[..element]) {
            // The mask shows which elements are still missing.
            set_mask(insn.op_mask(), context.areas.events.extra);
            return Err(bad);
        }
        context.areas.events.extra &= !(1 << lane);
    }
    Ok(())
}

/// Puts a value into the lowest 16 bits of a mask register, which the runtime itself never uses.
fn set_mask(register: Register, value: u64) {
    // Bit of ebx in leaf 7: AVX-512BW, with which the registers have 64 bits instead of 16.
    const AVX512BW: u32 = 1 << 30;
    let wide = __cpuid_count(7, 0).ebx & AVX512BW != 0;
    macro_rules! set {
        ($name:literal) => {
            // SAFETY: the target has just used the register for a scatter, so the CPU has it; the
            // instructions change nothing else.
            unsafe {
                if wide {
                    let old: u64;
                    asm!(concat!("kmovq {}, ", $name), out(reg) old, options(nomem, nostack));
                    let new = old & !0xffff | value;
                    asm!(concat!("kmovq ", $name, ", {}"), in(reg) new, options(nomem, nostack))
                } else {
                    asm!(concat!("kmovw ", $name, ", {:e}"), in(reg) value, options(nomem, nostack))
                }
            }
        };
    }
    match register {
        Register::K1 => set!("k1"),
        Register::K2 => set!("k2"),
        Register::K3 => set!("k3"),
        Register::K4 => set!("k4"),
        Register::K5 => set!("k5"),
        Register::K6 => set!("k6"),
        _ => set!("k7"),
    }
}

/// A gather: records its elements, and leaves in `EventArea::memory` from where the CPU can make it.
pub fn gather(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let base = effective_address(insn, context);
    let element = insn.memory_size().size();
    let mut delta = None;
    for lane in 0..lanes(insn, insn.op0_register().size()) {
        if !selects(context, insn, lane, element) {
            continue;
        }
        let at = address(context, insn, base, lane);
        let distance = |at: u64| {
            let mapping = candidates::find(at).filter(|mapping| mapping.observes(false));
            mapping.map_or(0, |mapping| mapping.delta)
        };
        let first = *delta.get_or_insert(distance(at));
        if first != distance(at) || first != distance(at + element as u64 - 1) {
            explore::refuse_gather();
            fatal::unsupported(format_args!(
                "the gather at {:#x} reads several mappings at once, which the engine does not support with --loads",
                site.pc
            ));
        }
        let mut bytes = [0u8; 8];
        // What cannot be read makes the gather itself fault.
        let _ = load(context, at, &mut bytes[..element]);
    }
    context.areas.events.memory = base.wrapping_add(delta.unwrap_or(0));
    Ok(())
}

/// Whether the mask of a gather selects an element: a mask register, or the signs in a vector.
fn selects(context: &Context, insn: &Instruction, lane: usize, element: usize) -> bool {
    if insn.has_op_mask() {
        context.areas.events.extra >> lane & 1 != 0
    } else {
        context.areas.events.payload.0[0][(lane + 1) * element - 1] & 0x80 != 0
    }
}
