//! The registry: one line for each instrument, and what the translator calls.

// The instruments by their modules, so that a new one needs no line here but that in the registry.
use super::*;
use crate::arch::Instruction;
use crate::arch::translator::translate::Emission;
use crate::fatal;
use crate::plain_data::PlainData;
use crate::sys::Raw;
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::map_lock::MapLock;
use crate::translator::signal::Info;
use crate::translator::syscall::{self, Outcome};
use core::ops::RangeInclusive;

/// Generates, for each hook, the function that calls it in all instruments.
macro_rules! registry {
    ($($name:ident: $module:ident::$instrument:ident,)+) => {
        /// The instruments in the order of their exit numbers.
        #[repr(u32)]
        enum Order {
            $($instrument),+
        }

        $(impl Registered for $module::$instrument {
            const NUMBER: u32 = Order::$instrument as u32;
        })+

        /// What the instruments keep in the context of a thread.
        #[repr(C)]
        pub struct Areas {
            $(pub $name: <$module::$instrument as Instrument>::Area),+
        }

        impl Areas {
            pub fn new() -> Areas {
                Areas { $($name: $module::$instrument::area()),+ }
            }
        }

        impl Default for Areas {
            fn default() -> Self {
                Areas::new()
            }
        }

        /// What the instruments keep under the translator's lock.
        pub struct InstrumentedCode {
            $(pub $name: <$module::$instrument as Instrument>::Code),+
        }

        impl InstrumentedCode {
            pub fn new() -> InstrumentedCode {
                InstrumentedCode { $($name: $module::$instrument::code()),+ }
            }

            pub fn begin_unit(&mut self, unit: usize) {
                $($module::$instrument::begin_unit(&mut self.$name, unit);)+
            }

            pub fn forget(&mut self, start: u64, end: u64) {
                $($module::$instrument::forget_code(&mut self.$name, start, end);)+
            }

            /// Lets the instrument with this number observe the instruction at `pc`. False if it did before.
            pub fn observe(&mut self, number: u32, pc: u64) -> bool {
                $($module::$instrument::observed_by_any(&mut self.$name, pc);)+
                $(if number == $module::$instrument::NUMBER {
                    return $module::$instrument::observe(&mut self.$name, pc);
                })+
                false
            }

            pub fn block(&mut self, pc: u64, out: &mut Emission<'_>) {
                $($module::$instrument::block(&mut self.$name, pc, out);)+
            }

            pub fn before(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
                $($module::$instrument::before(&mut self.$name, insn, out);)+
            }

            pub fn after(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
                $($module::$instrument::after(&mut self.$name, insn, out);)+
            }

            pub fn fall_through(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
                $($module::$instrument::fall_through(&mut self.$name, insn, out);)+
            }

            /// Asks the instruments in order; those after the first that emits the instruction are not asked.
            pub fn replace(
                &mut self,
                insn: &Instruction,
                bytes: &[u8],
                out: &mut Emission<'_>,
            ) -> bool {
                $($module::$instrument::replace(&mut self.$name, insn, bytes, out))||+
            }

            pub fn branch(&self, insn: &Instruction) -> BranchRequest {
                BranchRequest::default()
                    $(.or($module::$instrument::branch(&self.$name, insn)))+
            }

            /// Emits the push of a call by the one instrument that takes it over.
            pub fn push(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
                debug_assert!(
                    0 $(+ u32::from($module::$instrument::branch(&self.$name, insn).stack))+ <= 1,
                    "two instruments push a call"
                );
                $(if $module::$instrument::branch(&self.$name, insn).stack {
                    return $module::$instrument::push(&mut self.$name, insn, out);
                })+
            }

            /// Emits the load of a branch target by the one instrument that takes it over.
            pub fn load_target(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
                debug_assert!(
                    0 $(+ u32::from($module::$instrument::branch(&self.$name, insn).target))+ <= 1,
                    "two instruments load a branch target"
                );
                $(if $module::$instrument::branch(&self.$name, insn).target {
                    return $module::$instrument::load_target(&mut self.$name, insn, out);
                })+
            }
        }

        impl Default for InstrumentedCode {
            fn default() -> Self {
                InstrumentedCode::new()
            }
        }

        pub fn fixes_random_bytes() -> bool {
            $($module::$instrument::fixes_random_bytes())||+
        }

        pub fn hides_vdso() -> bool {
            $($module::$instrument::hides_vdso())||+
        }

        pub fn create() {
            $($module::$instrument::create();)+
        }

        pub fn process_started(context: &mut Context) {
            $($module::$instrument::process_started(context);)+
        }

        pub fn about_to_share(forks: bool) {
            $($module::$instrument::about_to_share(forks);)+
        }

        pub fn stop() {
            $($module::$instrument::stop();)+
        }

        pub fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
            registry!(@nested fork; $($module::$instrument)+)
        }

        pub fn thread_created(context: &mut Context, child: &mut Context, cleared: u64) {
            $($module::$instrument::thread_created(context, child, cleared);)+
        }

        pub fn thread_begins(context: &mut Context) {
            $($module::$instrument::thread_begins(context);)+
        }

        pub fn connect(context: &mut Context) {
            $($module::$instrument::connect(context);)+
        }

        pub fn thread_joined(context: &mut Context) {
            $($module::$instrument::thread_joined(context);)+
        }

        pub fn thread_started(context: &mut Context) {
            $($module::$instrument::thread_started(context);)+
        }

        /// # Safety
        /// As for [`Instrument::set_alone`].
        pub unsafe fn set_alone(context: *mut Context, alone: bool) {
            // SAFETY: the caller's promise.
            unsafe { $($module::$instrument::set_alone(context, alone);)+ }
        }

        pub fn thread_left(context: &mut Context) {
            $($module::$instrument::thread_left(context);)+
        }

        /// Serves the exit of an instrument.
        #[inline]
        pub fn exit(context: &mut Context) -> Resumption {
            let own = context.exit & (FIRST_EXIT - 1);
            $(if context.exit >> EXIT_BITS == $module::$instrument::NUMBER + 1 {
                return $module::$instrument::exit(context, own);
            })+
            fatal::fault(format_args!("unknown exit {}", context.exit))
        }

        pub fn interrupted(context: &mut Context) {
            $($module::$instrument::interrupted(context);)+
        }

        pub fn delivered(context: &mut Context) {
            $($module::$instrument::delivered(context);)+
        }

        pub fn fault(context: &mut Context) -> bool {
            let mut explained = false;
            $(explained |= $module::$instrument::fault(context);)+
            explained
        }

        pub fn undo_access(context: &mut Context, is_page_fault: bool, info: &mut Info) {
            $($module::$instrument::undo_access(context, is_page_fault, info);)+
        }

        pub fn recovery_point(pc: u64) -> Option<u64> {
            None$(.or_else(|| $module::$instrument::recovery_point(pc)))+
        }

        pub fn misaligned_load(pc: u64) -> Option<MisalignedLoad> {
            None$(.or_else(|| $module::$instrument::misaligned_load(pc)))+
        }

        pub fn system_calls() -> impl Iterator<Item = u32> {
            [$($module::$instrument::SYSTEM_CALLS),+].into_iter().flatten().copied()
        }

        pub fn before_syscall(context: &mut Context) {
            $($module::$instrument::before_syscall(context);)+
        }

        /// Makes a system call of the target that the translator has no other interest in.
        pub fn syscall(context: &mut Context, nr: u32, args: [u64; 6]) -> Outcome {
            registry!(@around context, nr, args; $($module::$instrument)+)
        }

        fn observed_write(
            context: &mut Context,
            to: u64,
            bytes: &[u8],
        ) -> Option<Result<(), target_memory::Fault>> {
            $(if let Some(written) = $module::$instrument::write(context, to, bytes) {
                return Some(written);
            })+
            None
        }

        pub fn closed(descriptors: RangeInclusive<u32>) {
            $($module::$instrument::closed(descriptors.clone());)+
        }

        pub fn map(
            context: &mut Context,
            map_lock: MapLock,
            args: [u64; 6],
        ) -> Result<Raw, MapLock> {
            Err(map_lock)$(.or_else(|lock| $module::$instrument::map(context, lock, args)))+
        }

        pub fn replacing(map_lock: &mut MapLock, start: u64, len: u64) {
            $($module::$instrument::replacing(map_lock, start, len);)+
        }

        pub fn unmapped(context: &mut Context, start: u64, end: u64) {
            $($module::$instrument::unmapped(context, start, end);)+
        }

        pub fn protect(context: &mut Context, args: [u64; 6]) -> Option<Raw> {
            None$(.or_else(|| $module::$instrument::protect(context, args)))+
        }

        pub fn remap(
            context: &mut Context,
            map_lock: &mut MapLock,
            args: [u64; 6],
        ) -> Option<Raw> {
            None$(.or_else(|| $module::$instrument::remap(context, map_lock, args)))+
        }

        pub fn owns(start: u64, end: u64) -> bool {
            $($module::$instrument::owns(start, end))||+
        }

        pub fn hides(address: u64) -> bool {
            $($module::$instrument::hides(address))||+
        }

        pub fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
            $($module::$instrument::module_mapped(fd, start, len, offset);)+
        }
    };
    (@nested $work:expr;) => { $work() };
    (@nested $work:expr; $module:ident::$instrument:ident $($rest:tt)*) => {
        $module::$instrument::quiesced(|| registry!(@nested $work; $($rest)*))
    };
    (@around $context:expr, $nr:expr, $args:expr;) => {
        syscall::native(u64::from($nr), &$args)
    };
    (@around $context:expr, $nr:expr, $args:expr; $module:ident::$instrument:ident $($rest:tt)*) => {
        $module::$instrument::syscall($context, $nr, $args, |_context, nr, args| {
            registry!(@around _context, nr, args; $($rest)*)
        })
    };
}

