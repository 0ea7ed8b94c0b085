//! Instructions that need more than random operands, and those that are left out.

use iced_x86::{Code, CpuidFeature, FlowControl, Instruction, Mnemonic, OpKind};

use super::draft::{Draft, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP};
use crate::state;

/// Whether cases with this instruction are made.
pub fn is_tested(code: Code) -> bool {
    let op_code = code.op_code();
    if !op_code.is_instruction() || !op_code.mode64() || code == Code::INVALID {
        return false;
    }
    let straight = matches!(
        code.flow_control(),
        FlowControl::Next | FlowControl::XbeginXabortXend | FlowControl::Exception
    ) || matches!(code, Code::Int3 | Code::Int1);
    straight
        && !is_left_out(code.mnemonic())
        && !code
            .cpuid_features()
            .iter()
            .any(|feature| is_foreign(*feature))
}

/// What depends on the time, the processor or the kernel, could not be left again, or is control flow.
fn is_left_out(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Rdtsc
            | Rdtscp
            | Rdrand
            | Rdseed
            | Rdpid
            | Rdpmc
            | Rdpru
            | Cpuid
            | Xbegin
            | Wrpkru
            | Rdpkru
            | Umwait
            | Tpause
            | Umonitor
            | Mwait
            | Monitor
            | Mwaitx
            | Monitorx
            | Sgdt
            | Sidt
            | Sldt
            | Smsw
            | Str
            | Enqcmd
            | Enqcmds
            | Lfs
            | Lgs
            | Lss
            | Swapgs
            | Sysret
            | Sysexit
            | Sysretq
            | Sysexitq
            | Getsec
            | Loadall
            | Rsm
    )
}

/// Extensions that belong to virtual machines, enclaves and keys, or need permission first.
fn is_foreign(feature: CpuidFeature) -> bool {
    if feature == CpuidFeature::MPX {
        return true;
    }
    let name = format!("{feature:?}");
    [
        "VMX", "SVM", "SGX", "SMX", "SEAM", "TDX", "PCONFIG", "AMX", "UINTR", "KL", "AESKLE",
        "PADLOCK", "CYRIX", "SEV", "SNP", "SKINIT", "FRED", "LKGS", "MSRLIST", "USER_MSR", "UDBG",
        "D3NOW",
    ]
    .iter()
    .any(|foreign| name.contains(foreign))
}

/// Whether an instruction must not follow others: they would change the vector that its addresses depend on,
/// or it saves where an earlier x87 instruction was.
pub fn stands_alone(code: Code) -> bool {
    use Mnemonic::*;
    let op_code = code.op_code();
    let by_vector = op_code
        .op_kinds()
        .iter()
        .any(|kind| super::instruction::vector_index(*kind).is_some());
    let saves = matches!(
        code.mnemonic(),
        Fnsave
            | Fnstenv
            | Fxsave
            | Fxsave64
            | Xsave
            | Xsave64
            | Xsavec
            | Xsavec64
            | Xsaveopt
            | Xsaveopt64
    );
    by_vector || saves
}

/// Chooses where the instruction's explicit memory operand is to lead.
pub fn address(draft: &mut Draft, insn: &Instruction) -> u64 {
    use Mnemonic::*;
    match insn.mnemonic() {
        Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xrstor | Xrstor64
        | Xsaves | Xsaves64 | Xrstors | Xrstors64 => {
            draft.region.file_range().start + 64 * draft.random.below(80)
        }
        Bt | Bts | Btr | Btc if insn.op1_kind() == OpKind::Register => {
            draft.region.file_range().start + 1024 + draft.random.below(6000)
        }
        _ => draft.sized_address(insn),
    }
}

