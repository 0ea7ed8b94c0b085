//! The forms of instructions that touch candidates: what each of them stores, and how it is carried out so that
//! this is known.
//!
//! Every instruction that writes memory has a form. An instruction that is not supported is refused by its name;
//! what an instruction stores is never guessed. The tests go through all instructions.

use super::code::Capture;
use crate::arch::translator::translate::{Access, Analyst, has_memory, memory_size, number};
use crate::instruments::pm::site::SiteKind;
use brownout_ring::store;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// The instructions that the runtime carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatedForm {
    String,
    Push,
    Enter,
    Pop,
    BitString,
    Scatter,
    Gather,
    Leave,
    PopFlags,
    /// `movdir64b`.
    Line,
    /// `clzero`: its address is in rax and nowhere else.
    ZeroLine,
    /// `tilestored`: the rows of a tile.
    TileStore,
    /// `tileloadd`.
    TileLoad,
    /// `xlat`.
    Translate,
    /// The target of an indirect branch or a return is read.
    Target,
    /// Refused by its name.
    Unsupported,
}

/// How an instruction is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By the runtime.
    Emulated(EmulatedForm),
    Scatter,
    Gather,
    /// By the CPU, at the alias.
    Plain {
        kind: SiteKind,
        size: u32,
        capture: Capture,
    },
}

/// The most bytes that an access of unknown extent may touch.
pub const AREA: u32 = 16 << 10;

impl Form {
    /// The form of an instruction; with `loads` if those are observed, too.
    pub fn of(insn: &Instruction, analyst: &mut Analyst, loads: bool) -> Form {
        if insn.is_string_instruction() {
            return Form::Emulated(EmulatedForm::String);
        }
        match insn.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushf | Mnemonic::Pushfq => {
                Form::Emulated(EmulatedForm::Push)
            }
            Mnemonic::Pop => Form::Emulated(EmulatedForm::Pop),
            Mnemonic::Enter => Form::Emulated(EmulatedForm::Enter),
            Mnemonic::Leave => Form::Emulated(EmulatedForm::Leave),
            Mnemonic::Xlatb => Form::Emulated(EmulatedForm::Translate),
            // The CPU can carry it out only if its source operand can stay as it is.
            Mnemonic::Movdir64b
                if loads
                    || insn.code() == Code::Movdir64b_r32_m512
                    || insn.is_ip_rel_memory_operand()
                    || insn.memory_segment() == Register::GS =>
            {
                Form::Emulated(EmulatedForm::Line)
            }
            Mnemonic::Clzero => Form::Emulated(EmulatedForm::ZeroLine),
            Mnemonic::Popf | Mnemonic::Popfq => Form::Emulated(EmulatedForm::PopFlags),
            Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc | Mnemonic::Bt
                if insn.op1_kind() == OpKind::Register =>
            {
                Form::Emulated(EmulatedForm::BitString)
            }
            // What it does depends on the device there.
            Mnemonic::Enqcmd | Mnemonic::Enqcmds => Form::Emulated(EmulatedForm::Unsupported),
            Mnemonic::Tilestored => Form::Emulated(EmulatedForm::TileStore),
            Mnemonic::Tileloadd | Mnemonic::Tileloaddt1 => Form::Emulated(EmulatedForm::TileLoad),
            _ if insn.is_vsib() && analyst.access(insn).writes => Form::Scatter,
            _ if insn.is_vsib() => Form::Gather,
            _ => Form::plain(insn, analyst, loads),
        }
    }

    fn plain(insn: &Instruction, analyst: &mut Analyst, loads: bool) -> Form {
        let Access { reads, writes } = analyst.access(insn);
        let modifies = if loads && reads { store::MODIFIES } else { 0 };
        let flags = store_flags(insn) | modifies;
        let size = memory_size(insn) as u32;
        let element = insn.memory_size().element_size().max(1) as u8;
        let plain = |kind, size, capture| Form::Plain {
            kind,
            size,
            capture,
        };
        match insn.mnemonic() {
            Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => {
                plain(SiteKind::Conditional(flags), size, Capture::ZeroFlag)
            }
            Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
                let capture = Capture::SignBits {
                    vector: vector(insn.op2_register()),
                    element: 1,
                    wide: false,
                };
                plain(SiteKind::Masked(flags, 1), 16, capture)
            }
            Mnemonic::Maskmovq => {
                let capture = Capture::MmxSignBits(vector(insn.op2_register()));
                plain(SiteKind::Masked(flags, 1), 8, capture)
            }
            Mnemonic::Vmaskmovps
            | Mnemonic::Vmaskmovpd
            | Mnemonic::Vpmaskmovd
            | Mnemonic::Vpmaskmovq
                if writes =>
            {
                let capture = Capture::SignBits {
                    vector: vector(insn.op1_register()),
                    element,
                    wide: insn.op1_register().is_ymm(),
                };
                plain(SiteKind::Masked(flags, element), size, capture)
            }
            // The extent depends on the CPU's state components: it is found by comparing memory.
            Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64 => plain(SiteKind::Area, AREA, Capture::Nothing),
            Mnemonic::Movdir64b => plain(SiteKind::Store(flags), 64, Capture::Nothing),
            // Its address or its size is unknown.
            _ if !has_memory(insn) || size == 0 => Form::Emulated(EmulatedForm::Unsupported),
            _ if !writes => plain(SiteKind::Load, size, Capture::Nothing),
            _ if insn.has_op_mask() => {
                let capture = Capture::MaskRegister {
                    register: (insn.op_mask() as u32 - Register::K0 as u32) as u8,
                    wide: size / u32::from(element) > 16,
                };
                let kind = if is_compressing(insn.mnemonic()) {
                    SiteKind::Compressed(element)
                } else {
                    SiteKind::Masked(flags, element)
                };
                plain(kind, size, capture)
            }
            _ if flags & store::NON_TEMPORAL != 0 => match stored_register(insn) {
                Some(capture) => plain(SiteKind::Captured(flags), size, capture),
                None => plain(SiteKind::Store(flags), size, Capture::Nothing),
            },
            _ => plain(SiteKind::Store(flags), size, Capture::Nothing),
        }
    }
}

