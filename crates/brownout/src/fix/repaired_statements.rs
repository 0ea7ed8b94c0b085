//! Which events of a trace belong to the statements that repairs change.

use std::ops::Range;
use std::path::Path;

use brownout_fix::{Membership, RepairedStatements};
use brownout_report::Frame;
use brownout_trace::{Definitions, Event};
use rustc_hash::FxHashMap;

use crate::stacks::{StackId, StackTable};

/// A statement by its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementLines {
    pub file: String,
    pub lines: Range<u32>,
    pub includes_callees: bool,
    /// It is a loop: all iterations are one execution.
    pub is_loop: bool,
    /// The file and line of the store that is flushed, if a function that is called makes it.
    pub store: Option<(String, u32)>,
}

impl StatementLines {
    pub fn contains(&self, frame: &Frame) -> bool {
        let is_in = |line| self.lines.contains(&line);
        frame.file.as_ref() == Some(&self.file) && frame.line.is_some_and(is_in)
    }
}

/// Finds the repaired statements in the stacks of events.
pub struct StatementsInStacks<'a> {
    statements: &'a [StatementLines],
    stacks: StackTable,
    known: FxHashMap<StackId, Vec<Membership>>,
}

impl<'a> StatementsInStacks<'a> {
    /// For a target that was started in `directory`.
    pub fn new(statements: &'a [StatementLines], directory: &Path) -> Self {
        Self {
            statements,
            stacks: StackTable::new(directory),
            known: FxHashMap::default(),
        }
    }
}

impl RepairedStatements for StatementsInStacks<'_> {
    fn memberships(&mut self, event: &Event<'_>, definitions: &Definitions) -> Vec<Membership> {
        self.stacks.observe(event);
        let Some(stack) = self.stacks.stack_of(event, definitions) else {
            return Vec::new();
        };
        if let Some(known) = self.known.get(&stack) {
            return known.clone();
        }
        let frames = self.stacks.report_frames(stack);
        let found = memberships(self.statements, &frames);
        self.known.insert(stack, found.clone());
        found
    }
}

fn memberships(statements: &[StatementLines], frames: &[Frame]) -> Vec<Membership> {
    let innermost = frames
        .iter()
        .position(|frame| !frame.is_library() && frame.line.is_some());
    let Some(innermost) = innermost else {
        return Vec::new();
    };
    let members = statements
        .iter()
        .enumerate()
        .filter_map(|(repair, statement)| {
            let within = match statement.includes_callees {
                true => &frames[innermost..],
                false => &frames[innermost..=innermost],
            };
            within
                .iter()
                .any(|frame| statement.contains(frame))
                .then_some(Membership {
                    repair,
                    is_direct: !statement.is_loop
                        && innermost == 0
                        && statement.contains(&frames[0]),
                    is_flushed: statement
                        .store
                        .as_ref()
                        .is_none_or(|store| is_at(&frames[innermost], store)),
                })
        });
    members.collect()
}

fn is_at(frame: &Frame, (file, line): &(String, u32)) -> bool {
    frame.file.as_ref() == Some(file) && frame.line == Some(*line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(line: u32, module: &str) -> Frame {
        Frame {
            file: Some("/x.c".into()),
            line: Some(line),
            module: module.into(),
            ..Frame::default()
        }
    }

    #[test]
    fn what_a_library_stores_belongs_to_the_statement_that_calls_it() {
        let statement = StatementLines {
            file: "/x.c".into(),
            lines: 3..5,
            includes_callees: false,
            is_loop: false,
            store: None,
        };
        let statements = [statement];
        let library = [frame(1, "/lib/libc.so.6"), frame(4, "/program")];
        let found = memberships(&statements, &library);
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_direct);
        assert!(memberships(&statements, &[frame(4, "/program")])[0].is_direct);
        let callee = [frame(9, "/program"), frame(4, "/program")];
        assert_eq!(memberships(&statements, &callee), []);
    }
}
