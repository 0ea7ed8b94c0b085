//! The instrument of fuzzing: counts what an execution does, and copies the process for each of them (PMFuzz, ASPLOS'21, §3.3, §4.2–4.4).
//!
//! Nothing is recorded. Edges are counted in a map, transitions between operations on persistent memory in an exact [table](transitions),
//! both in memory that is shared with the engine. Persistent files are mapped as the target asks for it; an access is recognised by its
//! address, which is compared before each instruction that may access them. So there is neither an alias nor a fault, and the pages that
//! were stored to are [known](ranges) and can be restored.
//!
//! An edge leads from a conditional branch, an indirect branch, a call or a return of the program to where it goes, or, through libraries,
//! to where it comes back. Edges inside libraries are not counted, as they are not by fuzzers that compile the program. An edge does not
//! depend on how the translator has cut code into blocks, so that counts are the same in each execution of an input.
//!
//! What it can miss: accesses relative to the stack pointer, to absolute addresses and by gathers and scatters; they are not persistent
//! memory in practice. Without `option::FUZZ` no code is emitted.

mod calls;
pub mod comparisons;
mod identity;
mod page;
mod ranges;
mod shared_descriptors;
mod sites;
mod stations;
mod transitions;

use crate::address_map::FastSet;
use crate::arch::instruments::fuzz as code;
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction};
use crate::instruments::calls::symbols::{self, MappedCode};
use crate::instruments::calls::table::WatchedFunctions;
use crate::instruments::{Instrument, Resumption, exit_number};
use crate::sys::{self, Raw, is_err, linux};
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::translator::map_lock::MapLock;
use crate::translator::syscall::{Outcome, attend_all};
use crate::wire;
use brownout_ring::fuzz::{FuzzPage, effect, mode, station};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use identity::{Modules, Role};
use ranges::MappedRange;
pub use sites::SiteKind;
use sites::{FuzzSite, FuzzSites};

/// The client of the target is about to use the input. Returns in each copy that is made here.
pub fn arrive_at_client(context: &mut Context) {
    if page::page().is_some() {
        calls::use_input(context);
    }
}

/// The instrument.
pub struct CountedExecutions;

/// What a thread keeps for the instrument. Known by offset to generated code.
#[repr(C)]
pub struct FuzzArea {
    /// The entry point that generated code jumps to.
    pub to_visit: u64,
    /// Address of the map of edges.
    pub edges: u64,
    /// Identity of the branch that was executed last; 0 if its edge is counted.
    pub branch: u64,
    /// The hull of all mappings of persistent memory.
    pub hull_start: u64,
    pub hull_len: u64,
    /// The address of an access in the hull.
    pub address: u64,
    /// One more than the number of the site of the last call outside of libraries; 0 if there was none.
    pub caller: u64,
    /// Non-zero from such a call until a library for persistent memory is entered.
    pub is_entering: u64,
    /// Identity of the last operation.
    pub previous: u64,
    /// What comes after each count: one more, up to 255.
    pub next_count: [u8; 256],
}

/// The instrument's only exit: the thread is at the site in `argument`.
pub const VISIT: u32 = exit_number::<CountedExecutions>(0);

/// What the instrument keeps under the translator's lock.
#[derive(Default)]
pub struct FuzzCode {
    is_active: bool,
    compares: bool,
    modules: Modules,
    sites: FuzzSites,
    fork_at: Option<WatchedFunctions>,
    /// Where the function begins before which the process is copied.
    fork_points: FastSet<u64>,
}

impl FuzzCode {
    fn site(&mut self, kind: SiteKind, pc: u64, insn: &Instruction) -> Option<u32> {
        self.sites.add(kind, self.modules.place(pc), pc, insn)
    }
}

impl Instrument for CountedExecutions {
    type Area = FuzzArea;
    type Code = FuzzCode;

    fn create() {
        if page::page().is_none() {
            return;
        }
        calls::create();
        stations::become_main();
        attend_all();
    }

