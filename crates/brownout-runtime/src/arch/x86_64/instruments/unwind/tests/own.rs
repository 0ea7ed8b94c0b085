//! The test's own stack: remembered frames, deep recursion, and what a context costs.

use super::mappings::Mappings;
use crate::instruments::unwind::stack::MAX_WALK;
use crate::instruments::unwind::{
    CodeMap, ContextNumber, ContextTree, Memory, OMITTED, Registers, StackCache, Unwinder,
};
use crate::translator::space::ModuleAt;
use std::hint::black_box;

/// This process.
struct Own {
    mappings: Mappings,
    /// The bounds of this thread's stack.
    stack: std::ops::Range<u64>,
}

impl Own {
    fn new() -> Self {
        let mappings = Mappings::of("self");
        let here = &raw const mappings as u64;
        let stack = mappings.at(here).map(|m| m.start..m.end).expect("a stack");
        Self { mappings, stack }
    }
}

impl Memory for Own {
    #[inline]
    fn read_u64(&self, addr: u64) -> Option<u64> {
        let on_stack = addr >= self.stack.start && addr <= self.stack.end - 8;
        // SAFETY: the address is on this thread's stack, which stays mapped.
        on_stack.then(|| unsafe { (addr as *const u64).read_unaligned() })
    }

    fn slice(&self, addr: u64, len: usize) -> Option<&[u8]> {
        let mapping = self.mappings.at(addr).filter(|m| m.readable)?;
        let fits = len as u64 <= mapping.end - addr;
        // SAFETY: only code and unwind tables are asked for, which stay mapped and as they are.
        fits.then(|| unsafe { std::slice::from_raw_parts(addr as *const u8, len) })
    }
}

impl CodeMap for Own {
    fn epoch(&self) -> u32 {
        self.mappings.epoch()
    }
    fn module_at(&self, pc: u64) -> Option<ModuleAt> {
        self.mappings.module_at(pc)
    }
    fn is_code(&self, pc: u64) -> bool {
        self.mappings.is_code(pc)
    }
}

/// The registers here, those that unwinding may need.
#[inline(always)]
fn registers() -> Registers {
    let mut regs = Registers::default();
    // SAFETY: registers are stored to an array that has room for them.
    unsafe {
        std::arch::asm!(
            "mov [{gpr} + 24], rbx",
            "mov [{gpr} + 32], rsp",
            "mov [{gpr} + 40], rbp",
            "mov [{gpr} + 96], r12",
            "mov [{gpr} + 104], r13",
            "mov [{gpr} + 112], r14",
            "mov [{gpr} + 120], r15",
            "lea {rip}, [rip]",
            gpr = in(reg) regs.gpr.as_mut_ptr(),
            rip = out(reg) regs.pc,
            options(nostack, preserves_flags)
        );
    }
    regs
}

/// Calls `work` with the registers of a frame `depth` calls deeper.
#[inline(never)]
fn nest(depth: usize, work: &mut dyn FnMut(&Registers)) -> usize {
    if depth == 0 {
        work(&registers());
        return 0;
    }
    black_box(nest(depth - 1, work)) + 1
}

struct Walker {
    own: Own,
    unwinder: Unwinder,
    stack: StackCache,
    tree: ContextTree,
}

impl Walker {
    fn new() -> Self {
        let (unwinder, stack) = (Unwinder::new(), StackCache::new());
        Self {
            own: Own::new(),
            unwinder,
            stack,
            tree: ContextTree::new(),
        }
    }

    fn context(&mut self, regs: &Registers) -> ContextNumber {
        let Self {
            own,
            unwinder,
            stack,
            tree,
        } = self;
        stack
            .context(regs, own, own)
            .unwrap_or_else(|| unwinder.context(regs, own, own, stack, tree, &mut |_, _, _| {}))
    }

    /// All return addresses, those of recursive calls included.
    fn chain(&mut self, regs: &Registers) -> Vec<u64> {
        self.context(regs);
        self.stack.walked()
    }

    fn folded_chain(&mut self, regs: &Registers) -> Vec<u64> {
        let context = self.context(regs);
        self.tree.return_addresses(context).collect()
    }
}

#[test]
fn a_call_more_is_an_address_more() {
    let mut walker = Walker::new();
    let mut previous = Vec::new();
    for depth in 1..20 {
        let mut chain = Vec::new();
        nest(depth, &mut |regs| chain = walker.chain(regs));
        assert!(chain.len() > depth);
        if depth > 1 {
            assert_eq!(chain[1..], previous[..], "only the innermost call differs");
        }
        previous = chain;
    }
}

#[test]
fn recursion_of_any_depth_has_one_context() {
    let mut walker = Walker::new();
    let mut contexts = Vec::new();
    for depth in 2..20 {
        nest(depth, &mut |regs| contexts.push(walker.context(regs)));
    }
    contexts.dedup();
    assert_eq!(contexts.len(), 1);
}

#[test]
fn a_change_far_out_is_noticed() {
    let mut walker = Walker::new();
    let mut deep = |regs: &Registers| walker.folded_chain(regs);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    // The frames within these calls are the same to the word, but for where the outermost returns to.
    nest(10, &mut |regs| left = deep(regs));
    nest(10, &mut |regs| right = deep(regs));
    let differing: Vec<_> = left.iter().zip(&right).filter(|(l, r)| l != r).collect();
    assert_eq!(left.len(), right.len());
    assert_eq!(differing.len(), 1, "{left:x?} {right:x?}");
}

#[test]
fn endless_recursion_is_cut_off_and_found_whole_again() {
    let deep = || {
        let mut walker = Walker::new();
        let mut whole = 0;
        nest(100, &mut |regs| whole = walker.chain(regs).len());
        for depth in [MAX_WALK * 3, MAX_WALK * 3 + 1, MAX_WALK * 4, MAX_WALK * 3] {
            let (mut chain, mut folded) = (Vec::new(), Vec::new());
            nest(depth, &mut |regs| {
                folded = walker.folded_chain(regs);
                chain = walker.chain(regs);
            });
            assert_eq!(folded.last(), Some(&OMITTED), "at depth {depth}");
            assert!(
                (MAX_WALK / 2..=MAX_WALK * 2 + 1).contains(&chain.len()),
                "{}",
                chain.len()
            );
        }
        let made = walker.tree.len();
        assert!(made < 200, "{made} contexts: recursion is folded");
        nest(100, &mut |regs| assert_eq!(walker.chain(regs).len(), whole));
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(deep);
    thread.expect("a thread").join().expect("no panic");
}
