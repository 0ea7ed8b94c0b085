//! Words that pass through vector registers: compilers copy structs of two words, such as object identifiers, with one load and one
//! store.
//!
//! Registers wider than two words are not followed.

use iced_x86::{Instruction as Encoded, Mnemonic, OpKind, Register};

use super::instructions::{GENERAL_REGISTERS, operand, whole};
use crate::arch::{InstructionEffect, Source, Sum};

const WORD: i64 = 8;
const FOLLOWED: usize = 16;

/// The number of the low word of a vector register; that of its second word follows.
pub(super) fn low_word(register: Register) -> Option<u16> {
    let is_vector = register.is_xmm() || register.is_ymm() || register.is_zmm();
    let number = register.number();
    (is_vector && number < FOLLOWED).then(|| (GENERAL_REGISTERS + 2 * number) as u16)
}

/// What an instruction that moves words of vector registers does; empty for other instructions.
pub(super) fn steps(encoded: &Encoded) -> Vec<InstructionEffect> {
    moved(encoded).unwrap_or_default()
}

fn moved(encoded: &Encoded) -> Option<Vec<InstructionEffect>> {
    let two_words = |register: Register| low_word(register).filter(|_| register.is_xmm());
    let vector = |index| {
        let is_register = encoded.op_kind(index) == OpKind::Register;
        is_register.then(|| two_words(encoded.op_register(index)))?
    };
    let copy = |register| Source::Sum(Sum::register(register, 0));
    match encoded.mnemonic() {
        Mnemonic::Movups
        | Mnemonic::Movupd
        | Mnemonic::Movaps
        | Mnemonic::Movapd
        | Mnemonic::Movdqu
        | Mnemonic::Movdqa
        | Mnemonic::Vmovups
        | Mnemonic::Vmovupd
        | Mnemonic::Vmovaps
        | Mnemonic::Vmovapd
        | Mnemonic::Vmovdqu
        | Mnemonic::Vmovdqa => {
            let words = match (vector(0), vector(1)) {
                (Some(to), Some(from)) => {
                    [0, 1].map(|word| InstructionEffect::Set(to + word, copy(from + word)))
                }
                (Some(to), None) => {
                    let from = operand(encoded)?;
                    [load(to, from, 0), load(to + 1, from, WORD)]
                }
                (None, Some(from)) => {
                    let to = operand(encoded)?;
                    [store(to, 0, from), store(to, WORD, from + 1)]
                }
                (None, None) => return None,
            };
            Some(words.to_vec())
        }
        Mnemonic::Movq | Mnemonic::Vmovq => {
            let zeroed = |to: u16| InstructionEffect::Set(to + 1, Source::Sum(Sum::default()));
            Some(match (vector(0), vector(1)) {
                (Some(to), Some(from)) => vec![InstructionEffect::Set(to, copy(from)), zeroed(to)],
                (Some(to), None) if encoded.op_kind(1) == OpKind::Register => {
                    vec![
                        InstructionEffect::Set(to, copy(whole(encoded.op1_register())?)),
                        zeroed(to),
                    ]
                }
                (Some(to), None) => vec![load(to, operand(encoded)?, 0), zeroed(to)],
                (None, Some(from)) if encoded.op_kind(0) == OpKind::Register => {
                    vec![InstructionEffect::Set(
                        whole(encoded.op0_register())?,
                        copy(from),
                    )]
                }
                (None, Some(from)) => vec![store(operand(encoded)?, 0, from)],
                (None, None) => return None,
            })
        }
        Mnemonic::Movhps | Mnemonic::Movhpd | Mnemonic::Movlps | Mnemonic::Movlpd => {
            let is_high = matches!(encoded.mnemonic(), Mnemonic::Movhps | Mnemonic::Movhpd);
            let word = u16::from(is_high);
            Some(match (vector(0), vector(1)) {
                // The other word stays.
                (Some(to), None) => {
                    let loaded = load(to + word, operand(encoded)?, 0);
                    vec![
                        loaded,
                        InstructionEffect::Set(to + 1 - word, copy(to + 1 - word)),
                    ]
                }
                (None, Some(from)) => vec![store(operand(encoded)?, 0, from + word)],
                _ => return None,
            })
        }
        Mnemonic::Punpcklqdq => {
            let (to, from) = (vector(0)?, vector(1)?);
            Some(vec![
                InstructionEffect::Set(to + 1, copy(from)),
                InstructionEffect::Set(to, copy(to)),
            ])
        }
        Mnemonic::Punpckhqdq => {
            let (to, from) = (vector(0)?, vector(1)?);
            Some(vec![
                InstructionEffect::Set(to, copy(to + 1)),
                InstructionEffect::Set(to + 1, copy(from + 1)),
            ])
        }
        _ => None,
    }
}

fn load(register: u16, from: Sum, behind: i64) -> InstructionEffect {
    let from = Sum {
        constant: from.constant.wrapping_add(behind),
        ..from
    };
    let size = WORD as u64;
    InstructionEffect::Set(register, Source::Load { from, size })
}

fn store(to: Sum, behind: i64, register: u16) -> InstructionEffect {
    InstructionEffect::Store {
        to: Sum {
            constant: to.constant.wrapping_add(behind),
            ..to
        },
        size: WORD as u64,
        from: Some(register),
    }
}
