//! Stores in a part of a statement after which nothing can be inserted: returned values, conditions, heads of loops.
//!
//! Where that does not change what is computed, the part is given a statement of its own: a returned value and the condition of `if` or
//! `switch` are saved in a variable, the first part of a `for` goes before it, and the last one is joined with the flush by a comma.
//! Conditions of `while` are tested again after each iteration, and those of `else if` not always; they are refused.

use tree_sitter::Node;

use crate::RepairRefusal;
use crate::edit::Edit;
use crate::statement::Statement;
use crate::stored_object::callee;
use crate::syntax::{SourceLanguage, SourceTree, descendants};

/// What of a statement stores.
#[derive(Clone, Copy)]
pub(crate) enum StatementPart<'s> {
    Whole,
    /// The value that the statement returns.
    Returned(Node<'s>),
    /// The last expression of a block of Rust, which is its value.
    Tail,
    /// The condition of this statement, which is one of a block.
    Condition(Node<'s>),
    /// What a `for` does first.
    Start(Node<'s>),
    /// What a `for` does after each iteration.
    Step,
}

/// Methods of Rust that store and return what was there before.
const EXCHANGES: [&str; 6] = [
    "swap",
    "fetch_add",
    "fetch_sub",
    "fetch_or",
    "fetch_and",
    "fetch_xor",
];

impl<'s> StatementPart<'s> {
    /// The part of `around` that is `below`, if it can be given a statement of its own.
    pub fn at(
        source: &'s SourceTree,
        around: Node<'s>,
        below: Option<Node<'s>>,
    ) -> Option<Statement<'s>> {
        let is_statement = |node: Node<'_>| {
            let parent = node.parent();
            parent.is_some_and(|up| matches!(up.kind(), "compound_statement" | "block"))
        };
        let is_below = |node: &Node<'_>| {
            below.is_none_or(|below| below.id() == node.id() || !below.is_named())
        };
        let field = |name| around.child_by_field_name(name);
        let (node, part) = match around.kind() {
            "return_statement" => {
                let value = around.named_child(0)?;
                // A list in braces has no type.
                let is_value = value.kind() != "initializer_list";
                is_value.then_some((around, Self::Returned(value)))?
            }
            "if_statement" | "switch_statement" if is_statement(around) => {
                let condition = field("condition").filter(is_below)?;
                let value = condition.child_by_field_name("value");
                let value = value.or_else(|| condition.named_child(0))?;
                let is_plain = value.kind() != "declaration" && condition.named_child_count() == 1;
                is_plain.then_some((value, Self::Condition(around)))?
            }
            "if_expression" | "match_expression" => {
                let owner = around
                    .parent()
                    .filter(|up| up.kind() == "expression_statement")
                    .unwrap_or(around);
                let value = field("condition").or_else(|| field("value"))?;
                let is_plain = !value.kind().starts_with("let_") && is_below(&value);
                (is_plain && is_statement(owner)).then_some((value, Self::Condition(owner)))?
            }
            "for_statement" => {
                let step = field("update").filter(is_below);
                let start = field("initializer").filter(is_below);
                let start = start.filter(|start| start.kind() != "declaration");
                match (step, start) {
                    (Some(step), _) if below.is_some_and(|below| below.id() == step.id()) => {
                        (step, Self::Step)
                    }
                    (_, Some(start)) if is_statement(around) => (start, Self::Start(around)),
                    _ => return None,
                }
            }
            _ => return None,
        };
        (!node.has_error()).then_some(Statement { node, source, part })
    }

    /// The last expression of a block of Rust.
    pub fn of_tail(source: &SourceTree, node: Node<'_>) -> Self {
        let name = callee(source, node).unwrap_or_default();
        match node.kind() == "call_expression" && EXCHANGES.contains(&name.as_str()) {
            true => Self::Tail,
            false => Self::Whole,
        }
    }
}

impl<'s> Statement<'s> {
    /// The edits that put code around the part of a statement.
    pub(crate) fn surround_part(
        &self,
        before: &[String],
        after: &[String],
    ) -> Result<Vec<Edit>, RepairRefusal> {
        let (source, node) = (self.source, self.node);
        let text = source.text_of(node);
        let name = format!("pm_value_{}", source.line_of(node.start_byte()));
        let refused = || RepairRefusal::NoPlace {
            file: source.path.clone(),
            line: source.line_of(node.start_byte()),
            part: "a part of another statement",
        };
        let declared = |value: &str| match source.language {
            SourceLanguage::C => format!("__typeof__({value}) {name} = "),
            SourceLanguage::Cpp => format!("auto {name} = "),
            SourceLanguage::Rust => format!("let {name} = "),
        };
        match self.part {
            StatementPart::Whole => self.surround_whole(before, after, &[]),
            StatementPart::Returned(value) => {
                let returns = format!("return {name};");
                let mut edits = self.surround_whole(before, after, &[returns])?;
                let keyword = node.start_byte()..value.start_byte();
                edits.push(Edit::replace(keyword, declared(source.text_of(value))));
                Ok(edits)
            }
            StatementPart::Tail => {
                let whole = Self::whole(source, node);
                let mut edits = whole.surround_whole(before, after, std::slice::from_ref(&name))?;
                edits.push(Edit::insert(node.start_byte(), declared(text)));
                Ok(edits)
            }
            StatementPart::Condition(owner) => {
                let start = owner.start_byte();
                let indent = source.indent(start);
                let lead: String = before
                    .iter()
                    .map(|line| format!("{line}\n{indent}"))
                    .collect();
                let value = format!("{}{text};\n{indent}", declared(text));
                let tail: String = after
                    .iter()
                    .map(|line| format!("{line}\n{indent}"))
                    .collect();
                let mut edits = vec![
                    Edit::insert(start, lead),
                    Edit::insert(start, value).after(start, 0),
                    Edit::insert(start, tail).after(start, 1),
                    Edit::replace(node.byte_range(), name),
                ];
                edits.retain(|edit| !edit.text.is_empty());
                Ok(edits)
            }
            StatementPart::Start(owner) if before.is_empty() => {
                let start = owner.start_byte();
                let indent = source.indent(start);
                let tail: String = after
                    .iter()
                    .map(|line| format!("{line}\n{indent}"))
                    .collect();
                let first = format!("{text};\n{indent}");
                Ok(vec![
                    Edit::insert(start, first).after(start, 0),
                    Edit::insert(start, tail).after(start, 1),
                    Edit::replace(node.byte_range(), ""),
                ])
            }
            StatementPart::Step if before.is_empty() => {
                let lines = after.iter().map(|line| line.strip_suffix(';'));
                let calls: Option<Vec<&str>> = lines.collect();
                let tail: String = calls
                    .ok_or_else(refused)?
                    .iter()
                    .map(|call| format!(", {call}"))
                    .collect();
                let edit = Edit::insert(node.end_byte(), tail);
                Ok(vec![edit.after(node.start_byte(), 0)])
            }
            StatementPart::Start(_) | StatementPart::Step => Err(refused()),
        }
    }

