//! What the instruments need of an architecture.

/// Calls of watched functions.
pub mod calls {
    /// The assembly that records calls and returns.
    pub mod fast_path {
        use crate::arch::missing;
        use crate::instruments::calls::CallsArea;

        /// Fills in the entry points that generated code jumps to.
        pub fn connect(_area: &mut CallsArea) {
            missing()
        }

        /// Where a thread that faulted at `pc` continues, if that is in the assembly.
        pub fn recovery_point(_pc: u64) -> Option<u64> {
            missing()
        }
    }
}

/// Instructions of locks.
pub mod locks {
    /// The code around an atomic instruction.
    pub mod code {
        use crate::arch::translator::translate::Emission;
        use crate::arch::{Instruction, missing};
        use crate::instruments::locks::{AtomicOperation, LoggedInstruction};

        /// Emits what is needed before an instruction.
        pub fn before(_insn: &Instruction, _out: &mut Emission<'_>) {
            missing()
        }

        /// Emits what is needed behind an instruction.
        pub fn after(_insn: &Instruction, _out: &mut Emission<'_>) {
            missing()
        }

        /// Whether what an instruction does is logged.
        pub fn is_logged(_insn: &Instruction) -> bool {
            missing()
        }

        /// What a logged instruction did.
        pub fn operation(_logged: &LoggedInstruction) -> Option<AtomicOperation> {
            missing()
        }

        /// Whether a logged instruction sets a bit whose word generated code does not know.
        pub fn sets_numbered_bit(_logged: &LoggedInstruction) -> bool {
            missing()
        }
    }

    /// The assembly that keeps the log.
    pub mod note {
        use crate::arch::missing;
        use crate::instruments::locks::LocksArea;

        /// Fills in the entry points that generated code jumps to.
        pub fn connect(_area: &mut LocksArea) {
            missing()
        }

        /// Where a thread that faulted at `pc` continues, if that is in the assembly.
        pub fn recovery_point(_pc: u64) -> Option<u64> {
            missing()
        }
    }
}

/// Threads that are held.
pub mod hold {
    use crate::arch::missing;
    use crate::instruments::hold::HoldArea;

    /// Fills in the entry point that generated code jumps to.
    pub fn connect(_area: &mut HoldArea) {
        missing()
    }
}

/// Flushes and fences that the target does not have.
pub mod patch {
    use crate::arch::{Instruction, missing};
    use crate::instruments::patch::PatchArea;
    use crate::translator::context::Context;

    /// Fills in the entry point that generated code jumps to.
    pub fn connect(_area: &mut PatchArea) {
        missing()
    }

    /// The first byte that an instruction is about to store to, and how many they are; `None` if that is not known.
    pub fn stored_bytes(_insn: &Instruction, _context: &Context) -> Option<(u64, u64)> {
        missing()
    }

    /// Flushes the cache line at an address. False if it cannot be read, and so cannot be flushed.
    pub fn flush_line(_address: u64) -> bool {
        missing()
    }

    /// Orders flushes.
    pub fn fence() {
        missing()
    }
}

/// Inputs that are not the same in each run.
pub mod other_inputs {
    use crate::arch::{Instruction, missing};

    /// What an instruction uses that is not the same in each run.
    pub fn input_of(_insn: &Instruction) -> Option<u32> {
        missing()
    }
}

/// Paths that are recorded for symbolic replay.
pub mod path {
    use crate::arch::{Instruction, missing};
    use crate::instruments::path::{PathArea, REGISTERS};
    use crate::translator::context::Context;
    use alloc::vec::Vec;

    /// Something that an instruction reads, besides general-purpose registers.
    pub enum Read<'a> {
        Memory { addr: u64, len: u64, computed: bool },
        Vector { number: u8, bytes: &'a [u8] },
        Mask { number: u8, value: u64 },
    }

    /// An instruction as it is recorded.
    pub struct RecordedInstruction {
        pub pc: u64,
    }

    impl RecordedInstruction {
        pub fn of(_insn: &Instruction) -> RecordedInstruction {
            missing()
        }

        /// The bytes of the instruction.
        pub fn code(&self) -> &[u8] {
            missing()
        }