/// Gives registers and memory values with which the instruction does something. `memory` is where the
/// explicit memory operand leads. False if registers are not free for what must be.
pub fn prepare(draft: &mut Draft, insn: &Instruction, memory: Option<u64>) -> bool {
    use Mnemonic::*;
    if insn.is_string_instruction() {
        return prepare_string(draft, insn);
    }
    match insn.mnemonic() {
        Maskmovdqu | Vmaskmovdqu | Maskmovq => {
            let to = draft.address(16);
            draft.fix(RDI, to)
        }
        Clzero => prepare_clzero(draft, insn),
        Movdir64b => {
            let to = draft.address(64) & !63;
            draft.fix(insn.op0_register().full_register().number(), to)
        }
        Xlatb => {
            let table = draft.address(256);
            draft.fix(
                RBX,
                table.wrapping_sub(match insn.segment_prefix() {
                    iced_x86::Register::FS => draft.case.fs_base,
                    iced_x86::Register::GS => draft.case.gs_base,
                    _ => 0,
                }),
            )
        }
        Leave | Enter => {
            let frame = draft.address(8) & !7;
            draft.fix(RBP, frame)
        }
        Xgetbv => draft.fix(RCX, 0),
        Cmpxchg if draft.random.chance(50) => patch_value(draft, memory, &[RAX]),
        Cmpxchg8b | Cmpxchg16b if draft.random.chance(50) => {
            let half = insn.memory_size().size() / 2;
            let value: Option<Vec<u8>> = [RAX, RDX]
                .iter()
                .map(|register| Some(draft.known(*register)?.to_le_bytes()[..half].to_vec()))
                .collect::<Option<Vec<_>>>()
                .map(|halves| halves.concat());
            if let (Some(value), Some(at)) = (value, memory) {
                draft.patch(at, &value);
            }
            true
        }
        Bt | Bts | Btr | Btc if memory.is_some() && insn.op1_kind() == OpKind::Register => {
            let bit = draft.random.around(7000) as u64;
            // The high part of a narrow register must not matter.
            let bit = match insn.op1_register().size() {
                2 => bit & 0xffff | draft.random.word() << 16,
                4 => bit & 0xffff_ffff | draft.random.word() << 32,
                _ => bit,
            };
            let register = insn.op1_register().full_register().number();
            let far = draft
                .known(register)
                .is_none_or(|value| (value as i64).unsigned_abs() > 7000);
            draft.fix(register, bit) || !far
        }
        Div | Idiv if draft.random.chance(75) => {
            let (high, low) = (
                draft.random.below(2),
                draft.random.word() >> draft.random.below(60),
            );
            draft.prefer(RDX, high);
            draft.prefer(RAX, low);
            true
        }
        Popf | Popfq => {
            let flags = state::random_flags(draft.random);
            let stack = draft.case.gpr[RSP];
            draft.patch(stack, &flags.to_le_bytes());
            draft.known(RSP).is_some()
        }
        Ldmxcsr | Vldmxcsr => {
            let value = state::random_mxcsr(draft.random);
            patch(draft, memory, &value.to_le_bytes())
        }
        Fldcw => {
            let value = state::random_x87_control(draft.random);
            patch(draft, memory, &value.to_le_bytes())
        }
        Fxrstor | Fxrstor64 => {
            let image = state::random_image(draft.random, draft.areas);
            patch(draft, memory, &image[..512])
        }
        Xrstor | Xrstor64 => {
            let image = state::random_image(draft.random, draft.areas);
            patch(draft, memory, &image) && fix_components(draft)
        }
        Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 => {
            // The header's reserved bytes are zero in any area in use.
            if let Some(at) = memory {
                draft.patch(at + 512, &[0; 64]);
            }
            fix_components(draft)
        }
        Wrfsbase | Wrgsbase => {
            let base = draft.region.arena() + draft.random.below(4096);
            draft.prefer(insn.op0_register().full_register().number(), base);
            true
        }
        _ => true,
    }
}

fn prepare_clzero(draft: &mut Draft, insn: &Instruction) -> bool {
    let line = draft.address(64);
    if insn.code() != Code::Clzerod {
        return draft.fix(RAX, line);
    }
    // The high part of a narrow register must not matter.
    let high = draft.random.word() << 32;
    line >> 32 == 0 && draft.fix(RAX, line | high)
}

fn fix_components(draft: &mut Draft) -> bool {
    let components = draft.random.word() & draft.areas.components;
    draft.fix(RAX, components) && draft.fix(RDX, 0)
}

fn patch(draft: &mut Draft, memory: Option<u64>, bytes: &[u8]) -> bool {
    if let Some(at) = memory {
        draft.patch(at, bytes);
    }
    true
}

fn patch_value(draft: &mut Draft, memory: Option<u64>, registers: &[usize]) -> bool {
    for register in registers {
        if let (Some(value), Some(at)) = (draft.known(*register), memory) {
            draft.patch(at, &value.to_le_bytes());
        }
    }
    true
}

fn prepare_string(draft: &mut Draft, insn: &Instruction) -> bool {
    let wide = |kind: OpKind| matches!(kind, OpKind::MemorySegRSI | OpKind::MemoryESRDI);
    let narrow = !insn.op_kinds().any(wide);
    let extend = |draft: &mut Draft, value: u64| {
        if narrow {
            value & 0xffff_ffff | draft.random.word() << 32
        } else {
            value
        }
    };
    if insn.has_rep_prefix() || insn.has_repne_prefix() {
        let most = draft.random.pick(&[3, 40, 40, 3000]);
        let count = draft.random.below(most);
        let count = extend(draft, count);
        if !draft.fix(RCX, count) {
            return false;
        }
    }
    let backwards = draft.case.flags & 0x400 != 0;
    let mut addresses = [0; 2];
    for address in &mut addresses {
        let spread = draft.random.below(6000);
        let file = draft.region.file_range();
        *address = if draft.random.chance(20) {
            draft.address(64)
        } else if backwards {
            file.end - 8 - spread
        } else {
            file.start + spread
        };
    }
    if draft.random.chance(25) {
        // A copy onto itself.
        addresses[1] = addresses[0].wrapping_add_signed(draft.random.around(40));
    }
    let segment = match insn.segment_prefix() {
        iced_x86::Register::FS => draft.case.fs_base,
        iced_x86::Register::GS => draft.case.gs_base,
        _ => 0,
    };
    let (from, to) = (addresses[0].wrapping_sub(segment), addresses[1]);
    let (from, to) = (extend(draft, from), extend(draft, to));
    draft.prefer(RSI, from);
    draft.prefer(RDI, to);
    draft.is_free(RSI) && draft.is_free(RDI) && draft.fix(RSI, from) && draft.fix(RDI, to)
}
