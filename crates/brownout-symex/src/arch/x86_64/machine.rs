//! The symbolic state of the target: which registers, flags and bytes of memory depend on the input, and how.
//!
//! What does not depend on it is not here: its value is in the recording.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::flags::{Flag, FlagName};
use super::system_calls::Written;
use crate::expression::{Dag, Expr};
use crate::variables::SymbolicSources;

/// Registers of a step: the general-purpose ones, the flags, the bases of FS and GS.
pub const REGISTERS: usize = 19;
pub const FLAGS: usize = 16;
pub const VECTORS: usize = 32;
pub const VECTOR_BYTES: usize = 64;
const PAGE: u64 = 4096;

/// One thread of the target.
pub struct ThreadState {
    /// The registers at the last step.
    pub registers: [u64; REGISTERS],
    /// The address of the instruction of the last step.
    pub last_pc: u64,
    pub gprs: [Option<Expr>; 16],
    pub flags: [Flag; 5],
    pub vectors: Vec<[Option<Expr>; VECTOR_BYTES]>,
    pub masks: [Option<Expr>; 8],
    /// What was symbolic in the vector and mask registers when they were saved to an address.
    saved: FxHashMap<u64, SavedVectors>,
    /// What was symbolic when signals came whose handlers are running.
    interrupted: Vec<Interrupted>,
    /// Whether the last instruction may not have been completed, or a handler may have changed registers: what differs then is no mismatch.
    pub is_uncertain: bool,
    /// Where the kernel writes, and how much, in the system call that the thread is making.
    pub awaited: Option<(u64, Written)>,
}

impl Default for ThreadState {
    fn default() -> Self {
        Self {
            registers: [0; REGISTERS],
            last_pc: 0,
            gprs: [None; 16],
            flags: [Flag::Concrete; 5],
            vectors: vec![[None; VECTOR_BYTES]; VECTORS],
            masks: [None; 8],
            saved: FxHashMap::default(),
            interrupted: Vec::new(),
            is_uncertain: false,
            awaited: None,
        }
    }
}

/// The vector and mask registers as they are saved to memory together.
struct SavedVectors {
    vectors: Vec<[Option<Expr>; VECTOR_BYTES]>,
    masks: [Option<Expr>; 8],
}

/// Addresses to which vectors were saved, at most.
const MOST_SAVED: usize = 64;

/// What is symbolic in the registers of a thread.
struct Interrupted {
    gprs: [Option<Expr>; 16],
    flags: [Flag; 5],
    vectors: Vec<[Option<Expr>; VECTOR_BYTES]>,
    masks: [Option<Expr>; 8],
}

/// Handlers that are not left by returning, and those inside of others, are remembered up to this number.
const MOST_INTERRUPTED: usize = 64;

impl ThreadState {
    /// The vector and mask registers are saved to an address, as a dynamic linker does before it looks for a function.
    pub fn save_vectors(&mut self, addr: u64) {
        let is_symbolic = (0..VECTORS).any(|number| self.is_vector_symbolic(number))
            || self.masks.iter().any(Option::is_some);
        if !is_symbolic || self.saved.len() == MOST_SAVED {
            self.saved.remove(&addr);
            return;
        }
        let saved = SavedVectors {
            vectors: self.vectors.clone(),
            masks: self.masks,
        };
        self.saved.insert(addr, saved);
    }

    /// The vector and mask registers are restored. What was saved by something else than `save_vectors` does not depend on the input.
    pub fn restore_vectors(&mut self, addr: u64) {
        let fresh = ThreadState::default();
        let saved = self.saved.remove(&addr);
        (self.vectors, self.masks) = match saved {
            Some(saved) => (saved.vectors, saved.masks),
            None => (fresh.vectors, fresh.masks),
        };
    }

