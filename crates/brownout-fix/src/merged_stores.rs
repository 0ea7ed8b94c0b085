//! Stores that an optimising compiler has merged: one instruction stores what several statements assign.
//!
//! The instruction has the line of one of the statements; the others have no instruction that stores. A flush after the first of them
//! would come before the rest once the program is built with it, because compilers move nothing across a flush. So it comes after
//! the last statement of the group: the statements that follow in the block, assign to the same object, and store nothing of their own.
//!
//! All bytes of one instruction that stays in one cache line are flushed by one flush. Otherwise each object is flushed.

use tree_sitter::Node;

use crate::macros::MacroDefinitions;
use crate::statement::Statement;
use crate::stored_object::{StoredObject, has_effect, root_variable, stored_places};
use crate::syntax::{SourceTree, descendants};

/// The statements of a block whose stores were merged with that of another one.
pub(crate) struct MergedGroup<'s> {
    /// The statement after which all have been executed.
    pub last: Statement<'s>,
    /// Further objects that were stored, in the order of their statements.
    pub others: Vec<StoredObject>,
}

/// The group of a statement, if other stores were merged with its own. `has_stores` says which lines have instructions that store.
pub(crate) fn group<'s>(
    statement: &Statement<'s>,
    object: &StoredObject,
    macros: &MacroDefinitions,
    has_stores: &dyn Fn(u32) -> bool,
) -> Option<MergedGroup<'s>> {
    let source = statement.source;
    if !statement.is_in_block() || object.saved.is_some() {
        return None;
    }
    let root = root_variable(&object.address, source.language)?;
    let mut others = Vec::new();
    for forwards in [false, true] {
        let mut next = sibling(statement.node, forwards);
        let mut found = Vec::new();
        while let Some(node) = next {
            let Some(place) = merged(source, node, &root, macros, has_stores) else {
                break;
            };
            // The address must still mean the same after the statement.
            let name = place.place.clone().unwrap_or_default();
            let field = name
                .rsplit(['.', '>'])
                .next()
                .unwrap_or_default()
                .to_owned();
            if field.is_empty() || reads(&object.address, &field) {
                break;
            }
            found.push((node, place));
            next = sibling(node, forwards);
        }
        if !forwards {
            found.reverse();
        }
        others.push(found);
    }
    let after = others.pop().unwrap_or_default();
    let before = others.pop().unwrap_or_default();
    let last = after.last().map_or(statement.node, |(node, _)| *node);
    let all: Vec<StoredObject> = before
        .into_iter()
        .chain(after)
        .map(|(_, object)| object)
        .collect();
    (!all.is_empty()).then_some(MergedGroup {
        last: Statement::whole(source, last),
        others: all,
    })
}

fn sibling(node: Node<'_>, forwards: bool) -> Option<Node<'_>> {
    let mut next = Some(node);
    loop {
        next = match forwards {
            true => next?.next_named_sibling(),
            false => next?.prev_named_sibling(),
        };
        if !next?.kind().ends_with("comment") {
            return next;
        }
    }
}

/// What a statement assigns to, if it assigns to a part of the object at `root`, does nothing else, and has no instruction that stores.
fn merged(
    source: &SourceTree,
    node: Node<'_>,
    root: &str,
    macros: &MacroDefinitions,
    has_stores: &dyn Fn(u32) -> bool,
) -> Option<StoredObject> {
    let assignment = node
        .named_child(0)
        .filter(|_| node.kind() == "expression_statement")?;
    let value = assignment
        .child_by_field_name("right")
        .filter(|_| assignment.kind() == "assignment_expression")?;
    let is_pure = !has_effect(source, value);
    let lines = source.line_of(node.start_byte())..=source.line_of(node.end_byte());
    let is_silent = !lines.into_iter().any(has_stores);
    let statement = Statement::whole(source, node);
    let object = stored_places(&statement, macros).pop()?;
    let is_same = root_variable(&object.address, source.language).as_deref() == Some(root);
    (is_pure && is_silent && is_same && object.saved.is_none()).then_some(object)
}

/// Whether the address of an object is computed from a field.
fn reads(address: &str, field: &str) -> bool {
    let tree = SourceTree::of_expression(address, crate::SourceLanguage::C);
    let Some(node) = tree.as_ref().and_then(SourceTree::expression) else {
        return true;
    };
    let tree_text = |node: Node<'_>| {
        tree.as_ref()
            .map_or("", |tree| tree.text_of(node))
            .to_owned()
    };
    descendants(node).into_iter().any(|node| {
        let pointer = node
            .child_by_field_name("argument")
            .filter(|_| tree_text(node).contains("->"));
        pointer.is_some_and(|pointer| {
            let name = pointer.child_by_field_name("field");
            name.is_some_and(|name| tree_text(name) == field)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the group of the statement at `line`, in which only `stores` have instructions: the last line, and the objects.
    fn group_of(body: &str, line: u32, stores: &[u32]) -> Option<(u32, Vec<String>)> {
        let text = format!("void f(struct s *s, struct s *t)\n{{\n{body}}}\n");
        let source = SourceTree::new("x.c", text).unwrap();
        let macros = MacroDefinitions::default();
        let statement = Statement::at(&source, line, None).unwrap();
        let object = StoredObject::of(&statement, line, None, &macros).unwrap();
        let found = group(&statement, &object, &macros, &|line| stores.contains(&line))?;
        let last = source.line_of(found.last.node.start_byte());
        let objects = found.others.into_iter().map(|object| object.address);
        Some((last, objects.collect()))
    }

    #[test]
    fn the_flush_comes_after_the_last_statement_of_the_group() {
        let body = "\ts->a = 1;\n\ts->b = 2;\n\ts->c = 3;\n";
        let expected = vec!["&s->b".to_owned(), "&s->c".to_owned()];
        assert_eq!(group_of(body, 3, &[3]), Some((5, expected)));
        let expected = vec!["&s->a".to_owned(), "&s->b".to_owned()];
        assert_eq!(group_of(body, 5, &[5]), Some((5, expected)));
    }

    #[test]
    fn statements_with_stores_or_effects_of_their_own_are_not_merged() {
        assert_eq!(group_of("\ts->a = 1;\n\ts->b = 2;\n", 3, &[3, 4]), None);
        assert_eq!(group_of("\ts->a = 1;\n\tt->b = 2;\n", 3, &[3]), None);
        assert_eq!(group_of("\ts->a = 1;\n\ts->b = g();\n", 3, &[3]), None);
        assert_eq!(group_of("\ts->a->b = 1;\n\ts->a = t;\n", 3, &[3]), None);
    }
}
