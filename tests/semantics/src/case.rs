//! A case: registers, memory and flags get values from the input, one or several instructions run, and everything that these define is
//! stored to the output.

use iced_x86::{
    Code, ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
    RflagsBits,
};

use crate::assembly::{Assembly, memory};
use crate::forms;
use crate::instruction::{POOL, make};
use crate::layout::{
    CASE, CONDITIONS, GPRS, LOW_VECTORS, MASKS, MEMORY, MEMORY_BYTES, VECTOR, vector,
};
use crate::prepare::{self, Preparation};
use seeded_random::SeededRandom;

/// What a case leaves that must be right.
pub struct Output {
    /// Of the case.
    pub offset: usize,
    pub len: usize,
    pub name: String,
}

pub struct Case {
    /// The addresses of its instructions.
    pub start: u64,
    pub end: u64,
    /// Those of the instructions that are tested.
    pub tested: (u64, u64),
    pub codes: Vec<Code>,
    pub title: String,
    pub outputs: Vec<Output>,
}

/// What the instructions of a case use.
#[derive(Default)]
struct Used {
    gprs: u32,
    vectors: u32,
    masks: u32,
    /// Bytes of the memory operand, by 16.
    memory: u32,
}

impl Used {
    fn add(&mut self, insn: &Instruction, case: usize) {
        let mut factory = InstructionInfoFactory::new();
        for used in factory.info(insn).used_registers() {
            let register = used.register();
            let number = register.number();
            if register.is_gpr() && POOL.contains(&register.full_register()) {
                self.gprs |= 1 << register.full_register().number();
            } else if register.is_vector_register()
                && (number < LOW_VECTORS || (16..20).contains(&number))
            {
                self.vectors |= 1 << number;
            } else if register.is_k() {
                self.masks |= 1 << number;
            }
        }
        if insn.memory_base() == Register::R15 && used_memory(insn) {
            let start = insn.memory_displacement64() as usize - case * CASE - MEMORY;
            let size = insn.memory_size().size().max(1);
            for part in start / 16..(start + size).div_ceil(16) {
                self.memory |= 1 << part;
            }
        }
        if insn.is_string_instruction() || has_index(insn) {
            self.memory = (1 << (MEMORY_BYTES / 16)) - 1;
        }
    }
}

/// Whether the memory operand is at an index that depends on the input.
fn has_index(insn: &Instruction) -> bool {
    used_memory(insn) && insn.memory_index() != Register::None
}

fn used_memory(insn: &Instruction) -> bool {
    insn.mnemonic() != Mnemonic::Lea && insn.op_kinds().any(|kind| kind == OpKind::Memory)
}

/// The condition that stands for each flag, and others with the flags that they need.
const ASKED: [(ConditionCode, Code, u32); 8] = [
    (ConditionCode::o, Code::Seto_rm8, RflagsBits::OF),
    (ConditionCode::b, Code::Setb_rm8, RflagsBits::CF),
    (ConditionCode::e, Code::Sete_rm8, RflagsBits::ZF),
    (ConditionCode::s, Code::Sets_rm8, RflagsBits::SF),
    (ConditionCode::p, Code::Setp_rm8, RflagsBits::PF),
    (
        ConditionCode::a,
        Code::Seta_rm8,
        RflagsBits::CF | RflagsBits::ZF,
    ),
    (
        ConditionCode::l,
        Code::Setl_rm8,
        RflagsBits::SF | RflagsBits::OF,
    ),
    (
        ConditionCode::g,
        Code::Setg_rm8,
        RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF,
    ),
];
/// The offset of the byte that shows whether a branch was taken.
pub const BRANCH: usize = CONDITIONS + 15;

/// Flags that an instruction leaves undefined, as far as its operands show.
pub fn undefined_flags(insn: &Instruction) -> u32 {
    use Mnemonic as M;
    let by_register = insn.op_count() > 0
        && insn.op_kind(insn.op_count() - 1) == OpKind::Register
        && insn.op_register(insn.op_count() - 1) == Register::CL;
    let width = prepare::width(insn, 0);
    let special = match insn.mnemonic() {
        M::Shl | M::Sal | M::Shr if width < 32 => RflagsBits::OF | RflagsBits::CF,
        M::Shl | M::Sal | M::Shr | M::Sar | M::Rol | M::Ror | M::Rcl | M::Rcr if by_register => {
            RflagsBits::OF
        }
        M::Shld | M::Shrd if by_register => RflagsBits::OF,
        _ => 0,
    };
    insn.rflags_undefined() | special
}

