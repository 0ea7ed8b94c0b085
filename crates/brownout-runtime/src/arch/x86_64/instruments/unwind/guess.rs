//! Finding the caller without any tables: by what return addresses look like.
//!
//! A word of the stack is taken for a return address if it points into code right behind a call. That
//! can be wrong in both directions; [`crate::arch::instruments::unwind::code_scan`] is asked first.

use crate::arch::instruments::unwind::registers::{
    FRAME_POINTER, SAVED_FRAME_POINTER, STACK_POINTER,
};
use crate::instruments::unwind::rule::{Plain, UnwindRule};
use crate::instruments::unwind::step::{Dependencies, State, UnwindStep};
use crate::instruments::unwind::{CodeMap, Memory};
use alloc::vec::Vec;

/// Words of the stack that a search looks at.
const MAX_WORDS: i32 = 512;

/// Takes a step by a rule that may be wrong, if what it finds looks like a return address, or else by
/// trying.
pub(crate) fn step(
    rule: &UnwindRule,
    state: &mut State,
    mem: &impl Memory,
    code: &impl CodeMap,
    dependencies: &mut Vec<Dependencies>,
    step: &mut UnwindStep,
) -> Option<()> {
    let mut tried = *state;
    let taken = match rule {
        UnwindRule::Plain(plain) => tried.step_plain(plain, mem, step),
        UnwindRule::Wide(wide) => tried.step_wide(wide, mem, dependencies, step),
        _ => None,
    };
    if taken.is_some() && is_return_address(tried.at().pc, mem, code) {
        *state = tried;
        return Some(());
    }
    let found = find(state, mem, code)?;
    state.step_plain(&found, mem, step)
}

/// A rule that fits the frame of `state`, found by trying.
fn find(state: &State, mem: &impl Memory, code: &impl CodeMap) -> Option<Plain> {
    let rsp = state.stack_pointer();
    let returns = |addr: u64| {
        mem.read_u64(addr)
            .is_some_and(|word| is_return_address(word, mem, code))
    };
    // A leaf in assembly, the most common of all, has its return address on top. Its rbp is its
    // caller's and would lead past it.
    if state.at().exact && returns(rsp) {
        return Some(Plain::new(STACK_POINTER, 8, false));
    }
    let rbp = state.value(FRAME_POINTER, mem)?;
    if rbp >= rsp && rbp % 8 == 0 && returns(rbp.wrapping_add(8)) {
        let mut framed = Plain::new(FRAME_POINTER, 16, false);
        framed.saved[SAVED_FRAME_POINTER] = -2;
        return Some(framed);
    }
    // By the ABI, processes and threads start with rbp 0.
    if rbp == 0 && !state.at().exact {
        return None;
    }
    (0..MAX_WORDS)
        .find(|&index| returns(rsp.wrapping_add_signed(i64::from(index) * 8)))
        .map(|index| Plain::new(STACK_POINTER, index * 8 + 8, false))
}

/// Whether `addr` is in code, and behind a call or else where signal handlers return to.
fn is_return_address(addr: u64, mem: &impl Memory, code: &impl CodeMap) -> bool {
    code.is_code(addr)
        && (follows_call(addr, mem) || is_sigreturn(addr, mem) || code.is_signal_restorer(addr))
}

/// Whether a call instruction ends at `addr`, which is in code.
pub(crate) fn follows_call(addr: u64, mem: &impl Memory) -> bool {
    mem.slice(addr.wrapping_sub(8), 8)
        .is_some_and(ends_with_call)
}

/// Whether some call instruction could end with these bytes.
fn ends_with_call(bytes: &[u8]) -> bool {
    let from_end = |distance: usize| {
        bytes
            .len()
            .checked_sub(distance)
            .and_then(|at| bytes.get(at..))
    };
    if from_end(5).is_some_and(|tail| tail[0] == 0xe8) {
        return true;
    }
    // `ff /2`: call through a register or memory, with 0, 1 or 4 bytes of displacement and perhaps a
    // SIB byte.
    (2..=7).any(|len| {
        from_end(len)
            .is_some_and(|tail| tail[0] == 0xff && indirect_call_len(&tail[1..]) == Some(len - 1))
    })
}

/// Length of the ModRM operand at the start of `bytes` if it makes `ff` an indirect near call.
fn indirect_call_len(bytes: &[u8]) -> Option<usize> {
    let modrm = *bytes.first()?;
    if (modrm >> 3) & 7 != 2 {
        return None;
    }
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let sib = usize::from(mode != 3 && rm == 4);
    let displacement = match mode {
        0 if rm == 5 => 4,
        0 if rm == 4 && bytes.get(1)? & 7 == 5 => 4,
        0 | 3 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + sib + displacement)
}

/// Whether the code at `pc` is `rt_sigreturn`, as C libraries have it behind signal handlers.
pub(crate) fn is_sigreturn(pc: u64, mem: &impl Memory) -> bool {
    // mov $15, %rax; syscall, and the shorter mov $15, %eax; syscall.
    const LONG: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const SHORT: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
    mem.slice(pc, LONG.len()).is_some_and(|code| code == LONG)
        || mem.slice(pc, SHORT.len()).is_some_and(|code| code == SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(bytes: &[u8]) -> bool {
        let mut code = [0x90; 8];
        code[8 - bytes.len()..].copy_from_slice(bytes);
        ends_with_call(&code)
    }

    #[test]
    fn knows_the_forms_of_call() {
        assert!(call(&[0xe8, 1, 2, 3, 4]), "call rel32");
        assert!(call(&[0xff, 0xd0]), "call *%rax");
        assert!(call(&[0x41, 0xff, 0xd4]), "call *%r12");
        assert!(call(&[0xff, 0x10]), "call *(%rax)");
        assert!(call(&[0xff, 0x15, 1, 2, 3, 4]), "call *x(%rip)");
        assert!(call(&[0xff, 0x50, 0x18]), "call *0x18(%rax)");
        assert!(call(&[0xff, 0x14, 0xc5, 1, 2, 3, 4]), "call *x(,%rax,8)");
        assert!(call(&[0xff, 0x94, 0x24, 1, 2, 3, 4]), "call *x(%rsp)");
    }

    #[test]
    fn takes_nothing_else_for_a_call() {
        assert!(!call(&[0xff, 0xe0]), "jmp *%rax");
        assert!(!call(&[0xe9, 1, 2, 3, 4]), "jmp rel32");
        assert!(!call(&[0xff, 0x50]), "a call cut short");
        assert!(!call(&[0xc3]), "ret");
    }
}
