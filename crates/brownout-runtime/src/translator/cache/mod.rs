//! The code cache: where translated code lives, and what is known about it.
//!
//! # Layout of the low 2 GiB and what follows
//!
//! Generated code is in `[CACHE, CACHE_END)`, below 2 GiB, next to the target's own modules, which the
//! loader and `mmap` place there too: operands relative to the instruction pointer then reach from the copy, and a branch
//! target fits an immediate. Above 2 GiB starts the branch table: for each target address below 2 GiB
//! eight bytes that say where in the cache a jump and a call to it go. It is sparse: a page of it
//! exists only where code was translated.
//!
//! # Invariants
//!
//! 1. Nothing in the target's memory refers to the cache: return addresses on its stack are its own.
//!    The cache may therefore move code at will; only threads inside it must be waited for.
//! 2. Cache memory is written only under the translator's lock, and a full unit only by patching links. A link is
//!    patched by one 4-byte store that does not cross a cache line.
//! 3. A table entry of zero leads to the miss routine at the start of the cache.
//! 4. Jump entries expect the register that holds branch targets in its spill slot; call entries expect one extra word on the stack;
//!    block entries expect the target's registers untouched.
//! 5. Nothing leads to incomplete code: tables and links are changed after the code is written.
//! 6. A retired unit is reused only after every thread has passed through the dispatcher, or is in a
//!    system call from which it will be sent there.

mod fragment;
mod huge_table;
mod table;

pub use fragment::{Boundary, Draft, Fragment, Repair, Special};
pub use table::{HASH_SLOTS, hash_table};

use crate::address_map::{FastMap, FastSet};
use crate::arch::translator::translate::{self as arch, Emitter};
use crate::fatal;
use crate::lock::Lock;
use crate::memory::{self, HUGE_PAGE, PAGE, page_down};
use crate::sys;
use crate::sys::{is_err, linux};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// First address of the code cache.
pub const CACHE: u64 = 0x6000_0000;
const UNIT: u64 = 64 << 20;
pub const UNITS: usize = 6;
/// A unit that is used this far is given up early if little of it can still be reached, so that a target which
/// keeps generating code does not fill the cache before any of it is reused. The cost of giving up is
/// proportional to the number of blocks, so each block must gain some bytes.
const EARLY: u64 = 2 << 20;
const EARLY_FOR_BLOCK: u64 = 64;
pub const CACHE_END: u64 = CACHE + UNIT * UNITS as u64;

/// Whether a range touches the code cache.
pub fn overlaps(start: u64, end: u64) -> bool {
    start < CACHE_END && end > CACHE
}

/// Offset of the jump-miss routine; that of calls is at offset 0.
pub const JUMP_MISS: u64 = 64;
/// Bytes of code above which a huge page is worth the cost of clearing it.
const SMALL: u64 = 512 << 10;
/// Room that a fragment may take at most.
const FRAGMENT_ROOM: u64 = 128 << 10;

/// How often, and with pauses of how many nanoseconds, threads are waited for that are in retired code.
const RETIREMENT_PAUSES: u32 = 5000;
const PAUSE: u64 = 1_000_000;

/// Target addresses from here on have no slot in the branch table.
pub const FAR: u64 = 1 << 31;

/// A direct branch in the cache that may be patched to go straight to its target.
pub struct Link {
    /// Address of the 4-byte displacement.
    pub at: u64,
    /// Where the displacement leads while unlinked.
    pub stub: u64,
    /// The target address the branch goes to.
    pub target: u64,
    /// Whether it is a call, which goes to a call entry.
    pub call: bool,
    /// The code it is in was forgotten: it always leads to its stub, so that threads leave.
    pub dead: bool,
}

#[derive(Default)]
struct Unit {
    fragments: Vec<Fragment>,
    /// Bytes of the fragments that can be reached.
    live: u64,
    /// Epoch at which the unit was retired, if it holds dead code.
    retired: Option<u64>,
    /// When it was taken into use, as a count of such times.
    since: u64,
}

impl Unit {
    fn is_fresh(&self) -> bool {
        self.fragments.is_empty()
    }
}

pub struct Cache {
    units: [Unit; UNITS],
    /// Whether the first of the code is on huge pages.
    is_huge: bool,
    current: usize,
    next: u64,
    blocks: FastMap<u64, u32>,
    call_entries: FastMap<u64, u32>,
    links: FastMap<u32, Link>,
    next_link: u32,
    links_to_page: FastMap<u64, Vec<u32>>,
    fragments_of_page: FastMap<u64, Vec<(u8, u32)>>,
    /// Indirect branches that have had branch targets beyond the branch table.
    pub far_branches: FastSet<u64>,
    /// Set when code exists at addresses that a table lookup cannot distinguish from data.
    pub all_far: bool,
}

