//! Instructions of interest: what the translator asks about each instruction, and what is known of
//! those that have touched a candidate.

use crate::arch::instruments::pm::fast_path::RecordPlan;
use crate::arch::instruments::pm::form::{Form, is_locked};
use crate::arch::translator::translate::{
    Analyst, Treatment, memory_size, number, through_register,
};
use crate::translator::cache::{FastMap, FastSet, UNITS};
use crate::translator::context::Context;
use crate::{memory, wire};
use alloc::vec::Vec;
use brownout_ring::{fence, flush};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use iced_x86::{Code, CodeSize, Instruction, Mnemonic, Register};

/// Sites that a process can have.
const MAX_SITES: u64 = 1 << 20;
static TABLE: AtomicU64 = AtomicU64::new(0);

/// What happens at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// A store of the operand's size, with [`store`] flags.
    Store(u16),
    /// As `Store`, with the value in `Context::vectors`.
    Captured(u16),
    /// A store of those elements that a mask selects, and the elements' size.
    Masked(u16, u8),
    /// A store of as many elements, from the first on, as a mask selects.
    Compressed(u8),
    /// A store that happens if the zero flag is set.
    Conditional(u16),
    /// A store whose extent shows only by comparing memory.
    Area,
    Load,
    /// [`flush`] kind.
    Flush(u16),
    /// [`fence`] kind.
    Fence(u16),
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
    /// `tilestored`: the rows of a tile.
    TileStore,
    /// `tileloadd`.
    TileLoad,
    /// `xlat`.
    Translate,
    /// The target of an indirect branch or a return is read.
    Target,
    /// The first instruction of a watched function; the size is that of its arguments.
    Call,
    /// Where calls of watched functions have returned to; the size is that of a result.
    Return,
    Unsupported,
}

/// An instruction of interest. The first part is known by offset to the assembly in `fast_path`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Site {
    pub pc: u64,
    pub(crate) plan: RecordPlan,
    pub size: u32,
    pub kind: SiteKind,
    pub insn: Instruction,
}

/// Bytes of an entry of the table, as a power of two.
pub(crate) const SITE_SHIFT: u32 = 6;
const _: () = assert!(size_of::<Site>() == 1 << SITE_SHIFT);

pub fn create() {
    TABLE.store(
        memory::map(MAX_SITES * size_of::<Site>() as u64),
        Ordering::Relaxed,
    );
}

/// Address of the table, for contexts.
pub fn table() -> u64 {
    TABLE.load(Ordering::Relaxed)
}

/// The site with a number that generated code was given.
pub fn site(number: u32) -> &'static Site {
    let table = TABLE.load(Ordering::Relaxed) as *const Site;
    // SAFETY: numbers are given out by `Sites::add`, which writes the entry first, and not again before all
    // code that was given the number is gone.
    unsafe { &*table.add(number as usize) }
}

/// The translator's side: which instructions are sites.
///
/// Code in the cache holds numbers of sites, so a number belongs to a unit of the cache and is free again
/// when the unit is.
pub struct Sites {
    count: u32,
    /// Numbers below `count` that no code holds.
    free: Vec<u32>,
    /// The unit that code is emitted to, and the numbers that the code of each unit holds.
    unit: usize,
    of_unit: [Vec<u32>; UNITS],
    /// Instructions that have touched a candidate.
    touched: FastSet<u64>,
    /// The newest site of an instruction, and its unit.
    known: FastMap<u64, (u32, usize)>,
    loads: bool,
}

impl Sites {
    pub fn new() -> Sites {
        Sites {
            count: 0,
            free: Vec::new(),
            unit: 0,
            of_unit: Default::default(),
            touched: FastSet::default(),
            known: FastMap::default(),
            loads: wire::wants_loads(),
        }
    }

    /// From now on code is emitted to this unit of the cache, where there is none.
    pub fn begin_unit(&mut self, unit: usize) {
        self.unit = unit;
        for number in self.of_unit[unit].drain(..) {
            let pc = site(number).pc;
            if self
                .known
                .get(&pc)
                .is_some_and(|&(newest, _)| newest == number)
            {
                self.known.remove(&pc);
            }
            self.free.push(number);
        }
    }