    /// A signal is delivered: the handler begins with registers that do not depend on the input.
    pub fn enter_handler(&mut self) {
        let fresh = ThreadState::default();
        let before = Interrupted {
            gprs: std::mem::replace(&mut self.gprs, fresh.gprs),
            flags: std::mem::replace(&mut self.flags, fresh.flags),
            vectors: std::mem::replace(&mut self.vectors, fresh.vectors),
            masks: std::mem::replace(&mut self.masks, fresh.masks),
        };
        if self.interrupted.len() == MOST_INTERRUPTED {
            self.interrupted.remove(0);
        }
        self.interrupted.push(before);
        self.is_uncertain = true;
    }

    /// A handler returns.
    pub fn leave_handler(&mut self) {
        if let Some(before) = self.interrupted.pop() {
            self.gprs = before.gprs;
            self.flags = before.flags;
            self.vectors = before.vectors;
            self.masks = before.masks;
        }
        self.is_uncertain = true;
    }

    /// The general-purpose registers that depend on the input.
    pub fn symbolic_gprs(&self) -> u32 {
        let symbolic = self.gprs.iter().enumerate();
        symbolic
            .filter(|(_, shadow)| shadow.is_some())
            .fold(0, |mask, (index, _)| mask | 1 << index)
    }

    pub fn is_vector_symbolic(&self, number: usize) -> bool {
        self.vectors[number].iter().any(Option::is_some)
    }

    /// Whether a flag is set, in the recording.
    pub fn has_flag(&self, name: FlagName) -> bool {
        self.registers[FLAGS] >> name.bit() & 1 != 0
    }
}

/// A range of memory that has the bytes of a source, none of which was read yet.
#[derive(Clone, Copy)]
struct Unread<'a> {
    source: u32,
    /// The offset of the first byte in the source.
    offset: u64,
    bytes: &'a [u8],
}

/// A byte of a source, at an address.
#[derive(Clone, Copy)]
struct SourceByte {
    addr: u64,
    source: u32,
    offset: u64,
    value: u8,
}

/// The bytes of memory that depend on the input, and what is known of others.
#[derive(Default)]
pub struct Memory<'a> {
    symbolic: FxHashMap<u64, Expr>,
    /// How many of them each page has.
    pages: FxHashMap<u64, u32>,
    /// What has the bytes of sources, by its first address, without overlaps. A source can be much longer than what is read of it.
    unread: BTreeMap<u64, Unread<'a>>,
    /// Pages as they are, as far as they are known.
    images: FxHashMap<u64, Box<[u8]>>,
}

impl<'a> Memory<'a> {
    /// Whether a range may have symbolic bytes.
    pub fn is_touched(&self, addr: u64, len: u64) -> bool {
        if self.symbolic.is_empty() || len == 0 {
            return false;
        }
        let (first, last) = (addr / PAGE, addr.saturating_add(len - 1) / PAGE);
        // The length comes from a register of the target, which may have any value.
        match last - first < self.pages.len() as u64 {
            true => (first..=last).any(|page| self.pages.contains_key(&page)),
            false => { self.pages.keys() }.any(|page| (first..=last).contains(page)),
        }
    }

    pub fn get(&self, addr: u64) -> Option<Expr> {
        self.symbolic.get(&addr).copied()
    }

    /// All bytes that are symbolic.
    pub fn into_symbolic(self) -> FxHashMap<u64, Expr> {
        self.symbolic
    }

    /// Whether any byte of a range is symbolic.
    pub fn has_symbolic(&self, addr: u64, len: u64) -> bool {
        if !self.is_touched(addr, len) {
            return false;
        }
        match len <= self.symbolic.len() as u64 {
            true => (0..len).any(|index| self.symbolic.contains_key(&addr.wrapping_add(index))),
            false => { self.symbolic.keys() }.any(|at| at.wrapping_sub(addr) < len),
        }
    }

    pub fn set(&mut self, addr: u64, to: Option<Expr>) {
        self.forget_unread(addr, 1);
        let had = match to {
            Some(expr) => self.symbolic.insert(addr, expr).is_some(),
            None => self.symbolic.remove(&addr).is_some(),
        };
        let page = addr / PAGE;
        match (had, to.is_some()) {
            (false, true) => *self.pages.entry(page).or_default() += 1,
            (true, false) => {
                if let Some(count) = self.pages.get_mut(&page) {
                    *count -= 1;
                    if *count == 0 {
                        self.pages.remove(&page);
                    }
                }
            }
            _ => {}
        }
    }

