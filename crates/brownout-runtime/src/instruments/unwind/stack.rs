//! The walk, and the memory of a thread that makes it cheap.
//!
//! A [`StackCache`] keeps the frames of the thread's last event, and for each step between them the
//! *facts* that made it lead where it led: the words of memory it read and what they held. A walk goes
//! outwards until it comes to a frame with the state of a remembered one: same address in the code,
//! same stack pointer, same frame pointer if anything further out depends on it. If the facts beyond still hold,
//! continuing would give the remembered result, so the walk ends there. In the common case, nothing
//! changed since the last event, that costs one step and one comparison a frame.
//!
//! Facts are minimal: a saved register counts only if a frame further out needed its value. Frames and
//! facts are kept outermost first, so that facts `0..n` are those beyond some frame for every frame.

use crate::arch::instruments::unwind::guess;
use crate::arch::instruments::unwind::registers::{FRAME_POINTER, GPRS, GprSet, STACK_POINTER};
use crate::instruments::unwind::memo::Memos;
use crate::instruments::unwind::rule::UnwindRule;
use crate::instruments::unwind::step::{Dependencies, State, UnwindStep, bit};
use crate::instruments::unwind::tree::{ContextNumber, OMITTED, edge_hash, spread};
use crate::instruments::unwind::{CodeMap, CodePoint, Memory, ProcessWalk, Registers};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A walk that finds no end after this many frames leaves out the rest.
pub(crate) const MAX_WALK: usize = 2048;
/// Remembered frames may grow to this number by deeper and deeper calls before some are left out.
const MAX_FRAMES: usize = 2 * MAX_WALK;
/// With fewer frames than this above left-out ones it is worth looking for the real end again.
const MIN_FRAMES: usize = MAX_WALK / 2;

/// Half the number of rules that a thread remembers; a power of two.
const RULE_PAIRS: usize = 256;
/// Half the number of edges of the context tree that a thread remembers; a power of two.
const EDGE_PAIRS: usize = 512;

/// What the walk of one thread asks of the process; `None` if the answer is not available here.
pub(crate) trait Shared {
    fn rule(&mut self, at: CodePoint) -> Option<UnwindRule>;
    fn callee(&mut self, caller: ContextNumber, return_address: u64) -> Option<ContextNumber>;
}

/// Nothing but the thread's own memory.
struct Alone;

impl Shared for Alone {
    fn rule(&mut self, _: CodePoint) -> Option<UnwindRule> {
        None
    }
    fn callee(&mut self, _: ContextNumber, _: u64) -> Option<ContextNumber> {
        None
    }
}

impl<M: Memory, C: CodeMap> Shared for ProcessWalk<'_, M, C> {
    fn rule(&mut self, at: CodePoint) -> Option<UnwindRule> {
        Some(self.unwinder.rule(at, self.mem, self.code))
    }

    fn callee(&mut self, caller: ContextNumber, return_address: u64) -> Option<ContextNumber> {
        let (context, new) = self.tree.callee(caller, return_address);
        if let Some(node) = new {
            (self.on_new)(node.number, node.caller, node.return_address);
        }
        Some(context)
    }
}

/// A frame that called, as the last walk left it.
struct UnwoundFrame {
    at: CodePoint,
    /// The stack pointer once the callee has returned.
    cfa: u64,
    /// Its value, if it is needed.
    frame_pointer: u64,
    /// Number of facts that lie further out.
    facts: usize,
    /// Registers whose values matter further out.
    needs: GprSet,
    /// The chain from this frame outwards.
    context: ContextNumber,
}

/// A word of memory that decided where a step led.
struct Fact {
    addr: u64,
    value: u64,
}

/// What a thread remembers of its stack, its code and its contexts.
pub struct StackCache {
    /// By code point and epoch.
    rules: Recent<(u64, u32), UnwindRule, RULE_PAIRS>,
    /// Edges of the context tree, which never change: by caller and return address.
    edges: Recent<(u64, ContextNumber), ContextNumber, EDGE_PAIRS>,
    epoch: u32,
    frames: Vec<UnwoundFrame>,
    facts: Vec<Fact>,
    /// Whether there were more frames than `frames` holds.
    omitted: bool,
    /// Whether a frame was guessed, so that the facts are incomplete.
    guessed: bool,
    memos: Memos,
    /// The steps of the walk under way, innermost first, and room for more.
    steps: Vec<UnwindStep>,
    wide: Vec<Dependencies>,
}