    /// Forgets which instructions of a range have touched candidates: they are gone.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.touched.retain(|pc| !(start..end).contains(pc));
    }

    /// Notes that the instruction at `pc` touched a candidate. False if that was known.
    pub fn touch(&mut self, pc: u64) -> bool {
        self.touched.insert(pc)
    }

    /// Whether calls and returns at `pc` work on a stack in a candidate.
    pub fn stack_is_pm(&self, pc: u64) -> bool {
        self.touched.contains(&pc)
    }

    /// Decides whether loads are recorded, for tests without a recorder.
    #[cfg(test)]
    pub fn record_loads(&mut self, loads: bool) {
        self.loads = loads;
    }

    /// Whether reading a candidate faults, too.
    pub fn observes_loads(&self) -> bool {
        self.loads
    }

    fn add(&mut self, insn: &Instruction, kind: SiteKind, size: u32) -> u32 {
        if let Some(&(number, unit)) = self.known.get(&insn.ip()) {
            let old = site(number);
            if unit == self.unit && old.kind == kind && old.size == size && old.insn == *insn {
                return number;
            }
        }
        let number = self.free.pop().unwrap_or_else(|| {
            if u64::from(self.count) >= MAX_SITES {
                crate::fatal::unsupported(format_args!(
                    "the program has more than {MAX_SITES} places that touch persistent memory"
                ));
            }
            self.count += 1;
            self.count - 1
        });
        self.of_unit[self.unit].push(number);
        let table = TABLE.load(Ordering::Relaxed) as *mut Site;
        // SAFETY: an entry of the table that no generated code knows.
        unsafe {
            table.add(number as usize).write(Site {
                pc: insn.ip(),
                plan: RecordPlan::of(kind, size),
                size,
                kind,
                insn: *insn,
            })
        };
        self.known.insert(insn.ip(), (number, self.unit));
        number
    }

    /// A site for an instruction that the engine cannot run.
    pub fn unsupported(&mut self, insn: &Instruction) -> u32 {
        self.add(insn, SiteKind::Unsupported, 0)
    }

    /// A site for a branch whose target is in a candidate.
    pub fn target(&mut self, insn: &Instruction) -> u32 {
        self.add(insn, SiteKind::Target, 8)
    }

    /// A site for the push of a call.
    pub fn emulated(&mut self, insn: &Instruction) -> u32 {
        self.add(insn, SiteKind::Push, 8)
    }

    /// A site for the start of a watched function with so many arguments.
    pub fn call(&mut self, insn: &Instruction, arguments: u8) -> u32 {
        self.add(insn, SiteKind::Call, 8 * u32::from(arguments))
    }

    /// A site for where watched functions return to.
    pub fn returned(&mut self, insn: &Instruction) -> u32 {
        self.add(insn, SiteKind::Return, 16)
    }

    /// What is to happen around an instruction.
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
            Form::Emulated(kind) => Treatment::Emulate {
                site: self.add(insn, kind, operand),
            },
            Form::Scatter => Treatment::Scatter {
                site: self.add(insn, SiteKind::Scatter, operand),
            },
            Form::Gather => Treatment::Gather {
                site: self.add(insn, SiteKind::Gather, operand),
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

    /// The instruction as it is executed at the alias, and the register that holds the alias.
    pub fn relocated(&self, insn: &Instruction, analyst: &mut Analyst) -> (Instruction, u8) {
        match insn.mnemonic() {
            // Their address is in rdi and nowhere else.
            Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq => (*insn, 7),
            Mnemonic::Movdir64b => {
                let scratch = analyst.scratch(insn);
                let mut changed = *insn;
                changed.set_op0_register(crate::arch::translator::translate::register(scratch));
                (changed, scratch)
            }
            _ => {
                let scratch = analyst.scratch(insn);
                (through_register(insn, scratch), scratch)
            }
        }
    }
}

impl Default for Sites {
    fn default() -> Self {
        Sites::new()
    }
}

/// Where the memory operand of an instruction leads, without the index if that is a vector.
pub fn effective_address(insn: &Instruction, context: &Context) -> u64 {
    if insn.is_ip_rel_memory_operand() {
        return insn.ip_rel_memory_address();
    }
    let value = |register: Register| match register {
        Register::None => 0,
        register => context.gpr[usize::from(number(register))],
    };
    let mut address = value(insn.memory_base());
    if !insn.is_vsib() {
        let index = value(insn.memory_index());
        address = address.wrapping_add(index.wrapping_mul(u64::from(insn.memory_index_scale())));
    }
    address = address.wrapping_add(insn.memory_displacement64());
    let narrow = |register: Register| register != Register::None && register.size() == 4;
    if narrow(insn.memory_base()) || (!insn.is_vsib() && narrow(insn.memory_index())) {
        address &= 0xffff_ffff;
    }
    debug_assert!(insn.code_size() == CodeSize::Code64 && insn.code() != Code::INVALID);
    address.wrapping_add(segment_base(insn.memory_segment(), context))
}

/// The base of a segment: FS is the program's at all times, GS is the engine's while it runs.
pub fn segment_base(segment: Register, context: &Context) -> u64 {
    match segment {
        Register::FS => {
            let base: u64;
            // SAFETY: reads a register; the engine needs this instruction throughout.
            unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
            base
        }
        Register::GS => context.app_gs,
        _ => 0,
    }
}
