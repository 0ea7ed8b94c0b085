//! The operations on persistent memory that a corpus has reached, with their source lines.
//!
//! Can miss: operations of targets that are not copied, and those of an execution beyond the places that a target has for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use brownout_engine::fuzz::{CodePlace, OperationKind, PmOperation};
use brownout_symbols::{FileOffset, ModuleId, Probe, Symbolizer};
use rustc_hash::FxHashMap;

/// An operation that was reached, as people know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReachedOperation {
    /// `FILE:LINE`, or module and offset without debug information.
    pub place: String,
    /// The call that led there, if it is in a library.
    pub caller: Option<String>,
    /// `load`, `store`, `flush`, `fence` or `call`.
    pub kind: &'static str,
    /// The first test case that has reached it.
    pub first: u64,
}

/// What the corpus has reached.
#[derive(Debug, Default)]
pub struct PmCoverage {
    reached: FxHashMap<u64, (PmOperation, u64)>,
}

impl PmCoverage {
    /// Notes operations, by their identities, that a test case has reached first.
    pub fn add(&mut self, operations: Vec<(u64, PmOperation)>, case: u64) {
        for (identity, operation) in operations {
            self.reached.entry(identity).or_insert((operation, case));
        }
    }

    /// All operations, with the test cases.
    pub fn operations(&self) -> Vec<(PmOperation, u64)> {
        self.reached.values().cloned().collect()
    }
}

/// Finds the source lines of operations.
pub fn with_lines(operations: Vec<(PmOperation, u64)>) -> Vec<ReachedOperation> {
    let mut lines = Lines::default();
    let reached = operations.into_iter().map(|(operation, first)| {
        let caller = operation.caller.as_ref().map(|caller| lines.of(caller));
        ReachedOperation {
            place: operation
                .place
                .as_ref()
                .map_or_else(|| "code in no file".to_owned(), |place| lines.of(place)),
            caller,
            kind: match operation.kind {
                OperationKind::Load => "load",
                OperationKind::Store => "store",
                OperationKind::Flush => "flush",
                OperationKind::Fence => "fence",
                OperationKind::Call => "call",
            },
            first,
        }
    });
    let mut reached: Vec<ReachedOperation> = reached.collect();
    reached.sort();
    reached
}

#[derive(Default)]
struct Lines {
    symbolizer: Symbolizer,
    modules: BTreeMap<PathBuf, ModuleId>,
}

impl Lines {
    /// The source line of an instruction.
    fn of(&mut self, place: &CodePlace) -> String {
        let id = match self.modules.get(&place.path) {
            Some(id) => *id,
            None => {
                let id = self.symbolizer.add_module(&place.path, None);
                self.modules.insert(place.path.clone(), id);
                id
            }
        };
        let probe = Probe::Instruction(FileOffset(place.offset));
        let frames = self.symbolizer.frames(id, probe);
        // The innermost frame may be an intrinsic in a header of the compiler.
        let own = frames.iter().find_map(|frame| {
            let source = frame.source()?;
            let is_header = brownout_libraries::is_library_header(&source);
            (!is_header).then_some(source)
        });
        own.or_else(|| frames.first().and_then(|frame| frame.source()))
            .unwrap_or_else(|| {
                let name = place.path.file_name().unwrap_or_default();
                format!("{}+{:#x}", name.to_string_lossy(), place.offset)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_attributed_to_the_first_test_case_that_reaches_it() {
        let operation = |offset| PmOperation {
            kind: OperationKind::Store,
            place: Some(CodePlace {
                path: "/nowhere/store".into(),
                offset,
            }),
            caller: None,
        };
        let mut coverage = PmCoverage::default();
        coverage.add(vec![(7, operation(0x20))], 3);
        coverage.add(vec![(7, operation(0x20)), (8, operation(0x10))], 4);
        let found = with_lines(coverage.operations());
        let found: Vec<_> = found.iter().map(|one| (&*one.place, one.first)).collect();
        assert_eq!(found, [("store+0x10", 4), ("store+0x20", 3)]);
    }
}
