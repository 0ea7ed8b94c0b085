//! Calling contexts: which chain of calls led to an event.
//!
//! At an event the stack is walked from the registers of the target outwards, and the chain of
//! return addresses becomes one number, a [`ContextNumber`], in a tree of all chains seen so far.
//!
//! - `cfi` finds the unwind tables of a module in memory and `rule` is what they say about one
//!   address, in a form that is cheap to apply. `expression` evaluates what does not fit that form.
//! - `code_scan` and `guess` stand in where there are no tables: hand-written assembly, code built
//!   without them, generated code.
//! - `step` applies a rule: from the state of one function's frame to that of its caller.
//! - `stack` holds the walk and what makes it cheap: a thread remembers the stack of its last event,
//!   and as soon as a walk comes to a frame it has seen before, it only checks that the words it once
//!   read further out still hold the same values.
//! - `tree` numbers the chains.
//!
//! What it can miss: without tables a caller can be skipped, or a stale return address taken for a
//! live one. With tables the chain is exact, but for tail calls, which leave nothing to find.
//!
//! Nothing here faults or panics, even if the stack and the tables are corrupt: every read of the target's
//! memory goes through [`Memory`], every loop is bounded.

mod cfi;
mod expression;
mod memo;
pub(crate) mod rule;
pub(crate) mod stack;
pub(crate) mod step;
mod tree;

pub use crate::arch::translator::guarded::Word;
pub use memo::layout as memo_layout;
pub use stack::StackCache;
pub use tree::{ContextNumber, ContextTree, OMITTED};

use crate::arch::instruments::unwind::registers::GPRS;
use crate::arch::instruments::unwind::{code_scan, guess};
use crate::instruments::unwind::rule::UnwindRule;
use crate::translator::space::ModuleAt;
use hashbrown::HashMap;

/// The target's registers at an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// The instruction that caused the event.
    pub pc: u64,
    /// In the order of their numbers in instructions: see `arch`.
    pub gpr: [u64; GPRS],
}

/// The target's memory; an address that cannot be read is `None`.
pub trait Memory {
    fn read_u64(&self, addr: u64) -> Option<u64>;
    /// Whether each word, at its distance from `base`, holds its value.
    fn all_hold(&self, base: u64, words: &[Word]) -> bool {
        words
            .iter()
            .all(|word| self.read_u64(base.wrapping_add(word.distance)) == Some(word.value))
    }
    /// Bytes of code and of read-only data, all of them or none.
    fn slice(&self, addr: u64, len: usize) -> Option<&[u8]>;
}

/// Where the target's code comes from.
pub trait CodeMap {
    /// Changes whenever executable memory is mapped, unmapped or changed.
    fn epoch(&self) -> u32;
    /// The mapping of a file that holds `pc`; `None` for generated code and for data.
    fn module_at(&self, pc: u64) -> Option<ModuleAt>;
    /// Whether `pc` can be executed, be it of a file or not.
    fn is_code(&self, pc: u64) -> bool;
    /// Whether signal handlers return to `pc` because the target asked the kernel for that. The usual restorers
    /// are recognised by their instructions anyway.
    fn is_signal_restorer(&self, _pc: u64) -> bool {
        false
    }
}

/// An address in code together with how it was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CodePoint {
    pub(crate) pc: u64,
    /// Whether `pc` is the running instruction rather than the one a call will return to, which may
    /// already belong to the next function.
    pub(crate) exact: bool,
}

impl CodePoint {
    /// An address within the instruction that is running or calling.
    fn covered(self) -> u64 {
        if self.exact {
            self.pc
        } else {
            self.pc.wrapping_sub(1)
        }
    }

    /// One word that is different for all code points: addresses of targets have no bit 63.
    fn key(self) -> u64 {
        (self.pc & !(1 << 63)) | (u64::from(self.exact) << 63)
    }
}

/// Rules known at once; more of them means that the target generates code, and all are dropped.
const MAX_RULES: usize = 1 << 16;
/// Modules known at once; more of them, and all are dropped.
const MAX_MODULES: usize = 4096;