/// Counts unit retirements; threads copy it on each pass through the dispatcher.
pub static EPOCH: AtomicU64 = AtomicU64::new(0);

pub static TRANSLATOR: Lock<Option<crate::translator::translate::Translator>> = Lock::new(None);

/// Gives the kernel advice on a part of the cache.
fn advise(start: u64, end: u64, advice: u32) {
    // SAFETY: none of the advice changes what the memory holds; failure only costs speed.
    unsafe { crate::sys!(linux::__NR_madvise, start, end - start, advice) };
}

impl Cache {
    /// Maps the cache and the branch table and writes the miss routines.
    pub fn create() -> Cache {
        let prot = linux::PROT_READ | linux::PROT_WRITE | linux::PROT_EXEC;
        let flags = linux::MAP_PRIVATE
            | linux::MAP_ANONYMOUS
            | linux::MAP_NORESERVE
            | linux::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE leaves anything that is already there alone.
        let raw = unsafe { sys::mmap(CACHE, CACHE_END - CACHE, prot, flags, -1, 0) };
        if is_err(raw) {
            fatal::unsupported(format_args!(
                "the engine cannot map executable memory at {CACHE:#x} ({}); check for a limit on address space (ulimit -v) or a policy against writable code",
                sys::Errno::of(raw)
            ));
        }
        advise(CACHE, CACHE + HUGE_PAGE, linux::MADV_NOHUGEPAGE);
        advise(CACHE + HUGE_PAGE, CACHE_END, linux::MADV_HUGEPAGE);
        table::create();
        let mut cache = Cache {
            units: Default::default(),
            is_huge: false,
            current: 0,
            next: CACHE,
            blocks: FastMap::default(),
            call_entries: FastMap::default(),
            links: FastMap::default(),
            next_link: 0,
            links_to_page: FastMap::default(),
            fragments_of_page: FastMap::default(),
            far_branches: FastSet::default(),
            all_far: false,
        };
        let mut emitter = cache.emitter();
        arch::emit_miss_routines(&mut emitter);
        emitter.pad_to(CACHE + PAGE);
        cache.next = emitter.here();
        cache
    }

    /// An emitter at the next free place.
    pub fn emitter(&mut self) -> Emitter {
        Emitter::new(self.next, self.unit_end())
    }

    fn unit_end(&self) -> u64 {
        CACHE + UNIT * (self.current as u64 + 1)
    }

    /// Makes room for a fragment. If that needs another unit, returns which; what was known of the code there is
    /// forgotten.
    pub fn make_room(&mut self) -> Option<usize> {
        if self.next - CACHE > SMALL {
            self.collapse_code();
        }
        let full = self.next + FRAGMENT_ROOM > self.unit_end();
        if !full && !self.is_wasted() {
            return None;
        }
        self.advance();
        Some(self.current)
    }

    fn collapse_code(&mut self) {
        if !self.is_huge {
            self.is_huge = true;
            memory::collapse(CACHE);
        }
    }

    /// Puts the code and the tables on huge pages: a process that forks often copies their page tables each time.
    pub fn collapse(&mut self) {
        self.collapse_code();
        huge_table::collapse();
    }

    /// Whether most of the current unit cannot be reached any more.
    fn is_wasted(&self) -> bool {
        let used = self.next - unit_range(self.current).start;
        let worthwhile = EARLY.max(self.blocks.len() as u64 * EARLY_FOR_BLOCK);
        used > worthwhile && self.units[self.current].live < used / 4
    }

    /// Address of the block for `pc`, if it is translated.
    pub fn block(&self, pc: u64) -> Option<u64> {
        self.blocks.get(&pc).map(|&at| u64::from(at))
    }

    pub fn call_entry(&self, pc: u64) -> Option<u64> {
        self.call_entries.get(&pc).map(|&at| u64::from(at))
    }

    /// Makes `at` the entry of block `pc`.
    pub fn define_block(&mut self, pc: u64, at: u64) {
        self.blocks.insert(pc, at as u32);
    }

    pub fn define_call_entry(&mut self, pc: u64, at: u64) {
        self.call_entries.insert(pc, at as u32);
    }

    /// Number for a link whose stub is about to be emitted.
    pub fn new_link(&mut self) -> u32 {
        self.next_link = self.next_link.wrapping_add(1);
        self.next_link
    }

    pub fn add_link(&mut self, number: u32, link: Link) {
        self.links_to_page
            .entry(page_down(link.target))
            .or_default()
            .push(number);
        self.links.insert(number, link);
    }

    pub fn link(&self, number: u32) -> Option<&Link> {
        self.links.get(&number)
    }