    /// Whether what is added has to be expressions: it stands in the head of a loop.
    pub(crate) fn takes_expressions(&self) -> bool {
        matches!(self.part, StatementPart::Step)
    }
}

/// Whether an expression of a statement is evaluated only sometimes when the statement is executed.
pub(crate) fn is_conditional(
    source: &SourceTree,
    statement: Node<'_>,
    expression: Node<'_>,
) -> bool {
    let is_within = |outer: Node<'_>| {
        outer.start_byte() <= expression.start_byte() && expression.end_byte() <= outer.end_byte()
    };
    descendants(statement).into_iter().any(|node| {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "binary_expression" => {
                let operator = field("operator").map(|operator| source.text_of(operator));
                matches!(operator, Some("&&" | "||")) && field("right").is_some_and(is_within)
            }
            "conditional_expression" => {
                let branches = [field("consequence"), field("alternative")];
                branches.into_iter().flatten().any(is_within)
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{apply, in_order};

    fn repaired(path: &str, text: &str, line: u32, column: Option<u32>) -> String {
        let source = SourceTree::new(path, text.to_owned()).unwrap();
        let statement = Statement::at(&source, line, column).unwrap();
        let edits = statement.insert_after(&["flush();".to_owned()]).unwrap();
        apply(text, &in_order(edits).unwrap())
    }

    #[test]
    fn a_returned_value_is_saved() {
        let text = "int f(void)\n{\n\tif (a)\n\t\treturn p->x = 1;\n\treturn p->x = 2;\n}\n";
        let expected = "\tif (a) {\n\t\t__typeof__(p->x = 1) pm_value_4 = p->x = 1;\n\t\tflush();\n\t\treturn pm_value_4;\n\t}\n";
        let new = repaired("x.c", text, 4, Some(12));
        assert!(new.contains(expected), "{new}");
        let new = repaired("x.c", text, 5, None);
        let expected =
            "\t__typeof__(p->x = 2) pm_value_5 = p->x = 2;\n\tflush();\n\treturn pm_value_5;\n}";
        assert!(new.contains(expected), "{new}");
    }

    #[test]
    fn a_condition_is_computed_before_its_statement() {
        let text = "void f(void)\n{\n\tif ((p->x = g()) > 3)\n\t\th();\n}\n";
        let expected = "{\n\t__typeof__((p->x = g()) > 3) pm_value_3 = (p->x = g()) > 3;\n\tflush();\n\tif (pm_value_3)\n\t\th();\n}\n";
        let new = repaired("x.c", text, 3, Some(12));
        assert!(new.contains(expected), "{new}");
    }

    #[test]
    fn heads_of_loops_keep_their_meaning() {
        let text = "void f(void)\n{\n\tfor (p->n = 0; i < 3; p->n++)\n\t\tg();\n}\n";
        let new = repaired("x.c", text, 3, Some(27));
        assert!(
            new.contains("for (p->n = 0; i < 3; p->n++, flush())"),
            "{new}"
        );
        let new = repaired("x.c", text, 3, Some(12));
        let expected = "{\n\tp->n = 0;\n\tflush();\n\tfor (; i < 3; p->n++)";
        assert!(new.contains(expected), "{new}");
    }

    #[test]
    fn the_value_of_a_rust_block_stays_its_value() {
        let text = "fn f(p: &P) -> u64 {\n    p.x.fetch_add(1, SeqCst)\n}\n";
        let new = repaired("x.rs", text, 2, None);
        let expected =
            "{\n    let pm_value_2 = p.x.fetch_add(1, SeqCst);\n    flush();\n    pm_value_2\n}\n";
        assert!(new.contains(expected), "{new}");
    }

    #[test]
    fn what_is_not_always_evaluated_is_known() {
        let text = "void f(void) {\n\tp && (p->x = 1);\n\tq->y = a ? b : c;\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let store = |line| {
            let statement = Statement::at(&source, line, None).unwrap();
            let nodes = descendants(statement.node).into_iter();
            let mut stores = nodes.filter(|node| node.kind() == "assignment_expression");
            is_conditional(&source, statement.node, stores.next().unwrap())
        };
        assert!(store(2));
        assert!(!store(3));
    }
}
