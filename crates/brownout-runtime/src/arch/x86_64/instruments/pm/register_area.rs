//! The extent of the instructions that save register state, which depends on the requested components.

use crate::arch::translator::cpu::reg;
use crate::arch::translator::signal_frame::{area_size, enabled_state};
use crate::translator::context::Context;
use core::arch::x86_64::__cpuid_count;
use iced_x86::{Instruction, Mnemonic};

/// Where the components of the compacted format start: after the legacy area and the header.
const COMPONENTS: u64 = 512 + 64;
/// The first component that is not in the legacy area.
const FIRST: u32 = 2;

/// Bytes from the operand of an `xsave` of any kind that it may write.
pub fn extent(insn: &Instruction, context: &Context) -> u64 {
    let requested = context.cpu.gpr[reg::RAX] & 0xffff_ffff | context.cpu.gpr[reg::RDX] << 32;
    let components = requested & enabled_state();
    match insn.mnemonic() {
        Mnemonic::Xsavec | Mnemonic::Xsavec64 => compacted(components),
        _ => area_size(components) as u64,
    }
}

/// The end of the last component if one follows the other.
fn compacted(components: u64) -> u64 {
    const ALIGNED: u32 = 1 << 1;
    (FIRST..63)
        .filter(|component| components >> component & 1 != 0)
        .map(|component| __cpuid_count(0xd, component))
        .fold(COMPONENTS, |end, leaf| {
            let start = if leaf.ecx & ALIGNED != 0 {
                end.next_multiple_of(64)
            } else {
                end
            };
            start + u64::from(leaf.eax)
        })
}
