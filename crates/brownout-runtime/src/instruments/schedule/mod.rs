//! The instrument that runs the threads of a process one at a time, in an order that a seed determines.
//!
//! The same seed gives the same interleaving, and so the same trace: which thread runs next depends only on the seed
//! ([`priorities`]) and on what the threads do, counted in steps: instructions that access persistent memory, flush, fence or are
//! locked. A thread that waits lets others run ([`switch`]). Futexes are served here ([`futex`]); waits for descriptors and
//! times end in a fixed order ([`waits`]). Time and random numbers are those of the seed ([`clock`], [`file_times`], [`randomness`]).
//!
//! Each process has a schedule of its own. The order of processes, signals, what arrives from outside of the process, timers of
//! the system, and ids of processes and threads are not determined; if the target uses them, that is reported
//! ([`brownout_ring::input`]).
//!
//! What it can miss: interleavings that differ only in accesses to ordinary memory without locked instructions, because threads
//! are not preempted between them.
//!
//! Without `--schedule` no code is emitted, and no system call is attended.

mod client;
mod clock;
mod deadlock;
mod file_times;
mod futex;
pub mod priorities;
mod randomness;
mod switch;
pub mod turns;
mod waits;

use crate::address_map::FastSet;
use crate::arch::instruments::schedule::{code, syscalls};
use crate::arch::translator::gate;
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction};
use crate::instruments::baton::Baton;
use crate::instruments::{Instrument, Resumption};
use crate::lock::{Lock, is_single};
use crate::sys::linux;
use crate::translator::cache::EPOCH;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::translator::process;
use crate::translator::syscall::{Outcome, attend_to};
use crate::wire;
use brownout_ring::input;
use core::sync::atomic::Ordering;
use switch::NEVER;
use turns::Turns;

/// The instrument.
pub struct Scheduler;

/// The turns of the process, if its threads are scheduled.
static STATE: Lock<Option<Turns>> = Lock::new(None);

/// What a thread keeps for the instrument. Known by offset to generated code.
#[repr(C)]
pub struct ScheduleArea {
    /// Where generated code leaves for Rust code.
    pub to_exit: u64,
    /// Steps, branches and pauses that are left until the thread visits the scheduler.
    pub steps: u64,
    pub branches: u64,
    pub pauses: u64,
    /// What `steps` was when its turn began.
    armed: u64,
    /// The thread's place in the order of turns.
    baton: Baton,
    /// Whether the thread is scheduled. A process that runs in the memory of another is not.
    is_scheduled: bool,
    /// The word that the kernel is to clear when the thread ends, or 0.
    cleared: u64,
}

/// What is known of the code.
pub struct ScheduleCode {
    is_active: bool,
    /// Whether steps and branches are counted. With one thread they need not be; executions, which have to be fast, begin when they create
    /// another one.
    counts: bool,
    /// Instructions that instruments observe: they access persistent memory.
    observed: FastSet<u64>,
}

/// The instrument's exits.
pub mod exits {
    use super::Scheduler;
    use crate::instruments::exit_number;

    /// A step of a preemption.
    pub const STEP: u32 = exit_number::<Scheduler>(super::STEP);
    /// The thread has executed so many branches or pauses that it may be waiting for another one.
    pub const SPIN: u32 = exit_number::<Scheduler>(super::SPIN);
    /// An instruction whose result differs from run to run.
    pub const UNPINNED: u32 = exit_number::<Scheduler>(super::UNPINNED);
}

const STEP: u32 = 0;
const SPIN: u32 = 1;
const UNPINNED: u32 = 2;

impl Instrument for Scheduler {
    type Area = ScheduleArea;
    type Code = ScheduleCode;

    fn fixes_random_bytes() -> bool {
        wire::schedule().is_some()
    }

    fn hides_vdso() -> bool {
        wire::schedule().is_some()
    }

    fn create() {
        if let Some((seed, length)) = wire::schedule() {
            *STATE.lock() = Some(Turns::new(seed, length));
            client::create();
            let clocks = [clock::CALLS, file_times::CALLS];
            let lists = [futex::CALLS, randomness::CALLS, CALLS];
            lists
                .into_iter()
                .chain(clocks)
                .chain(waits::CALLS)
                .for_each(attend_to);
        }
    }

    fn area() -> ScheduleArea {
        ScheduleArea {
            to_exit: 0,
            steps: NEVER,
            branches: NEVER,
            pauses: NEVER,
            armed: NEVER,
            baton: Baton::new(),
            is_scheduled: false,
            cleared: 0,
        }
    }

    fn code() -> ScheduleCode {
        ScheduleCode {
            is_active: wire::schedule().is_some(),
            counts: !wire::wants_fuzz(),
            observed: FastSet::default(),
        }
    }

