//! Writes the records of a path to the memory that is shared with the recorder.

use super::page;
use crate::arch::instruments::path::{Read, RecordedInstruction};
use crate::instruments::pm::candidates;
use crate::lock::Lock;
use crate::target_memory;
use crate::wire;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use brownout_ring::path::{RECORDS, RECORDS_BYTES, kind};
use core::sync::atomic::Ordering;

/// Bytes that must be free before a step: no step needs more.
const ROOM: usize = 256 << 10;
/// The most bytes of one load or store that are recorded.
pub const LONGEST: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4096;
/// How far from a load its neighbours are.
const NEAR: u64 = 1024;

/// The end of the sequence of records, and what is known to its reader.
pub struct Recorder {
    /// Where the records are mapped, or 0.
    base: u64,
    used: usize,
    /// The sites, by number; whether each one has been recorded.
    sites: Vec<(Arc<RecordedInstruction>, bool)>,
    /// The thread of the last step.
    thread: u32,
    /// Pages that the reader knows.
    pages: BTreeSet<u64>,
}

pub static RECORDER: Lock<Recorder> = Lock::new(Recorder {
    base: 0,
    used: 0,
    sites: Vec::new(),
    thread: 0,
    pages: BTreeSet::new(),
});

impl Recorder {
    /// Maps where the records go. False if that fails.
    pub fn open(&mut self) -> bool {
        let Some(base) = wire::map(wire::READ_WRITE, RECORDS, RECORDS_BYTES) else {
            return false;
        };
        self.base = base;
        self.used = 0;
        true
    }

    /// Whether another step fits; notes it if none does.
    pub fn has_room(&self) -> bool {
        let fits = self.used + ROOM <= RECORDS_BYTES;
        if let Some(page) = page() {
            page.used.store(self.used as u64, Ordering::Release);
            if !fits {
                page.is_full.store(1, Ordering::Relaxed);
            }
        }
        fits
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.base == 0 || self.used + bytes.len() > RECORDS_BYTES {
            return;
        }
        let to = (self.base as usize + self.used) as *mut u8;
        // SAFETY: the mapping holds `RECORDS_BYTES` bytes at `base`, and the sum was just compared with that. Only the holder of the
        // lock writes there.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.used += bytes.len();
    }

    pub fn add_site(&mut self, number: u32, site: RecordedInstruction) {
        if number as usize == self.sites.len() {
            self.sites.push((Arc::new(site), false));
        }
    }

    pub fn site(&self, number: u32) -> Option<Arc<RecordedInstruction>> {
        self.sites
            .get(number as usize)
            .map(|(site, _)| Arc::clone(site))
    }

    /// The following records are those of a thread.
    pub fn select(&mut self, thread: u32) {
        if thread != self.thread {
            self.thread = thread;
            self.put(&[kind::THREAD]);
            self.put(&thread.to_le_bytes());
        }
    }

    /// The thread is about to execute a site's instruction.
    pub fn step(&mut self, number: u32, mask: u32, registers: &[u64]) {
        if let Some((site, recorded)) = self.sites.get_mut(number as usize)
            && !core::mem::replace(recorded, true)
        {
            let site = Arc::clone(site);
            self.put(&[kind::SITE]);
            self.put(&number.to_le_bytes());
            self.put(&site.pc.to_le_bytes());
            self.put(&[site.code().len() as u8]);
            self.put(site.code());
        }
        self.put(&[kind::STEP]);
        self.put(&number.to_le_bytes());
        self.put(&mask.to_le_bytes());
        for (index, value) in registers.iter().enumerate() {
            if mask >> index & 1 != 0 {
                self.put(&value.to_le_bytes());
            }
        }
    }

    /// The next step reads this.
    pub fn read(&mut self, read: Read<'_>) {
        match read {
            Read::Memory {
                addr,
                len,
                computed,
            } => {
                let len = len.min(LONGEST);
                if computed {
                    self.pages(addr, len);
                }
                self.memory(kind::LOAD, addr, len);
            }
            Read::Vector { number, bytes } => {
                self.put(&[kind::VECTOR, number, bytes.len() as u8]);
                self.put(bytes);
            }
            Read::Mask { number, value } => {
                self.put(&[kind::MASK, number]);
                self.put(&value.to_le_bytes());
            }
        }
    }

