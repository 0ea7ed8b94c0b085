//! The instrument that records what the target does to persistent memory.
//!
//! Every shared, writable mapping of a file is a *candidate*. The target sees it at the address it
//! asked for, but without the right to write (with `--loads`: without any right); the engine has it a
//! second time, with all rights, at an *alias*. The first store of an instruction to a candidate
//! therefore faults, and the instruction becomes a *site*: it is translated again so that it works on
//! the alias and is recorded. Instructions that never touch a candidate cost nothing, and no store is missed.
//!
//! A store and its record are one step under a lock that is chosen by the page of the file ([`stripes`]). The order
//! of records on the same bytes is therefore the order in which memory changed, and the recorded value is the
//! one that was stored.
//!
//! What it can miss: stores by devices, and by processes that are not recorded. Processes do not share stripes: if
//! two of them race on the same bytes, a record may hold the value of the other process.

pub(crate) mod access;
pub(crate) mod candidate;
pub(crate) mod candidates;
pub(crate) mod intent;
pub(crate) mod kernel;
mod map;
mod order;
pub mod repeated_loads;
mod shared_files;
mod sharing;
pub mod site;
pub(crate) mod split;
pub mod stripes;
pub(crate) mod unmap;

pub use access::access_done;
pub use order::order;
pub use site::SiteKind;

