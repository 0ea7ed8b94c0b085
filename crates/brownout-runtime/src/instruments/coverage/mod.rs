//! The instrument that counts how often the target's blocks are entered and how often its conditional branches are
//! not taken.
//!
//! Each translation of a block gets a counter, and so does each conditional branch in it (`tables`). From the counts
//! follow those of all instructions, and of both edges of each conditional branch: it was taken as often as it was executed
//! and not counted as fallen through. Each thread counts in memory of its own that it shares with the recorder, so that the
//! counts are exact and survive the target.
//!
//! A block counts as a whole when it is entered. If a fault or a signal stops a thread inside a block, the rest of the
//! block is counted as interrupted, and counts as a block of its own if the thread continues there.
//!
//! What it can miss: where an indirect branch went is not counted by pairs of blocks. Generated code is one counter.
//! The last block that a killed thread entered counts as a whole. If the tables are full, further blocks are not
//! counted; the recorder learns how many.

mod tables;

use crate::address_map::FastMap;
use crate::arch::instruments::coverage::count;
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction};
use crate::instruments::Instrument;
use crate::memory;
use crate::slot;
use crate::sys;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::wire;
use alloc::vec::Vec;
use brownout_ring::coverage::{self as layout, kind};
use tables::Tables;

/// The instrument.
pub struct CoverageCounts;

/// What a thread keeps for the instrument. Known by offset to generated code.
#[repr(C)]
pub struct CoverageArea {
    /// Address of the thread's counts.
    pub counts: u64,
    /// Counter of the block that the thread entered last; 0 if none is known.
    pub block: u64,
}

/// Code of a file, as it is mapped now.
#[derive(Clone, Copy)]
struct MappedModule {
    start: u64,
    end: u64,
    /// Index in the table of modules.
    index: u32,
}

/// The block that is being translated.
#[derive(Clone, Copy)]
struct OpenBlock {
    counter: u32,
    start: u64,
    /// Index in the table of modules.
    module: u32,
}

/// What is known of counted code.
#[derive(Default)]
pub struct CoverageCode {
    /// `None` if nothing is counted.
    tables: Option<Tables>,
    modules: Vec<MappedModule>,
    open: Option<OpenBlock>,
    /// Counters of interrupted blocks, by where they were interrupted and where they end.
    interrupted: FastMap<(u64, u64), u32>,
    /// Where the counts of slots are mapped.
    counts: Vec<(usize, u64)>,
}

impl CoverageCode {
    /// The module at `pc`. Of several that overlap, the one mapped last.
    fn module_at(&self, pc: u64) -> Option<u32> {
        let modules = self.modules.iter().rev();
        let mut found = modules.filter(|module| (module.start..module.end).contains(&pc));
        found.next().map(|module| module.index)
    }

    /// The counter for the rest, from `pc` on, of the block that `counter` counts.
    fn interrupted(&mut self, counter: u32, pc: u64) -> Option<u32> {
        let tables = self.tables.as_ref()?;
        let (module, block) = tables.code_of(counter);
        if !block.contains(&pc) {
            return None;
        }
        let key = (pc, block.end);
        if let Some(&known) = self.interrupted.get(&key) {
            return Some(known);
        }
        let new = tables.allot(kind::INTERRUPTED, module, pc..block.end)?;
        self.interrupted.insert(key, new);
        Some(new)
    }

    /// Where the counts of a thread with this slot are.
    fn counts(&mut self, slot: Option<usize>) -> u64 {
        let Some(tables) = &self.tables else {
            return 0;
        };
        let known = |slot: usize| self.counts.iter().find(|&&(index, _)| index == slot);
        if let Some(&(_, counts)) = slot.and_then(known) {
            return counts;
        }
        let mapped = slot.and_then(|slot| {
            let offset = layout::counts_offset(slot);
            let counts = wire::map(wire::READ_WRITE, offset, layout::COUNTS_BYTES)?;
            Some((slot, counts))
        });
        match mapped {
            Some((slot, counts)) => {
                self.counts.push((slot, counts));
                counts
            }
            None => {
                // The thread counts in memory that nobody reads.
                tables.add_uncounted();
                memory::map(layout::COUNTS_BYTES as u64)
            }
        }
    }
}

