//! The instrument that records the path of the target from the first symbolic byte on, for symbolic replay.
//!
//! Until a symbolic byte is read, only the calls that could read one are attended, and code is translated as without the instrument. Then
//! all code is translated again, and each instruction is preceded by a visit that records it: the registers that have changed, the memory
//! and the vector registers that it reads, and afterwards the memory that it has written (`brownout-ring`, module `path`). Pages from which
//! it loads with computed addresses are recorded as a whole the first time, so that replay knows what neighbouring loads would read.
//!
//! A target whose path does not fit is killed.
//!
//! What it can miss: what other processes do with symbolic bytes; memory that is shared with them.

mod record;
mod sources;

use crate::arch::Instruction;
use crate::arch::instruments::path::{RecordedInstruction, connect, registers};
use crate::arch::translator::translate::Emission;
use crate::instruments::other_inputs::value_of;
use crate::instruments::{Instrument, Resumption, exit_number};
use crate::slot;
use crate::sys::{self, is_err};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::process;
use crate::translator::syscall::Outcome;
use crate::wire;
use alloc::vec::Vec;
use brownout_ring::path::{PAGE, PathPage};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use linux_raw_sys::auxvec::AT_ENTRY as AT_ENTRY_POINT;
use record::RECORDER;

/// The instrument.
pub struct RecordedPath;

/// Registers that a step compares with those of the step before.
pub const REGISTERS: usize = 19;

/// What a thread keeps for the instrument. Known by offset to generated code.
#[repr(C)]
pub struct PathArea {
    /// The entry point that generated code jumps to.
    pub to_visit: u64,
    /// The registers at the thread's last step.
    last: [u64; REGISTERS],
    /// Whether the thread has made a step, and the address of its instruction.
    has_stepped: bool,
    last_pc: u64,
    /// What the last step writes to memory.
    writes: Vec<(u64, u64)>,
    /// A mapping of a source that the thread is making: its number, the offset in it, and the length.
    mapping: Option<(u32, u64, u64)>,
}

/// The instrument's only exit; `argument` is the number of the site.
pub const VISIT: u32 = exit_number::<RecordedPath>(0);
/// The argument of the visit at the entry point of the program.
const AT_ENTRY: u32 = u32::MAX;

/// Whether instructions are recorded.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The entry point of the program, if recording begins there; 0 otherwise.
static ENTRY: AtomicU64 = AtomicU64::new(0);
static SHARED: AtomicPtr<PathPage> = AtomicPtr::new(core::ptr::null_mut());

fn page() -> Option<&'static PathPage> {
    // SAFETY: null, or a mapping that is never unmapped; what changes is atomic.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

/// Sites of the code that is translated.
#[derive(Default)]
pub struct PathCode {
    sites: u32,
}

impl Instrument for RecordedPath {
    type Area = PathArea;
    type Code = PathCode;

    fn create() {
        if !wire::wants_path() {
            return;
        }
        let Some(addr) = wire::map(wire::READ_WRITE, PAGE, size_of::<PathPage>()) else {
            crate::fatal::unsupported(format_args!(
                "the engine cannot map where paths are recorded"
            ));
        };
        SHARED.store(addr as *mut PathPage, Ordering::Relaxed);
        sources::attend();
    }

    fn area() -> PathArea {
        PathArea {
            to_visit: 0,
            last: [0; REGISTERS],
            has_stepped: false,
            last_pc: 0,
            writes: Vec::new(),
            mapping: None,
        }
    }

    fn code() -> PathCode {
        PathCode::default()
    }

    fn connect(context: &mut Context) {
        connect(&mut context.areas.path);
    }

    fn process_started(context: &mut Context) {
        let Some(page) = page() else { return };
        if ACTIVE.load(Ordering::Relaxed) && !is_recorder(page) {
            // A copy of the process that is recorded.
            ACTIVE.store(false, Ordering::Relaxed);
            page.others.fetch_add(1, Ordering::Relaxed);
        }
        context.areas.path.mapping = None;
        if sources::any_at_entry(page) && page.process.load(Ordering::Relaxed) == 0 {
            let entry = value_of(&process::auxiliary(), AT_ENTRY_POINT);
            ENTRY.store(entry.unwrap_or(0), Ordering::Relaxed);
        }
    }

    #[inline]
    fn block(_code: &mut PathCode, pc: u64, out: &mut Emission<'_>) {
        if pc == ENTRY.load(Ordering::Relaxed) && pc != 0 {
            out.visit(AT_ENTRY, slot!(areas.path.to_visit));
        }
    }

