//! The functions of a run that patterns match.

use brownout_names::FunctionPattern;
use brownout_trace::{Definitions, FunctionId};
use rustc_hash::FxHashMap;

/// Functions that match one of several patterns. Each function is compared once.
#[derive(Clone, Debug)]
pub struct FunctionSet {
    patterns: Vec<FunctionPattern>,
    /// Whether a function with a call that each pattern matches was seen.
    seen: Vec<bool>,
    known: FxHashMap<FunctionId, bool>,
}

impl FunctionSet {
    pub fn new(patterns: &[FunctionPattern]) -> Self {
        Self {
            patterns: patterns.to_vec(),
            seen: vec![false; patterns.len()],
            known: FxHashMap::default(),
        }
    }

    /// Whether a function of the trace, which was called, belongs to the set.
    #[inline]
    pub fn contains(&mut self, function: FunctionId, definitions: &Definitions) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        if let Some(&known) = self.known.get(&function) {
            return known;
        }
        let name = definitions.function(function).unwrap_or_default();
        let mut contained = false;
        for (pattern, seen) in self.patterns.iter().zip(&mut self.seen) {
            if pattern.matches_symbol(name) {
                *seen = true;
                contained = true;
            }
        }
        self.known.insert(function, contained);
        contained
    }

    /// The patterns that no function matched so far.
    pub fn missing(&self) -> impl Iterator<Item = &FunctionPattern> {
        let patterns = self.patterns.iter().zip(&self.seen);
        patterns.filter_map(|(pattern, seen)| (!seen).then_some(pattern))
    }
}
