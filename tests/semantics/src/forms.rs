//! The instructions of which cases are made: those that leave control where it is, need no privilege, and give the same result each time.

use std::arch::is_x86_feature_detected as has;

use iced_x86::{
    Code, CpuidFeature, DecoderOptions, FlowControl, Mnemonic, OpCodeOperandKind as Kind,
};

/// Whether this CPU has a feature that cases may use.
fn is_available(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    match feature {
        F::INTEL8086 | F::INTEL186 | F::INTEL286 | F::INTEL386 | F::INTEL486 | F::X64 => true,
        F::CMOV | F::MULTIBYTENOP | F::SSE | F::SSE2 => true,
        F::SSE3 => has!("sse3"),
        F::SSSE3 => has!("ssse3"),
        F::SSE4_1 => has!("sse4.1"),
        F::SSE4_2 => has!("sse4.2"),
        F::POPCNT => has!("popcnt"),
        F::LZCNT => has!("lzcnt"),
        F::BMI1 => has!("bmi1"),
        F::BMI2 => has!("bmi2"),
        F::ADX => has!("adx"),
        F::MOVBE => has!("movbe"),
        F::AES => has!("aes"),
        F::PCLMULQDQ => has!("pclmulqdq"),
        F::AVX => has!("avx"),
        F::AVX2 => has!("avx2"),
        F::FMA => has!("fma"),
        F::AVX512F => has!("avx512f"),
        F::AVX512BW => has!("avx512bw"),
        F::AVX512DQ => has!("avx512dq"),
        F::AVX512VL => has!("avx512vl"),
        F::AVX512CD => has!("avx512cd"),
        _ => false,
    }
}

/// Whether vectors have at least 32 bytes.
pub fn has_avx() -> bool {
    has!("avx")
}

/// Whether cases have mask registers and vectors of 64 bytes.
pub fn has_avx512() -> bool {
    has!("avx512f") && has!("avx512bw") && has!("avx512vl")
}

/// All instructions that cases are made of.
pub fn all() -> Vec<Code> {
    Code::values().filter(|&code| is_usable(code)).collect()
}

fn is_usable(code: Code) -> bool {
    let op_code = code.op_code();
    let features = code.cpuid_features();
    code != Code::INVALID
        && op_code.is_instruction()
        && op_code.mode64()
        && !op_code.is_privileged()
        && op_code.decoder_option() == DecoderOptions::NONE
        && matches!(
            code.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        )
        && !code.is_loop()
        && !code.is_loopcc()
        && !code.is_jcx_short()
        && !features.is_empty()
        && features.iter().all(|&feature| is_available(feature))
        && !is_excluded(code.mnemonic())
        && !op_code.op_kinds().iter().any(|&kind| is_left_out(kind))
}

/// Operands that cases do not have.
fn is_left_out(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::mm_or_mem
            | Kind::mm_reg
            | Kind::mm_rm
            | Kind::seg_reg
            | Kind::mem_offs
            | Kind::seg_rBX_al
            | Kind::seg_rDI
            | Kind::st0
            | Kind::sti_opcode
            | Kind::cr_reg
            | Kind::dr_reg
            | Kind::fs
            | Kind::gs
            | Kind::mem_vsib32x
            | Kind::mem_vsib64x
            | Kind::mem_vsib32y
            | Kind::mem_vsib64y
            | Kind::mem_vsib32z
            | Kind::mem_vsib64z
            | Kind::br16_1
            | Kind::br16_2
            | Kind::br32_1
            | Kind::br32_4
    )
}

/// Instructions whose effects depend on more than their operands, or that would change how the host runs.
fn is_excluded(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    let name = format!("{mnemonic:?}");
    let starts = ["F", "Pushf", "Popf", "Jk", "Ins", "Outs"];
    starts.iter().any(|start| name.starts_with(start))
        || matches!(
            mnemonic,
            M::Enter
                | M::In
                | M::Out
                | M::Hlt
                | M::Cli
                | M::Sti
                | M::Cld
                | M::Std
                | M::Ldmxcsr
                | M::Vldmxcsr
                | M::Stmxcsr
                | M::Vstmxcsr
                | M::Lar
                | M::Lsl
                | M::Verr
                | M::Verw
                | M::Smsw
                | M::Sldt
                | M::Str
                | M::Sgdt
                | M::Sidt
                | M::Lss
                | M::Lfs
                | M::Lgs
                | M::Invlpg
                | M::Wbinvd
                | M::Clts
                | M::Nop
                | M::Pause
                | M::Xlatb
                | M::Int1
                | M::Reservednop
                | M::Rsm
                | M::Wait
        )
}