    fn process_started(context: &mut Context) {
        let this = context.this;
        switch::with_turns(|turns| {
            if turns.thread(this).is_none() {
                turns.add(this);
            }
            turns.keep_only(this);
            context.areas.schedule.is_scheduled = true;
        });
    }

    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        let _turns = STATE.lock();
        fork()
    }

    fn about_to_share(forks: bool) {
        if wire::schedule().is_none() {
            return;
        }
        if forks {
            wire::note_input(input::PROCESSES);
        } else if is_single() && !process::is_vfork_child() {
            with_translator(|translator| {
                if !core::mem::replace(&mut translator.instrumented.schedule.counts, true) {
                    translator.cache.invalidate_all();
                }
            });
        }
    }

    fn connect(context: &mut Context) {
        context.areas.schedule.to_exit = gate::exit();
    }

    fn thread_created(context: &mut Context, child: &mut Context, cleared: u64) {
        if !context.areas.schedule.is_scheduled {
            return;
        }
        switch::add_thread(context, child.this);
        child.areas.schedule.is_scheduled = true;
        child.areas.schedule.cleared = cleared;
    }

    fn thread_begins(context: &mut Context) {
        if context.areas.schedule.is_scheduled {
            switch::begin_thread(context);
        }
    }

    fn thread_left(context: &mut Context) {
        if !context.areas.schedule.is_scheduled {
            return;
        }
        // SAFETY: only its address is used.
        let current = unsafe { crate::arch::translator::cpu::current_context() };
        if core::ptr::eq(current, context) {
            switch::end_thread(context);
        } else {
            // It could not be created.
            switch::with_turns(|turns| turns.remove(context.this));
        }
    }

    fn forget_code(code: &mut ScheduleCode, start: u64, end: u64) {
        code.observed.retain(|pc| !(start..end).contains(pc));
    }

    fn observed_by_any(code: &mut ScheduleCode, pc: u64) {
        if code.is_active {
            code.observed.insert(pc);
        }
    }

    fn before(code: &mut ScheduleCode, insn: &Instruction, out: &mut Emission<'_>) {
        if code.is_active && code.counts {
            code::before(insn, code.observed.contains(&arch::pc(insn)), out);
        }
    }

    fn replace(
        code: &mut ScheduleCode,
        insn: &Instruction,
        _bytes: &[u8],
        out: &mut Emission<'_>,
    ) -> bool {
        code.is_active && code::replace(insn, out)
    }

    fn exit(context: &mut Context, exit: u32) -> Resumption {
        // It does not return to the code that it comes from.
        context.epoch = EPOCH.load(Ordering::Relaxed);
        match exit {
            STEP if context.areas.schedule.is_scheduled => switch::reschedule(context),
            SPIN if context.areas.schedule.is_scheduled => switch::give_way(context),
            UNPINNED => {
                code::execute(context, clock::ticks, randomness::word);
                return Resumption::AtPc;
            }
            // Nothing is counted for threads that are not scheduled.
            _ => {
                context.areas.schedule = ScheduleArea {
                    to_exit: context.areas.schedule.to_exit,
                    ..Self::area()
                }
            }
        }
        switch::repeat_instruction(&mut context.areas.schedule);
        Resumption::AtPc
    }

    fn syscall(
        context: &mut Context,
        nr: u32,
        args: [u64; 6],
        make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
    ) -> Outcome {
        if !context.areas.schedule.is_scheduled {
            return make(context, nr, args);
        }
        if let Some(raw) =
            clock::serve(context, nr, &args).or_else(|| randomness::serve(context, nr, &args))
        {
            return Outcome::Done(raw);
        }
        match nr {
            linux::__NR_futex => futex::serve(context, args, make),
            _ if file_times::CALLS.contains(&nr) => file_times::serve(context, nr, args, make),
            _ if futex::is_newer(nr) => Outcome::Done(futex::unsupported()),
            linux::__NR_sched_yield => {
                switch::give_way(context);
                Outcome::Done(0)
            }
            linux::__NR_set_tid_address => {
                context.areas.schedule.cleared = args[0];
                make(context, nr, args)
            }
            _ => {
                note_unpinned(context, nr, &args);
                waits::serve(context, nr, args, make)
            }
        }
    }
}

/// Calls that are served here.
const CALLS: &[u32] = &[
    linux::__NR_sched_yield,
    linux::__NR_set_tid_address,
    linux::__NR_getpid,
    linux::__NR_gettid,
    linux::__NR_getppid,
    linux::__NR_kill,
    linux::__NR_tkill,
    linux::__NR_tgkill,
    linux::__NR_setitimer,
    syscalls::ALARM,
    linux::__NR_timer_settime,
    linux::__NR_timerfd_settime,
];

/// Reports a call that makes runs with the same seed differ.
fn note_unpinned(context: &Context, nr: u32, args: &[u64; 6]) {
    let receiver = match nr {
        linux::__NR_tkill => args[0],
        linux::__NR_tgkill => args[1],
        linux::__NR_kill => 0,
        linux::__NR_getpid | linux::__NR_gettid | linux::__NR_getppid => {
            return wire::note_input(input::IDS);
        }
        linux::__NR_setitimer
        | syscalls::ALARM
        | linux::__NR_timer_settime
        | linux::__NR_timerfd_settime => {
            return wire::note_input(input::TIMERS);
        }
        linux::__NR_times | linux::__NR_sysinfo | linux::__NR_getrusage | linux::__NR_getcpu => {
            return wire::note_input(input::USAGE);
        }
        _ => return,
    };
    if receiver as u32 != context.tid {
        wire::note_input(input::SIGNALS);
    }
}

/// Why the wait of a system call ended without a result, as the target sees it: the call is made again after a handler
/// that was installed with `SA_RESTART`, if it is one of those that are.
fn interrupted(context: &Context, is_restarted: bool) -> Outcome {
    let flags = context.actions().get(context.pending.signal).flags;
    if is_restarted && flags & u64::from(linux::SA_RESTART) != 0 {
        Outcome::Interrupted
    } else {
        Outcome::Done(crate::sys::err(crate::sys::errno::EINTR))
    }
}
