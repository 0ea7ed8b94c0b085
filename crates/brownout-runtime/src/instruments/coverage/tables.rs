//! The tables of modules and counters, which all processes of a recording share with the recorder.
//!
//! An entry is written only by the process that took it, under the translator's lock.

use crate::wire;
use brownout_ring::coverage::{
    COUNTER_TABLE, COUNTERS, COUNTS, CountedModule, Counter, HEAD, Head, MAX_PATH, MODULE_TABLE,
    MODULES,
};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// The mapped tables.
pub struct Tables {
    head: &'static Head,
    counters: &'static [Counter],
    modules: u64,
}

impl Tables {
    /// Maps the tables of the wire.
    pub fn map() -> Option<Tables> {
        let base = wire::map(wire::READ_WRITE, HEAD, COUNTS - HEAD)?;
        let counters = base + (COUNTER_TABLE - HEAD) as u64;
        // SAFETY: the mapping begins with the head and holds the table of counters at this offset. It is never
        // unmapped, and both consist of atomics only.
        let (head, counters) = unsafe {
            (
                &*(base as *const Head),
                core::slice::from_raw_parts(counters as *const Counter, COUNTERS),
            )
        };
        Some(Tables {
            head,
            counters,
            modules: base + (MODULE_TABLE - HEAD) as u64,
        })
    }

    /// Takes the next of `limit` entries; counts it as uncounted if there is none.
    fn take(&self, next: &AtomicU32, limit: usize) -> Option<u32> {
        let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            ((taken as usize) < limit).then_some(taken + 1)
        });
        if taken.is_err() {
            self.add_uncounted();
        }
        taken.ok()
    }

    /// Notes that something is not counted.
    pub fn add_uncounted(&self) {
        self.head.uncounted.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a module and returns its index. A module whose path does not fit is noted as not counted.
    pub fn add_module(&self, start: u64, file_offset: u64, path: &[u8]) -> Option<u32> {
        if path.len() > MAX_PATH {
            self.add_uncounted();
            return None;
        }
        let index = self.take(&self.head.modules, MODULES)?;
        let entry = (self.modules as *mut CountedModule).wrapping_add(index as usize);
        // SAFETY: the entry lies in the table and was taken by this process just now. The path was checked above to
        // fit in its `MAX_PATH` bytes.
        unsafe {
            (&raw mut (*entry).start).write(start);
            (&raw mut (*entry).file_offset).write(file_offset);
            let to = (&raw mut (*entry).path).cast::<u8>();
            core::ptr::copy_nonoverlapping(path.as_ptr(), to, path.len());
            (&raw mut (*entry).path_len).write_volatile(path.len() as u64);
        }
        Some(index)
    }

    /// Allots a counter of a kind of `layout::kind` for the instructions in `code`.
    pub fn allot(&self, kind: u16, module: u32, code: Range<u64>) -> Option<u32> {
        // Counter 0 is that of code in no module.
        let number = 1 + self.take(&self.head.counters, COUNTERS - 1)?;
        let counter = &self.counters[number as usize];
        counter.address.store(code.start, Ordering::Relaxed);
        counter.module.store(module, Ordering::Relaxed);
        self.extend(number, code);
        counter.kind.store(kind, Ordering::Release);
        Some(number)
    }

    /// Sets the instructions that a counter concerns. Those that do not fit are noted as not counted.
    pub fn extend(&self, counter: u32, code: Range<u64>) {
        let Ok(size) = u16::try_from(code.end - code.start) else {
            self.add_uncounted();
            return;
        };
        let counter = &self.counters[counter as usize];
        counter.size.store(size, Ordering::Relaxed);
    }

    /// The module and the instructions of a counter.
    pub fn code_of(&self, counter: u32) -> (u32, Range<u64>) {
        let counter = &self.counters[counter as usize];
        let start = counter.address.load(Ordering::Relaxed);
        let size = u64::from(counter.size.load(Ordering::Relaxed));
        (counter.module.load(Ordering::Relaxed), start..start + size)
    }
}
