//! Stacks that a thread has seen before, by the instruction of the event.
//!
//! Events come again and again from the same instruction at the same depth. What a walk from there found
//! holds as long as the words it read still hold the same values: comparing them is all that is left
//! to do. Unlike the remembered stack in [`crate::instruments::unwind::stack`], which is the last one only, many are kept.
//!
//! The table is laid out for [`crate::instruments::pm`]'s assembly, which looks there first ([`layout`]).

use crate::arch::instruments::unwind::registers::{FRAME_POINTER, GPRS, STACK_POINTER};
use crate::instruments::unwind::{ContextNumber, Memory, Registers, Word};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Sets of memos; a power of two.
pub const SETS: usize = 512;
/// Stacks that are kept for each: the same function is called from several others at the same depth.
const WAYS: usize = 6;
/// A stack that depends on more words than this is not kept.
const MAX_WORDS: usize = 96;
/// Spreads places over the table.
pub const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// A word that never holds what its [`Word`] says, and so ends every comparison.
static NEVER: u64 = 0;

#[derive(Default)]
#[repr(C, align(64))]
struct Memo {
    pc: u64,
    stack_pointer: u64,
    /// All ones if the walk used the frame pointer, which then must have the value `frame_pointer`; otherwise both
    /// are 0.
    frame_pointer_mask: u64,
    frame_pointer: u64,
    /// Where the words are that it depends on; the last is [`NEVER`], and `end` is behind it.
    start: u64,
    end: u64,
    epoch: u32,
    context: ContextNumber,
    /// Address of the memo that followed this one the last time. Only a guess: it is compared
    /// with the stack like any other.
    next: u64,
}

/// A memo is one cache line.
const _: () = assert!(size_of::<Memo>() == 64);

#[derive(Default)]
#[repr(C)]
struct Set {
    memos: [Memo; WAYS],
    words: [Vec<Word>; WAYS],
    /// The one to be replaced next.
    next: usize,
}

/// Where in the table the parts of a memo are.
pub mod layout {
    use super::{Memo, Set};
    use core::mem::offset_of;

    pub use super::{MIX, SETS};
    pub const SET_BYTES: usize = size_of::<Set>();
    pub const MEMOS_BYTES: usize = size_of::<Memo>() * super::WAYS;
    pub const MEMO_BYTES: usize = size_of::<Memo>();
    pub const PC: usize = offset_of!(Memo, pc);
    pub const STACK_POINTER: usize = offset_of!(Memo, stack_pointer);
    pub const FRAME_POINTER_MASK: usize = offset_of!(Memo, frame_pointer_mask);
    pub const FRAME_POINTER: usize = offset_of!(Memo, frame_pointer);
    pub const START: usize = offset_of!(Memo, start);
    pub const END: usize = offset_of!(Memo, end);
    pub const EPOCH: usize = offset_of!(Memo, epoch);
    pub const CONTEXT: usize = offset_of!(Memo, context);
    pub const NEXT: usize = offset_of!(Memo, next);
}

pub struct Memos {
    sets: Box<[Set]>,
}

impl Memos {
    pub fn new() -> Memos {
        let mut sets: Box<[Set]> = (0..SETS).map(|_| Set::default()).collect();
        let any = sets.as_ptr() as u64;
        for memo in sets.iter_mut().flat_map(|set| &mut set.memos) {
            memo.next = any;
        }
        Memos { sets }
    }

    /// Address of the table, which never changes.
    pub fn address(&self) -> u64 {
        self.sets.as_ptr() as u64
    }

    #[inline]
    fn set(&mut self, pc: u64, stack_pointer: u64) -> &mut Set {
        let mixed = (pc ^ stack_pointer.rotate_left(17)).wrapping_mul(MIX);
        &mut self.sets[(mixed >> 40) as usize % SETS]
    }

    /// The context of an event, if the stack is one that was kept.
    #[inline]
    pub fn get(
        &mut self,
        pc: u64,
        gpr: &[u64; GPRS],
        epoch: u32,
        mem: &impl Memory,
    ) -> Option<ContextNumber> {
        let set = self.set(pc, gpr[usize::from(STACK_POINTER)]);
        let holds = |(memo, words): &(&Memo, &Vec<Word>)| {
            memo.pc == pc
                && memo.stack_pointer == gpr[usize::from(STACK_POINTER)]
                && memo.epoch == epoch
                && gpr[usize::from(FRAME_POINTER)] & memo.frame_pointer_mask == memo.frame_pointer
                && words.split_last().is_some_and(|(_never, words)| {
                    mem.all_hold(gpr[usize::from(STACK_POINTER)], words)
                })
        };
        let mut known = set.memos.iter().zip(&set.words);
        known.find(holds).map(|(memo, _)| memo.context)
    }

    /// Keeps what a walk found. `facts` are the addresses it depended on with what they held.
    pub fn put(
        &mut self,
        regs: &Registers,
        epoch: u32,
        uses_frame_pointer: bool,
        facts: impl Iterator<Item = (u64, u64)>,
        context: ContextNumber,
    ) {
        let set = self.set(regs.pc, regs.gpr[usize::from(STACK_POINTER)]);
        set.next = (set.next + 1) % WAYS;
        let (memo, words) = (&mut set.memos[set.next], &mut set.words[set.next]);
        words.clear();
        for (address, value) in facts {
            if words.len() == MAX_WORDS {
                memo.pc = 0;
                return;
            }
            words.push(Word {
                distance: address.wrapping_sub(regs.gpr[usize::from(STACK_POINTER)]),
                value,
            });
        }
        words.push(Word {
            distance: (&raw const NEVER as u64).wrapping_sub(regs.gpr[usize::from(STACK_POINTER)]),
            value: !NEVER,
        });
        memo.pc = regs.pc;
        memo.stack_pointer = regs.gpr[usize::from(STACK_POINTER)];
        memo.frame_pointer_mask = if uses_frame_pointer { u64::MAX } else { 0 };
        memo.frame_pointer = regs.gpr[usize::from(FRAME_POINTER)] & memo.frame_pointer_mask;
        let words = words.as_ptr_range();
        memo.start = words.start as u64;
        memo.end = words.end as u64;
        memo.epoch = epoch;
        memo.context = context;
    }
}
