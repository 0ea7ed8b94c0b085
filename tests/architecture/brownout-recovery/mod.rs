//! What the stack tracer must know about an architecture.

/// The registers of a stopped thread by their DWARF numbers, the instruction pointer last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub [u64; 32]);

/// DWARF numbers of registers.
pub const STACK_POINTER: usize = 30;
pub const INSTRUCTION_POINTER: usize = 31;

impl From<&libc::user_regs_struct> for Registers {
    fn from(_user: &libc::user_regs_struct) -> Self {
        missing()
    }
}

/// The number of the system call that a stopped thread is in; `None` if it is in none.
pub fn system_call(_user: &libc::user_regs_struct) -> Option<u64> {
    missing()
}

impl Registers {
    /// The caller's registers of a function that has not executed any instruction yet.
    pub fn caller_at_entry(&self, _read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        missing()
    }

    /// The caller's registers of a function that keeps a frame pointer.
    pub fn caller_by_frame_pointer(&self, _read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        missing()
    }
}

fn missing() -> ! {
    panic!("an architecture supplies this")
}
