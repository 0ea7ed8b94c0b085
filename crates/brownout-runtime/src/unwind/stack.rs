//! The walk, and the memory of a thread that makes it cheap.
//!
//! A [`StackCache`] keeps the frames of the thread's last event, and for each step between them the
//! *facts* that made it lead where it led: the words of memory it read and what they held. A walk goes
//! outwards until it comes to a frame with the state of a remembered one: same address in the code,
//! same stack pointer, same rbp if anything further out depends on it. If the facts beyond still hold,
//! going on would give the remembered result, so the walk ends there. In the common case, nothing
//! changed since the last event, that costs one step and one comparison a frame.
//!
//! Facts are minimal: a saved register counts only if a frame further out needed its value. Frames and
//! facts are kept outermost first, so that facts `0..n` are those beyond some frame for every frame.

use crate::unwind::rule::{RBP, Rule};
use crate::unwind::step::{Dependencies, GprSet, State, Step, bit};
use crate::unwind::tree::{ContextId, OMITTED, edge_hash, spread};
use crate::unwind::{CodeMap, CodePoint, Memory, Process, Registers, guess};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A walk that finds no end after this many frames leaves out the rest.
pub(super) const MAX_WALK: usize = 2048;
/// Remembered frames may grow to this number by deeper and deeper calls before some are left out.
const MAX_FRAMES: usize = 2 * MAX_WALK;
/// With fewer frames than this above left-out ones it is worth looking for the real end again.
const MIN_FRAMES: usize = MAX_WALK / 2;

/// Rules that a thread remembers, a power of two.
const RULES: usize = 256;
/// Edges of the context tree that a thread remembers, a power of two.
const EDGES: usize = 1024;

/// What the walk of one thread asks of the process; `None` if the answer is not to be had here.
pub(super) trait Shared {
    fn rule(&mut self, at: CodePoint) -> Option<Rule>;
    fn callee(&mut self, caller: ContextId, return_address: u64) -> Option<ContextId>;
}

/// Nothing but the thread's own memory.
struct Alone;

impl Shared for Alone {
    fn rule(&mut self, _: CodePoint) -> Option<Rule> {
        None
    }
    fn callee(&mut self, _: ContextId, _: u64) -> Option<ContextId> {
        None
    }
}

impl<M: Memory, C: CodeMap> Shared for Process<'_, M, C> {
    fn rule(&mut self, at: CodePoint) -> Option<Rule> {
        Some(self.unwinder.rule(at, self.mem, self.code))
    }

    fn callee(&mut self, caller: ContextId, return_address: u64) -> Option<ContextId> {
        let (context, new) = self.tree.callee(caller, return_address);
        if new {
            (self.on_new)(context, caller, return_address);
        }
        Some(context)
    }
}

/// A frame that called, as the last walk left it.
struct Frame {
    at: CodePoint,
    /// The stack pointer once the callee has returned.
    cfa: u64,
    /// Its value, if it is needed.
    rbp: u64,
    /// Number of facts that lie further out.
    facts: usize,
    /// Registers whose values matter further out.
    needs: GprSet,
    /// The chain from this frame outwards.
    context: ContextId,
}

/// A word of memory that decided where a step led.
struct Fact {
    addr: u64,
    value: u64,
}

/// What a thread remembers of its stack, its code and its contexts.
pub struct StackCache {
    rules: RuleCache,
    edges: EdgeCache,
    epoch: u32,
    frames: Vec<Frame>,
    facts: Vec<Fact>,
    /// Whether there were more frames than `frames` tells of.
    omitted: bool,
    /// The steps of the walk under way, innermost first.
    steps: Vec<Step>,
    wide: Vec<Dependencies>,
}

/// How a walk ended.
enum End {
    /// In the state of the remembered frame with this many frames further out.
    Joined(usize),
    Outermost,
    TooDeep,
}

impl Default for StackCache {
    fn default() -> Self {
        Self::new()
    }
}