    /// No byte of a range is symbolic any more.
    pub fn clear(&mut self, addr: u64, len: u64) {
        self.forget_unread(addr, len);
        if !self.is_touched(addr, len) {
            return;
        }
        if len > PAGE {
            let gone: Vec<u64> = { self.symbolic.keys().copied() }
                .filter(|at| at.wrapping_sub(addr) < len)
                .collect();
            gone.into_iter().for_each(|at| self.set(at, None));
            return;
        }
        for index in 0..len {
            self.set(addr.wrapping_add(index), None);
        }
    }

    /// A range has the bytes of a source from an offset on.
    pub fn set_unread(&mut self, addr: u64, source: u32, offset: u64, bytes: &'a [u8]) {
        self.clear(addr, bytes.len() as u64);
        if !bytes.is_empty() {
            let unread = Unread {
                source,
                offset,
                bytes,
            };
            self.unread.insert(addr, unread);
        }
    }

    /// Takes the bytes of sources out of a range that have not been read yet.
    fn take_unread(&mut self, addr: u64, len: u64) -> Vec<SourceByte> {
        let mut taken = Vec::new();
        while let Some((start, part)) = self.next_unread(addr, len) {
            self.cut_unread(start, addr, len);
            let first = addr.saturating_sub(start);
            let bytes = part.bytes.iter().enumerate().skip(first as usize);
            for (index, &value) in bytes {
                let index = index as u64;
                if (start + index).saturating_sub(addr) >= len {
                    break;
                }
                taken.push(SourceByte {
                    addr: start + index,
                    source: part.source,
                    offset: part.offset.saturating_add(index),
                    value,
                });
            }
        }
        taken
    }

    /// Gives the bytes of sources in a range that is about to be read their variables.
    pub fn read_sources(
        &mut self,
        addr: u64,
        len: u64,
        sources: &mut SymbolicSources<'_>,
        dag: &mut Dag,
    ) {
        for byte in self.take_unread(addr, len) {
            let expr = sources.expression(dag, (byte.source, byte.offset), byte.value);
            self.set(byte.addr, expr);
        }
    }

    /// Whether a range has bytes of sources that were not read yet.
    pub fn has_unread(&self, addr: u64, len: u64) -> bool {
        self.next_unread(addr, len).is_some()
    }

    fn forget_unread(&mut self, addr: u64, len: u64) {
        while let Some((start, _)) = self.next_unread(addr, len) {
            self.cut_unread(start, addr, len);
        }
    }

    /// A range of unread bytes that overlaps another range, with its first address.
    fn next_unread(&self, addr: u64, len: u64) -> Option<(u64, Unread<'a>)> {
        if self.unread.is_empty() || len == 0 {
            return None;
        }
        let last = addr.saturating_add(len - 1);
        let (&start, &part) = self.unread.range(..=last).next_back()?;
        (addr - start.min(addr) < part.bytes.len() as u64).then_some((start, part))
    }

    /// Leaves of the unread bytes at `start` those outside of a range.
    fn cut_unread(&mut self, start: u64, addr: u64, len: u64) {
        let Some(part) = self.unread.remove(&start) else {
            return;
        };
        let before = usize::try_from(addr.saturating_sub(start)).unwrap_or(usize::MAX);
        let end = addr.saturating_add(len).saturating_sub(start);
        let behind = usize::try_from(end).unwrap_or(usize::MAX);
        if let Some(bytes) = part.bytes.get(..before).filter(|bytes| !bytes.is_empty()) {
            self.unread.insert(start, Unread { bytes, ..part });
        }
        if let Some(bytes) = part.bytes.get(behind..).filter(|bytes| !bytes.is_empty()) {
            let offset = part.offset.saturating_add(behind as u64);
            let rest = Unread {
                offset,
                bytes,
                ..part
            };
            self.unread.insert(start + behind as u64, rest);
        }
    }

