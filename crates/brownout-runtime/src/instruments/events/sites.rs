//! Sites: the instructions of the target at which an instrument has events.
//!
//! Generated code holds the numbers of sites. A number therefore belongs to a unit of the cache, and is free
//! again when the unit is reused.

use super::RecordPlan;
use crate::address_map::FastMap;
use crate::arch::{self, Instruction};
use crate::fatal;
use crate::memory;
use crate::translator::cache::UNITS;
use crate::wire;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Sites that an instrument can have in a process.
const MAX_SITES: u32 = 1 << 20;

/// An instruction with events of kind `K`. The fields before `kind` are known by offset to assembly.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Site<K> {
    pub pc: u64,
    pub plan: RecordPlan,
    pub size: u32,
    pub kind: K,
    pub insn: Instruction,
}

/// Bytes of an entry of the table, as a power of two.
pub const SITE_SHIFT: u32 = 6;

/// The sites of one instrument, as they are found by number.
pub struct SiteTable<K> {
    address: AtomicU64,
    /// Entries from the first on that have been written.
    written: AtomicU32,
    kind: PhantomData<fn() -> K>,
}

impl<K: Copy> SiteTable<K> {
    const FITS: () = assert!(size_of::<Site<K>>() == 1 << SITE_SHIFT);

    pub const fn new() -> SiteTable<K> {
        SiteTable {
            address: AtomicU64::new(0),
            written: AtomicU32::new(0),
            kind: PhantomData,
        }
    }

    /// Maps the table.
    pub fn create(&self) {
        let () = Self::FITS;
        let address = memory::map(u64::from(MAX_SITES) << SITE_SHIFT);
        self.address.store(address, Ordering::Relaxed);
    }

    /// Address of the table, for contexts.
    pub fn address(&self) -> u64 {
        self.address.load(Ordering::Relaxed)
    }

    /// The site with a number that generated code was given.
    pub fn get(&self, number: u32) -> Site<K> {
        if number >= self.written.load(Ordering::Relaxed) {
            fatal::fault(format_args!("unknown site {number}"));
        }
        let table = self.address() as *const Site<K>;
        // SAFETY: the entry is in the table and was written by `put`. It is not written again before all code
        // that was given the number is gone.
        unsafe { *table.add(number as usize) }
    }

    /// Writes an entry. No generated code may hold its number.
    fn put(&self, number: u32, site: Site<K>) {
        assert!(number <= self.written.load(Ordering::Relaxed) && number < MAX_SITES);
        let table = self.address() as *mut Site<K>;
        // SAFETY: an entry of the table, of which no generated code knows.
        unsafe { table.add(number as usize).write(site) };
        self.written.fetch_max(number + 1, Ordering::Relaxed);
    }
}

impl<K: Copy> Default for SiteTable<K> {
    fn default() -> Self {
        SiteTable::new()
    }
}

/// The translator's side: gives out numbers.
pub struct Sites<K: 'static> {
    table: &'static SiteTable<K>,
    count: u32,
    /// Numbers below `count` that no code holds.
    free: Vec<u32>,
    /// The unit that code is emitted to, and the numbers that the code of each unit holds.
    unit: usize,
    of_unit: [Vec<u32>; UNITS],
    /// The newest site of an instruction, and its unit.
    known: FastMap<u64, (u32, usize)>,
}

impl<K: Copy + PartialEq> Sites<K> {
    pub fn new(table: &'static SiteTable<K>) -> Sites<K> {
        Sites {
            table,
            count: 0,
            free: Vec::new(),
            unit: 0,
            of_unit: Default::default(),
            known: FastMap::default(),
        }
    }

    /// From now on code is emitted to this unit of the cache; the code that was there is gone.
    pub fn begin_unit(&mut self, unit: usize) {
        self.unit = unit;
        for number in self.of_unit[unit].drain(..) {
            let pc = self.table.get(number).pc;
            let newest = self.known.get(&pc).map(|&(newest, _)| newest);
            if newest == Some(number) {
                self.known.remove(&pc);
            }
            self.free.push(number);
        }
    }

    /// The number of a site for an instruction.
    pub fn add(&mut self, insn: &Instruction, kind: K, size: u32, plan: RecordPlan) -> u32 {
        if let Some(&(number, unit)) = self.known.get(&arch::pc(insn))
            && unit == self.unit
        {
            let old = self.table.get(number);
            if old.kind == kind && old.size == size && old.insn == *insn {
                return number;
            }
        }
        let number = self.free.pop().unwrap_or_else(|| {
            if self.count >= MAX_SITES {
                fatal::unsupported(format_args!(
                    "the program has more than {MAX_SITES} instructions that an instrument observes, which the engine \
                     does not support"
                ));
            }
            self.count += 1;
            self.count - 1
        });
        self.of_unit[self.unit].push(number);
        let plan = if wire::allows_borrowing() {
            plan
        } else {
            plan.drawing()
        };
        let site = Site {
            pc: arch::pc(insn),
            plan: plan.for_size(size),
            size,
            kind,
            insn: *insn,
        };
        self.table.put(number, site);
        self.known.insert(arch::pc(insn), (number, self.unit));
        number
    }
}
