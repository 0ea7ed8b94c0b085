//! The instrument that flushes and fences where the target does not: the operations of a repair, in the unmodified program.
//!
//! The recorder names the instructions (`brownout-ring`, module `patch`). Each of them is visited: before it, because the registers then
//! say where it stores, and behind it. A thread keeps for each patch what its statement has stored, and flushes it, fences, or both
//! where the statement ends. These operations are recorded like the target's own, at the instruction or call that ends the statement.
//! Other code costs nothing.
//!
//! What it can miss: a signal that arrives between an instruction and the visit behind it takes the visit's place. Bytes that are not
//! known before they are stored (scatters, states of the processor) are counted as unknown and not flushed.

use crate::address_map::FastMap;
use crate::arch::instruments::patch::{connect, fence, flush_line, stored_bytes};
use crate::arch::translator::translate::{Emission, is_call};
use crate::arch::{self, Instruction};
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::instruments::pm::kernel::synchronized;
use crate::instruments::{Instrument, Resumption, exit_number};
use crate::memory::PAGE;
use crate::slot;
use crate::sys::{self, linux};
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::wire::{self, Head};
use alloc::boxed::Box;
use alloc::vec::Vec;
use brownout_ring::patch::{self, MAX_PATCHES, MAX_PATH, MAX_SITES, PatchPage, operation, role};
use brownout_ring::{fence, flush, kind};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The instrument.
pub struct AddedOperations;

/// What a thread keeps for the instrument. Known by offset to generated code.
#[repr(C)]
pub struct PatchArea {
    /// The entry point that generated code jumps to.
    pub to_visit: u64,
    /// The statements that the thread is in the middle of.
    begun: Vec<Begun>,
}

/// A statement that a thread is in the middle of.
struct Begun {
    patch: u32,
    /// The call that the thread has made last, and in how many calls of the statement it is.
    call: u64,
    depth: u32,
    /// The instruction or call that was last executed, or 0 if none was.
    last: u64,
    /// The lines that it has stored to, in that order, and the highest of them.
    lines: Vec<u64>,
    highest: u64,
}

impl Begun {
    fn add(&mut self, lines: RangeInclusive<u64>) {
        for line in lines {
            // Bytes are mostly copied upwards: few lines have to be looked for.
            if line > self.highest || !self.lines.contains(&line) {
                self.lines.push(line);
                self.highest = self.highest.max(line);
            }
        }
    }
}

/// The instrument's only exit: the thread is at the point `argument / 2`, before it or (odd) behind it.
pub const VISIT: u32 = exit_number::<AddedOperations>(0);

const LINE: u64 = 64;

/// An instruction that is visited.
struct Point {
    insn: Instruction,
    /// The sites at this instruction.
    sites: Vec<u32>,
    /// The patches whose call it is.
    calls: Vec<u32>,
}

/// What the instrument keeps under the translator's lock.
#[derive(Default)]
pub struct PatchCode {
    /// The sites at each address.
    sites: FastMap<u64, Vec<u32>>,
    /// The number of the point of each instruction.
    points: FastMap<u64, u32>,
    /// How many points there are.
    used: usize,
}

static SHARED: AtomicPtr<PatchPage> = AtomicPtr::new(core::ptr::null_mut());
/// All points, as far as they are used. They are never freed, and are added under the translator's lock.
static POINTS: [AtomicPtr<Point>; MAX_POINTS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_POINTS];
/// Each site has a point, and perhaps the call before it. A file may be mapped again.
const MAX_POINTS: usize = 3 * MAX_SITES;

fn page() -> Option<&'static PatchPage> {
    // SAFETY: null, or a mapping that is never unmapped; what changes is atomic.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

fn point(number: usize) -> Option<&'static Point> {
    // SAFETY: null, or a leaked allocation that was filled before it was published.
    unsafe { POINTS.get(number)?.load(Ordering::Acquire).as_ref() }
}

impl PatchCode {
    /// The number of the point of an instruction; `None` if it is not visited.
    fn point(&mut self, insn: &Instruction) -> Option<u32> {
        if self.sites.is_empty() {
            return None;
        }
        let pc = arch::pc(insn);
        if let Some(&known) = self.points.get(&pc) {
            return Some(known);
        }
        let page = page()?;
        let sites = self.sites.get(&pc).cloned().unwrap_or_default();
        let after = self.sites.get(&arch::next_pc(insn));
        let after = after.filter(|_| is_call(insn)).into_iter().flatten();
        let calls = after.filter_map(|&site| {
            let site = page.site.get(site as usize)?;
            let returns = site.role.load(Ordering::Relaxed) & role::RETURN != 0;
            returns.then(|| site.patch.load(Ordering::Relaxed))
        });
        let calls: Vec<u32> = calls.collect();
        if sites.is_empty() && calls.is_empty() {
            return None;
        }
        let Some(place) = POINTS.get(self.used) else {
            page.unknown.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let point = Box::new(Point {
            insn: *insn,
            sites,
            calls,
        });
        place.store(Box::leak(point), Ordering::Release);
        let number = self.used as u32;
        self.used += 1;
        self.points.insert(pc, number);
        Some(number)
    }
}

impl Instrument for AddedOperations {
    type Area = PatchArea;
    type Code = PatchCode;

