//! What an x86-64 instruction does to general registers, as far as it concerns addresses.
//!
//! An instruction that is not listed sets the registers that it writes to something unknown.

use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction as Encoded,
    InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};

use super::vectors;
use crate::arch::{Code, Flow, Instruction, InstructionEffect, Source, Sum};

/// The number of general registers.
pub(crate) const GENERAL_REGISTERS: usize = 16;
/// With the words of vector registers, which have the numbers behind general ones.
pub(crate) const REGISTERS: usize = GENERAL_REGISTERS + 2 * 16;
const STACK_POINTER: u16 = 7;
const FRAME_POINTER: u16 = 6;
/// The registers of the first arguments of a call.
pub(crate) const PARAMETERS: [u16; 6] = [5, 4, 1, 2, 8, 9];
/// The registers of the result of a call.
pub(crate) const RESULTS: [u16; 2] = [0, 1];
pub(crate) const CLOBBERED_BY_CALLS: [u16; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];

const LONGEST: u64 = 15;
const WORD: i64 = 8;

/// The instruction at `address`; `None` if there is none.
pub(crate) fn decode(code: &impl Code, address: u64) -> Option<Instruction> {
    let bytes = (1..=LONGEST)
        .rev()
        .find_map(|len| code.bytes(address, len))?;
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let encoded = decoder.decode();
    if encoded.is_invalid() {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(&encoded, InstructionInfoOptions::NONE);
    let written = info.used_memory().iter().find(|used| writes(used.access()));
    let writes_to = written.and_then(address_of);
    let mut steps = known_steps(&encoded);
    if let (Some(to), false) = (writes_to, stores(&steps)) {
        let size = written.map_or(0, |used| used.memory_size().size() as u64);
        steps.push(InstructionEffect::Store {
            to,
            size,
            from: None,
        });
    }
    let written_registers = info.used_registers().iter();
    let written_registers = written_registers.filter(|used| writes(used.access()));
    for register in written_registers.flat_map(|used| words_of(used.register())) {
        let known = |step: &InstructionEffect| matches!(step, InstructionEffect::Set(set, _) if *set == register);
        if !steps.iter().any(known) && flow(&encoded) != Flow::Call {
            steps.push(InstructionEffect::Set(register, Source::Unknown));
        }
    }
    let repeated = encoded.has_rep_prefix() || encoded.has_repne_prefix();
    let element = encoded.memory_size().size() as u64;
    Some(Instruction {
        len: encoded.len() as u64,
        steps,
        flow: flow(&encoded),
        writes: writes_to,
        repeats: if repeated && encoded.is_string_instruction() {
            element.max(1)
        } else {
            0
        },
    })
}

fn stores(steps: &[InstructionEffect]) -> bool {
    steps
        .iter()
        .any(|step| matches!(step, InstructionEffect::Store { .. }))
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn flow(encoded: &Encoded) -> Flow {
    match encoded.flow_control() {
        FlowControl::UnconditionalBranch => Flow::Jump(encoded.near_branch_target()),
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
            Flow::Branch(encoded.near_branch_target())
        }
        FlowControl::IndirectBranch => Flow::Computed,
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
        FlowControl::Return | FlowControl::Exception => Flow::End,
        FlowControl::Next | FlowControl::Interrupt => Flow::Next,
    }
}

/// The number of a general register, of which `register` may be a part.
fn number(register: Register) -> Option<u16> {
    Some(match register.full_register() {
        Register::RAX => 0,
        Register::RDX => 1,
        Register::RCX => 2,
        Register::RBX => 3,
        Register::RSI => 4,
        Register::RDI => 5,
        Register::RBP => FRAME_POINTER,
        Register::RSP => STACK_POINTER,
        Register::R8 => 8,
        Register::R9 => 9,
        Register::R10 => 10,
        Register::R11 => 11,
        Register::R12 => 12,
        Register::R13 => 13,
        Register::R14 => 14,
        Register::R15 => 15,
        _ => return None,
    })
}

/// The numbers of the words of a general or vector register.
fn words_of(register: Register) -> Vec<u16> {
    match vectors::low_word(register) {
        Some(low) => vec![low, low + 1],
        None => number(register).into_iter().collect(),
    }
}

/// The number of a whole general register.
pub(super) fn whole(register: Register) -> Option<u16> {
    number(register).filter(|_| register.is_gpr64())
}

fn address_of(used: &UsedMemory) -> Option<Sum> {
    if matches!(used.segment(), Register::FS | Register::GS) {
        return None;
    }
    sum(used.base(), used.index(), used.scale(), used.displacement())
}

fn sum(base: Register, index: Register, scale: u32, displacement: u64) -> Option<Sum> {
    let register = |register| match register {
        Register::None | Register::RIP => Some(None),
        register => whole(register).map(Some),
    };
    Some(Sum {
        base: register(base)?,
        index: register(index)?.map(|index| (index, scale)),
        constant: displacement as i64,
    })
}

/// The memory operand of an instruction.
pub(super) fn operand(encoded: &Encoded) -> Option<Sum> {
    if matches!(encoded.memory_segment(), Register::FS | Register::GS) {
        return None;
    }
    sum(
        encoded.memory_base(),
        encoded.memory_index(),
        encoded.memory_index_scale(),
        encoded.memory_displacement64(),
    )
}

fn is_memory(encoded: &Encoded, index: u32) -> bool {
    encoded.op_kind(index) == OpKind::Memory
}

fn immediate(encoded: &Encoded, index: u32) -> Option<i64> {
    let kind = encoded.op_kind(index);
    let is_register = matches!(kind, OpKind::Register | OpKind::Memory);
    (!is_register && index < encoded.op_count())
        .then(|| encoded.try_immediate(index).ok().map(|value| value as i64))
        .flatten()
}

/// The steps that matter for addresses.
fn known_steps(encoded: &Encoded) -> Vec<InstructionEffect> {
    let push = |from: Option<u16>| {
        vec![
            InstructionEffect::Set(
                STACK_POINTER,
                Source::Sum(Sum::register(STACK_POINTER, -WORD)),
            ),
            InstructionEffect::Store {
                to: Sum::register(STACK_POINTER, 0),
                size: WORD as u64,
                from,
            },
        ]
    };
    let pop = |register| {
        let from = Sum::register(STACK_POINTER, 0);
        let size = WORD as u64;
        [
            InstructionEffect::Set(register, Source::Load { from, size }),
            InstructionEffect::Set(
                STACK_POINTER,
                Source::Sum(Sum::register(STACK_POINTER, WORD)),
            ),
        ]
    };
    match encoded.mnemonic() {
        Mnemonic::Push => push(whole(encoded.op0_register())),
        Mnemonic::Pop => match whole(encoded.op0_register()) {
            Some(register) => pop(register).to_vec(),
            None => Vec::new(),
        },
        Mnemonic::Leave => {
            let top = Source::Sum(Sum::register(FRAME_POINTER, 0));
            let mut steps = vec![InstructionEffect::Set(STACK_POINTER, top)];
            steps.extend(pop(FRAME_POINTER));
            steps
        }
        Mnemonic::Mov if is_memory(encoded, 0) => store(encoded).into_iter().collect(),
        // A call leaves the stack as it was.
        Mnemonic::Call => Vec::new(),
        _ => {
            let moved = vectors::steps(encoded);
            if !moved.is_empty() {
                return moved;
            }
            let set = number(encoded.op0_register())
                .filter(|_| encoded.op_count() > 0 && encoded.op_kind(0) == OpKind::Register);
            let source = set.and_then(|_| source(encoded));
            set.zip(source)
                .map(|(register, source)| InstructionEffect::Set(register, source))
                .into_iter()
                .collect()
        }
    }
}

fn store(encoded: &Encoded) -> Option<InstructionEffect> {
    let from = encoded.op1_register();
    Some(InstructionEffect::Store {
        to: operand(encoded)?,
        size: encoded.memory_size().size() as u64,
        from: if encoded.op_kind(1) == OpKind::Register {
            whole(from)
        } else {
            None
        },
    })
}

/// What the first operand, a register, is set to.
fn source(encoded: &Encoded) -> Option<Source> {
    let register = encoded.op0_register();
    let own = whole(register);
    let second = encoded.op1_register();
    let zeroed = |same| same && encoded.op_kind(1) == OpKind::Register && second == register;
    match encoded.mnemonic() {
        Mnemonic::Xor | Mnemonic::Sub if zeroed(register.is_gpr32() || register.is_gpr64()) => {
            Some(Source::Sum(Sum::default()))
        }
        Mnemonic::Mov if register.is_gpr32() && immediate(encoded, 1).is_some() => {
            let constant = i64::from(immediate(encoded, 1)? as u32);
            Some(constant_source(constant))
        }
        Mnemonic::Mov => {
            own?;
            moved(encoded)
        }
        Mnemonic::Lea => {
            own?;
            operand(encoded).map(Source::Sum)
        }
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => added(encoded, own?),
        Mnemonic::Shl => {
            let by = u32::try_from(immediate(encoded, 1)?).ok()?;
            Some(Source::Product(own?, 1_i64.checked_shl(by)?))
        }
        Mnemonic::Imul => {
            let factor = immediate(encoded, 2)?;
            Some(match whole(second) {
                Some(second) if encoded.op_kind(1) == OpKind::Register => {
                    Source::Product(second, factor)
                }
                _ => Source::Multiple(factor),
            })
        }
        // Of the conditional instructions, only moves set a whole register.
        _ if encoded.condition_code() != ConditionCode::None => {
            own?;
            moved(encoded).map(|source| Source::Unless(Box::new(source)))
        }
        _ => None,
    }
}

fn constant_source(constant: i64) -> Source {
    Source::Sum(Sum {
        constant,
        ..Sum::default()
    })
}

/// The second operand of a move to a whole register.
fn moved(encoded: &Encoded) -> Option<Source> {
    match encoded.op_kind(1) {
        OpKind::Register => {
            let register = whole(encoded.op1_register())?;
            Some(Source::Sum(Sum::register(register, 0)))
        }
        OpKind::Memory => Some(Source::Load {
            from: operand(encoded)?,
            size: encoded.memory_size().size() as u64,
        }),
        _ => immediate(encoded, 1).map(constant_source),
    }
}

fn added(encoded: &Encoded, own: u16) -> Option<Source> {
    let constant = |by| Some(Source::Sum(Sum::register(own, by)));
    let is_sum = encoded.mnemonic() == Mnemonic::Add;
    match encoded.mnemonic() {
        Mnemonic::Inc => return constant(1),
        Mnemonic::Dec => return constant(-1),
        _ => {}
    }
    if let Some(by) = immediate(encoded, 1) {
        return constant(if is_sum { by } else { by.wrapping_neg() });
    }
    if !is_sum {
        return None;
    }
    match encoded.op_kind(1) {
        OpKind::Register => Some(Source::Sum(Sum {
            base: Some(own),
            index: Some((whole(encoded.op1_register())?, 1)),
            constant: 0,
        })),
        OpKind::Memory => Some(Source::AddLoad {
            from: operand(encoded)?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(&'static [u8]);

    impl Code for Bytes {
        fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
            let start = address.checked_sub(0x1000)? as usize;
            self.0.get(start..start + len as usize)
        }
    }

    fn decoded(bytes: &'static [u8]) -> Instruction {
        decode(&Bytes(bytes), 0x1000).expect("an instruction")
    }

    #[test]
    fn a_store_has_the_address_of_its_operand() {
        // mov %rdx, 0x18(%rax,%rcx,8)
        let store = decoded(&[0x48, 0x89, 0x54, 0xc8, 0x18]);
        let to = Sum {
            base: Some(0),
            index: Some((2, 8)),
            constant: 0x18,
        };
        assert_eq!((store.writes, store.repeats, store.len), (Some(to), 0, 5));
        let (size, from) = (8, Some(1));
        assert_eq!(store.steps, [InstructionEffect::Store { to, size, from }]);
        // movups %xmm0, 0x10(%rbx)
        let store = decoded(&[0x0f, 0x11, 0x43, 0x10]);
        assert_eq!(store.writes, Some(Sum::register(3, 0x10)));
        let word = |offset, from| InstructionEffect::Store {
            to: Sum::register(3, offset),
            size: 8,
            from: Some(from),
        };
        assert_eq!(store.steps, [word(0x10, 16), word(0x18, 17)]);
        // rep stos %rax, (%rdi)
        let store = decoded(&[0xf3, 0x48, 0xab]);
        assert_eq!(
            (store.writes, store.repeats),
            (Some(Sum::register(5, 0)), 8)
        );
    }

    #[test]
    fn arithmetic_on_addresses_is_understood() {
        let set = |bytes, register, source| {
            assert_eq!(
                decoded(bytes).steps,
                [InstructionEffect::Set(register, source)]
            );
        };
        // lea 0x8(%rax,%rax,2), %rcx
        let index = Some((0, 2));
        let sum = Sum {
            index,
            ..Sum::register(0, 8)
        };
        set(&[0x48, 0x8d, 0x4c, 0x40, 0x08], 2, Source::Sum(sum));
        // add $0x10, %rdi
        let sum = Source::Sum(Sum::register(5, 16));
        set(&[0x48, 0x83, 0xc7, 0x10], 5, sum);
        // shl $3, %rax
        set(&[0x48, 0xc1, 0xe0, 0x03], 0, Source::Product(0, 8));
        // mov 0x10(%rip), %rax
        let from = Sum {
            constant: 0x1017,
            ..Sum::default()
        };
        let load = Source::Load { from, size: 8 };
        set(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], 0, load);
        // xor %ebx, %ebx
        set(&[0x31, 0xdb], 3, Source::Sum(Sum::default()));
        // movslq %ecx, %rax
        set(&[0x48, 0x63, 0xc1], 0, Source::Unknown);
        // mov %ecx, %eax
        set(&[0x89, 0xc8], 0, Source::Unknown);
    }

    #[test]
    fn words_are_followed_through_vector_registers() {
        let register = |number| Source::Sum(Sum::register(number, 0));
        // movdqu 0x18(%rbx), %xmm1
        let load = |offset| Source::Load {
            from: Sum::register(3, offset),
            size: 8,
        };
        let loaded = decoded(&[0xf3, 0x0f, 0x6f, 0x4b, 0x18]);
        let expected = [
            InstructionEffect::Set(18, load(0x18)),
            InstructionEffect::Set(19, load(0x20)),
        ];
        assert_eq!(loaded.steps, expected);
        // movq %xmm1, %r14
        let moved = decoded(&[0x66, 0x49, 0x0f, 0x7e, 0xce]);
        assert_eq!(moved.steps, [InstructionEffect::Set(14, register(18))]);
        // movhps %xmm1, 0x18(%rsp)
        let (to, size, from) = (Sum::register(7, 0x18), 8, Some(19));
        let stored = decoded(&[0x0f, 0x17, 0x4c, 0x24, 0x18]);
        assert_eq!(stored.steps, [InstructionEffect::Store { to, size, from }]);
        // punpcklqdq %xmm2, %xmm0
        let joined = decoded(&[0x66, 0x0f, 0x6c, 0xc2]);
        let expected = [
            InstructionEffect::Set(17, register(20)),
            InstructionEffect::Set(16, register(16)),
        ];
        assert_eq!(joined.steps, expected);
        // paddq %xmm2, %xmm0
        let added = decoded(&[0x66, 0x0f, 0xd4, 0xc2]);
        let unknown = |number| InstructionEffect::Set(number, Source::Unknown);
        assert_eq!(added.steps, [unknown(16), unknown(17)]);
    }

    #[test]
    fn control_flow_is_understood() {
        let flows = |bytes| decoded(bytes).flow;
        assert_eq!(flows(&[0xeb, 0x10]), Flow::Jump(0x1012));
        assert_eq!(flows(&[0x74, 0xfe]), Flow::Branch(0x1000));
        assert_eq!(flows(&[0xff, 0xe0]), Flow::Computed);
        assert_eq!(flows(&[0xe8, 0, 0, 0, 0]), Flow::Call);
        assert_eq!(flows(&[0xc3]), Flow::End);
    }
}
