//! The translator: copies the target's code into the cache, fragment by fragment.
//!
//! A fragment is a run of code along fall-through paths and unconditional jumps, with entries at each
//! block. What is known about it for signals and invalidation is in [`crate::translator::cache::Fragment`]. How each
//! instruction is copied, and what is changed in the copy, is the architecture's: [`crate::arch::translator::translate`].

use crate::arch::translator::translate::{
    Analyst, Emission, Emitter, InstructionDecoder, LONGEST_INSTRUCTION, is_call,
};
use crate::arch::{self, Instruction};
use crate::hooks::InstrumentedCode;
use crate::translator::cache::{
    self, CACHE, Cache, Draft, JUMP_MISS, Link, set_call_entry, set_hash_entry, set_jump_entry,
};
use crate::translator::discoveries::{self, Discovery};
use crate::translator::space;
use alloc::vec::Vec;

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

/// Why bytes are not an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    /// No instruction begins like this.
    Invalid,
    /// The code ends before the instruction does.
    CutOff,
}

/// A fragment in the making. What it does with one instruction is the architecture's (`arch`: `translate`).
pub(crate) struct FragmentBuilder<'a> {
    pub cache: &'a mut Cache,
    pub instrumented: &'a mut InstrumentedCode,
    pub emission: Emission<'a>,
    pub links: Vec<(u32, Link)>,
    /// Return points: they may be found by other threads only once the code behind them is there.
    pub returns: Vec<(u64, u64)>,
}

/// How a fragment continues after an instruction.
pub(crate) enum Next {
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

    /// The entry for indirect jumps to `pc`: expects the register that holds branch targets in its spill slot.
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
            out.call_prologue();
            entries.1 = out.here();
            out.jump_prologue();
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
            out.call_prologue();
        })?;
        self.cache.define_call_entry(pc, entry);
        Ok(entry)
    }

    /// Lets indirect jumps and returns go straight to `pc`. False if nothing was missing for that.
    pub fn enter_by_jump(&mut self, pc: u64) -> bool {
        let mut found = false;
        if !cache::has_jump_entry(pc)
            && let Ok(at) = self.jump_entry(pc)
        {
            set_jump_entry(pc, at);
            found = true;
        }
        // Branches that use the hash look there for near targets, too.
        if let Ok(at) = self.block(pc) {
            found |= cache::has_free_hash_slot(pc);
            set_hash_entry(pc, at);
        }
        found
    }

    /// Lets indirect calls go straight to `pc`.
    pub fn enter_by_call(&mut self, pc: u64) {
        if !cache::has_call_entry(pc)
            && let Ok(at) = self.indirect_call_entry(pc)
        {
            set_call_entry(pc, at);
        }
    }

    /// The indirect branch at `pc` has had a target beyond the branch table: its copy must use the hash.
    pub fn set_far_branch(&mut self, pc: u64) {
        if self.cache.far_branches.insert(pc) {
            self.cache.invalidate_instruction(pc);
        }
    }

    /// Lets an instrument observe the instruction at `pc` from now on.
    pub fn observe(&mut self, instrument: u32, pc: u64) {
        if self.add_observed(instrument, pc) {
            discoveries::note(pc, Discovery::Observed(instrument));
        }
    }

    fn add_observed(&mut self, instrument: u32, pc: u64) -> bool {
        let is_new = self.instrumented.observe(instrument, pc);
        if is_new {
            self.cache.invalidate_instruction(pc);
        }
        is_new
    }

    /// Does what the dispatcher does when a thread discovers this about the code at `pc`.
    pub fn prepare(&mut self, pc: u64, discovery: Discovery) {
        let linked = match discovery {
            Discovery::Direct => self.block(pc).map(|at| (false, at)),
            Discovery::DirectCall => self.call_entry(pc).map(|at| (true, at)),
            Discovery::Indirect => {
                self.enter_by_jump(pc);
                return;
            }
            Discovery::IndirectCall => return self.enter_by_call(pc),
            Discovery::FarBranch => return self.set_far_branch(pc),
            Discovery::Observed(instrument) => {
                self.add_observed(instrument, pc);
                return;
            }
        };
        if let Ok((call, at)) = linked {
            self.cache.link_all(pc, call, at);
        }
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
        let mut builder = FragmentBuilder {
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
        builder.fragment(pc);
        let FragmentBuilder {
            emission: Emission { out, draft, .. },
            links,
            returns,
            ..
        } = builder;
        let end = out.here();
        let numbers = links.iter().map(|(number, _)| *number).collect();
        self.cache.commit(draft.finish(end, numbers), end);
        for (number, link) in links {
            self.cache.add_link(number, link);
        }
        for (pc, at) in returns {
            set_jump_entry(pc, at);
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
    let end = space::code_end(pc).ok_or(NotExecutable)?;
    // SAFETY: the target's mapping [pc, end) is readable: the space table says it is executable,
    // and execute-only mappings are made readable too.
    let bytes = unsafe { core::slice::from_raw_parts(pc as *const u8, (end - pc) as usize) };
    if bytes.len() < LONGEST_INSTRUCTION {
        let first = InstructionDecoder::new(bytes, pc).decode(&mut Instruction::default());
        if first == Err(Undecodable::CutOff) {
            return Err(NotExecutable);
        }
    }
    Ok(bytes)
}

impl FragmentBuilder<'_> {
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
        let mut decoder = InstructionDecoder::new(bytes, pc);
        let mut insn = Instruction::default();
        loop {
            let decoded = decoder.decode(&mut insn);
            *instructions += 1;
            let (at, after) = (arch::pc(&insn), arch::next_pc(&insn));
            if let Err(why) = decoded {
                self.undecodable(at, why);
                return None;
            }
            let code = &bytes[(at - pc) as usize..(after - pc) as usize];
            // One copy of each call site, or its returns would be mispredicted.
            if at != pc && is_call(&insn) {
                if self.cache.block(at).is_some() {
                    return Some(at);
                }
                self.define_block(at);
                self.instrumented.block(at, &mut self.emission);
            }
            self.emission
                .draft
                .boundary(self.emission.out.here(), at, code.len());
            self.instrumented.before(&insn, &mut self.emission);
            match self.instruction(&insn, code) {
                Next::Straight if instructions.is_multiple_of(MAX_INSTRUCTIONS) => {
                    self.jump_to(after);
                    return None;
                }
                Next::Straight if checked && self.emission.ends_checked(&insn, pc) => {
                    return Some(after);
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
}
