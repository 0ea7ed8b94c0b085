//! What the translator needs of an architecture.

/// The target's registers while its thread is in Rust code.
pub mod cpu {
    use crate::arch::instruments::unwind::registers::GPRS;
    use crate::arch::missing;
    use crate::translator::context::Context;

    /// Bytes of the instruction that makes a system call.
    pub const SYSCALL_BYTES: u64 = 4;

    /// The first part of a [`Context`], known by offset to assembly and generated code.
    #[repr(C)]
    #[derive(Default)]
    pub struct Cpu {
        pub gpr: [u64; GPRS],
    }

    impl Cpu {
        pub const fn new() -> Cpu {
            Cpu { gpr: [0; GPRS] }
        }

        /// The registers of a thread that is cloned from this one.
        pub fn cloned(&self) -> Cpu {
            missing()
        }

        pub fn stack_pointer(&self) -> u64 {
            missing()
        }

        pub fn set_stack_pointer(&mut self, _value: u64) {
            missing()
        }

        /// Sets what a system call or a function returns.
        pub fn set_result(&mut self, _value: u64) {
            missing()
        }

        pub fn syscall_number(&self) -> u64 {
            missing()
        }

        pub fn syscall_arguments(&self) -> [u64; 6] {
            missing()
        }

        /// Sets the registers as the kernel leaves them after a system call that returns to `next_pc`.
        pub fn finish_syscall(&mut self, _result: u64, _next_pc: u64) {
            missing()
        }

        /// The arguments of a call, at the first instruction of the function.
        pub fn call_arguments(&self) -> [u64; 6] {
            missing()
        }

        /// The results of a call, at the instruction that it returns to.
        pub fn call_results(&self) -> [u64; 2] {
            missing()
        }

        /// Whether the target steps through itself.
        pub fn single_steps(&self) -> bool {
            missing()
        }

        pub fn set_single_step(&mut self, _on: bool) {
            missing()
        }
    }

    /// Address of the context of the calling thread.
    ///
    /// # Safety
    /// The thread's context must have been installed.
    pub unsafe fn current_context() -> *mut Context {
        missing()
    }

    /// Makes a context that of the calling thread.
    ///
    /// # Safety
    /// The context must live as long as the thread.
    pub unsafe fn install_context(_context: *mut Context) {
        missing()
    }

    /// Makes a system call.
    ///
    /// # Safety
    /// The call must be sound with these arguments: it may write where they point.
    pub unsafe fn syscall(_nr: u32, _args: [u64; 6]) -> u64 {
        missing()
    }
}

/// What the runtime needs of the CPU beyond the baseline of the architecture.
pub mod cpu_features {
    /// The first feature that the runtime needs and that is not there.
    pub fn missing_feature(_hwcap2: u64) -> Option<&'static str> {
        crate::arch::missing()
    }
}

/// Branches to addresses without code.
pub mod fetch_fault {
    use crate::arch::missing;
    use crate::translator::context::Context;

    /// Delivers the signal of a fetch at `context.pc`, where there is no code.
    pub fn fetch(_context: &mut Context) {
        missing()
    }

    /// Delivers the signal of a branch that faults. False if the branch completes.
    pub fn branch(_context: &mut Context, _from: u64) -> bool {
        missing()
    }
}

/// The way between generated code and Rust code, in assembly.
pub mod gate {
    use crate::arch::missing;
    use crate::translator::context::Context;

    /// The result of a system call that a signal kept from being made.
    pub const INTERRUPTED: u64 = -4095i64 as u64;

    /// Fills in the entry points that generated code jumps to.
    pub fn fill_entry_points(_context: &mut Context) {
        missing()
    }

    /// Enters the target for the first time.
    ///
    /// # Safety
    /// The calling thread's context is installed and complete.
    pub unsafe fn enter() -> ! {
        missing()
    }

    /// Makes a system call for the target.
    ///
    /// # Safety
    /// The call must be sound with these arguments.
    pub unsafe fn native_syscall(_nr: u64, _args: &[u64; 6]) -> u64 {
        missing()
    }

    /// Makes a `clone` or `clone3` whose child starts with a context of its own.
    ///
    /// # Safety
    /// The child's context is complete.
    pub unsafe fn clone(_nr: u32, _args: &[u64; 6], _child: *mut Context) -> u64 {
        missing()
    }