/// How a walk ended.
enum End {
    /// In the state of the remembered frame with this many frames further out.
    Joined {
        outer: usize,
        steps: usize,
    },
    Outermost {
        steps: usize,
    },
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
            // The keys are those of a return to address 0, which indeed is no code, and of a callee
            // of a context that cannot be.
            rules: Recent::new(((0, 0), UnwindRule::NotCode)),
            edges: Recent::new(((0, ContextNumber(u32::MAX)), ContextNumber::ROOT)),
            epoch: 0,
            frames: Vec::with_capacity(64),
            facts: Vec::with_capacity(128),
            omitted: false,
            guessed: false,
            memos: Memos::new(),
            steps: Vec::with_capacity(64),
            wide: Vec::new(),
        }
    }

    /// Address of the stacks that are kept, laid out as [`crate::instruments::unwind::memo_layout`] says.
    pub fn memos(&self) -> u64 {
        self.memos.address()
    }

    /// The return addresses that the last walk found, innermost first, before recursion is folded.
    #[cfg(test)]
    pub(crate) fn walked(&self) -> Vec<u64> {
        let frames = self.frames.iter().rev();
        frames
            .map(|frame| frame.at.covered().wrapping_add(1))
            .collect()
    }

    /// The context of an event, if it came from the same place with the same stack before. Takes the
    /// registers where they are: copying what was just written would stall.
    #[inline]
    pub fn known(
        &mut self,
        pc: u64,
        gpr: &[u64; GPRS],
        mem: &impl Memory,
        code: &impl CodeMap,
    ) -> Option<ContextNumber> {
        self.memos.get(pc, gpr, code.epoch(), mem)
    }

    /// The context of an event, if the thread itself has everything that is needed to find it: then no lock
    /// is taken. Otherwise [`crate::instruments::unwind::Unwinder::context`] finds it.
    pub fn context(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
    ) -> Option<ContextNumber> {
        self.walk(regs, mem, code, &mut Alone)
    }

    pub(crate) fn walk(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
        shared: &mut impl Shared,
    ) -> Option<ContextNumber> {
        let epoch = code.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.forget();
        }
        let context = self.walk_and_number(regs, mem, code, shared)?;
        self.memorize(regs, mem, context);
        Some(context)
    }

    /// Keeps the stack that was just walked, if its facts are everything that it depended on.
    fn memorize(&mut self, regs: &Registers, mem: &impl Memory, context: ContextNumber) {
        let (beyond, needs) = self
            .frames
            .last()
            .map_or((0, 0), |frame| (frame.facts, frame.needs));
        let (Some(step), false, false) = (self.steps.first(), self.omitted, self.guessed) else {
            return;
        };
        let needed = if self.frames.is_empty() {
            0
        } else {
            step.needs(needs)
        };
        if needed & !(bit(FRAME_POINTER) | bit(STACK_POINTER)) != 0 {
            return;
        }
        let mut nearest = Vec::new();
        if !self.frames.is_empty() {
            step.words(needs, &self.wide, |addr| {
                nearest.extend(mem.read_u64(addr).map(|value| (addr, value)))
            });
        }
        let facts = nearest.into_iter().chain(
            self.facts[..beyond]
                .iter()
                .map(|fact| (fact.addr, fact.value)),
        );
        self.memos.put(
            regs,
            self.epoch,
            needed & bit(FRAME_POINTER) != 0,
            facts,
            context,
        );
    }

    fn walk_and_number(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
        shared: &mut impl Shared,
    ) -> Option<ContextNumber> {
        let mut end = self.outwards(regs, mem, code, shared)?;
        if let End::Joined { outer, steps } = end {
            let depth = outer + steps;
            if depth > MAX_FRAMES || (self.omitted && depth < MIN_FRAMES) {
                self.forget();
                end = self.outwards(regs, mem, code, shared)?;
            } else if steps == 1 {
                // Nothing changed; at most there are fewer frames.
                self.frames.truncate(outer + 1);
                return self.frames.last().map(|frame| frame.context);
            }
        }
        self.inwards(end, mem, shared)
    }

    fn forget(&mut self) {
        self.guessed = false;
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
        self.wide.clear();
        let mut state = State::of(regs);
        let mut candidates = self.frames.len();
        // Facts found to hold, counted from the outermost, once it has been looked.
        let mut sound = None;
        for taken in 0..MAX_WALK {
            let at = state.at();
            let key = at.key();
            let rule = self
                .rules
                .get(spread(key), (key, self.epoch), || shared.rule(at))?;
            if taken == self.steps.len() {
                self.steps.push(UnwindStep::BLANK);
            }
            // Filled in place: copying what was just written in parts would stall.
            let step = &mut self.steps[taken];
            let stepped = match rule {
                UnwindRule::Plain(plain) if plain.certain => state.step_plain(plain, mem, step),
                UnwindRule::Wide(wide) if wide.certain => {
                    state.step_wide(wide, mem, &mut self.wide, step)
                }
                UnwindRule::Plain(_) | UnwindRule::Wide(_) | UnwindRule::Unknown => {
                    self.guessed = true;
                    guess::step(rule, &mut state, mem, code, &mut self.wide, step)
                }
                UnwindRule::SignalFrame => state.step_signal(mem, &mut self.wide, step),
                UnwindRule::Outermost => None,
                UnwindRule::NotCode => {
                    return Some(End::Outermost {
                        steps: taken.saturating_sub(1),
                    });
                }
            };
            if stepped.is_none() {
                return Some(End::Outermost { steps: taken });
            }

            while candidates > 0 && self.frames[candidates - 1].cfa < state.stack_pointer() {
                candidates -= 1;
            }
            if candidates > 0 && self.frames[candidates - 1].is_state(&state, mem) {
                let sound = *sound.get_or_insert_with(|| {
                    sound_facts(&self.facts[..self.frames[candidates - 1].facts], mem)
                });
                if self.frames[candidates - 1].facts <= sound {
                    return Some(End::Joined {
                        outer: candidates - 1,
                        steps: taken + 1,
                    });
                }
                while candidates > 0 && self.frames[candidates - 1].facts > sound {
                    candidates -= 1;
                }
            }
        }
        Some(End::TooDeep)
    }

    /// Goes back from the end of the walk to where it began, numbering the contexts and noting the
    /// facts of the steps taken.
    fn inwards(
        &mut self,
        end: End,
        mem: &impl Memory,
        shared: &mut impl Shared,
    ) -> Option<ContextNumber> {
        let mut context = ContextNumber::ROOT;
        let mut needs = 0;
        let mut remembered = false;
        let steps = match end {
            End::Joined { outer, steps } => {
                self.frames.truncate(outer + 1);
                if let Some(frame) = self.frames.last() {
                    self.facts.truncate(frame.facts);
                    context = frame.context;
                    needs = frame.needs;
                    remembered = true;
                }
                steps
            }
            End::Outermost { steps } => {
                let guessed = self.guessed;
                self.forget();
                self.guessed = guessed;
                steps
            }
            End::TooDeep => {
                self.forget();
                self.omitted = true;
                context = self.edges.callee(context, OMITTED, shared)?;
                MAX_WALK
            }
        };
        for index in (0..steps).rev() {
            let step = &self.steps[index];
            if !remembered {
                // One more, so that one less is always within an instruction.
                let return_address = step.at.covered().wrapping_add(1);
                context = self.edges.callee(context, return_address, shared)?;
                let frame_pointer = if needs & bit(FRAME_POINTER) == 0 {
                    0
                } else {
                    step.frame_pointer(mem).unwrap_or(0)
                };
                let facts = self.facts.len();
                self.frames.push(UnwoundFrame {
                    at: step.at,
                    cfa: step.cfa,
                    frame_pointer,
                    facts,
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
                needs = step.needs(needs);
            }
        }
        Some(context)
    }
}

/// How many facts hold, up to the first that does not.
// On its own so that the loop, where most of the time goes, has the registers to itself.
#[inline(never)]
fn sound_facts(facts: &[Fact], mem: &impl Memory) -> usize {
    let holds = |fact: &Fact| mem.read_u64(fact.addr) == Some(fact.value);
    facts
        .iter()
        .position(|fact| !holds(fact))
        .unwrap_or(facts.len())
}

impl UnwoundFrame {
    /// Whether a walk that got to `state` would continue as the one that got to this frame did, if the
    /// facts further out hold.
    #[inline]
    fn is_state(&self, state: &State, mem: &impl Memory) -> bool {
        self.cfa == state.stack_pointer()
            && self.at == state.at()
            && (self.needs == 0
                || (self.needs == bit(FRAME_POINTER)
                    && state.value(FRAME_POINTER, mem) == Some(self.frame_pointer)))
    }
}

impl Recent<(u64, ContextNumber), ContextNumber, EDGE_PAIRS> {
    #[inline]
    fn callee(
        &mut self,
        caller: ContextNumber,
        return_address: u64,
        shared: &mut impl Shared,
    ) -> Option<ContextNumber> {
        let hash = edge_hash(caller, return_address);
        let make = || shared.callee(caller, return_address);
        self.get(hash, (return_address, caller), make).copied()
    }
}

/// What a thread used last, by key: a small table in which an entry can be in one of two places.
struct Recent<K, V, const PAIRS: usize> {
    pairs: Box<[[(K, V); 2]]>,
}

impl<K: Copy + PartialEq, V: Clone, const PAIRS: usize> Recent<K, V, PAIRS> {
    /// A table whose entries are all `empty`.
    fn new(empty: (K, V)) -> Self {
        Self {
            pairs: vec![[empty.clone(), empty]; PAIRS].into_boxed_slice(),
        }
    }

    /// The value of `key`, got from `make` and kept if it is not there.
    #[inline]
    fn get(&mut self, hash: u64, key: K, make: impl FnOnce() -> Option<V>) -> Option<&V> {
        let index = hash as usize % PAIRS;
        let [first, second] = &mut self.pairs[index];
        if first.0 == key {
            return Some(&first.1);
        }
        if second.0 != key {
            let made = make()?;
            core::mem::swap(first, second);
            *first = (key, made);
            return Some(&first.1);
        }
        Some(&second.1)
    }
}
