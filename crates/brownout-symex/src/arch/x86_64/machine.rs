//! The symbolic state of the target: which registers, flags and bytes of memory depend on the input, and how.
//!
//! What does not depend on it is not here: its value is in the recording.

use rustc_hash::{FxHashMap, FxHashSet};

use super::flags::{Flag, FlagName};
use crate::expression::{Dag, Expr};

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
        }
    }
}

impl ThreadState {
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

/// The bytes of memory that depend on the input, and what is known of others.
#[derive(Default)]
pub struct Memory {
    symbolic: FxHashMap<u64, Expr>,
    /// How many of them each page has.
    pages: FxHashMap<u64, u32>,
    /// Pages as they are, as far as they are known.
    images: FxHashMap<u64, Box<[u8]>>,
}

impl Memory {
    /// Whether a range may have symbolic bytes.
    pub fn is_touched(&self, addr: u64, len: u64) -> bool {
        if self.symbolic.is_empty() {
            return false;
        }
        let last = addr.saturating_add(len.saturating_sub(1)) / PAGE;
        (addr / PAGE..=last).any(|page| self.pages.contains_key(&page))
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
        self.is_touched(addr, len)
            && (0..len).any(|index| self.symbolic.contains_key(&addr.wrapping_add(index)))
    }

    pub fn set(&mut self, addr: u64, to: Option<Expr>) {
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
        if !self.is_touched(addr, len) {
            return;
        }
        if len > PAGE {
            let end = addr.saturating_add(len);
            let gone: Vec<u64> = { self.symbolic.keys().copied() }
                .filter(|at| (addr..end).contains(at))
                .collect();
            gone.into_iter().for_each(|at| self.set(at, None));
            return;
        }
        for index in 0..len {
            self.set(addr.wrapping_add(index), None);
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
    let mut leaf = None;
    let mut seen = FxHashSet::default();
    let mut waiting = vec![address];
    while let Some(next) = waiting.pop() {
        if !seen.insert(next) || dag.constant_value(next).is_some() {
            continue;
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
