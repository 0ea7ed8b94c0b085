//! The translator: copies the target's code into the cache, changing only what must change.
//!
//! An instruction is copied byte for byte unless it is one of:
//!
//! 1. *Control flow.* Direct branches go to the copy of their target, through a stub until that exists.
//!    Calls push the target's return address and then really `call`, so that the CPU's return
//!    predictor works; returns look up the copy of their target and really `ret`. (`branch`)
//! 2. *RIP-relative operands.* The displacement is adjusted; if the target is out of reach the address
//!    is put into a spare register. (`Translator::copy`)
//! 3. *System calls*, which go through the gate.
//! 4. *GS.* The register is the engine's; operands and `rdgsbase`/`wrgsbase` use the target's value.
//!    What needs the register itself (its selector, implicit operands) is not supported.
//! 5. *`xbegin`*, which always aborts: a legal outcome at any time.
//! 6. *What an instrument replaces.* Instruments can also emit code at the start of blocks and before
//!    instructions. (`Emission`, [`crate::instruments::Instrument`])
//!
//! A fragment is a run of code along fall-through paths and unconditional jumps, with entries at each
//! block. What is known about it for signals and invalidation is in [`crate::translator::cache::Fragment`].

mod branch;
mod checked;
mod emission;
mod emit;
mod operand;

pub use branch::{refuse, restore_spilled};
pub use emission::{Emission, emit_miss_routines, patch_branch};
pub use emit::{Emitter, MemoryOperand};
pub use operand::{
    Access, Analyst, has_memory, memory, memory_size, number, register, through_register,
};

use crate::hooks::InstrumentedCode;
use crate::translator::cache::{CACHE, Cache, Draft, JUMP_MISS, Link, set_hash_entry};
use crate::translator::space;
use alloc::vec::Vec;
use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// Blocks and instructions after which a fragment ends.
const MAX_BLOCKS: usize = 24;
const MAX_INSTRUCTIONS: usize = 220;

pub struct Translator {
    pub cache: Cache,
    pub analyst: Analyst,
    pub instrumented: InstrumentedCode,
}

/// There is no code at an address, or not all of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotExecutable;

/// A fragment in the making.
struct Work<'a> {
    cache: &'a mut Cache,
    instrumented: &'a mut InstrumentedCode,
    emission: Emission<'a>,
    links: Vec<(u32, Link)>,
    /// Return points: they may be found by other threads only once the code behind them is there.
    returns: Vec<(u64, u64)>,
}

/// How a fragment continues after an instruction.
enum Next {
    /// With the next instruction.
    Straight,
    /// With a new block at this address.
    Block(u64),
    End,
}

impl Translator {
    pub fn new() -> Translator {
        let cache = Cache::create();
        // A slot of the hash table that was never written looks like one for address 0.
        set_hash_entry(0, CACHE + JUMP_MISS);
        Translator {
            cache,
            analyst: Analyst::new(),
            instrumented: InstrumentedCode::new(),
        }
    }

    /// The block entry for `pc`, translating if need be.
    pub fn block(&mut self, pc: u64) -> Result<u64, NotExecutable> {
        if let Some(at) = self.cache.block(pc) {
            return Ok(at);
        }
        self.translate(pc, |_| {})
    }

    /// The entry for indirect jumps to `pc`: expects rcx in its spill slot.
    pub fn jump_entry(&mut self, pc: u64) -> Result<u64, NotExecutable> {
        self.spilled_entries(pc).map(|(_, jump)| jump)
    }

    /// The entry for indirect calls to `pc`: as for jumps, with one more word on the stack.
    pub fn indirect_call_entry(&mut self, pc: u64) -> Result<u64, NotExecutable> {
        self.spilled_entries(pc).map(|(call, _)| call)
    }

    fn spilled_entries(&mut self, pc: u64) -> Result<(u64, u64), NotExecutable> {
        let mut entries = (0, 0);
        let mut prologue = |out: &mut Emitter| {
            entries.0 = out.here();
            out.drop_stack_word();
            entries.1 = out.here();
            out.gs_load(1, crate::slot!(cpu.spill_rcx));
        };
        self.with_prologue(pc, &mut prologue)?;
        Ok(entries)
    }

    /// The entry for direct calls to `pc`: expects one more word on the stack.
    pub fn call_entry(&mut self, pc: u64) -> Result<u64, NotExecutable> {
        if let Some(at) = self.cache.call_entry(pc) {
            return Ok(at);
        }
        let mut entry = 0;
        self.with_prologue(pc, &mut |out: &mut Emitter| {
            entry = out.here();
            out.drop_stack_word();
        })?;
        self.cache.define_call_entry(pc, entry);
        Ok(entry)
    }

