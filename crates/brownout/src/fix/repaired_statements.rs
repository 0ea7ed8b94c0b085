//! Which events of a trace belong to the statements that repairs change.

use std::path::Path;

use brownout_fix::{Membership, RepairedStatements, SourceSpan, StoreSpan};
use brownout_report::Frame;
use brownout_trace::{Definitions, Event};
use rustc_hash::FxHashMap;

use crate::stacks::{StackId, StackTable};

/// A statement by its place in the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementPlace {
    pub file: String,
    pub span: SourceSpan,
    pub includes_callees: bool,
    /// It is a loop: all iterations are one execution.
    pub is_loop: bool,
    /// The file and place of the store that is flushed, which a function that is called may make.
    pub store: Option<(String, StoreSpan)>,
}

impl StatementPlace {
    /// Whether it is this statement or a part of it.
    pub fn is_within(&self, other: &Self) -> bool {
        let (own, around) = (self.span, other.span);
        self.file == other.file && around.start <= own.start && own.end <= around.end
    }

    pub fn contains(&self, frame: &Frame) -> bool {
        let is_in = |line| self.span.contains(line, frame.column);
        frame.file.as_ref() == Some(&self.file) && frame.line.is_some_and(is_in)
    }
}

/// Finds the repaired statements in the stacks of events.
pub struct StatementsInStacks<'a> {
    statements: &'a [StatementPlace],
    stacks: StackTable,
    known: FxHashMap<StackId, Vec<Membership>>,
}

impl<'a> StatementsInStacks<'a> {
    /// For a target that was started in `directory`.
    pub fn new(statements: &'a [StatementPlace], directory: &Path) -> Self {
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

fn memberships(statements: &[StatementPlace], frames: &[Frame]) -> Vec<Membership> {
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
            let at = within.iter().position(|frame| statement.contains(frame));
            at.map(|at| Membership {
                repair,
                calls: calls(&frames[..innermost + at]),
                is_direct: !statement.is_loop && innermost == 0 && statement.contains(&frames[0]),
                is_flushed: statement
                    .store
                    .as_ref()
                    .is_none_or(|store| is_at(&frames[innermost], store)),
            })
        });
    members.collect()
}

/// How many functions have these frames: those that are inlined belong to the function around them.
fn calls(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| !frame.inlined).count()
}

fn is_at(frame: &Frame, (file, store): &(String, StoreSpan)) -> bool {
    let is_in = |line| store.contains(line, frame.column);
    frame.file.as_ref() == Some(file) && frame.line.is_some_and(is_in)
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

    fn span(start: (u32, u32), end: (u32, u32)) -> SourceSpan {
        SourceSpan { start, end }
    }

    #[test]
    fn stores_of_one_line_belong_to_their_own_statements() {
        let place = |from, to| StatementPlace {
            file: "/x.c".into(),
            span: span((4, from), (4, to)),
            includes_callees: false,
            is_loop: false,
            store: None,
        };
        let statements = [place(5, 16), place(17, 28)];
        let at = |column| {
            let mut frame = frame(4, "/program");
            frame.column = Some(column);
            let found = memberships(&statements, &[frame]);
            found.iter().map(|found| found.repair).collect::<Vec<_>>()
        };
        assert_eq!(at(12), [0]);
        assert_eq!(at(24), [1]);
    }

    #[test]
    fn what_a_library_stores_belongs_to_the_statement_that_calls_it() {
        let statement = StatementPlace {
            file: "/x.c".into(),
            span: span((3, 5), (4, 12)),
            includes_callees: false,
            is_loop: false,
            store: None,
        };
        let statements = [statement];
        let library = [frame(1, "/lib/libc.so.6"), frame(4, "/program")];
        let found = memberships(&statements, &library);
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_direct);
        assert_eq!(found[0].calls, 1);
        assert!(memberships(&statements, &[frame(4, "/program")])[0].is_direct);
        let callee = [frame(9, "/program"), frame(4, "/program")];
        assert_eq!(memberships(&statements, &callee), []);
    }

    #[test]
    fn an_inlined_function_is_no_call() {
        let statement = StatementPlace {
            file: "/x.c".into(),
            span: span((4, 5), (4, 12)),
            includes_callees: true,
            is_loop: false,
            store: None,
        };
        let mut inlined = frame(9, "/program");
        inlined.inlined = true;
        let stack = [inlined, frame(4, "/program")];
        let calls = |stack: &[Frame]| memberships(std::slice::from_ref(&statement), stack)[0].calls;
        assert_eq!(calls(&stack), 0);
        assert_eq!(calls(&[frame(9, "/program"), frame(4, "/program")]), 1);
    }
}