    fn area() -> FuzzArea {
        let mut next_count = [u8::MAX; 256];
        for (next, count) in next_count.iter_mut().zip(1..=u8::MAX) {
            *next = count;
        }
        FuzzArea {
            to_visit: 0,
            edges: page::page().map_or(0, |page| {
                (&raw const *page) as u64 + offset_of!(FuzzPage, edges) as u64
            }),
            branch: 0,
            hull_start: 0,
            hull_len: 0,
            address: 0,
            caller: 0,
            is_entering: 0,
            previous: 0,
            next_count,
        }
    }

    fn code() -> FuzzCode {
        if wire::wants_fuzz() {
            page::create();
            sites::create();
        }
        let Some(page) = page::page() else {
            return FuzzCode::default();
        };
        let fork_at = page::text(&page.fork_at);
        FuzzCode {
            is_active: true,
            compares: page.mode.load(Ordering::Relaxed) & mode::COMPARISONS != 0,
            fork_at: (!fork_at.is_empty()).then(|| WatchedFunctions::of(fork_at.leak())),
            ..FuzzCode::default()
        }
    }

    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        ranges::quiesced(fork)
    }

    fn connect(context: &mut Context) {
        code::connect(&mut context.areas.fuzz);
    }

    fn thread_joined(context: &mut Context) {
        ranges::refresh(context);
    }

    fn forget_code(code: &mut FuzzCode, start: u64, end: u64) {
        code.modules.forget(start, end);
        code.sites.forget(start, end);
        code.fork_points.retain(|pc| !(start..end).contains(pc));
    }

    #[inline]
    fn block(code: &mut FuzzCode, pc: u64, out: &mut Emission<'_>) {
        if !code.is_active {
            return;
        }
        if let Some(page) = page::page() {
            page.translated.fetch_add(1, Ordering::Relaxed);
        }
        let place = code.modules.place(pc);
        if place.role == Role::Program {
            code::count_edge(place.identity as u32, out);
        }
        let insn = Instruction::default();
        if place.role == Role::Persistence
            && let Some(site) = code.site(SiteKind::Entry, pc, &insn)
        {
            code::enter_library(site, out);
        }
        if code.fork_points.contains(&pc)
            && let Some(site) = code.site(SiteKind::ForkAt, pc, &insn)
        {
            code::visit(site, out);
        }
    }

    #[inline]
    fn before(code: &mut FuzzCode, insn: &Instruction, out: &mut Emission<'_>) {
        if !code.is_active {
            return;
        }
        let pc = arch::pc(insn);
        for kind in code::accesses(insn, out).into_iter().flatten() {
            if let Some(site) = code.site(kind, pc, insn) {
                code::check_access(insn, kind, site, out);
            }
        }
        if code.compares
            && code::may_compare(insn)
            && let Some(site) = code.site(SiteKind::Comparison, pc, insn)
        {
            code::visit(site, out);
        }
        if code::is_branch(insn) {
            let place = code.modules.place(pc);
            if place.role != Role::Program {
                return;
            }
            if code::is_call(insn)
                && let Some(site) = code.site(SiteKind::Caller, pc, insn)
            {
                code::note_caller(site, out);
            }
            code::note_branch((place.identity >> 32) as u32 | 1, out);
        }
    }

    fn replace(
        code: &mut FuzzCode,
        insn: &Instruction,
        bytes: &[u8],
        out: &mut Emission<'_>,
    ) -> bool {
        // Nothing is recorded: instruments that come later have nothing to do with it.
        if code.is_active {
            out.copy(insn, bytes);
        }
        code.is_active
    }

    fn exit(context: &mut Context, _exit: u32) -> Resumption {
        let site = sites::get(context.argument);
        match site.kind {
            SiteKind::Load | SiteKind::Store | SiteKind::Flush => access(context, &site),
            SiteKind::Fence => transitions::note(context, &site),
            SiteKind::Entry => {
                context.areas.fuzz.is_entering = 0;
                transitions::note(context, &site);
            }
            SiteKind::ForkAt => stations::arrive(context, station::BEFORE_INPUT),
            SiteKind::Comparison => comparisons::note(context, &site),
            SiteKind::Caller => {}
        }
        Resumption::InPlace
    }

    fn interrupted(context: &mut Context) {
        context.areas.fuzz.branch = 0;
    }

    fn before_syscall(context: &mut Context) {
        if page::page().is_some() {
            calls::before(context);
        }
    }

    fn syscall(
        context: &mut Context,
        nr: u32,
        args: [u64; 6],
        make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
    ) -> Outcome {
        if page::page().is_some() {
            calls::make(context, nr, args, make)
        } else {
            make(context, nr, args)
        }
    }

    fn map(_context: &mut Context, map_lock: MapLock, args: [u64; 6]) -> Result<Raw, MapLock> {
        if page::page().is_some() && is_shared_file(&args) {
            Ok(map(args))
        } else {
            Err(map_lock)
        }
    }

    fn unmapped(_context: &mut Context, start: u64, end: u64) {
        if page::page().is_some() {
            ranges::remove(start, end);
        }
    }

    fn remap(_context: &mut Context, _map_lock: &mut MapLock, args: [u64; 6]) -> Option<Raw> {
        let [old, old_len, new_len, ..] = args;
        let range = ranges::find(old)?;
        // SAFETY: the target's own call on a mapping of a file.
        let raw = unsafe { sys::syscall(linux::__NR_mremap, args) };
        if !is_err(raw) {
            ranges::remove(old, old.saturating_add(old_len));
            ranges::add(MappedRange {
                start: raw,
                end: raw.saturating_add(crate::memory::page_up(new_len)),
                offset: range.offset + (old - range.start),
                ..range
            });
        }
        Some(raw)
    }

    fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
        if page::page().is_none() {
            return;
        }
        let read = |buffer: &mut [u8], at: u64| {
            let got = sys::pread(fd, buffer, at);
            if is_err(got) { 0 } else { got as usize }
        };
        let mapped = MappedCode { start, len, offset };
        with_translator(|translator| {
            let code = &mut translator.instrumented.fuzz;
            code.modules.add(fd, start, len, offset);
            let found = match &code.fork_at {
                Some(table) => symbols::find(&read, &mapped, table),
                None => return,
            };
            for function in found {
                code.fork_points.insert(function.address);
                // It may have run already, if the file was mapped here before.
                translator.cache.invalidate_instruction(function.address);
            }
        });
    }
}

