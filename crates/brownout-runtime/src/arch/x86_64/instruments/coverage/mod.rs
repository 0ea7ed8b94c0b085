//! The code that counts.

use crate::arch::translator::translate::Emission;
use crate::slot;

const RAX: u8 = 0;
const RCX: u8 = 1;

/// Emits the increment of the thread's own count of `counter`. Registers and flags are kept.
pub fn count(out: &mut Emission<'_>, counter: u32) {
    let out = &mut out.out;
    out.gs_store(slot!(cpu.spill_rcx), RCX);
    out.gs_store(slot!(cpu.spill_rax), RAX);
    out.gs_load(RCX, slot!(areas.coverage.counts));
    // mov rax, [rcx + 8 * counter]
    out.put(&[0x48, 0x8b, 0x81]);
    out.put_u32(8 * counter);
    // lea rax, [rax + 1]
    out.put(&[0x48, 0x8d, 0x40, 0x01]);
    // mov [rcx + 8 * counter], rax
    out.put(&[0x48, 0x89, 0x81]);
    out.put_u32(8 * counter);
    out.gs_load(RAX, slot!(cpu.spill_rax));
    out.gs_load(RCX, slot!(cpu.spill_rcx));
}