    /// Ends the thread after clearing a word that says whether its stack is in use.
    ///
    /// # Safety
    /// Nothing of the thread is used afterwards.
    pub unsafe fn thread_exit(_word: *const u32, _status: u64) -> ! {
        missing()
    }

    /// Where generated code goes to be served by Rust code, once it has set `Context::exit`.
    pub fn exit() -> u64 {
        missing()
    }

    /// The return trampoline of the runtime's own signal handlers.
    pub fn restorer() -> u64 {
        missing()
    }

    /// Where calls return to that are made for the target as it asked for them.
    pub fn after_target_calls() -> [u64; 2] {
        missing()
    }

    /// The way back from a system call that is found by the target's address.
    pub fn after_syscall() -> u64 {
        missing()
    }
}

/// Memory accesses that may fault.
pub mod guarded {
    use crate::arch::missing;

    /// What a word of the target is expected to hold: its distance from a base address, and the value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    pub struct Word {
        pub distance: u64,
        pub value: u64,
    }

    /// Copies bytes, stopping at the first bad address; the number of bytes not copied.
    ///
    /// # Safety
    /// What lies at `to` must be the target's, or the caller's to overwrite.
    pub unsafe fn copy(_to: u64, _from: u64, _len: u64) -> u64 {
        missing()
    }

    /// Reads a word of the target, if it can be read.
    pub fn load(_from: u64) -> Option<u64> {
        missing()
    }

    /// Whether words of the target hold what they should.
    pub fn verify(_base: u64, _words: &[Word]) -> bool {
        missing()
    }
}

/// Addresses that are entries to the kernel.
pub mod kernel_entry {
    use crate::translator::context::Context;

    /// Makes the call that the target's call of `context.pc` stands for. False if that is no such address.
    pub fn emulate(_context: &mut Context) -> bool {
        false
    }
}

/// The frames that the kernel builds for signal handlers.
pub mod signal_frame {
    use crate::arch::missing;
    use crate::translator::context::Context;

    /// Whether a fault with this trap number and error code was one of writing.
    pub fn is_write_fault(_trap: [u64; 2]) -> bool {
        missing()
    }

    /// Finds out which components of the CPU's state a signal frame may have.
    pub fn find_state_components() {
        missing()
    }

    /// Delivers the pending signal.
    pub fn deliver(_context: &mut Context) {
        missing()
    }

    /// Takes back what the pending signal changed.
    pub fn settle(_context: &mut Context) {
        missing()
    }

    /// Returns from a signal handler of the target.
    pub fn sigreturn(_context: &mut Context) {
        missing()
    }
}

/// The runtime's own signal handler.
pub mod signal_handler {
    use crate::arch::missing;
    use crate::translator::context::Context;

    /// The address of the handler.
    pub fn entry() -> u64 {
        missing()
    }

    /// Gives the calling thread the stack that the handler runs on.
    pub fn install_for_thread(_context: &Context) {
        missing()
    }
}

/// System calls that only this architecture has: none.
pub mod syscalls {
    use crate::sys::linux;
    use crate::translator::context::Context;
    use crate::translator::syscall::Outcome;

    pub const ATTENDED: &[u32] = &[];

    /// The call by which the runtime sets up its own thread pointer: none, so that this repeats another of its calls.
    pub const SET_THREAD_POINTER: u32 = linux::__NR_gettid;

    /// Serves a call. `None` if it is none of those here.
    pub fn serve(_context: &mut Context, _nr: u32, _args: [u64; 6]) -> Option<Outcome> {
        None
    }
}

/// The thread pointer, by which C libraries name a thread.
pub mod thread_pointer {
    use crate::arch::missing;

    /// The thread pointer that a `clone` or `clone3` gives to the new thread; 0 if it gives none.
    pub fn requested(_flags: u64, _args: &[u64; 6], _structure: &Option<[u64; 11]>) -> u64 {
        missing()
    }

    /// The word that the kernel clears when the new thread ends; 0 if there is none.
    pub fn cleared(_flags: u64, _args: &[u64; 6], _structure: &Option<[u64; 11]>) -> u64 {
        missing()
    }