/// An instruction is about to access an address in the hull of persistent memory.
fn access(context: &mut Context, site: &FuzzSite) {
    let (address, len) = code::extent(context, site.kind, &site.insn);
    let Some(range) = ranges::find(address) else {
        return;
    };
    if site.kind == SiteKind::Store {
        ranges::note_store(&range, address, len);
    }
    transitions::note(context, site);
}

/// Whether a mapping that is about to be made shows a file to other processes, too, and is that of a regular file that can be written.
fn is_shared_file(args: &[u64; 6]) -> bool {
    let [_, _, prot, flags, fd, _] = *args;
    let is_shared = matches!(flags & 0xf, 1 | 3);
    let is_code = prot & u64::from(linux::PROT_EXEC) != 0;
    is_shared
        && !is_code
        && flags & u64::from(linux::MAP_ANONYMOUS) == 0
        && sys::fstat(fd as i32).is_some_and(|stat| stat.st_mode & linux::S_IFMT == linux::S_IFREG)
}

/// The target's `mmap` of a file that it shares.
fn map(args: [u64; 6]) -> Raw {
    let [_, len, prot, _, fd, offset] = args;
    // SAFETY: the target's own call: the kernel decides whether it is allowed, and where. What a fixed mapping replaces was checked to be
    // the target's.
    let start = unsafe { sys::syscall(linux::__NR_mmap, args) };
    if is_err(start) {
        return start;
    }
    let file = ranges::persistent_file(fd as i32);
    let is_written = prot & u64::from(linux::PROT_WRITE) != 0;
    if file.is_none() && is_written {
        page::note(effect::OTHER_MAPPING);
        page::note_files(linux::__NR_mmap);
    }
    let end = start.saturating_add(crate::memory::page_up(len));
    ranges::remove(start, end);
    if file.is_some() || is_written {
        ranges::add(MappedRange {
            start,
            end,
            file,
            offset,
        });
    }
    start
}