        /// Calls `found` with what the instruction is about to read.
        pub fn reads(
            &self,
            _context: &Context,
            _registers: &[u64; REGISTERS],
            _found: &mut dyn FnMut(Read<'_>),
        ) {
            missing()
        }

        /// Adds where the instruction is about to write.
        pub fn writes(&self, _registers: &[u64; REGISTERS], _to: &mut Vec<(u64, u64)>) {
            missing()
        }
    }

    /// Fills in the entry point that generated code jumps to.
    pub fn connect(_area: &mut PathArea) {
        missing()
    }

    /// The registers of the target.
    pub fn registers(_context: &Context) -> [u64; REGISTERS] {
        missing()
    }
}

/// Schedules of threads.
pub mod schedule {
    /// What is counted, and instructions whose results are not the same in each run.
    pub mod code {
        use crate::arch::translator::translate::Emission;
        use crate::arch::{Instruction, missing};
        use crate::translator::context::Context;

        /// Emits what is counted before an instruction. `is_observed` if it accesses persistent memory.
        pub fn before(_insn: &Instruction, _is_observed: bool, _out: &mut Emission<'_>) {
            missing()
        }

        /// Emits a visit in place of an instruction whose result is not the same in each run. False if it is none.
        pub fn replace(_insn: &Instruction, _out: &mut Emission<'_>) -> bool {
            missing()
        }

        /// Carries out such an instruction, with the processor's counter or a random number.
        pub fn execute(_context: &mut Context, _ticks: fn() -> u64, _random: fn() -> u64) {
            missing()
        }
    }

    /// System calls that only some architectures have. These numbers are no calls.
    pub mod syscalls {
        pub const TIME: u32 = 501;
        pub const PAUSE: u32 = 502;
        pub const POLL: u32 = 503;
        pub const SELECT: u32 = 504;
        pub const EPOLL_WAIT: u32 = 505;
        pub const OPEN: u32 = 506;
        pub const ALARM: u32 = 507;
        pub const STAT: u32 = 508;
        pub const LSTAT: u32 = 509;
    }
}

/// Coverage.
pub mod coverage {
    use crate::arch::missing;
    use crate::arch::translator::translate::Emission;

    /// Emits the increment of the thread's own count of `counter`.
    pub fn count(_out: &mut Emission<'_>, _counter: u32) {
        missing()
    }
}

/// Fuzzing: counting, and accesses to persistent memory.
pub mod fuzz {
    use crate::arch::Instruction;
    use crate::arch::missing;
    use crate::arch::translator::translate::Emission;
    use crate::instruments::fuzz::{FuzzArea, SiteKind};
    use crate::translator::context::Context;

    /// What an instruction is about to compare.
    pub enum Operands {
        Values { left: u64, right: u64, size: usize },
        Memory { left: u64, right: u64 },
    }

    pub fn connect(_area: &mut FuzzArea) {
        missing()
    }

    pub fn visit(_site: u32, _out: &mut Emission<'_>) {
        missing()
    }

    pub fn is_branch(_insn: &Instruction) -> bool {
        missing()
    }

    pub fn is_call(_insn: &Instruction) -> bool {
        missing()
    }

    pub fn note_branch(_identity: u32, _out: &mut Emission<'_>) {
        missing()
    }

    pub fn note_caller(_site: u32, _out: &mut Emission<'_>) {
        missing()
    }

    pub fn count_edge(_identity: u32, _out: &mut Emission<'_>) {
        missing()
    }

    pub fn enter_library(_site: u32, _out: &mut Emission<'_>) {
        missing()
    }

    pub fn accesses(_insn: &Instruction, _out: &mut Emission<'_>) -> [Option<SiteKind>; 2] {
        missing()
    }

    pub fn check_access(_insn: &Instruction, _kind: SiteKind, _site: u32, _out: &mut Emission<'_>) {
        missing()
    }

    pub fn extent(_context: &Context, _kind: SiteKind, _insn: &Instruction) -> (u64, u64) {
        missing()
    }

    pub fn may_compare(_insn: &Instruction) -> bool {
        missing()
    }

    pub fn operands(_context: &Context, _insn: &Instruction) -> Option<Operands> {
        missing()
    }
}

/// The assembly that records events.
pub mod events {
    use crate::arch::missing;
    use crate::instruments::MisalignedLoad;