    /// Lets all direct branches to `target`, jumps or calls, go straight to `to`.
    pub fn link_all(&self, target: u64, call: bool, to: u64) {
        let numbers = self.links_to_page.get(&page_down(target));
        let links = numbers.into_iter().flatten().filter_map(|n| self.link(*n));
        for link in links.filter(|link| !link.dead && link.target == target && link.call == call) {
            Self::patch(link.at, to);
        }
    }

    /// Lets a direct branch go straight to `to`.
    pub fn patch(at: u64, to: u64) {
        // SAFETY: `at` is the displacement field of a branch in the cache, placed so that it does not cross a
        // cache line (invariant 2).
        unsafe { arch::patch_branch(at, to) };
    }

    /// Records what was emitted from the place the emitter started to where it is now.
    pub fn commit(&mut self, fragment: Fragment, end: u64) {
        self.next = (end + 15) & !15;
        let unit = self.current;
        let index = self.units[unit].fragments.len() as u32;
        for &page in fragment.pages() {
            self.fragments_of_page
                .entry(page)
                .or_default()
                .push((unit as u8, index));
        }
        self.units[unit].live += fragment.end() - fragment.start();
        self.units[unit].fragments.push(fragment);
    }

    /// Takes note that bytes outside any fragment were emitted.
    pub fn skip_to(&mut self, end: u64) {
        self.next = end;
    }

    /// The fragment around a cache address.
    pub fn fragment_at(&self, address: u64) -> Option<&Fragment> {
        if !(CACHE..CACHE_END).contains(&address) {
            return None;
        }
        let unit = &self.units[((address - CACHE) / UNIT) as usize];
        let after = unit.fragments.partition_point(|f| f.start() <= address);
        let fragment = unit.fragments.get(after.checked_sub(1)?)?;
        (address < fragment.end()).then_some(fragment)
    }

    /// Whether any translated code came from the range.
    pub fn has_code(&self, start: u64, end: u64) -> bool {
        let pages = (page_down(start)..end).step_by(PAGE as usize);
        if (end - page_down(start)) / PAGE > self.fragments_of_page.len() as u64 {
            return self
                .fragments_of_page
                .keys()
                .any(|&p| p + PAGE > start && p < end);
        }
        pages
            .into_iter()
            .any(|page| self.fragments_of_page.contains_key(&page))
    }

