//! Removal of a statement that only flushes, fences or adds to a log, and was found to do nothing.
//!
//! A removal lies outside the argument that a repair does no harm (Hippocrates, §3.4): on another path the flush may be needed. Callers
//! have to show that nothing is missing without it, and to leave the decision to the author.
//!
//! Can miss: statements that declare a variable or are the only one of a branch, and flushes inside of other expressions; these are
//! refused. What a called function does apart from its accesses to persistent memory does not show here.

use crate::RepairRefusal;
use crate::edit::Edit;
use crate::repair::{RepairOperation, SourceRepair};
use crate::statement::Statement;
use crate::stored_object::{arguments, has_effect};
use crate::syntax::SourceTree;

/// The edits that remove the statement at a position.
pub fn remove_statement(
    source: &SourceTree,
    line: u32,
    column: Option<u32>,
) -> Result<SourceRepair, RepairRefusal> {
    let statement = Statement::at(source, line, column)?;
    let refused = |part| RepairRefusal::NotRemoved {
        file: source.path.clone(),
        line,
        part,
    };
    if column.is_none() && statement.shares_line(line) {
        return Err(refused("the line has several statements"));
    }
    if statement.node.kind() != "expression_statement" || !statement.is_in_block() {
        return Err(refused("it is a part of another statement"));
    }
    let call = statement.node.named_child(0);
    let call = call.filter(|call| {
        matches!(
            call.kind(),
            "call_expression" | "macro_invocation" | "gnu_asm_expression"
        )
    });
    let call = call.ok_or_else(|| refused("it is more than a call"))?;
    if arguments(call).iter().any(|node| has_effect(source, *node)) {
        return Err(refused("an argument of the call has an effect"));
    }
    let text = source.text_of(statement.node);
    Ok(SourceRepair {
        edits: vec![Edit::replace(statement.with_its_line(), "")],
        span: statement.span(),
        store: None,
        followers: None,
        block: None,
        operation: RepairOperation::Removal,
        elsewhere: Vec::new(),
        copies: Vec::new(),
        code: vec![text.to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::apply;

    fn removed(body: &str, column: Option<u32>) -> Result<String, RepairRefusal> {
        let text = format!("void f(struct s *s)\n{{\n\ts->x = 1;\n{body}\n}}\n");
        let source = SourceTree::new("x.c", text.clone()).unwrap();
        let repair = remove_statement(&source, 4, column)?;
        Ok(apply(&text, &repair.edits))
    }

    #[test]
    fn a_statement_goes_with_its_line() {
        let rest = "void f(struct s *s)\n{\n\ts->x = 1;\n}\n";
        assert_eq!(removed("\tpersist(s, 8);", None).unwrap(), rest);
        assert_eq!(removed("\tpersist(s, 8); // again", None).unwrap(), rest);
    }

    #[test]
    fn other_statements_of_the_line_stay() {
        let text = removed("\tg(); persist(s, 8); h();", Some(7)).unwrap();
        assert!(text.contains("\n\tg(); h();\n"), "{text}");
    }

    #[test]
    fn what_does_more_than_flush_is_refused() {
        for body in [
            "\tif (s) persist(s, 8);",
            "\tpersist(next(), 8);",
            "\tint n = persist(s, 8);",
            "\ts->x = persist(s, 8);",
            "\treturn persist(s, 8);",
        ] {
            let column = body.find("persist").map(|at| at as u32 + 1);
            assert!(removed(body, column).is_err(), "{body}");
        }
    }
}
