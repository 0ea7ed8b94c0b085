//! The variables of expressions: each symbolic byte of a source has one.

use rustc_hash::FxHashMap;

use crate::expression::{Dag, Expr, Variable};

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

/// Which bytes of the sources are symbolic, and their variables.
pub struct SymbolicSources<'a> {
    pub variables: &'a mut VariableTable,
    pub is_symbolic: &'a dyn Fn(u32, u64) -> bool,
}

impl SymbolicSources<'_> {
    /// A byte of a source, with its value; `None` if it is not symbolic.
    pub fn expression(
        &mut self,
        dag: &mut Dag,
        (source, offset): (u32, u64),
        value: u8,
    ) -> Option<Expr> {
        (self.is_symbolic)(source, offset).then(|| {
            let variable = self.variables.variable(source, offset);
            dag.variable(variable, value)
        })
    }
}