    /// The thread pointer of the calling thread, as the target has set it.
    pub fn current() -> u64 {
        missing()
    }
}

/// How instructions are copied into the cache.
pub mod translate {
    use crate::arch::{Instruction, missing};
    use crate::translator::cache::Draft;
    use crate::translator::context::Context;
    use crate::translator::translate::{FragmentBuilder, Next, Undecodable};
    use core::marker::PhantomData;

    /// Bytes of the longest instruction.
    pub const LONGEST_INSTRUCTION: usize = 4;

    /// Answers questions about instructions.
    #[derive(Default)]
    pub struct Analyst;

    impl Analyst {
        pub fn new() -> Analyst {
            missing()
        }
    }

    /// Decodes code from its beginning on.
    pub struct InstructionDecoder<'a>(PhantomData<&'a [u8]>);

    impl<'a> InstructionDecoder<'a> {
        pub fn new(_code: &'a [u8], _pc: u64) -> Self {
            missing()
        }

        pub fn decode(&mut self, _insn: &mut Instruction) -> Result<(), Undecodable> {
            missing()
        }
    }

    /// Whether an instruction calls a function of the target.
    pub fn is_call(_insn: &Instruction) -> bool {
        missing()
    }

    /// Writes code to the cache.
    pub struct Emitter;

    impl Emitter {
        pub fn new(_at: u64, _end: u64) -> Emitter {
            missing()
        }

        pub fn here(&self) -> u64 {
            missing()
        }

        pub fn pad_to(&mut self, _address: u64) {
            missing()
        }

        pub fn jmp(&mut self, _to: u64) {
            missing()
        }

        pub fn call_prologue(&mut self) {
            missing()
        }

        pub fn jump_prologue(&mut self) {
            missing()
        }
    }

    /// The code of a fragment while it is being emitted.
    pub struct Emission<'a> {
        pub analyst: &'a mut Analyst,
        pub out: Emitter,
        pub draft: Draft,
    }

    impl Emission<'_> {
        /// Emits a visit to the routine whose address is in the slot `entry` of the context.
        pub fn visit(&mut self, _argument: u32, _entry: i32) {
            missing()
        }

        /// Copies an instruction that falls through.
        pub fn copy(&mut self, _insn: &Instruction, _code: &[u8]) {
            missing()
        }

        /// Emits a store of a constant to a slot of the context.
        pub fn set_slot(&mut self, _slot: i32, _value: u64) {
            missing()
        }

        /// Emits the comparison of code that may change with what was translated.
        pub(crate) fn check_block(&mut self, _pc: u64, _bytes: &[u8]) {
            missing()
        }

        /// Whether a checked block that began at `start` ends with this instruction.
        pub(crate) fn ends_checked(&mut self, _insn: &Instruction, _start: u64) -> bool {
            missing()
        }
    }

    impl FragmentBuilder<'_> {
        /// Emits the copy of an instruction, whose bytes are `code`.
        pub(crate) fn instruction(&mut self, _insn: &Instruction, _code: &[u8]) -> Next {
            missing()
        }

        /// Emits what raises the exception of bytes that are no instruction.
        pub(crate) fn undecodable(&mut self, _pc: u64, _why: Undecodable) {
            missing()
        }

        /// Emits a jump to the target's address `target`.
        pub(crate) fn jump_to(&mut self, _target: u64) {
            missing()
        }

        /// Emits the stubs of all links.
        pub(crate) fn emit_link_stubs(&mut self) {
            missing()
        }
    }

    /// Emits the routines that indirect branches without an entry come to.
    pub fn emit_miss_routines(_out: &mut Emitter) {
        missing()
    }

    /// Lets a branch in the cache go elsewhere, by one store of which other threads see all or nothing.
    ///
    /// # Safety
    /// `at` is the place in a branch that holds its destination.
    pub unsafe fn patch_branch(_at: u64, _to: u64) {
        missing()
    }

    /// Ends the process: the instruction at `context.pc` is not supported.
    pub fn refuse(_context: &mut Context) {
        missing()
    }

    /// Gives the target's registers back that generated code had spilled when it faulted.
    pub fn restore_spilled(_context: &mut Context) {
        missing()
    }
}