    fn create() {
        if !wire::wants_patches() {
            return;
        }
        let Some(addr) = wire::map(wire::READ_WRITE, patch::PAGE, size_of::<PatchPage>()) else {
            crate::fatal::unsupported(format_args!("the engine cannot map what is to be patched"));
        };
        SHARED.store(addr as *mut PatchPage, Ordering::Relaxed);
    }

    fn area() -> PatchArea {
        PatchArea {
            to_visit: 0,
            begun: Vec::new(),
        }
    }

    fn code() -> PatchCode {
        PatchCode::default()
    }

    fn connect(context: &mut Context) {
        connect(&mut context.areas.patch);
    }

    fn thread_left(context: &mut Context) {
        context.areas.patch.begun = Vec::new();
    }

    fn forget_code(code: &mut PatchCode, start: u64, end: u64) {
        code.sites.retain(|&pc, _| pc < start || pc >= end);
        code.points.retain(|&pc, _| pc < start || pc >= end);
    }

    #[inline]
    fn before(code: &mut PatchCode, insn: &Instruction, out: &mut Emission<'_>) {
        if let Some(point) = code.point(insn) {
            out.visit(point * 2, slot!(areas.patch.to_visit));
        }
    }

    #[inline]
    fn after(code: &mut PatchCode, insn: &Instruction, out: &mut Emission<'_>) {
        if let Some(point) = code.point(insn) {
            out.visit(point * 2 + 1, slot!(areas.patch.to_visit));
        }
    }

    fn exit(context: &mut Context, _exit: u32) -> Resumption {
        if let (Some(page), Some(point)) = (page(), point(context.argument as usize / 2)) {
            match context.argument.is_multiple_of(2) {
                true => before(context, page, point),
                false => behind(context, page, point),
            }
        }
        Resumption::InPlace
    }

    fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
        let Some(page) = page() else { return };
        let mut buffer = [0u8; MAX_PATH];
        let path = sys::fd_path(fd, &mut buffer).unwrap_or_default();
        let is_mapped = |file: usize| {
            page.file.get(file).is_some_and(|file| {
                let path_len = file.path_len.load(Ordering::Relaxed) as usize;
                file.path.get(..path_len) == Some(path)
            })
        };
        let files = page.files.load(Ordering::Relaxed) as usize;
        let Some(file) = (0..files).find(|&file| is_mapped(file)) else {
            return;
        };
        let sites = (page.sites.load(Ordering::Relaxed) as usize).min(MAX_SITES);
        with_translator(|translator| {
            for (number, site) in page.site[..sites].iter().enumerate() {
                let inside = (site.offset.load(Ordering::Relaxed)).wrapping_sub(offset);
                if site.file.load(Ordering::Relaxed) as usize != file || inside >= len {
                    continue;
                }
                let pc = start + inside;
                let code = &mut translator.instrumented.patch;
                code.points.remove(&pc);
                let known = code.sites.entry(pc).or_default();
                if !known.contains(&(number as u32)) {
                    known.push(number as u32);
                }
                // It may have run already, if the file was mapped here before.
                translator.cache.invalidate_instruction(pc);
            }
        });
    }
}

/// The sites of a point: the number of the patch, what the patch does, and the role of the instruction in it.
fn sites(page: &'static PatchPage, point: &'static Point) -> impl Iterator<Item = (u32, u32, u32)> {
    point.sites.iter().filter_map(move |&site| {
        let site = page.site.get(site as usize)?;
        let patch = site.patch.load(Ordering::Relaxed);
        let operations = page.operations.get(patch as usize)?;
        let operations = operations.load(Ordering::Relaxed);
        Some((patch, operations, site.role.load(Ordering::Relaxed)))
    })
}