    /// The last step of the thread has written memory.
    pub fn stored(&mut self, addr: u64, len: u64) {
        if len > LONGEST {
            return self.kernel_write(addr, len);
        }
        self.memory(kind::STORE, addr, len);
    }

    /// The target's memory at `addr`, as far as it can be read.
    fn memory(&mut self, kind: u8, addr: u64, len: u64) {
        self.put(&[kind]);
        self.put(&addr.to_le_bytes());
        let length_at = self.used;
        self.put(&0u32.to_le_bytes());
        let got = self.put_memory(addr, len);
        let end = core::mem::replace(&mut self.used, length_at);
        self.put(&got.to_le_bytes());
        self.used = end;
    }

    /// Appends the target's memory at `addr`, as far as it can be read; how many bytes that were.
    fn put_memory(&mut self, addr: u64, len: u64) -> u32 {
        if self.base == 0 || self.used + len as usize > RECORDS_BYTES {
            return 0;
        }
        let to = (self.base as usize + self.used) as *mut u8;
        // SAFETY: the mapping holds `RECORDS_BYTES` bytes at `base`, and the sum was just compared with that. Only the holder of the
        // lock uses them.
        let room = unsafe { core::slice::from_raw_parts_mut(to, len as usize) };
        let got = bytes_at(addr, room);
        self.used += got;
        got as u32
    }

    /// Records the pages around a range that the reader does not know: a load with another index may be near.
    fn pages(&mut self, addr: u64, len: u64) {
        let first = addr.saturating_sub(NEAR) & !(PAGE_BYTES - 1);
        let end = addr.saturating_add(len).saturating_add(NEAR);
        for page in (first..end).step_by(PAGE_BYTES as usize).take(4) {
            if self.pages.insert(page) {
                self.memory(kind::PAGE, page, PAGE_BYTES);
            }
        }
    }

    /// Memory is now what a source has at `offset`.
    pub fn symbolic(&mut self, source: u32, offset: u64, addr: u64, len: u64) {
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(LONGEST);
            if self.used + ROOM > RECORDS_BYTES {
                return;
            }
            self.put(&[kind::SYMBOLIC]);
            self.put(&source.to_le_bytes());
            self.put(&(offset + done).to_le_bytes());
            self.memory(kind::LOAD, addr + done, piece);
            done += piece;
        }
        self.pages.clear();
    }

    /// Memory was written by something else than an instruction of the target.
    pub fn kernel_write(&mut self, addr: u64, len: u64) {
        self.put(&[kind::KERNEL]);
        self.put(&addr.to_le_bytes());
        self.put(&len.to_le_bytes());
        self.pages.clear();
    }

    /// A signal is delivered to a thread.
    pub fn signal(&mut self, thread: u32) {
        self.select(thread);
        self.put(&[kind::SIGNAL]);
    }

    /// A system call was made that may have written memory.
    pub fn call(&mut self, thread: u32, nr: u32, args: &[u64; 6]) {
        self.select(thread);
        self.put(&[kind::CALL]);
        self.put(&nr.to_le_bytes());
        args.iter()
            .for_each(|argument| self.put(&argument.to_le_bytes()));
        self.pages.clear();
    }
}

/// Reads what the target has at an address; how many bytes could be read. Candidates are read at their aliases.
fn bytes_at(addr: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let at = addr.wrapping_add(done as u64);
        let (from, most) = match candidates::any().then(|| candidates::find(at)).flatten() {
            Some(candidate) => (at.wrapping_add(candidate.delta), candidate.end - at),
            None => (at, PAGE_BYTES - at % PAGE_BYTES),
        };
        let end = (bytes.len() as u64).min(done as u64 + most) as usize;
        let got = target_memory::read_into(from, &mut bytes[done..end]);
        done += got;
        if got == 0 {
            break;
        }
    }
    done
}