    /// The content of a page is known.
    pub fn add_page(&mut self, addr: u64, bytes: &[u8]) {
        if bytes.len() as u64 == PAGE {
            self.images.insert(addr / PAGE, bytes.into());
        }
    }

    /// The target has written bytes.
    pub fn update(&mut self, addr: u64, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            let at = addr.wrapping_add(index as u64);
            if let Some(image) = self.images.get_mut(&(at / PAGE)) {
                image[(at % PAGE) as usize] = *byte;
            }
        }
    }

    /// The content of memory is not known any more.
    pub fn forget_pages(&mut self) {
        self.images.clear();
    }

    /// What a byte of memory is, if its page is known.
    pub fn image(&self, addr: u64) -> Option<u8> {
        let image = self.images.get(&(addr / PAGE))?;
        Some(image[(addr % PAGE) as usize])
    }
}

/// Nodes at which the search for what an address depends on stops, and their possible values.
pub fn small_leaf(dag: &Dag, address: Expr) -> Option<(Expr, u32)> {
    /// An address may take this many values, as a power of two.
    const MOST_BITS: u32 = 8;
    /// Addresses that are computed with more expressions are not those of a table.
    const MOST_EXPRESSIONS: usize = 256;
    let mut leaf = None;
    let mut seen = FxHashSet::default();
    let mut waiting = vec![address];
    while let Some(next) = waiting.pop() {
        if !seen.insert(next) || dag.constant_value(next).is_some() {
            continue;
        }
        if seen.len() > MOST_EXPRESSIONS {
            return None;
        }
        if dag.width(next) <= MOST_BITS {
            match leaf {
                None => leaf = Some((next, dag.width(next))),
                Some((known, _)) if known == next => {}
                Some(_) => return None,
            }
            continue;
        }
        waiting.extend(dag.operands(next));
    }
    leaf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_any_length_is_looked_at_in_time() {
        let mut dag = Dag::default();
        let byte = dag.variable(crate::expression::Variable(0), 1);
        let mut memory = Memory::default();
        memory.set(0x7000, Some(byte));
        memory.set_unread(0x9000, 0, 0, &[1; 64]);
        assert!(memory.is_touched(0x10, u64::MAX) && memory.has_symbolic(0x10, u64::MAX));
        assert!(!memory.has_symbolic(0x8000, u64::MAX >> 1));
        memory.clear(0x7001, u64::MAX - 0x7001);
        assert!(memory.take_unread(0, u64::MAX).is_empty());
        assert!(memory.has_symbolic(0x10, u64::MAX));
        memory.clear(0x10, u64::MAX);
        assert!(!memory.has_symbolic(0, u64::MAX));
    }

    #[test]
    fn unread_bytes_are_those_that_nothing_has_overwritten() {
        let source: Vec<u8> = (0..100).collect();
        let mut memory = Memory::default();
        memory.set_unread(0x1000, 3, 7, &source);
        memory.set(0x1004, None);
        memory.clear(0x1010, 4);
        memory.set_unread(0x1020, 5, 0, &source[..8]);
        let read = |memory: &mut Memory<'_>, addr, len| {
            let taken = memory.take_unread(addr, len).into_iter();
            let mut taken: Vec<_> = taken
                .map(|it| (it.addr, it.source, it.offset, it.value))
                .collect();
            taken.sort_unstable();
            taken
        };
        let expected = [(0x1003, 3, 10, 3), (0x1005, 3, 12, 5)];
        assert_eq!(read(&mut memory, 0x1003, 3), expected);
        assert_eq!(read(&mut memory, 0x1003, 3), []);
        assert_eq!(read(&mut memory, 0x100f, 6).len(), 2);
        assert_eq!(
            read(&mut memory, 0x1027, 2),
            [(0x1027, 5, 7, 7), (0x1028, 3, 47, 40)]
        );
        assert_eq!(read(&mut memory, 0x1063, 9), [(0x1063, 3, 106, 99)]);
    }
}