use crate::arch::instruments::pm::code::PmCode;
use crate::arch::instruments::pm::emulate::emulate;
use crate::arch::instruments::pm::{begin, fast_path, repeated_load};
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction, instruments::pm::intent as intent_assembly};
use crate::instruments::{BranchRequest, Instrument, Resumption};
use crate::lock::is_single;
use crate::sys::{Raw, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::map_lock::MapLock;
use crate::translator::process;
use crate::translator::signal::Info;
use crate::translator::syscall::Outcome;
use crate::wire;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use repeated_loads::Lockset;
use stripes::{lock_all, unlock_all};

/// The instrument.
pub struct PersistentMemory;

/// What a thread keeps for the instrument. Known by offset to assembly and generated code.
#[derive(Default)]
#[repr(C)]
pub struct PmArea {
    /// Entry points that generated code jumps to.
    pub to_begin: u64,
    pub to_begin_load: u64,
    pub to_end: u64,
    pub to_emulate: u64,
    pub to_order: u64,
    /// Where the begin routine returns to.
    pub return_to: u64,
    /// Size of the access in bytes.
    pub size: u64,
    /// The second lock of an access that crosses a page, or 0. The first is in `EventArea::lock`.
    /// This and `split` are 0 between two accesses: who sets them clears them.
    pub second_stripe: u64,
    /// Size of an access that is made on a copy, or 0.
    pub split: u64,
    /// The hull of all candidate mappings.
    pub hull_start: u64,
    pub hull_len: u64,
    /// The candidate mapping that the thread used last, and the distances to its alias and to the numbers
    /// by which its stripes are chosen.
    pub near_start: u64,
    pub near_len: u64,
    pub near_delta: u64,
    pub near_stripe: u64,
    /// Distance from an address in that mapping to where it is flushed.
    pub flush_delta: u64,
    /// A range inside the hull known to hold no candidate.
    pub gap_start: u64,
    pub gap_len: u64,
    /// The target's rcx while the target of a branch is loaded into it.
    pub branch_rcx: u64,
    /// Addresses of the tables of stripes and of sites.
    pub stripes: u64,
    pub sites: u64,
    /// The loads that the thread has recorded, or 0; and the locks that it holds.
    pub seen: u64,
    pub lockset: Lockset,
    /// Non-zero while the process has one thread: its accesses need no locks.
    pub alone: u64,
    /// Whether the pending fault came from an access that the instrument had moved.
    pub fault_was_observed: bool,
    /// Memory before an instruction whose extent is not known beforehand.
    pub(crate) before: Vec<u8>,
}

/// The instrument's exits.
pub mod exits {
    use super::PersistentMemory;
    use crate::instruments::exit_number;

    /// An access to persistent memory was made; `argument` is its site.
    pub const DONE: u32 = exit_number::<PersistentMemory>(super::DONE);
    /// The address of an access has to be looked up.
    pub const LOOKUP: u32 = exit_number::<PersistentMemory>(super::LOOKUP);
    /// An instruction of site `argument` has to be carried out by the runtime.
    pub const EMULATE: u32 = exit_number::<PersistentMemory>(super::EMULATE);
    /// A fence or a flush of site `argument` is about to happen.
    pub const ORDER: u32 = exit_number::<PersistentMemory>(super::ORDER);
}

const DONE: u32 = 0;
const LOOKUP: u32 = 1;
const EMULATE: u32 = 2;
const ORDER: u32 = 3;

impl Instrument for PersistentMemory {
    type Area = PmArea;
    type Code = PmCode;

    /// What other processes have mapped may be written by this one through descriptors.
    const SYSTEM_CALLS: &'static [u32] = kernel::FILE_CALLS;

    fn create() {
        stripes::create();
        site::SITES.create();
        kernel::create();
    }

    fn area() -> PmArea {
        PmArea::default()
    }

    fn code() -> PmCode {
        PmCode::new()
    }

    /// No store is under way and the tables are at rest.
    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        let stores = may_be_storing();
        if stores {
            lock_all();
        }
        let result = candidates::quiesced(fork);
        if stores {
            unlock_all();
        }
        result
    }

    fn stop() {
        if may_be_storing() {
            lock_all();
        }
    }

    fn connect(context: &mut Context) {
        fast_path::connect(context);
        context.areas.pm.to_begin = begin::entry();
        context.areas.pm.to_begin_load = repeated_load::entry();
        context.areas.pm.stripes = stripes::table();
        context.areas.pm.sites = site::SITES.address();
    }

    fn thread_joined(context: &mut Context) {
        repeated_loads::begin(context);
        refresh(context);
    }

    unsafe fn set_alone(context: *mut Context, alone: bool) {
        // SAFETY: the context is in the list of threads, so it is mapped. The word is set only by the first thread for
        // itself. It is cleared only when that thread starts a second one; the only context in the list is then its
        // own, and it is not in the middle of an access.
        unsafe { (&raw mut (*context).areas.pm.alone).write_volatile(u64::from(alone)) };
    }

    fn thread_left(context: &mut Context) {
        context.areas.pm.before = Vec::new();
        repeated_loads::end(context);
    }

    fn begin_unit(code: &mut PmCode, unit: usize) {
        code.begin_unit(unit);
    }

    fn forget_code(code: &mut PmCode, start: u64, end: u64) {
        code.forget(start, end);
    }

    fn observe(code: &mut PmCode, pc: u64) -> bool {
        code.touch(pc)
    }

    fn replace(
        code: &mut PmCode,
        insn: &Instruction,
        bytes: &[u8],
        out: &mut Emission<'_>,
    ) -> bool {
        code.emit(insn, bytes, out)
    }

    fn branch(code: &PmCode, insn: &Instruction) -> BranchRequest {
        BranchRequest {
            stack: code.has_observed_stack(insn),
            target: code.is_touched(arch::pc(insn)) && code.observes_loads(),
        }
    }

    fn push(code: &mut PmCode, insn: &Instruction, out: &mut Emission<'_>) {
        code.emit_push(insn, out);
    }

    fn load_target(code: &mut PmCode, insn: &Instruction, out: &mut Emission<'_>) {
        code.emit_target(insn, out);
    }

    #[inline]
    fn exit(context: &mut Context, exit: u32) -> Resumption {
        match exit {
            DONE => access_done(context),
            ORDER => order(context),
            LOOKUP => access::access_lookup(context),
            _ => emulate(context),
        }
    }

    fn fault(context: &mut Context) -> bool {
        access::fault(context)
    }

    fn undo_access(context: &mut Context, is_page_fault: bool, info: &mut Info) {
        access::undo(context, is_page_fault, info);
    }

    fn recovery_point(pc: u64) -> Option<u64> {
        intent_assembly::recovery_point(pc).or_else(|| repeated_load::recovery_point(pc))
    }

    fn about_to_share(forks: bool) {
        sharing::about_to_share(forks);
    }

    fn before_syscall(context: &mut Context) {
        sharing::notice();
        context.areas.pm.lockset.renew();
        kernel::collect(context);
    }

    fn syscall(
        context: &mut Context,
        nr: u32,
        args: [u64; 6],
        make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
    ) -> Outcome {
        kernel::syscall(context, nr, args, make)
    }

    fn write(
        context: &mut Context,
        to: u64,
        bytes: &[u8],
    ) -> Option<Result<(), target_memory::Fault>> {
        kernel::write(context, to, bytes)
    }

    fn closed(descriptors: RangeInclusive<u32>) {
        kernel::closed(descriptors);
    }

    fn map(context: &mut Context, map_lock: MapLock, args: [u64; 6]) -> Result<Raw, MapLock> {
        let [_, _, prot, flags, fd, _] = args;
        if candidate::is_candidate(prot, flags, fd as i32) {
            let raw = map::map(context, map_lock, args);
            sharing::notice();
            Ok(raw)
        } else {
            kernel::mapped_unobserved(context, &args);
            Err(map_lock)
        }
    }

    fn replacing(map_lock: &mut MapLock, start: u64, len: u64) {
        unmap::replacing(map_lock, start, len);
    }

    fn unmapped(context: &mut Context, start: u64, end: u64) {
        unmap::unmapped(context, start, end);
    }

    fn protect(context: &mut Context, args: [u64; 6]) -> Option<Raw> {
        unmap::protect(context, args)
    }

    fn remap(context: &mut Context, map_lock: &mut MapLock, args: [u64; 6]) -> Option<Raw> {
        unmap::remap(context, map_lock, args)
    }

    fn owns(start: u64, end: u64) -> bool {
        candidates::has_alias_in(start, end)
    }

    fn hides(address: u64) -> bool {
        candidates::find(address).is_some()
    }
}

/// Whether another thread may be in the middle of a store. The locks are many pages, which a fork has copied.
fn may_be_storing() -> bool {
    candidates::any() && !is_single()
}

/// The rights that the target's own mapping really gets.
fn real_prot(prot: u64) -> u64 {
    if wire::wants_loads() {
        0
    } else {
        prot & !u64::from(linux::PROT_WRITE)
    }
}

/// Gives a thread the hull of the candidates.
fn refresh(context: &mut Context) {
    let (start, len) = candidates::hull();
    context.areas.pm.hull_start = start;
    context.areas.pm.hull_len = len;
}

/// Makes all threads forget what they remember of the mappings.
fn refresh_all(start: u64, len: u64) {
    process::for_each_thread(|context| {
        // SAFETY: word-sized stores that the assembly reads afresh for each access. A thread in the middle of
        // one may use the old values, as it might have a moment earlier.
        unsafe {
            (&raw mut (*context).areas.pm.near_len).write_volatile(0);
            (&raw mut (*context).areas.pm.gap_len).write_volatile(0);
            (&raw mut (*context).areas.pm.hull_start).write_volatile(start);
            (&raw mut (*context).areas.pm.hull_len).write_volatile(len);
        }
    });
}
