//! The code that counts steps, branches and pauses, and instructions whose results are not the same in each run.

use crate::arch::instruments::pm::form::is_locked;
use crate::arch::translator::cpu::reg;
use crate::arch::translator::translate::{Emission, number};
use crate::instruments::schedule::exits;
use crate::slot;
use crate::translator::context::Context;
use iced_x86::{FlowControl, Instruction, Mnemonic, Register};

const RCX: u8 = 1;

/// Emits what is counted before an instruction. `is_observed` if it accesses persistent memory.
pub fn before(insn: &Instruction, is_observed: bool, out: &mut Emission<'_>) {
    if is_observed || is_step(insn) {
        count(insn, slot!(areas.schedule.steps), exits::STEP, out);
    }
    if insn.mnemonic() == Mnemonic::Pause {
        count(insn, slot!(areas.schedule.pauses), exits::SPIN, out);
    } else if may_close_loop(insn) {
        count(insn, slot!(areas.schedule.branches), exits::SPIN, out);
    }
}

/// Whether an instruction orders memory accesses.
fn is_step(insn: &Instruction) -> bool {
    let orders = matches!(
        insn.mnemonic(),
        Mnemonic::Sfence
            | Mnemonic::Mfence
            | Mnemonic::Clflush
            | Mnemonic::Clflushopt
            | Mnemonic::Clwb
    );
    orders || is_locked(insn)
}

/// Whether an instruction may lead back to one before it. Each loop has such an instruction.
fn may_close_loop(insn: &Instruction) -> bool {
    match insn.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call => {
            insn.near_branch_target() <= insn.ip()
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall => true,
        _ => false,
    }
}

/// Emits the decrement of a counter and a visit with this exit number when it reaches zero. Registers and flags are kept.
fn count(insn: &Instruction, counter: i32, exit: u32, out: &mut Emission<'_>) {
    let out = &mut out.out;
    out.gs_store(slot!(cpu.spill_rcx), RCX);
    out.gs_load(RCX, counter);
    // lea rcx, [rcx - 1]
    out.put(&[0x48, 0x8d, 0x49, 0xff]);
    out.gs_store(counter, RCX);
    // jrcxz
    out.put(&[0xe3, 0]);
    let at_zero = out.here() - 1;
    out.gs_load(RCX, slot!(cpu.spill_rcx));
    // jmp
    out.put(&[0xeb, 0]);
    let behind = out.here() - 1;
    out.land_short(at_zero);
    out.gs_load(RCX, slot!(cpu.spill_rcx));
    leave(insn, exit, out);
    out.land_short(behind);
}

/// Emits the way to Rust code, after which the thread continues at `Context::pc`.
fn leave(insn: &Instruction, exit: u32, out: &mut crate::arch::translator::translate::Emitter) {
    out.gs_store_imm(slot!(pc), insn.ip());
    out.gs_store_imm(slot!(next_pc), insn.next_ip());
    out.gs_store_imm32(slot!(argument), result_of(insn).map_or(0, ResultOf::number));
    out.gs_store_imm32(slot!(exit), exit);
    out.jmp_gs(slot!(areas.schedule.to_exit));
}

/// What an instruction whose result is not the same in each run returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultOf {
    /// The processor's counter; `aux` if it returns the number of the processor, too.
    Counter { aux: bool },
    /// A random number in a register of so many bytes.
    Random { register: u8, size: u8 },
}

impl ResultOf {
    fn number(self) -> u32 {
        match self {
            ResultOf::Counter { aux } => u32::from(aux),
            ResultOf::Random { register, size } => u32::from(register) << 8 | u32::from(size),
        }
    }

    fn of(number: u32) -> ResultOf {
        match number {
            0 | 1 => ResultOf::Counter { aux: number == 1 },
            _ => ResultOf::Random {
                register: (number >> 8) as u8,
                size: number as u8,
            },
        }
    }
}

fn result_of(insn: &Instruction) -> Option<ResultOf> {
    match insn.mnemonic() {
        Mnemonic::Rdtsc => Some(ResultOf::Counter { aux: false }),
        Mnemonic::Rdtscp => Some(ResultOf::Counter { aux: true }),
        Mnemonic::Rdrand | Mnemonic::Rdseed => {
            let register: Register = insn.op0_register();
            Some(ResultOf::Random {
                register: number(register),
                size: register.size() as u8,
            })
        }
        _ => None,
    }
}

/// Emits a visit in place of an instruction whose result is not the same in each run. False if it is none.
pub fn replace(insn: &Instruction, out: &mut Emission<'_>) -> bool {
    let is_replaced = result_of(insn).is_some();
    if is_replaced {
        leave(insn, exits::UNPINNED, &mut out.out);
    }
    is_replaced
}

/// Carries out the instruction that led to [`exits::UNPINNED`]: with the processor's counter, or a random number.
pub fn execute(context: &mut Context, ticks: fn() -> u64, random: fn() -> u64) {
    let gpr = &mut context.cpu.gpr;
    match ResultOf::of(context.argument) {
        ResultOf::Counter { aux } => {
            let ticks = ticks();
            gpr[reg::RAX] = ticks & 0xffff_ffff;
            gpr[reg::RDX] = ticks >> 32;
            if aux {
                gpr[reg::RCX] = 0;
            }
        }
        ResultOf::Random { register, size } => {
            let target = &mut gpr[usize::from(register)];
            *target = match size {
                2 => *target & !0xffff | random() & 0xffff,
                4 => random() & 0xffff_ffff,
                _ => random(),
            };
            // Carry: there was a number. The other arithmetic flags are cleared.
            const ARITHMETIC: u64 = 0x8d5;
            context.cpu.flags = context.cpu.flags & !ARITHMETIC | 1;
        }
    }
    context.pc = context.next_pc;
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decoded(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn instructions_that_order_memory_accesses_are_steps() {
        assert!(is_step(&decoded(&[0x0f, 0xae, 0xf8])), "sfence");
        assert!(is_step(&decoded(&[0x66, 0x0f, 0xae, 0x37])), "clwb [rdi]");
        assert!(is_step(&decoded(&[0xf0, 0xff, 0x07])), "lock inc [rdi]");
        assert!(is_step(&decoded(&[0x87, 0x07])), "xchg [rdi], eax");
        assert!(!is_step(&decoded(&[0xff, 0x07])), "inc [rdi]");
    }

    #[test]
    fn each_loop_is_closed_by_a_counted_branch() {
        assert!(may_close_loop(&decoded(&[0x75, 0xf0])), "jne backwards");
        assert!(may_close_loop(&decoded(&[0xeb, 0xfe])), "jmp to itself");
        assert!(may_close_loop(&decoded(&[0xff, 0xe0])), "jmp rax");
        assert!(!may_close_loop(&decoded(&[0x75, 0x10])), "jne forwards");
        assert!(
            !may_close_loop(&decoded(&[0xc3])),
            "ret: its call is counted"
        );
    }

    #[test]
    fn results_keep_their_numbers() {
        for bytes in [
            &[0x0f, 0x31][..],
            &[0x0f, 0x01, 0xf9],
            &[0x0f, 0xc7, 0xf0],
            &[0x49, 0x0f, 0xc7, 0xff],
        ] {
            let result = result_of(&decoded(bytes)).unwrap();
            assert_eq!(ResultOf::of(result.number()), result, "{bytes:02x?}");
        }
    }
}