// An instrument whose locks may be taken while those of another are held comes after that one.
// What is added at the end of a statement comes before what happens at the next instruction.
registry! {
    patch: patch::AddedOperations,
    schedule: schedule::Scheduler,
    explore: explore::ChosenLoads,
    fuzz: fuzz::CountedExecutions,
    locks: locks::LockRecogniser,
    pm: pm::PersistentMemory,
    calls: calls::WatchedCalls,
    events: events::EventRecorder,
    hold: hold::HeldThreads,
    coverage: coverage::CoverageCounts,
    path: path::RecordedPath,
    other_inputs: other_inputs::OtherInputs,
}

/// The first exit number of instruments; those below are the translator's.
pub const FIRST_EXIT: u32 = 1 << EXIT_BITS;
/// Bits of an exit number that are the instrument's own.
const EXIT_BITS: u32 = 8;

/// An instrument with its place in the registry.
pub trait Registered: Instrument {
    const NUMBER: u32;
}

/// The number under which `Context::exit` leads to [`Instrument::exit`] of an instrument.
pub const fn exit_number<I: Registered>(exit: u32) -> u32 {
    ((I::NUMBER + 1) << EXIT_BITS) + exit
}

/// Writes bytes to the target's memory on behalf of the kernel.
pub fn write(context: &mut Context, to: u64, bytes: &[u8]) -> Result<(), target_memory::Fault> {
    observed_write(context, to, bytes).unwrap_or_else(|| target_memory::write_bytes(to, bytes))
}

/// Writes a plain value as [`write()`] does.
pub fn write_value<T: PlainData>(
    context: &mut Context,
    to: u64,
    value: &T,
) -> Result<(), target_memory::Fault> {
    write(context, to, value.as_bytes())
}