    /// Where a thread that faulted at `pc` continues, if that is in the assembly.
    pub fn recovery_point(_pc: u64) -> Option<u64> {
        missing()
    }

    /// The load of the assembly at `pc` that a target which forbids misaligned accesses makes fault.
    pub fn misaligned_load(_pc: u64) -> Option<MisalignedLoad> {
        missing()
    }
}

/// Instructions that access persistent memory.
pub mod pm {
    /// The beginning of an access.
    pub mod begin {
        /// The entry point of the assembly.
        pub(crate) fn entry() -> u64 {
            crate::arch::missing()
        }
    }

    /// What is known about instructions, and their emission.
    pub mod code {
        use crate::arch::translator::translate::Emission;
        use crate::arch::{Instruction, missing};

        #[derive(Default)]
        pub struct PmCode;

        impl PmCode {
            pub fn new() -> PmCode {
                missing()
            }

            pub fn begin_unit(&mut self, _unit: usize) {
                missing()
            }

            pub fn forget(&mut self, _start: u64, _end: u64) {
                missing()
            }

            pub fn touch(&mut self, _pc: u64) -> bool {
                missing()
            }

            pub fn is_touched(&self, _pc: u64) -> bool {
                missing()
            }

            /// The instruction at an address is about to store to a candidate.
            pub fn stores(&mut self, _pc: u64) {
                missing()
            }

            /// Whether the stack of a branch is a candidate.
            pub fn has_observed_stack(&self, _insn: &Instruction) -> bool {
                missing()
            }

            pub fn observe_loads(&mut self) {
                missing()
            }

            pub fn observes_loads(&self) -> bool {
                missing()
            }

            pub fn emit(
                &mut self,
                _insn: &Instruction,
                _bytes: &[u8],
                _out: &mut Emission<'_>,
            ) -> bool {
                missing()
            }

            pub fn emit_push(&mut self, _insn: &Instruction, _out: &mut Emission<'_>) {
                missing()
            }

            pub fn emit_target(&mut self, _insn: &Instruction, _out: &mut Emission<'_>) {
                missing()
            }
        }
    }

    /// Instructions that the runtime carries out itself.
    pub mod emulate {
        use crate::arch::missing;
        use crate::instruments::Resumption;
        use crate::translator::context::Context;

        /// An access that could not be made.
        pub enum BadAccess {}

        impl BadAccess {
            /// A store that could not be made.
            pub fn write(_address: u64) -> BadAccess {
                missing()
            }

            /// The fault of a store, if the bytes were only read to prepare it.
            pub fn of_write(self) -> BadAccess {
                missing()
            }
        }

        /// Carries out the instruction of the site.
        pub fn emulate(_context: &mut Context) -> Resumption {
            missing()
        }

        /// Makes the signal of an access pending.
        pub(crate) fn raise(_context: &mut Context, _bad: BadAccess) {
            missing()
        }

        /// Stores bytes for the target and records the store.
        pub(crate) fn store_bytes(
            _context: &mut Context,
            _flags: u16,
            _address: u64,
            _bytes: &[u8],
        ) -> Result<(), BadAccess> {
            missing()
        }

        /// Loads bytes of the target, wherever they are.
        pub(crate) fn load_bytes(_address: u64, _bytes: &mut [u8]) -> Result<(), BadAccess> {
            missing()
        }
    }

    /// The assembly that ends an access.
    pub mod fast_path {
        use crate::translator::context::Context;

        /// Fills in the entry points that generated code jumps to.
        pub fn connect(_context: &mut Context) {
            crate::arch::missing()
        }
    }

    /// The begin of a load.
    pub mod repeated_load {
        /// The entry point of the assembly.
        pub(crate) fn entry() -> u64 {
            crate::arch::missing()
        }

        /// Where a thread that faulted at `pc` continues, if that is in the assembly.
        pub fn recovery_point(_pc: u64) -> Option<u64> {
            crate::arch::missing()
        }
    }

    /// The forms of instructions.
    pub mod form {
        /// The instructions that the runtime carries out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EmulatedForm {}

        /// The most bytes that an access of unknown extent may touch.
        pub const AREA: u32 = 4 << 10;
    }

