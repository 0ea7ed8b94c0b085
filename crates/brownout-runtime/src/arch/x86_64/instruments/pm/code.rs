//! Which instructions are sites of persistent memory, and how each of them is translated.

use super::form::{EmulatedForm, Form, is_locked};
use crate::address_map::FastSet;
use crate::arch::translator::translate::{Analyst, memory_size, register, through_register};
use crate::instruments::events::Sites;
use crate::instruments::pm::site::{SITES, SiteKind};
use crate::wire;
use brownout_ring::{fence, flush};
use iced_x86::{FlowControl, Instruction, Mnemonic};

/// How an instruction is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is copied.
    Copy,
    /// The access is made at the address that the begin routine chooses, and is recorded afterwards.
    Access {
        site: u32,
        size: u32,
        capture: Capture,
    },
    /// The runtime carries the instruction out.
    Emulate { site: u32 },
    /// As `Emulate`; the vectors and the mask of the scatter are saved first.
    Scatter { site: u32 },
    /// A gather: its elements are recorded, then it is made from the base that the runtime chooses.
    Gather { site: u32 },
    /// A flush or fence: recorded before it happens.
    Order { site: u32 },
    /// A locked instruction: recorded before it happens if the thread has something to order.
    Locked { site: u32 },
}

/// What an access leaves in `EventArea::extra` or `EventArea::payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    Nothing,
    /// The zero flag after the instruction.
    ZeroFlag,
    /// A mask register (k1–k7); `wide` if more than its lowest 16 bits count, which only AVX-512BW can move.
    MaskRegister {
        register: u8,
        wide: bool,
    },
    /// The sign bits of the elements of a vector register: its number, and the element size.
    SignBits {
        vector: u8,
        element: u8,
        wide: bool,
    },
    /// The vector register that is stored, with its size: reading back what bypassed the caches is slow.
    Vector {
        register: u8,
        size: u8,
    },
    /// The general register that is stored.
    Register(u8),
    /// The sign bits of the bytes of an MMX register.
    MmxSignBits(u8),
}

/// What the instrument keeps under the translator's lock.
pub struct PmCode {
    sites: Sites<SiteKind>,
    /// Instructions that have touched a candidate.
    touched: FastSet<u64>,
    /// Those of them that have stored to one.
    storing: FastSet<u64>,
    loads: bool,
}

impl PmCode {
    pub fn new() -> PmCode {
        PmCode {
            sites: Sites::new(&SITES),
            touched: FastSet::default(),
            storing: FastSet::default(),
            loads: wire::wants_loads(),
        }
    }

    pub fn begin_unit(&mut self, unit: usize) {
        self.sites.begin_unit(unit);
    }

    /// Forgets which instructions of a range have touched candidates: they are gone.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.touched.retain(|pc| !(start..end).contains(pc));
        self.storing.retain(|pc| !(start..end).contains(pc));
    }

    /// Notes that the instruction at `pc` touched a candidate. False if that was known.
    pub fn touch(&mut self, pc: u64) -> bool {
        self.touched.insert(pc)
    }

    /// Notes that the instruction at `pc` is about to store to a candidate. What was known about it is then out of date.
    pub fn stores(&mut self, pc: u64) {
        if self.storing.insert(pc) {
            self.touched.remove(&pc);
        }
    }

    /// Whether the stack of a branch is a candidate. Calls that have their target in memory mostly touch one only there.
    pub fn has_observed_stack(&self, insn: &Instruction) -> bool {
        if insn.flow_control() == FlowControl::IndirectCall {
            self.storing.contains(&insn.ip())
        } else {
            self.touched.contains(&insn.ip())
        }
    }

    /// Whether the instruction at `pc` has touched a candidate.
    pub fn is_touched(&self, pc: u64) -> bool {
        self.touched.contains(&pc)
    }

    /// Decides whether loads are recorded, for tests without a recorder.
    #[cfg(test)]
    pub fn record_loads(&mut self, loads: bool) {
        self.loads = loads;
    }

    /// From now on loads are recorded.
    pub fn observe_loads(&mut self) {
        self.loads = true;
    }

    /// Whether reading a candidate faults, too.
    pub fn observes_loads(&self) -> bool {
        self.loads
    }

    pub(super) fn add(&mut self, insn: &Instruction, kind: SiteKind, size: u32) -> u32 {
        self.sites.add(insn, kind, size, kind.plan())
    }

    /// How an instruction is translated.
    pub fn treat(&mut self, insn: &Instruction, analyst: &mut Analyst) -> Treatment {
        match insn.mnemonic() {
            Mnemonic::Sfence => return self.ordering(insn, SiteKind::Fence(fence::SFENCE)),
            Mnemonic::Mfence => return self.ordering(insn, SiteKind::Fence(fence::MFENCE)),
            Mnemonic::Clflush => return self.ordering(insn, SiteKind::Flush(flush::CLFLUSH)),
            Mnemonic::Clflushopt => return self.ordering(insn, SiteKind::Flush(flush::CLFLUSHOPT)),
            Mnemonic::Clwb => return self.ordering(insn, SiteKind::Flush(flush::CLWB)),
            _ => {}
        }
        if self.touched.contains(&insn.ip()) {
            return self.access(insn, analyst);
        }
        if is_locked(insn) {
            let site = self.add(insn, SiteKind::Fence(fence::LOCKED), 0);
            return Treatment::Locked { site };
        }
        Treatment::Copy
    }

    fn ordering(&mut self, insn: &Instruction, kind: SiteKind) -> Treatment {
        Treatment::Order {
            site: self.add(insn, kind, 0),
        }
    }

    /// How an instruction that touches candidates is carried out.
    fn access(&mut self, insn: &Instruction, analyst: &mut Analyst) -> Treatment {
        let operand = memory_size(insn) as u32;
        match Form::of(insn, analyst, self.loads) {
            Form::Emulated(form) => Treatment::Emulate {
                site: self.add(insn, SiteKind::Emulated(form), operand),
            },
            Form::Scatter => Treatment::Scatter {
                site: self.add(insn, SiteKind::Emulated(EmulatedForm::Scatter), operand),
            },
            Form::Gather => Treatment::Gather {
                site: self.add(insn, SiteKind::Emulated(EmulatedForm::Gather), operand),
            },
            Form::Plain {
                kind,
                size,
                capture,
            } => Treatment::Access {
                site: self.add(insn, kind, size),
                size,
                capture,
            },
        }
    }
}

impl Default for PmCode {
    fn default() -> Self {
        PmCode::new()
    }
}

/// The instruction as it is executed at the alias, and the register that holds the alias.
pub(super) fn relocated(insn: &Instruction, analyst: &mut Analyst) -> (Instruction, u8) {
    match insn.mnemonic() {
        // Their address is in rdi and nowhere else.
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq => (*insn, 7),
        Mnemonic::Movdir64b => {
            let scratch = analyst.scratch(insn);
            let mut changed = *insn;
            changed.set_op0_register(register(scratch));
            (changed, scratch)
        }
        _ => {
            let scratch = analyst.scratch(insn);
            (through_register(insn, scratch), scratch)
        }
    }
}
