//! The open calls of a thread, laid out for the assembly that adds and removes ordinary ones.

use crate::arch::translator::guarded;
use crate::translator::cache::{CACHE, CACHE_END};
use alloc::vec::Vec;
use core::mem::ManuallyDrop;

/// Bytes of stack that belong together: less than the stack of any coroutine.
const NEAR: u64 = 16 << 10;
/// Number of open calls above which all are checked for dead ones.
const MANY: usize = 4096;
/// Return addresses that a thread remembers as observed; a power of two.
pub const REMEMBERED: usize = 64;

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Open {
    /// Where on the stack the return address is, and the address.
    pub slot: u64,
    pub back: u64,
    pub function: u32,
    /// Whether the record of its return borrows its number; 0 if not.
    pub return_borrows: u32,
}

impl Open {
    /// Whether the return address is where the call has put it. A return in the cache leaves an address
    /// of the cache behind: it may be that of this call, whose return is then about to be recorded.
    pub(crate) fn is_there(&self) -> bool {
        guarded::load(self.slot)
            .is_some_and(|word| word == self.back || (CACHE..CACHE_END).contains(&word))
    }

    /// Whether a stack that now ends at `top` has shrunk beyond this call.
    pub(crate) fn is_below(&self, top: u64) -> bool {
        self.slot < top && top - self.slot < NEAR
    }
}

/// What a thread keeps for the instrument.
#[repr(C)]
pub struct OpenCalls {
    /// The parts of a vector, the innermost call last.
    pub first: *mut Open,
    pub len: usize,
    capacity: usize,
    /// How many calls assembly may add before Rust code has to look at them.
    pub room: usize,
    /// Number of open calls above which all are checked.
    limit: usize,
    /// An instruction that faulted, and the stack pointer then: it will be run again, and is no second
    /// call if it is the first of a function.
    pub repeated_pc: u64,
    repeated_stack: u64,
    /// Return addresses that are observed, by some of their bits.
    pub returns: [u64; REMEMBERED],
}

impl OpenCalls {
    pub const fn new() -> OpenCalls {
        OpenCalls {
            first: core::ptr::dangling_mut(),
            len: 0,
            capacity: 0,
            room: 0,
            limit: MANY,
            repeated_pc: 0,
            repeated_stack: 0,
            returns: [0; REMEMBERED],
        }
    }

    /// Gives an empty vector memory for its first calls: a write to the heap would have the kernel divide a huge page of it in each
    /// process that was forked.
    ///
    /// # Safety
    /// Nothing else uses the memory as long as the thread exists, and the global allocator does not free it.
    pub(crate) unsafe fn lend(&mut self, room: core::ops::Range<u64>) {
        let first = room.start.next_multiple_of(align_of::<Open>() as u64);
        self.first = first as *mut Open;
        self.len = 0;
        self.capacity = room.end.saturating_sub(first) as usize / size_of::<Open>();
        self.room = self.capacity.min(self.limit);
    }

    /// Notes that the instruction at `pc` faulted before it had done anything.
    pub fn faulted(&mut self, pc: u64, stack: u64) {
        self.repeated_pc = pc;
        self.repeated_stack = stack;
    }

    /// Whether the instruction at `pc` is the one that faulted last and is run again; asked once.
    pub(crate) fn is_repeated(&mut self, pc: u64, stack: u64) -> bool {
        let repeated = (self.repeated_pc, self.repeated_stack) == (pc, stack);
        self.faulted(0, 0);
        repeated
    }

    /// Works on the calls.
    pub(crate) fn edit<R>(&mut self, work: impl FnOnce(&mut Vec<Open>) -> R) -> R {
        // SAFETY: the parts are those of a vector that is nowhere else: `new`, `lend` and this function leave such
        // here, and the assembly changes no more than the length, within `room`, having written what it adds.
        let vector = unsafe { Vec::from_raw_parts(self.first, self.len, self.capacity) };
        let mut open = ManuallyDrop::new(vector);
        let result = work(&mut open);
        self.first = open.as_mut_ptr();
        self.len = open.len();
        self.capacity = open.capacity();
        self.room = self.capacity.min(self.limit);
        result
    }

    /// Removes all dead calls once there are many calls.
    pub(crate) fn thin_out(&mut self, dead: &mut Vec<Open>) {
        if self.len < self.limit {
            return;
        }
        self.edit(|open| {
            open.retain(|call| {
                let alive = call.is_there();
                if !alive {
                    dead.push(*call);
                }
                alive
            });
        });
        self.limit = MANY.max(2 * self.len);
    }

    /// Notes that returns to `back` are observed. False if that was known.
    pub(crate) fn remember(&mut self, back: u64) -> bool {
        let remembered = &mut self.returns[(back >> 1) as usize % REMEMBERED];
        core::mem::replace(remembered, back) != back
    }
}

impl Default for OpenCalls {
    fn default() -> Self {
        OpenCalls::new()
    }
}

impl Drop for OpenCalls {
    fn drop(&mut self) {
        self.edit(|open| drop(core::mem::take(open)));
    }
}