impl StackCache {
    pub fn new() -> Self {
        Self {
            rules: RuleCache::new(),
            edges: EdgeCache::new(),
            epoch: 0,
            frames: Vec::with_capacity(64),
            facts: Vec::with_capacity(128),
            omitted: false,
            steps: Vec::with_capacity(64),
            wide: Vec::new(),
        }
    }

    /// The context of an event, if all that is needed to tell it is known to the thread: then no lock
    /// need be taken. Otherwise [`crate::unwind::Unwinder::context`] tells it, and the thread learns.
    pub fn context(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
    ) -> Option<ContextId> {
        self.walk(regs, mem, code, &mut Alone)
    }

    pub(super) fn walk(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
        shared: &mut impl Shared,
    ) -> Option<ContextId> {
        let epoch = code.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.forget();
        }
        let mut end = self.outwards(regs, mem, code, shared)?;
        if let End::Joined(outer) = end {
            let depth = outer + self.steps.len();
            if depth > MAX_FRAMES || (self.omitted && depth < MIN_FRAMES) {
                self.forget();
                end = self.outwards(regs, mem, code, shared)?;
            }
        }
        self.inwards(end, mem, shared)
    }

    fn forget(&mut self) {
        self.frames.clear();
        self.facts.clear();
        self.omitted = false;
    }

    /// Takes steps until the stack ends or is known.
    fn outwards(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
        shared: &mut impl Shared,
    ) -> Option<End> {
        self.steps.clear();
        self.wide.clear();
        let mut state = State::of(regs);
        let mut candidates = self.frames.len();
        // Facts that were found to hold, counted from the outermost; all, until a look tells.
        let mut sound = None;
        while self.steps.len() < MAX_WALK {
            let rule = self.rules.get(state.at(), self.epoch, shared)?;
            let step = match rule {
                Rule::Plain(plain) if plain.certain => state.step_plain(plain, mem),
                Rule::Plain(plain) => {
                    let mut tried = state;
                    match tried.step_plain(plain, mem) {
                        Some(step) if guess::is_call_return(step.at.pc, mem, code) => {
                            state = tried;
                            Some(step)
                        }
                        _ => guess::rule(&state, mem, code)
                            .and_then(|plain| state.step_plain(&plain, mem)),
                    }
                }
                Rule::Unknown => {
                    guess::rule(&state, mem, code).and_then(|plain| state.step_plain(&plain, mem))
                }
                Rule::Wide(wide) => state.step_wide(wide, mem, &mut self.wide),
                Rule::SignalFrame => state.step_signal(mem, &mut self.wide),
                Rule::Outermost => None,
                Rule::NotCode => {
                    self.steps.pop();
                    None
                }
            };
            let Some(step) = step else {
                return Some(End::Outermost);
            };
            self.steps.push(step);

            while candidates > 0 && self.frames[candidates - 1].cfa < step.cfa {
                candidates -= 1;
            }
            if candidates > 0 && self.frames[candidates - 1].is_state(&state, mem) {
                let sound = *sound.get_or_insert_with(|| self.sound_facts(candidates, mem));
                if self.frames[candidates - 1].facts <= sound {
                    return Some(End::Joined(candidates - 1));
                }
                while candidates > 0 && self.frames[candidates - 1].facts > sound {
                    candidates -= 1;
                }
            }
        }
        Some(End::TooDeep)
    }

    /// How many facts further out than the `frames`-th frame hold without a gap, from the outermost.
    #[inline]
    fn sound_facts(&self, frames: usize, mem: &impl Memory) -> usize {
        let facts = &self.facts[..self.frames[frames - 1].facts];
        facts
            .iter()
            .position(|fact| mem.read_u64(fact.addr) != Some(fact.value))
            .unwrap_or(facts.len())
    }

    /// Goes back from the end of the walk to where it began, numbering the contexts and noting the
    /// facts of the steps taken.
    fn inwards(
        &mut self,
        end: End,
        mem: &impl Memory,
        shared: &mut impl Shared,
    ) -> Option<ContextId> {
        let mut context = ContextId::ROOT;
        let mut needs = 0;
        let mut remembered = false;
        match end {
            End::Joined(outer) => {
                self.frames.truncate(outer + 1);
                if let Some(frame) = self.frames.last() {
                    self.facts.truncate(frame.facts);
                    context = frame.context;
                    needs = frame.needs;
                    remembered = true;
                }
            }
            End::Outermost => self.forget(),
            End::TooDeep => {
                self.forget();
                self.omitted = true;
                context = self.edges.get(context, OMITTED, shared)?;
            }
        }
        for index in (0..self.steps.len()).rev() {
            let step = &self.steps[index];
            if !remembered {
                // One more, so that one less is always within an instruction.
                let return_address = step.at.covered().wrapping_add(1);
                context = self.edges.get(context, return_address, shared)?;
                let rbp = if needs & bit(RBP) == 0 {
                    0
                } else {
                    step.rbp(mem).unwrap_or(0)
                };
                self.frames.push(Frame {
                    at: step.at,
                    cfa: step.cfa,
                    rbp,
                    facts: self.facts.len(),
                    needs,
                    context,
                });
            }
            remembered = false;
            if index > 0 {
                let facts = &mut self.facts;
                step.words(needs, &self.wide, |addr| {
                    if let Some(value) = mem.read_u64(addr) {
                        facts.push(Fact { addr, value });
                    }
                });
                needs = step.needs(needs, &self.wide);
            }
        }
        Some(context)
    }
}