    /// Emits a prologue that falls into the block for `pc`, or jumps there if it exists.
    fn with_prologue(
        &mut self,
        pc: u64,
        prologue: &mut dyn FnMut(&mut Emitter),
    ) -> Result<(), NotExecutable> {
        if let Some(block) = self.cache.block(pc) {
            self.make_room();
            // Making room may have retired the very block.
            if self.cache.block(pc) == Some(block) {
                let mut out = self.cache.emitter();
                prologue(&mut out);
                out.jmp(block);
                self.cache.skip_to(out.here());
                return Ok(());
            }
        }
        self.translate(pc, prologue).map(|_| ())
    }

    /// Makes room for a fragment.
    fn make_room(&mut self) {
        if let Some(unit) = self.cache.make_room() {
            self.instrumented.begin_unit(unit);
        }
    }

    /// Forgets what was learnt of instructions in a range whose code is gone.
    pub fn forget_instructions(&mut self, start: u64, end: u64) {
        self.instrumented.forget(start, end);
        (self.cache.far_branches).retain(|pc| !(start..end).contains(pc));
    }

    fn translate(
        &mut self,
        pc: u64,
        prologue: impl FnOnce(&mut Emitter),
    ) -> Result<u64, NotExecutable> {
        code_at(pc)?;
        self.make_room();
        let mut out = self.cache.emitter();
        let start = out.here();
        prologue(&mut out);
        let first = out.here();
        let mut work = Work {
            cache: &mut self.cache,
            instrumented: &mut self.instrumented,
            emission: Emission {
                analyst: &mut self.analyst,
                out,
                draft: Draft::new(start, pc),
            },
            links: Vec::new(),
            returns: Vec::new(),
        };
        work.fragment(pc);
        let Work {
            emission: Emission { out, draft, .. },
            links,
            returns,
            ..
        } = work;
        let end = out.here();
        let numbers = links.iter().map(|(number, _)| *number).collect();
        self.cache.commit(draft.finish(end, numbers), end);
        for (number, link) in links {
            self.cache.add_link(number, link);
        }
        for (pc, at) in returns {
            crate::translator::cache::set_jump_entry(pc, at);
        }
        Ok(first)
    }
}

impl Default for Translator {
    fn default() -> Self {
        Translator::new()
    }
}

/// The code from `pc` on, if at least the first instruction is all there.
fn code_at(pc: u64) -> Result<&'static [u8], NotExecutable> {
    const LONGEST: usize = 15;
    let end = space::code_end(pc).ok_or(NotExecutable)?;
    // SAFETY: the target's mapping [pc, end) is readable: the space table says it is executable,
    // and execute-only mappings are made readable too.
    let bytes = unsafe { core::slice::from_raw_parts(pc as *const u8, (end - pc) as usize) };
    if bytes.len() < LONGEST {
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        let first = decoder.decode();
        if first.is_invalid() && decoder.last_error() == DecoderError::NoMoreBytes {
            return Err(NotExecutable);
        }
    }
    Ok(bytes)
}

