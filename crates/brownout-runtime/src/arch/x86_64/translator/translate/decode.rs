//! Decoding the target's code, one instruction after another.

use crate::translator::translate::Undecodable;
use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// Bytes of the longest instruction.
pub const LONGEST_INSTRUCTION: usize = 15;

/// Decodes code from its beginning on.
pub struct InstructionDecoder<'a>(Decoder<'a>);

impl<'a> InstructionDecoder<'a> {
    /// `code` is at the address `pc`.
    pub fn new(code: &'a [u8], pc: u64) -> Self {
        InstructionDecoder(Decoder::with_ip(64, code, pc, DecoderOptions::NONE))
    }

    /// Decodes the next instruction into `insn`. If that fails, only the address of `insn` is meaningful.
    pub fn decode(&mut self, insn: &mut Instruction) -> Result<(), Undecodable> {
        self.0.decode_out(insn);
        if !insn.is_invalid() {
            return Ok(());
        }
        Err(match self.0.last_error() {
            DecoderError::NoMoreBytes => Undecodable::CutOff,
            _ => Undecodable::Invalid,
        })
    }
}

/// Whether an instruction calls a function of the target.
pub fn is_call(insn: &Instruction) -> bool {
    let calls = matches!(
        insn.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    calls && insn.mnemonic() != Mnemonic::Syscall
}