/// A thread is about to execute an instruction: statements may end here, and the instruction may store.
fn before(context: &mut Context, page: &'static PatchPage, point: &'static Point) {
    let pc = arch::pc(&point.insn);
    for (patch, operations, role) in sites(page, point) {
        let begun = &mut context.areas.patch.begun;
        if role & role::RETURN != 0
            && let Some(begun) = begun.iter_mut().find(|begun| begun.patch == patch)
            && begun.depth > 0
        {
            begun.depth -= 1;
            begun.last = begun.call;
            if operations & operation::LOOP == 0 {
                perform(context, page, patch, operations);
            }
        }
        if role & role::BEFORE != 0 {
            perform(context, page, patch, operations);
        }
    }
    for (patch, _, role) in sites(page, point) {
        if role & role::STORE == 0 {
            continue;
        }
        let begun = begun(&mut context.areas.patch.begun, patch);
        if role & role::INSIDE != 0 && context.areas.patch.begun[begun].depth == 0 {
            continue;
        }
        let Some((first, len)) = stored_bytes(&point.insn, context) else {
            page.unknown.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        if len > 0 {
            let lines = first / LINE..=first.saturating_add(len - 1) / LINE;
            context.areas.patch.begun[begun].add(lines);
        }
    }
    for &patch in &point.calls {
        let begun = begun(&mut context.areas.patch.begun, patch);
        let begun = &mut context.areas.patch.begun[begun];
        begun.call = pc;
        begun.depth += 1;
    }
}

/// A thread has executed an instruction.
fn behind(context: &mut Context, page: &'static PatchPage, point: &'static Point) {
    for (patch, operations, role) in sites(page, point) {
        if role & role::AFTER == 0 {
            continue;
        }
        let begun = begun(&mut context.areas.patch.begun, patch);
        context.areas.patch.begun[begun].last = arch::pc(&point.insn);
        if operations & operation::LOOP == 0 {
            perform(context, page, patch, operations);
        }
    }
}

/// The index of what a thread keeps for a patch.
fn begun(all: &mut Vec<Begun>, patch: u32) -> usize {
    let known = all.iter().position(|begun| begun.patch == patch);
    known.unwrap_or_else(|| {
        all.push(Begun {
            patch,
            call: 0,
            depth: 0,
            last: 0,
            lines: Vec::new(),
            highest: 0,
        });
        all.len() - 1
    })
}

/// Flushes and fences at the end of a statement, if the thread has executed it.
fn perform(context: &mut Context, page: &'static PatchPage, patch: u32, operations: u32) {
    let mut begun = context.areas.patch.begun.iter_mut();
    let Some(begun) = begun.find(|begun| begun.patch == patch && begun.last != 0) else {
        return;
    };
    let pc = core::mem::take(&mut begun.last);
    let mut lines = core::mem::take(&mut begun.lines);
    begun.highest = 0;
    context.pc = pc;
    let caller = calling_context::context_of(context);
    let head = |kind, flags, addr| Head {
        kind,
        flags,
        pc,
        context: caller,
        addr,
    };
    if operations & operation::SYNC != 0 {
        synchronize(context, &lines);
    }
    if operations & operation::FLUSH != 0 {
        for &line in &lines {
            let address = line * LINE;
            let mapping = candidates::find(address);
            let volatile = if mapping.is_none() {
                flush::VOLATILE
            } else {
                0
            };
            let flushed = head(kind::FLUSH, flush::CLWB | volatile, address);
            context.wire.record_short(flushed, &[]);
            context.areas.events.unordered = 1;
            flush_line(address.wrapping_add(mapping.map_or(0, |mapping| mapping.delta)));
        }
    }
    if operations & operation::FENCE != 0 {
        context
            .wire
            .record_short(head(kind::FENCE, fence::SFENCE, 0), &[]);
        context.areas.events.unordered = 0;
        fence();
    }
    if (patch as usize) < MAX_PATCHES {
        page.performed[patch as usize].fetch_add(1, Ordering::Relaxed);
    }
    // What was allocated is used again.
    lines.clear();
    let at = self::begun(&mut context.areas.patch.begun, patch);
    context.areas.patch.begun[at].lines = lines;
}

/// Syncs the pages of lines.
fn synchronize(context: &mut Context, lines: &[u64]) {
    let Some((first, last)) = lines.iter().min().zip(lines.iter().max()) else {
        return;
    };
    let start = (first * LINE) & !(PAGE - 1);
    let len = (last + 1) * LINE - start;
    let args = [start, len, u64::from(linux::MS_SYNC), 0, 0, 0];
    // SAFETY: writes back what the target has stored; it changes neither memory nor mappings.
    unsafe { crate::sys!(linux::__NR_msync, start, len, linux::MS_SYNC) };
    synchronized(context, linux::__NR_msync, &args);
}