    /// Forgets all code that came from the range.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        let pages: Vec<u64> =
            if (end - page_down(start)) / PAGE > self.fragments_of_page.len() as u64 {
                self.fragments_of_page
                    .keys()
                    .copied()
                    .filter(|&p| p + PAGE > start && p < end)
                    .collect()
            } else {
                (page_down(start)..end).step_by(PAGE as usize).collect()
            };
        for page in pages {
            for (unit, index) in self.fragments_of_page.remove(&page).unwrap_or_default() {
                self.forget(unit as usize, index as usize);
            }
        }
    }

    /// Forgets the fragments that contain a translation of the instruction at `pc`.
    pub fn invalidate_instruction(&mut self, pc: u64) {
        let mut found = Vec::new();
        if let Some(list) = self.fragments_of_page.get(&page_down(pc)) {
            for &(unit, index) in list {
                if self.units[unit as usize].fragments[index as usize].translates(pc) {
                    found.push((unit, index));
                }
            }
        }
        for &(unit, index) in &found {
            self.forget(unit as usize, index as usize);
        }
        if let Some(list) = self.fragments_of_page.get_mut(&page_down(pc)) {
            list.retain(|entry| !found.contains(entry));
        }
    }

    /// Makes a fragment unreachable: its entries leave the tables, links to it lead to their stubs.
    /// Its bytes stay for threads that are in it; these leave at their next branch.
    fn forget(&mut self, unit: usize, index: usize) {
        let fragment = &mut self.units[unit].fragments[index];
        let (start, end) = (fragment.start(), fragment.end());
        let entries = fragment.take_entries();
        if entries.is_empty() {
            // Forgotten before.
            return;
        }
        let links = fragment.take_links();
        self.units[unit].live -= end - start;
        for number in links {
            if let Some(link) = self.links.get_mut(&number) {
                link.dead = true;
                Self::patch(link.at, link.stub);
            }
        }
        for pc in entries {
            let inside = |at: &u32| (start..end).contains(&u64::from(*at));
            if self.blocks.get(&pc).is_some_and(inside) {
                self.blocks.remove(&pc);
            }
            if let Some(&at) = self.call_entries.get(&pc)
                && (inside(&at) || !self.blocks.contains_key(&pc))
            {
                self.call_entries.remove(&pc);
            }
            table::clear(pc);
            if let Some(numbers) = self.links_to_page.get(&page_down(pc)) {
                for number in numbers {
                    if let Some(link) = self.links.get(number)
                        && link.target == pc
                    {
                        Self::patch(link.at, link.stub);
                    }
                }
            }
        }
    }

    /// Forgets everything.
    pub fn invalidate_all(&mut self) {
        self.invalidate(0, !(PAGE - 1));
    }

    /// Moves on to a unit that no thread can be in, retiring the oldest ones.
    fn advance(&mut self) {
        if self.is_wasted() {
            // The little that can still be reached is translated again when it is.
            self.retire(self.current);
        }
        // Threads leave a retired unit at their next branch; only a thread that has not run for long can still be
        // there.
        for _ in 0..RETIREMENT_PAUSES {
            if let Some(unit) = self.free_unit() {
                self.recycle(unit);
                self.units[unit].since = self.units[self.current].since + 1;
                self.current = unit;
                self.next = unit_range(unit).start + if unit == 0 { PAGE } else { 0 };
                self.retire_ahead();
                return;
            }
            sys::sleep(PAUSE);
        }
        fatal::unsupported(format_args!(
            "the code cache is full and none of it can be reclaimed"
        ));
    }

    /// A unit that has only code that no thread can be in or come back to, or else none at all.
    fn free_unit(&self) -> Option<usize> {
        let is_left = |&unit: &usize| {
            let left =
                |epoch| crate::translator::process::all_threads_left(epoch, &unit_range(unit));
            unit != self.current && self.units[unit].retired.is_some_and(left)
        };
        let is_fresh = |&unit: &usize| unit != self.current && self.units[unit].is_fresh();
        (0..UNITS)
            .find(is_left)
            .or_else(|| (0..UNITS).find(is_fresh))
    }

    /// Retires the oldest unit if none is left for the time when the current one is full, so that threads
    /// have time to leave it.
    fn retire_ahead(&mut self) {
        let others = (0..UNITS).filter(|&unit| unit != self.current);
        if others
            .clone()
            .any(|unit| self.units[unit].is_fresh() || self.units[unit].retired.is_some())
        {
            return;
        }
        if let Some(oldest) = others.min_by_key(|&unit| self.units[unit].since) {
            self.retire(oldest);
        }
    }

    /// Makes all code of a unit unreachable.
    fn retire(&mut self, unit: usize) {
        if self.units[unit].is_fresh() || self.units[unit].retired.is_some() {
            return;
        }
        for index in 0..self.units[unit].fragments.len() {
            self.forget(unit, index);
        }
        self.units[unit].retired = Some(EPOCH.fetch_add(1, Ordering::SeqCst) + 1);
    }

    /// Drops what is known of a retired unit.
    fn recycle(&mut self, unit: usize) {
        let range = unit_range(unit);
        self.units[unit] = Unit::default();
        let links = &mut self.links;
        links.retain(|_, link| !range.contains(&link.at));
        self.links_to_page.retain(|_, numbers| {
            numbers.retain(|number| links.contains_key(number));
            !numbers.is_empty()
        });
        self.fragments_of_page.retain(|_, list| {
            list.retain(|&(owner, _)| usize::from(owner) != unit);
            !list.is_empty()
        });
        // Entries of trampolines emitted outside fragments go with the blocks they lead to; those in
        // this unit that lead elsewhere must not survive it.
        let stale: Vec<u64> = self
            .call_entries
            .iter()
            .filter(|&(_, &at)| range.contains(&u64::from(at)))
            .map(|(&pc, _)| pc)
            .collect();
        for pc in stale {
            self.call_entries.remove(&pc);
            table::clear(pc);
        }
        table::clear_targets(&range);
    }
}

fn unit_range(unit: usize) -> Range<u64> {
    CACHE + UNIT * unit as u64..CACHE + UNIT * (unit as u64 + 1)
}

/// Makes `at` the place where indirect jumps and returns to `pc` go.
pub fn set_jump_entry(pc: u64, at: u64) {
    table::set_jump(pc, at);
}

/// Makes `at` the place where indirect calls to `pc` go.
pub fn set_call_entry(pc: u64, at: u64) {
    table::set_call(pc, at);
}

/// Makes `at` the block that the hash lookup finds for `pc`.
pub fn set_hash_entry(pc: u64, at: u64) {
    table::set_hash(pc, at);
}

pub use table::{give_up as give_up_table, overlaps as table_overlaps};
pub use table::{has_call as has_call_entry, has_free_hash_slot, has_jump as has_jump_entry};

/// Displacement of the branch table in a scaled operand, for jumps.
pub const TABLE_JUMP: i32 = table::BASE as i32;
/// The same for calls.
pub const TABLE_CALL: i32 = table::BASE as i32 + 4;
