//! All instructions of 64-bit mode that the decoder knows.

use crate::arch::instruments::pm::form::{EmulatedForm, Form};
use crate::arch::translator::translate::Analyst;
use crate::instruments::pm::SiteKind;
use iced_x86::{
    Code, CodeSize, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpCodeOperandKind, OpKind, Register,
};
use std::collections::BTreeSet;
use std::format;
use std::string::String;
use std::vec::Vec;

/// An instruction of each code that is decoded and does not branch, with memory wherever that is possible.
fn examples() -> impl Iterator<Item = Instruction> {
    let is_decoded = |code: &Code| {
        let info = code.op_code();
        info.mode64() && info.is_instruction() && info.decoder_option() == DecoderOptions::NONE
    };
    Code::values()
        .filter(is_decoded)
        .map(example)
        .filter(|insn| insn.flow_control() == FlowControl::Next)
}

fn example(code: Code) -> Instruction {
    let mut insn = Instruction::default();
    insn.set_code(code);
    insn.set_code_size(CodeSize::Code64);
    insn.set_memory_base(Register::RBX);
    if code.op_code().can_use_op_mask_register() {
        insn.set_op_mask(Register::K1);
    }
    for (operand, &kind) in (0..).zip(code.op_code().op_kinds()) {
        let name = format!("{kind:?}");
        insn.set_op_kind(
            operand,
            match kind {
                OpCodeOperandKind::es_rDI => OpKind::MemoryESRDI,
                OpCodeOperandKind::seg_rSI => OpKind::MemorySegRSI,
                OpCodeOperandKind::seg_rDI => OpKind::MemorySegRDI,
                _ if name.contains("mem") || name.contains("seg_rBX") => OpKind::Memory,
                _ if name.starts_with("imm") => OpKind::Immediate8,
                _ => OpKind::Register,
            },
        );
        if insn.op_kind(operand) == OpKind::Register {
            insn.set_op_register(operand, register(&name));
        }
        if name.contains("vsib") {
            insn.set_memory_index(Register::ZMM3);
        }
    }
    insn
}

/// A register that suits an operand.
fn register(name: &str) -> Register {
    const SUITABLE: [(&str, Register); 5] = [
        ("zmm", Register::ZMM1),
        ("ymm", Register::YMM1),
        ("xmm", Register::XMM1),
        ("mm_", Register::MM1),
        ("r32", Register::ECX),
    ];
    SUITABLE
        .iter()
        .find(|(part, _)| name.contains(part))
        .map_or(Register::RCX, |&(_, register)| register)
}

/// Whether an instruction writes memory, and whether only sometimes or in parts.
fn writes(insn: &Instruction, factory: &mut InstructionInfoFactory) -> (bool, bool) {
    let mut accesses = factory
        .info(insn)
        .used_memory()
        .iter()
        .map(|used| used.access());
    let conditional = |access| matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite);
    let always = |access| matches!(access, OpAccess::Write | OpAccess::ReadWrite);
    let all: Vec<OpAccess> = accesses.by_ref().collect();
    (
        all.iter()
            .any(|&access| always(access) || conditional(access)),
        all.iter().any(|&access| conditional(access)),
    )
}

fn form(insn: &Instruction) -> Form {
    Form::of(insn, &mut Analyst::new(), false)
}

#[test]
fn an_instruction_that_writes_memory_is_stored_or_refused() {
    let mut factory = InstructionInfoFactory::new();
    let mut seen = 0;
    for insn in examples() {
        let (any, conditional) = writes(&insn, &mut factory);
        if !any {
            continue;
        }
        seen += 1;
        let name = insn.code();
        match form(&insn) {
            Form::Plain {
                kind: SiteKind::Load,
                ..
            }
            | Form::Gather => {
                panic!("{name:?} is taken for a load")
            }
            Form::Plain {
                kind: SiteKind::Store(_) | SiteKind::Captured(_),
                ..
            } => {
                assert!(!conditional, "{name:?} may store nothing, or parts");
            }
            Form::Plain { size, .. } => assert_ne!(size, 0, "{name:?} stores nothing"),
            Form::Emulated(_) | Form::Scatter => {}
        }
    }
    assert!(seen > 500, "only {seen} instructions write memory");
}

#[test]
fn a_write_that_the_decoder_does_not_know_is_carried_out() {
    let insn = example(Code::Clzeroq);
    assert!(!writes(&insn, &mut InstructionInfoFactory::new()).0);
    assert_eq!(form(&insn), Form::Emulated(EmulatedForm::ZeroLine));
}

#[test]
fn only_privileged_and_rare_instructions_are_refused() {
    let mut factory = InstructionInfoFactory::new();
    let refused: BTreeSet<String> = examples()
        .filter(|insn| writes(insn, &mut factory).0)
        .filter(|insn| form(insn) == Form::Emulated(EmulatedForm::Unsupported))
        .map(|insn| format!("{:?}", insn.mnemonic()))
        .collect();
    let expected = [
        // of VIA's and Zhaoxin's processors
        Mnemonic::Ccs_encrypt,
        Mnemonic::Ccs_hash,
        Mnemonic::Xcryptcbc,
        Mnemonic::Xcryptcfb,
        Mnemonic::Xcryptctr,
        Mnemonic::Xcryptecb,
        Mnemonic::Xcryptofb,
        Mnemonic::Xsha1,
        Mnemonic::Xsha256,
        Mnemonic::Xsha512,
        Mnemonic::Xsha512_alt,
        Mnemonic::Xstore,
        Mnemonic::Xstore_alt,
        // to devices
        Mnemonic::Enqcmd,
        Mnemonic::Enqcmds,
        // of the kernel
        Mnemonic::Pbndkb,
        Mnemonic::Rdmsrlist,
        Mnemonic::Xsaves,
        Mnemonic::Xsaves64,
    ];
    assert_eq!(refused, expected.map(|name| format!("{name:?}")).into());
}