/// Gives a thread its counts.
fn connect(context: &mut Context) {
    if !wire::wants_coverage() {
        return;
    }
    let slot = context.wire.slot_index();
    context.areas.coverage = CoverageArea {
        counts: with_translator(|translator| translator.instrumented.coverage.counts(slot)),
        block: 0,
    };
}

impl Instrument for CoverageCounts {
    type Area = CoverageArea;
    type Code = CoverageCode;

    fn area() -> CoverageArea {
        CoverageArea {
            counts: 0,
            block: 0,
        }
    }

    fn code() -> CoverageCode {
        CoverageCode {
            tables: wire::wants_coverage().then(Tables::map).flatten(),
            ..CoverageCode::default()
        }
    }

    fn process_started(context: &mut Context) {
        connect(context);
    }

    fn thread_started(context: &mut Context) {
        connect(context);
    }

    fn forget_code(code: &mut CoverageCode, start: u64, end: u64) {
        (code.modules).retain(|module| module.start < start || module.end > end);
        (code.interrupted).retain(|(pc, _), _| !(start..end).contains(pc));
    }

    #[inline]
    fn block(code: &mut CoverageCode, pc: u64, out: &mut Emission<'_>) {
        let Some(tables) = &code.tables else { return };
        code.open = None;
        let counter = match code.module_at(pc) {
            None => Some(layout::NO_MODULE),
            Some(module) => {
                let counter = tables.allot(kind::BLOCK, module, pc..pc);
                code.open = counter.map(|counter| OpenBlock {
                    counter,
                    start: pc,
                    module,
                });
                counter
            }
        };
        if let Some(counter) = counter {
            count(out, counter);
        }
        out.set_slot(
            slot!(areas.coverage.block),
            u64::from(counter.unwrap_or(layout::NO_MODULE)),
        );
    }

    #[inline]
    fn before(code: &mut CoverageCode, insn: &Instruction, _out: &mut Emission<'_>) {
        if let (Some(block), Some(tables)) = (code.open, &code.tables) {
            tables.extend(block.counter, block.start..arch::next_pc(insn));
        }
    }

    #[inline]
    fn fall_through(code: &mut CoverageCode, insn: &Instruction, out: &mut Emission<'_>) {
        if let (Some(block), Some(tables)) = (code.open, &code.tables) {
            let branch = arch::pc(insn)..arch::next_pc(insn);
            if let Some(counter) = tables.allot(kind::FALL_THROUGH, block.module, branch) {
                count(out, counter);
            }
        }
    }

    fn interrupted(context: &mut Context) {
        let block = core::mem::take(&mut context.areas.coverage.block);
        if block == 0 {
            return;
        }
        let counter = with_translator(|translator| {
            let code = &mut translator.instrumented.coverage;
            code.interrupted(block as u32, context.pc)
        });
        if let Some(counter) = counter {
            let word = (context.areas.coverage.counts as *mut u64).wrapping_add(counter as usize);
            // SAFETY: a thread that has entered a block has counts, of `COUNTERS` words; no other thread uses them, and
            // this one is not in generated code.
            unsafe { word.write(word.read().wrapping_add(1)) };
        }
    }

    fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
        if !wire::wants_coverage() {
            return;
        }
        let mut buffer = [0u8; layout::MAX_PATH];
        let path = sys::fd_path(fd, &mut buffer).unwrap_or_default();
        with_translator(|translator| {
            let code = &mut translator.instrumented.coverage;
            let added = (code.tables.as_ref()).and_then(|it| it.add_module(start, offset, path));
            code.modules.extend(added.map(|index| MappedModule {
                start,
                end: start + len,
                index,
            }));
        });
    }
}
