//! The variables of expressions: each symbolic byte of a source has one.

use rustc_hash::FxHashMap;

use crate::expression::Variable;

/// Gives each symbolic byte of a source one variable, in all paths of a search.
#[derive(Default)]
pub struct VariableTable {
    known: FxHashMap<(u32, u64), Variable>,
    bytes: Vec<(u32, u64)>,
}

impl VariableTable {
    /// The variable of a byte: a source and an offset in it.
    pub fn variable(&mut self, source: u32, offset: u64) -> Variable {
        *self.known.entry((source, offset)).or_insert_with(|| {
            self.bytes.push((source, offset));
            Variable(self.bytes.len() as u32 - 1)
        })
    }

    /// The source and the offset of a variable.
    pub fn byte(&self, variable: Variable) -> (u32, u64) {
        self.bytes[variable.0 as usize]
    }
}