/// The undefined flags after an instruction, if `before` were undefined. A shift by zero keeps all flags.
fn undefined_after(before: u32, insn: &Instruction) -> u32 {
    let last = insn.op_count().saturating_sub(1);
    let may_keep = insn.op_count() > 0
        && insn.op_kind(last) == OpKind::Register
        && insn.op_register(last) == Register::CL;
    let kept = match may_keep {
        true => before,
        false => before & !insn.rflags_modified(),
    };
    kept | undefined_flags(insn)
}

impl Case {
    /// Appends a case of one instruction. `None` if the choice of operands did not fit together.
    pub fn of_instruction(
        random: &mut SeededRandom,
        assembly: &mut Assembly,
        number: usize,
        code: Code,
    ) -> Option<Case> {
        let mut insn = make(random, code, 0)?;
        if code == Code::Bswap_r16 {
            // Its result is undefined.
            return None;
        }
        if used_memory(&insn) && !(1..=64).contains(&insn.memory_size().size()) {
            return None;
        }
        place(random, &mut insn, number);
        let mut preparation = prepare::of(random, &mut insn, number)?;
        if preparation.is_empty() && random.chance(15) {
            prepare::add_index(random, &mut insn, &mut preparation)?;
        }
        Self::append(random, assembly, number, &[insn], &preparation)
    }

    /// Appends a case of several instructions, one after the other.
    pub fn of_sequence(
        random: &mut SeededRandom,
        assembly: &mut Assembly,
        number: usize,
        codes: &[Code],
    ) -> Option<Case> {
        let mut undefined = 0;
        let mut insns: Vec<Instruction> = Vec::new();
        while insns.len() < 4 + (number % 24) {
            let code = random.pick(codes);
            let Some(mut insn) = make(random, code, 0) else {
                continue;
            };
            if used_memory(&insn) && !(1..=64).contains(&insn.memory_size().size())
                || insn.is_jcc_short_or_near()
                || insn.rflags_read() & undefined != 0
            {
                continue;
            }
            place(random, &mut insn, number);
            if !prepare::of(random, &mut insn, number).is_some_and(|needs| needs.is_empty()) {
                continue;
            }
            // An undefined flag that another instruction may keep stays undefined.
            undefined = undefined_after(undefined, &insn);
            insns.push(insn);
        }
        Self::append(random, assembly, number, &insns, &Preparation::default())
    }

    fn append(
        random: &mut SeededRandom,
        assembly: &mut Assembly,
        number: usize,
        insns: &[Instruction],
        preparation: &Preparation,
    ) -> Option<Case> {
        let mut used = Used::default();
        let all = || {
            { preparation.before.iter() }
                .chain(insns)
                .chain(&preparation.after)
        };
        all().for_each(|insn| used.add(insn, number));
        let start = assembly.at();
        let length = assembly.code.len();
        load(assembly, number, &used);
        set_flags(random, assembly);
        let mut is_encoded = preparation.before.iter().all(|insn| assembly.append(insn));
        let from = assembly.at();
        for insn in insns {
            let mut insn = *insn;
            if insn.is_jcc_short_or_near() {
                // Over the store that shows it.
                let len = if insn.is_jcc_short() { 2 } else { 6 };
                let over = mark(number).ok()?;
                let mut probe = Assembly::new();
                let before = probe.code.len();
                probe.append(&over);
                let skipped = (probe.code.len() - before) as u64;
                insn.set_near_branch64(assembly.at() + len + skipped);
                is_encoded &= assembly.append(&insn) && assembly.append(&over);
            } else {
                is_encoded &= assembly.append(&insn);
            }
        }
        let tested = (from, assembly.at());
        is_encoded &= preparation.after.iter().all(|insn| assembly.append(insn));
        if !is_encoded {
            assembly.code.truncate(length);
            return None;
        }
        let undefined = all().fold(0, undefined_after);
        let outputs = store(assembly, number, &used, undefined);
        let titles: Vec<String> = all().map(ToString::to_string).collect();
        Some(Case {
            start,
            end: assembly.at(),
            tested,
            codes: insns.iter().map(Instruction::code).collect(),
            title: titles.join("; "),
            outputs,
        })
    }
}

/// `mov byte [r15 + …], 1`
fn mark(number: usize) -> Result<Instruction, iced_x86::IcedError> {
    let shown = memory(Register::R15, number * CASE + BRANCH);
    Instruction::with2(Code::Mov_rm8_imm8, shown, 1)
}

/// Chooses where the memory operand is.
fn place(random: &mut SeededRandom, insn: &mut Instruction, number: usize) {
    if insn.memory_base() != Register::R15 {
        return;
    }
    let offset = match insn.memory_size().size() {
        16.. => 64 * random.below(2),
        _ => random.below(40),
    };
    insn.set_memory_displacement64((number * CASE + MEMORY) as u64 + offset);
}