    /// The assembly that notes what is about to be stored.
    pub mod intent {
        /// Where a thread that faulted at `pc` continues, if that is in the assembly.
        pub fn recovery_point(_pc: u64) -> Option<u64> {
            crate::arch::missing()
        }
    }

    /// Instructions that save many registers.
    pub mod register_area {
        use crate::arch::Instruction;
        use crate::translator::context::Context;

        /// How many bytes the instruction may touch.
        pub fn extent(_insn: &Instruction, _context: &Context) -> u64 {
            crate::arch::missing()
        }
    }

    /// System calls that only this architecture has: none.
    pub mod syscalls {
        use crate::instruments::pm::kernel::Extent;
        use crate::sys::linux;

        pub const OUTPUTS: &[(u32, usize, Extent)] = &[];
        pub const SILENT: &[u32] = &[];
        /// The call that creates or truncates a file and opens it: not apart from the general one.
        pub const CREATE: u32 = linux::__NR_openat;
        /// Calls that open or look up the path in their first argument: not apart from the general ones.
        pub const OPENS: &[u32] = &[];
        pub const LOOKS_UP: &[u32] = &[];

        /// Calls that change names or attributes of files.
        pub const CHANGE_NAMES: &[u32] = &[];
        /// Calls that give a file another name: not apart from the general ones.
        pub const RENAME: u32 = linux::__NR_renameat;
        pub const LINK: u32 = linux::__NR_linkat;
        /// The call that takes a name from a file: not apart from the general one.
        pub const UNLINK: u32 = linux::__NR_unlinkat;

        /// Whether a call that has succeeded opened a file and truncated it.
        pub fn truncates(_nr: u32, _args: &[u64; 6]) -> bool {
            false
        }
    }
}

/// Unwinding without tables.
pub mod unwind {
    /// Rules from reading code.
    pub mod code_scan {
        use crate::instruments::unwind::Memory;
        use crate::instruments::unwind::rule::UnwindRule;

        /// The rule for the code at `pc`.
        pub(crate) fn rule(_pc: u64, _mem: &impl Memory) -> UnwindRule {
            crate::arch::missing()
        }
    }

    /// Guesses where neither tables nor code help.
    pub mod guess {
        use crate::arch::missing;
        use crate::instruments::unwind::rule::UnwindRule;
        use crate::instruments::unwind::step::{Dependencies, State, UnwindStep};
        use crate::instruments::unwind::{CodeMap, Memory};
        use alloc::vec::Vec;

        /// Finds the caller by looking for a return address.
        pub(crate) fn step(
            _rule: &UnwindRule,
            _state: &mut State,
            _mem: &impl Memory,
            _code: &impl CodeMap,
            _dependencies: &mut Vec<Dependencies>,
            _step: &mut UnwindStep,
        ) -> Option<()> {
            missing()
        }

        /// Whether the instruction before an address is a call.
        pub(crate) fn follows_call(_address: u64, _mem: &impl Memory) -> bool {
            missing()
        }

        /// Whether the code at `pc` returns from a signal handler.
        pub(crate) fn is_sigreturn(_pc: u64, _mem: &impl Memory) -> bool {
            missing()
        }
    }

    /// The registers that matter to unwinding.
    pub mod registers {
        pub type Gpr = u8;
        pub const GPRS: usize = 32;
        pub type GprSet = u32;

        pub const STACK_POINTER: Gpr = 31;
        pub const FRAME_POINTER: Gpr = 29;

        /// The registers that a function hands back to its caller as it found them.
        pub const CALLEE_SAVED: [Gpr; 11] = [FRAME_POINTER, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];

        /// Offset of the registers in the kernel's `ucontext`, and the order they come in.
        pub const SIGNAL_REGISTERS: u64 = 0;
        pub const SIGNAL_ORDER: [Gpr; GPRS] = [STACK_POINTER; GPRS];

        /// DWARF's number for the return address.
        pub const RETURN_ADDRESS: gimli::Register = gimli::Register(30);

        /// The general-purpose register of a DWARF number.
        pub fn gpr_of_dwarf(_register: gimli::Register) -> Option<Gpr> {
            crate::arch::missing()
        }
    }
}