/// How to capture the register that a non-temporal store stores.
fn stored_register(insn: &Instruction) -> Option<Capture> {
    let register = insn.op1_register();
    if register.is_vector_register() {
        Some(Capture::Vector {
            register: vector(register),
            size: register.size() as u8,
        })
    } else if register.is_gpr() {
        Some(Capture::Register(number(register)))
    } else {
        None
    }
}

fn vector(register: Register) -> u8 {
    register.number() as u8
}

pub(crate) fn is_locked(insn: &Instruction) -> bool {
    has_memory(insn) && (insn.has_lock_prefix() || insn.mnemonic() == Mnemonic::Xchg)
}

fn is_compressing(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Vpcompressb
            | Mnemonic::Vpcompressw
            | Mnemonic::Vpcompressd
            | Mnemonic::Vpcompressq
            | Mnemonic::Vcompressps
            | Mnemonic::Vcompresspd
    )
}

fn store_flags(insn: &Instruction) -> u16 {
    match insn.mnemonic() {
        Mnemonic::Movnti
        | Mnemonic::Movntq
        | Mnemonic::Movntdq
        | Mnemonic::Movntps
        | Mnemonic::Movntpd
        | Mnemonic::Movntss
        | Mnemonic::Movntsd
        | Mnemonic::Vmovntdq
        | Mnemonic::Vmovntps
        | Mnemonic::Vmovntpd
        | Mnemonic::Maskmovq
        | Mnemonic::Maskmovdqu
        | Mnemonic::Vmaskmovdqu => store::NON_TEMPORAL,
        Mnemonic::Movdiri | Mnemonic::Movdir64b => store::DIRECT,
        _ if is_locked(insn) => store::LOCKED,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