impl Frame {
    /// Whether a walk that got to `state` would go on as the one that got to this frame did, if the
    /// facts further out hold.
    #[inline]
    fn is_state(&self, state: &State, mem: &impl Memory) -> bool {
        self.cfa == state.rsp()
            && self.at == state.at()
            && (self.needs == 0
                || (self.needs == bit(RBP) && state.value(RBP, mem) == Some(self.rbp)))
    }
}

/// The rules that a thread used last, by address.
struct RuleCache {
    entries: Box<[RuleEntry]>,
}

#[derive(Clone)]
struct RuleEntry {
    key: u64,
    epoch: u32,
    rule: Rule,
}

impl RuleCache {
    fn new() -> Self {
        // No code point has the key 0: it would be a return to address 0.
        let empty = RuleEntry {
            key: 0,
            epoch: 0,
            rule: Rule::NotCode,
        };
        Self {
            entries: vec![empty; RULES].into_boxed_slice(),
        }
    }

    #[inline]
    fn get(&mut self, at: CodePoint, epoch: u32, shared: &mut impl Shared) -> Option<&Rule> {
        let key = at.key();
        let entry = &mut self.entries[spread(key) as usize % RULES];
        if entry.key != key || entry.epoch != epoch {
            *entry = RuleEntry {
                key,
                epoch,
                rule: shared.rule(at)?,
            };
        }
        Some(&entry.rule)
    }
}

/// The edges of the context tree that a thread used last. Contexts never change, so neither do these.
struct EdgeCache {
    entries: Box<[EdgeEntry]>,
}

#[derive(Clone, Copy)]
struct EdgeEntry {
    return_address: u64,
    caller: ContextId,
    callee: ContextId,
}

impl EdgeCache {
    fn new() -> Self {
        // No context has the root as callee, so that this matches none.
        let empty = EdgeEntry {
            return_address: 0,
            caller: ContextId(u32::MAX),
            callee: ContextId::ROOT,
        };
        Self {
            entries: vec![empty; EDGES].into_boxed_slice(),
        }
    }

    #[inline]
    fn get(
        &mut self,
        caller: ContextId,
        return_address: u64,
        shared: &mut impl Shared,
    ) -> Option<ContextId> {
        let entry = &mut self.entries[edge_hash(caller, return_address) as usize % EDGES];
        if entry.return_address != return_address || entry.caller != caller {
            let callee = shared.callee(caller, return_address)?;
            *entry = EdgeEntry {
                return_address,
                caller,
                callee,
            };
        }
        Some(entry.callee)
    }
}
