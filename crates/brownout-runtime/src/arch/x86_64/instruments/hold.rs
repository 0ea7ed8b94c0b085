//! The way from generated code to where threads are held.

use crate::instruments::hold::{HoldArea, VISIT};
use crate::translator::context::Context;
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    ".text",
    ".globl hold_visit",
    "hold_visit:",
    "mov dword ptr gs:[{exit}], {visit}",
    "jmp gate_exit",
    exit = const offset_of!(Context, exit),
    visit = const VISIT,
);

unsafe extern "C" {
    fn hold_visit();
}

/// Fills the entry point for generated code.
pub fn connect(area: &mut HoldArea) {
    area.to_visit = hold_visit as *const () as u64;
}