    #[inline]
    fn before(code: &mut PathCode, insn: &Instruction, out: &mut Emission<'_>) {
        if ACTIVE.load(Ordering::Relaxed) {
            let number = code.sites;
            code.sites += 1;
            RECORDER
                .lock()
                .add_site(number, RecordedInstruction::of(insn));
            out.visit(number, slot!(areas.path.to_visit));
        }
    }

    fn exit(context: &mut Context, _exit: u32) -> Resumption {
        if context.argument == AT_ENTRY {
            if ENTRY.swap(0, Ordering::Relaxed) != 0 {
                sources::at_entry(context);
            }
        } else if ACTIVE.load(Ordering::Relaxed) {
            step(context);
        }
        Resumption::InPlace
    }

    fn delivered(context: &mut Context) {
        if ACTIVE.load(Ordering::Relaxed) {
            RECORDER.lock().signal(context.tid);
        }
    }

    fn before_syscall(context: &mut Context) {
        if page().is_some() {
            sources::before_map(context);
        }
    }

    fn syscall(
        context: &mut Context,
        nr: u32,
        args: [u64; 6],
        make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
    ) -> Outcome {
        if page().is_none() {
            return make(context, nr, args);
        }
        let read = sources::before(nr, &args);
        let outcome = make(context, nr, args);
        if let Outcome::Done(raw) = outcome {
            if let Some(read) = read.filter(|_| !is_err(raw)) {
                read.finish(context, raw);
            } else if ACTIVE.load(Ordering::Relaxed) {
                RECORDER.lock().call(context.tid, nr, &args);
            }
        }
        outcome
    }

    fn write(
        _context: &mut Context,
        to: u64,
        bytes: &[u8],
    ) -> Option<Result<(), target_memory::Fault>> {
        if ACTIVE.load(Ordering::Relaxed) {
            RECORDER.lock().kernel_write(to, bytes.len() as u64);
        }
        None
    }

    fn unmapped(_context: &mut Context, start: u64, end: u64) {
        if ACTIVE.load(Ordering::Relaxed) {
            RECORDER.lock().kernel_write(start, end - start);
        }
    }

    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        let guard = RECORDER.lock();
        let result = fork();
        drop(guard);
        result
    }
}

/// Whether this process is the one that is recorded.
fn is_recorder(page: &PathPage) -> bool {
    page.process.load(Ordering::Relaxed) == wire::process() + 1
}

/// Begins to record if nothing is recorded yet. False if another process is.
fn activate() -> bool {
    let Some(page) = page() else { return false };
    if ACTIVE.load(Ordering::Relaxed) {
        return true;
    }
    let own = wire::process() + 1;
    let taken = (page.process).compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    if taken.is_err() || !RECORDER.lock().open() {
        if page.is_full.load(Ordering::Relaxed) == 0 {
            page.others.fetch_add(1, Ordering::Relaxed);
        }
        return false;
    }
    ACTIVE.store(true, Ordering::Relaxed);
    crate::translator::syscall::attend_all();
    crate::translator::dispatch::with_translator(|translator| translator.cache.invalidate_all());
    true
}

/// Records that the thread is about to execute the instruction of a site.
fn step(context: &mut Context) {
    let number = context.argument;
    let now = registers(context);
    let mut recorder = RECORDER.lock();
    let Some(site) = recorder.site(number) else {
        return;
    };
    let area = &context.areas.path;
    if area.has_stepped && area.last_pc == site.pc && area.last == now {
        // The instruction was interrupted by a fault that the runtime has served, and begins again.
        return;
    }
    recorder.select(context.tid);
    for (addr, len) in context.areas.path.writes.drain(..) {
        recorder.stored(addr, len);
    }
    if let Some((source, offset, len)) = context.areas.path.mapping.take() {
        let [raw, _] = context.cpu.call_results();
        if !is_err(raw) {
            recorder.symbolic(source, offset, raw, len);
        }
    }
    site.reads(context, &now, &mut |read| recorder.read(read));
    site.writes(&now, &mut context.areas.path.writes);
    let area = &mut context.areas.path;
    let has_changed = |register: usize| !area.has_stepped || area.last[register] != now[register];
    let changed = (0..REGISTERS).filter(|&register| has_changed(register));
    let mask = changed.fold(0u32, |mask, register| mask | 1 << register);
    recorder.step(number, mask, &now);
    area.last = now;
    area.last_pc = site.pc;
    area.has_stepped = true;
    if !recorder.has_room() {
        // What it would do from here on is not known, and it may never end.
        sys::kill_process();
    }
}
