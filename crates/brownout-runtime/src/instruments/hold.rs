//! The instrument that holds a thread between a store and what makes the store durable, so that others can read it meanwhile.
//!
//! The recorder names the store and the instruction before which the thread waits, by file and offset (`brownout-ring`, module `hold`).
//! A thread that comes to the store is *armed*; an armed thread that comes to the other instruction waits until the recorder lets it
//! go. One thread is held at a time: others pass. Signals of a held thread wait with it. Other code costs nothing.
//!
//! What it can miss: a store that another instruction of the same thread makes durable before.

use crate::address_map::FastSet;
use crate::arch::instruments::hold::connect;
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction};
use crate::instruments::{Instrument, Resumption, exit_number};
use crate::slot;
use crate::sys;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::wire;
use brownout_ring::hold::{HeldInstruction, HoldPage, MAX_PATH, PAGE, state};
use core::sync::atomic::{AtomicPtr, Ordering};

/// The instrument.
pub struct HeldThreads;

/// What a thread keeps for the instrument. Known by offset to generated code.
#[repr(C)]
pub struct HoldArea {
    /// The entry point that generated code jumps to.
    pub to_visit: u64,
    /// Whether the thread has come to the store since it last waited.
    armed: bool,
}

/// The instrument's only exit: the thread is at one of the instructions, which `argument` says.
pub const VISIT: u32 = exit_number::<HeldThreads>(0);
const AT_STORE: u32 = 0;
const AT_WAIT: u32 = 1;

/// Nanoseconds after which a thread that is held looks whether the recorder still exists.
const CHECK_INTERVAL: u64 = 500_000_000;

/// What the instrument keeps under the translator's lock: where the instructions are mapped.
#[derive(Default)]
pub struct HoldCode {
    stores: FastSet<u64>,
    waits: FastSet<u64>,
}

static SHARED: AtomicPtr<HoldPage> = AtomicPtr::new(core::ptr::null_mut());

fn page() -> Option<&'static HoldPage> {
    // SAFETY: null, or a mapping that is never unmapped; what changes is atomic.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

impl Instrument for HeldThreads {
    type Area = HoldArea;
    type Code = HoldCode;

    fn create() {
        if !wire::wants_holds() {
            return;
        }
        let Some(addr) = wire::map(wire::READ_WRITE, PAGE, size_of::<HoldPage>()) else {
            crate::fatal::unsupported(format_args!("the engine cannot map where threads are held"));
        };
        SHARED.store(addr as *mut HoldPage, Ordering::Relaxed);
    }

    fn area() -> HoldArea {
        HoldArea {
            to_visit: 0,
            armed: false,
        }
    }

    fn code() -> HoldCode {
        HoldCode::default()
    }

    fn connect(context: &mut Context) {
        connect(&mut context.areas.hold);
    }

    fn forget_code(code: &mut HoldCode, start: u64, end: u64) {
        for known in [&mut code.stores, &mut code.waits] {
            known.retain(|&pc| pc < start || pc >= end);
        }
    }

    #[inline]
    fn before(code: &mut HoldCode, insn: &Instruction, out: &mut Emission<'_>) {
        if code.stores.is_empty() {
            return;
        }
        let pc = arch::pc(insn);
        // The thread waits first where the same instruction stores again.
        if code.waits.contains(&pc) {
            out.visit(AT_WAIT, slot!(areas.hold.to_visit));
        }
        if code.stores.contains(&pc) {
            out.visit(AT_STORE, slot!(areas.hold.to_visit));
        }
    }

    fn exit(context: &mut Context, _exit: u32) -> Resumption {
        match context.argument {
            AT_STORE => context.areas.hold.armed = true,
            _ => {
                if core::mem::take(&mut context.areas.hold.armed) {
                    hold(context);
                }
            }
        }
        Resumption::InPlace
    }

    fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
        let Some(page) = page() else { return };
        let mut buffer = [0u8; MAX_PATH];
        let path = sys::fd_path(fd, &mut buffer).unwrap_or_default();
        let address = |instruction: &HeldInstruction| {
            let path_len = instruction.path_len.load(Ordering::Relaxed) as usize;
            let inside = instruction
                .offset
                .load(Ordering::Relaxed)
                .checked_sub(offset)?;
            let is_it = instruction.path.get(..path_len) == Some(path) && inside < len;
            is_it.then_some(start + inside)
        };
        let (store, wait) = (address(&page.store), address(&page.wait));
        with_translator(|translator| {
            let code = &mut translator.instrumented.hold;
            code.stores.extend(store);
            code.waits.extend(wait);
            // They may have run already, if the file was mapped here before.
            for pc in [store, wait].into_iter().flatten() {
                translator.cache.invalidate_instruction(pc);
            }
        });
    }
}

/// Waits until the recorder lets the thread go, unless another thread is held.
fn hold(context: &mut Context) {
    let Some(page) = page() else { return };
    let states = (state::READY, state::HELD);
    let taken =
        page.state
            .compare_exchange(states.0, states.1, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_err() {
        return;
    }
    page.process.store(wire::process(), Ordering::Relaxed);
    page.thread.store(context.tid, Ordering::Relaxed);
    page.count.fetch_add(1, Ordering::Release);
    wire::wake_recorder();
    while page.state.load(Ordering::Acquire) == state::HELD {
        sys::futex_wait(&page.state, state::HELD, CHECK_INTERVAL);
        if !wire::has_recorder() || !wire::is_recording() {
            return;
        }
    }
}