/// What one process knows about unwinding its code.
pub struct Unwinder {
    tables: cfi::Evaluator,
    modules: HashMap<u64, KnownModule, tree::Mix>,
    rules: HashMap<u64, KnownRule, tree::Mix>,
}

/// The process-wide parts, and the world, for the time of one walk.
struct ProcessWalk<'a, M, C> {
    unwinder: &'a mut Unwinder,
    mem: &'a M,
    code: &'a C,
    tree: &'a mut ContextTree,
    on_new: &'a mut dyn FnMut(ContextNumber, ContextNumber, u64),
}

struct KnownModule {
    generation: u32,
    frames: Option<cfi::FrameTable>,
}

struct KnownRule {
    epoch: u32,
    module: Option<ModuleAt>,
    rule: UnwindRule,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

impl Unwinder {
    pub const fn new() -> Self {
        Self {
            tables: cfi::Evaluator::new(),
            modules: HashMap::with_hasher(tree::Mix::START),
            rules: HashMap::with_hasher(tree::Mix::START),
        }
    }

    /// The context of an event: the chain of callers of the function that contains `regs.pc`.
    ///
    /// `on_new` is called for each new context, the outer ones first: with its number, its caller's, and
    /// the return address that distinguishes it from its siblings.
    ///
    /// [`StackCache::context`] gives the same answer without the process-wide parts, where it can.
    pub fn context(
        &mut self,
        regs: &Registers,
        mem: &impl Memory,
        code: &impl CodeMap,
        stack: &mut StackCache,
        tree: &mut ContextTree,
        on_new: &mut dyn FnMut(ContextNumber, ContextNumber, u64),
    ) -> ContextNumber {
        let mut process = ProcessWalk {
            unwinder: self,
            mem,
            code,
            tree,
            on_new,
        };
        stack
            .walk(regs, mem, code, &mut process)
            .unwrap_or(ContextNumber::ROOT)
    }

    fn rule(&mut self, at: CodePoint, mem: &impl Memory, code: &impl CodeMap) -> UnwindRule {
        let epoch = code.epoch();
        let module = code.module_at(at.covered());
        if let Some(known) = self.rules.get_mut(&at.key())
            && (known.epoch == epoch || (known.module == module && module.is_some()))
        {
            known.epoch = epoch;
            return known.rule.clone();
        }
        let rule = self.find_rule(at, module, mem, code);
        if self.rules.len() >= MAX_RULES {
            self.rules.clear();
        }
        self.rules.insert(
            at.key(),
            KnownRule {
                epoch,
                module,
                rule: rule.clone(),
            },
        );
        rule
    }

    fn find_rule(
        &mut self,
        at: CodePoint,
        module: Option<ModuleAt>,
        mem: &impl Memory,
        code: &impl CodeMap,
    ) -> UnwindRule {
        if !code.is_code(at.pc) && !code.is_code(at.covered()) {
            return UnwindRule::NotCode;
        }
        if code.is_signal_restorer(at.pc) || guess::is_sigreturn(at.pc, mem) {
            return UnwindRule::SignalFrame;
        }
        module
            .and_then(|module| self.rule_of_tables(at, module, mem))
            .unwrap_or_else(|| code_scan::rule(at.pc, mem))
    }

    fn rule_of_tables(
        &mut self,
        at: CodePoint,
        module: ModuleAt,
        mem: &impl Memory,
    ) -> Option<UnwindRule> {
        let stale = self
            .modules
            .get(&module.base)
            .is_none_or(|m| m.generation != module.generation);
        if stale {
            if self.modules.len() >= MAX_MODULES {
                self.modules.clear();
            }
            let frames = cfi::FrameTable::find(module.base, mem);
            self.modules.insert(
                module.base,
                KnownModule {
                    generation: module.generation,
                    frames,
                },
            );
        }
        let frames = self.modules.get(&module.base)?.frames.as_ref()?;
        // What is returned to without having called, as the kernel and `makecontext` arrange, is the
        // start of a function.
        let pc = if guess::follows_call(at.pc, mem) {
            at.covered()
        } else {
            at.pc
        };
        self.tables.rule(frames, pc, mem)
    }
}
