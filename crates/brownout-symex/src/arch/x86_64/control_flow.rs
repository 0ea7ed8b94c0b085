//! The control flow of functions, and their instructions that modify persistent memory.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::pm_guide::CodeStep;

/// Decodes the code of a function that is at an address.
pub fn control_flow(address: u64, code: &[u8]) -> Vec<CodeStep> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut insn = Instruction::default();
    let mut steps = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut insn);
        let flow = insn.flow_control();
        let is_direct = matches!(
            flow,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call
        );
        let ends = matches!(
            flow,
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Interrupt
                | FlowControl::Exception
        );
        steps.push(CodeStep {
            pc: insn.ip(),
            next: (!ends).then(|| insn.next_ip()),
            target: is_direct.then(|| insn.near_branch_target()),
            is_call: matches!(flow, FlowControl::Call | FlowControl::IndirectCall),
            modifies_pm: modifies_pm(insn.mnemonic()),
        });
    }
    steps
}

/// Flushes, fences and non-temporal stores: whatever they concern, it may be persistent memory.
pub fn modifies_pm(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Clflush
            | M::Clflushopt
            | M::Clwb
            | M::Sfence
            | M::Mfence
            | M::Movnti
            | M::Movntdq
            | M::Movntps
            | M::Movntpd
            | M::Vmovntdq
            | M::Vmovntps
            | M::Vmovntpd
            | M::Movdir64b
            | M::Movdiri
    )
}