fn numbers(set: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |number| set >> number & 1 != 0)
}

/// The forms that move whole vectors on this CPU: a load and a store, and the first register.
fn vector_moves() -> (Code, Code, Register) {
    if forms::has_avx512() {
        let (load, store) = (
            Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
            Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        );
        (load, store, Register::ZMM0)
    } else if forms::has_avx() {
        let (load, store) = (Code::VEX_Vmovdqu_ymm_ymmm256, Code::VEX_Vmovdqu_ymmm256_ymm);
        (load, store, Register::YMM0)
    } else {
        (
            Code::Movups_xmm_xmmm128,
            Code::Movups_xmmm128_xmm,
            Register::XMM0,
        )
    }
}

fn load(assembly: &mut Assembly, number: usize, used: &Used) {
    let input = |offset| memory(Register::R14, number * CASE + offset);
    let output = |offset| memory(Register::R15, number * CASE + offset);
    for part in numbers(used.memory) {
        let (from, to) = (input(MEMORY + 16 * part), output(MEMORY + 16 * part));
        assembly.load(Code::Movups_xmm_xmmm128, Register::XMM15, from);
        assembly.store(Code::Movups_xmmm128_xmm, to, Register::XMM15);
    }
    let (code, _, first) = vector_moves();
    for vector_number in numbers(used.vectors) {
        assembly.load(
            code,
            first + vector_number as u32,
            input(vector(vector_number)),
        );
    }
    for mask in numbers(used.masks) {
        let from = input(MASKS + 8 * mask);
        assembly.load(Code::VEX_Kmovq_kr_km64, Register::K0 + mask as u32, from);
    }
    let flag_operands = 1 << Register::R8.number() | 1 << Register::R9.number();
    for gpr in numbers(used.gprs | flag_operands) {
        let register = Register::RAX + gpr as u32;
        assembly.load(Code::Mov_r64_rm64, register, input(GPRS + 8 * gpr));
    }
}

/// Gives all flags values that depend on the input.
fn set_flags(random: &mut SeededRandom, assembly: &mut Assembly) {
    let codes = [
        Code::Cmp_r64_rm64,
        Code::Cmp_r32_rm32,
        Code::Add_r64_rm64,
        Code::Sub_r32_rm32,
        Code::Test_rm64_r64,
        Code::Xor_r64_rm64,
        Code::Adc_r64_rm64,
    ];
    let code = random.pick(&codes);
    let wide = !matches!(code, Code::Cmp_r32_rm32 | Code::Sub_r32_rm32);
    let (a, b) = match wide {
        true => (Register::R8, Register::R9),
        false => (Register::R8D, Register::R9D),
    };
    if code == Code::Adc_r64_rm64 {
        assembly.add(Instruction::with2(Code::Cmp_r64_rm64, b, a));
    }
    assembly.add(Instruction::with2(code, a, b));
    if random.chance(20) {
        assembly.add(Instruction::with1(Code::Inc_rm32, Register::R9D));
    }
}

/// Stores what the case leaves; where that is.
fn store(assembly: &mut Assembly, number: usize, used: &Used, undefined: u32) -> Vec<Output> {
    let output = |offset| memory(Register::R15, number * CASE + offset);
    let mut outputs = Vec::new();
    let mut add = |offset, len, name: String| outputs.push(Output { offset, len, name });
    for (index, (condition, code, needed)) in ASKED.into_iter().enumerate() {
        if needed & undefined == 0 {
            assembly.add(Instruction::with1(code, output(CONDITIONS + index)));
            add(CONDITIONS + index, 1, format!("condition {condition:?}"));
        }
    }
    for gpr in numbers(used.gprs) {
        let register = Register::RAX + gpr as u32;
        assembly.store(Code::Mov_rm64_r64, output(GPRS + 8 * gpr), register);
        add(GPRS + 8 * gpr, 8, format!("{register:?}"));
    }
    for mask in numbers(used.masks) {
        let register = Register::K0 + mask as u32;
        assembly.store(Code::VEX_Kmovq_m64_kr, output(MASKS + 8 * mask), register);
        add(MASKS + 8 * mask, 8, format!("{register:?}"));
    }
    let (_, code, first) = vector_moves();
    for vector_number in numbers(used.vectors) {
        let register = first + vector_number as u32;
        assembly.store(code, output(vector(vector_number)), register);
        let name = format!("{register:?}");
        add(vector(vector_number), register.size().min(VECTOR), name);
    }
    for part in numbers(used.memory) {
        add(MEMORY + 16 * part, 16, format!("memory at {}", 16 * part));
    }
    outputs
}