impl Work<'_> {
    fn fragment(&mut self, pc: u64) {
        let mut next = pc;
        let mut instructions = 0;
        for blocks in 0.. {
            if blocks > 0 {
                let known = self.cache.block(next).is_some();
                let spent = blocks >= MAX_BLOCKS || instructions >= MAX_INSTRUCTIONS;
                if known || spent || !self.emission.draft.covers(next) || code_at(next).is_err() {
                    self.jump_to(next);
                    break;
                }
            }
            match self.block(next, &mut instructions) {
                Some(following) => next = following,
                None => break,
            }
        }
        self.emit_link_stubs();
    }

    /// Translates one block and returns where the fragment continues, if it does.
    fn block(&mut self, pc: u64, instructions: &mut usize) -> Option<u64> {
        self.define_block(pc);
        let bytes = code_at(pc).unwrap_or_default();
        space::protect_code(pc, pc + bytes.len() as u64);
        let checked = space::is_checked(pc);
        if checked {
            self.emission.check_block(pc, bytes);
        }
        self.instrumented.block(pc, &mut self.emission);
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        let mut insn = Instruction::default();
        loop {
            decoder.decode_out(&mut insn);
            *instructions += 1;
            if insn.is_invalid() {
                self.invalid(&insn, decoder.last_error());
                return None;
            }
            let code = &bytes[(insn.ip() - pc) as usize..(insn.next_ip() - pc) as usize];
            // One copy of each call site, or its returns would be mispredicted.
            let is_call = matches!(
                insn.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            ) && insn.mnemonic() != Mnemonic::Syscall;
            if is_call && insn.ip() != pc {
                if self.cache.block(insn.ip()).is_some() {
                    return Some(insn.ip());
                }
                self.define_block(insn.ip());
                self.instrumented.block(insn.ip(), &mut self.emission);
            }
            self.emission
                .draft
                .boundary(self.emission.out.here(), insn.ip(), insn.len());
            self.instrumented.before(&insn, &mut self.emission);
            match self.instruction(&insn, code) {
                Next::Straight if instructions.is_multiple_of(MAX_INSTRUCTIONS) => {
                    self.jump_to(insn.next_ip());
                    return None;
                }
                Next::Straight if checked && self.emission.ends_checked(&insn, pc) => {
                    return Some(insn.next_ip());
                }
                Next::Straight => {}
                Next::Block(following) => return Some(following),
                Next::End => return None,
            }
        }
    }

    fn define_block(&mut self, pc: u64) {
        self.cache.define_block(pc, self.emission.out.here());
        self.emission.draft.entries.push(pc);
    }

    fn instruction(&mut self, insn: &Instruction, code: &[u8]) -> Next {
        match insn.mnemonic() {
            Mnemonic::Syscall => return self.syscall(insn),
            Mnemonic::Xbegin => return self.abort_transaction(insn),
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase => {
                self.gs_base(insn);
                return Next::Straight;
            }
            _ if operand::needs_real_gs(insn) => return self.unsupported(insn),
            _ => {}
        }
        match insn.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => {
                if !self.instrumented.replace(insn, code, &mut self.emission) {
                    self.emission.copy(insn, code);
                }
                Next::Straight
            }
            FlowControl::Exception | FlowControl::Interrupt => {
                self.emission.out.put(code);
                if insn.mnemonic() == Mnemonic::Ud2 {
                    Next::End
                } else {
                    Next::Straight
                }
            }
            _ => self.branch(insn),
        }
    }

    /// An undecodable instruction faults when it is reached, as it would have done in place. Of one that is
    /// cut off by the end of the code, the rest may be there by then.
    fn invalid(&mut self, insn: &Instruction, error: DecoderError) {
        self.emission
            .draft
            .boundary(self.emission.out.here(), insn.ip(), 1);
        if error == DecoderError::NoMoreBytes {
            self.emission.out.gs_store_imm(crate::slot!(pc), insn.ip());
            self.emission.out.jmp_gs(crate::slot!(to_resync));
        } else {
            self.emission.out.put(&[0x0f, 0x0b]);
        }
    }

    fn gs_base(&mut self, insn: &Instruction) {
        let reg = number(insn.op0_register());
        match insn.code() {
            Code::Rdgsbase_r64 => self.emission.out.gs_load(reg, crate::slot!(cpu.target_gs)),
            Code::Rdgsbase_r32 => {
                self.emission.out.gs_load(reg, crate::slot!(cpu.target_gs));
                // mov r32, r32 clears the upper half
                if reg >= 8 {
                    self.emission.out.put(&[0x45]);
                }
                self.emission
                    .out
                    .put(&[0x89, 0xc0 | (reg & 7) << 3 | reg & 7]);
            }
            Code::Wrgsbase_r32 => {
                self.emission
                    .out
                    .gs_store_imm(crate::slot!(cpu.target_gs), 0);
                self.emission.out.put(&[
                    0x65,
                    0x40 | (reg >> 3) << 2,
                    0x89,
                    0x04 | (reg & 7) << 3,
                    0x25,
                ]);
                self.emission
                    .out
                    .put_u32(crate::slot!(cpu.target_gs) as u32);
            }
            _ => self.emission.out.gs_store(crate::slot!(cpu.target_gs), reg),
        }
    }

    fn syscall(&mut self, insn: &Instruction) -> Next {
        // rcx and r11 are the kernel's to destroy.
        self.emission.out.mov_imm(1, insn.next_ip());
        // mov r11d, here + 6 + 8: the address after the jump
        let after = self.emission.out.here() + 6 + 8;
        self.emission.out.mov_imm(11, after);
        self.emission.out.jmp_gs(crate::slot!(to_syscall));
        debug_assert_eq!(self.emission.out.here(), after);
        Next::Block(insn.next_ip())
    }

    fn abort_transaction(&mut self, insn: &Instruction) -> Next {
        // xbegin to behind the xabort: a CPU without transactions raises its exception here.
        self.emission.out.put(&[0xc7, 0xf8, 3, 0, 0, 0]);
        // xabort 0
        self.emission.out.put(&[0xc6, 0xf8, 0]);
        // eax = 0: aborted for no stated reason, do not retry
        self.emission.out.mov_imm(0, 0);
        Next::Block(insn.near_branch_target())
    }
}
