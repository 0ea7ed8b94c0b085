//! What an atomic instruction did to a word.

/// An atomic instruction that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicOperation {
    /// The address of the word, and its size in bytes: 1, 2, 4 or 8.
    pub word: u64,
    pub size: u8,
    /// The instruction.
    pub pc: u64,
    pub change: Change,
}

/// How the word was changed. Values have as many bits as the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A comparison that succeeded.
    CompareExchange {
        old: u64,
        new: u64,
    },
    Exchange {
        old: u64,
        new: u64,
    },
    /// A bit that was clear was set.
    SetBit(u64),
    /// Modulo the size of the word.
    Add(u64),
    And(u64),
    Or(u64),
    Xor(u64),
}

impl AtomicOperation {
    /// The bits of the word.
    pub fn mask(&self) -> u64 {
        mask(self.size)
    }

    /// Whether it has left everything as it was.
    pub fn changes_nothing(&self) -> bool {
        match self.change {
            Change::CompareExchange { old, new } | Change::Exchange { old, new } => old == new,
            Change::Add(amount) => amount == 0,
            Change::SetBit(bits) | Change::Or(bits) | Change::Xor(bits) => bits == 0,
            Change::And(bits) => bits == self.mask(),
        }
    }

    /// What of `bits` was set before, if the instruction shows that.
    pub fn set_before(&self, bits: u64) -> Option<u64> {
        match self.change {
            Change::CompareExchange { old, .. } | Change::Exchange { old, .. } => Some(old & bits),
            Change::SetBit(bit) if bit & bits != 0 => Some(bits & !bit),
            _ => None,
        }
    }

    /// The word after the instruction, if it held `before`.
    pub fn after(&self, before: u64) -> u64 {
        let after = match self.change {
            Change::CompareExchange { new, .. } | Change::Exchange { new, .. } => new,
            Change::SetBit(bits) | Change::Or(bits) => before | bits,
            Change::Add(amount) => before.wrapping_add(amount),
            Change::And(bits) => before & bits,
            Change::Xor(bits) => before ^ bits,
        };
        after & self.mask()
    }

    /// What was added to the word, if the instruction counts.
    pub fn amount(&self) -> Option<u64> {
        match self.change {
            Change::CompareExchange { old, new } => Some(new.wrapping_sub(old) & self.mask()),
            Change::Add(amount) => Some(amount & self.mask()),
            _ => None,
        }
    }
}

/// The bits of a word of `size` bytes.
pub fn mask(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)))
}
