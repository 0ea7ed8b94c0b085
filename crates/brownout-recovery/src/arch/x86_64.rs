//! The registers of a stopped x86-64 thread by their DWARF numbers, and the layout of its call frames.

/// The 16 general registers and the instruction pointer, by the numbers that DWARF gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub [u64; 17]);

/// DWARF numbers of registers.
const BASE_POINTER: usize = 6;
pub const STACK_POINTER: usize = 7;
pub const INSTRUCTION_POINTER: usize = 16;

impl From<&libc::user_regs_struct> for Registers {
    fn from(user: &libc::user_regs_struct) -> Self {
        Self([
            user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp,
            user.r8, user.r9, user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip,
        ])
    }
}

/// The number of the system call that a stopped thread is in; `None` if it is in none.
pub fn system_call(user: &libc::user_regs_struct) -> Option<u64> {
    Some(user.orig_rax).filter(|&call| call != u64::MAX)
}

impl Registers {
    /// The caller's registers of a function that has not executed any instruction yet: the return address is on top of
    /// the stack. `read` reads a word of the thread's memory.
    pub fn caller_at_entry(&self, read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let mut caller = *self;
        caller.0[INSTRUCTION_POINTER] = read(self.0[STACK_POINTER])?;
        caller.0[STACK_POINTER] = self.0[STACK_POINTER].checked_add(8)?;
        Some(caller)
    }

    /// The caller's registers of a function that keeps a frame pointer.
    pub fn caller_by_frame_pointer(&self, read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let base = self.0[BASE_POINTER];
        if base < self.0[STACK_POINTER] {
            return None;
        }
        let mut caller = *self;
        caller.0[BASE_POINTER] = read(base)?;
        caller.0[INSTRUCTION_POINTER] = read(base.checked_add(8)?)?;
        caller.0[STACK_POINTER] = base.checked_add(16)?;
        Some(caller)
    }
}
