//! Stores in a part of a statement after which nothing can be inserted: returned values, conditions, heads of loops.
//!
//! Where that does not change what is computed, the part is given a statement of its own: a returned value and the condition of `if` or
//! `switch` are saved in a variable, the first part of a `for` goes before it, and the last one is joined with the flush by a comma. An arm
//! of a `match` gets braces. Conditions of `while` are tested again after each iteration, and those of `else if` and of arms not always;
//! they are refused. So is what a `match` looks at if it has temporaries, such as the guard of a lock: they would end before the arms.

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
    /// What an arm of a `match` computes, without braces.
    Arm,
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
                let lives_on = around.kind() == "match_expression" && has_temporaries(value);
                let is_possible = is_plain && !lives_on && is_statement(owner);
                is_possible.then_some((value, Self::Condition(owner)))?
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

    /// Whether a node is what an arm of a `match` computes, and not a block.
    pub fn is_arm(node: Node<'_>) -> bool {
        let arm = node.parent().filter(|up| up.kind() == "match_arm");
        let value = arm.and_then(|arm| arm.child_by_field_name("value"));
        value.is_some_and(|value| value.id() == node.id())
            && !matches!(node.kind(), "block" | "unsafe_block")
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
                // What the function returns a reference to must not be a copy.
                let declared = match self.returns_reference() {
                    true => format!("auto &&{name} = "),
                    false => declared(source.text_of(value)),
                };
                edits.push(Edit::replace(keyword, declared));
                // A declaration can neither follow a label in C nor be jumped over in C++.
                let parent = node.parent().map_or("", |parent| parent.kind());
                if matches!(parent, "case_statement" | "labeled_statement") {
                    let (end, gap) = self.end_and_gap();
                    edits.insert(0, Edit::insert(node.start_byte(), "{ "));
                    let brace = Edit::insert(end, format!("{gap}}}"));
                    edits.push(brace.after(node.start_byte(), 2));
                }
                Ok(edits)
            }
            StatementPart::Arm => Ok(self.surround_arm(&declared(text), &name, before, after)),
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

    /// The edits that give an arm of a `match` braces; `name` is the variable that `declared` declares for its value.
    fn surround_arm(
        &self,
        declared: &str,
        name: &str,
        before: &[String],
        after: &[String],
    ) -> Vec<Edit> {
        let (source, node) = (self.source, self.node);
        let (start, end) = (node.start_byte(), node.end_byte());
        let outer = source.indent(start);
        let indent = format!("{outer}{}", source.indent_unit());
        let kinds = ["assignment_expression", "compound_assignment_expr"];
        let has_value = !kinds.contains(&node.kind());
        let lead = before.iter().map(|line| format!("{line}\n{indent}"));
        let tail = after.iter().map(|line| format!("\n{indent}{line}"));
        let (value, result) = match has_value {
            true => (declared.to_owned(), format!("\n{indent}{name}")),
            false => (String::new(), String::new()),
        };
        let mut edits = vec![
            Edit::insert(start, format!("{{\n{indent}")),
            Edit::insert(start, lead.collect::<String>()),
            Edit::insert(start, value).after(start, 0),
            Edit::insert(end, ";"),
            Edit::insert(end, tail.collect::<String>()).after(start, 0),
            Edit::insert(end, result).after(start, 1),
            Edit::insert(end, format!("\n{outer}}}")).after(start, 2),
        ];
        edits.retain(|edit| !edit.text.is_empty());
        edits
    }

    /// Whether the function around it, of C++, returns a reference, or what its type is deduced to be.
    fn returns_reference(&self) -> bool {
        let Some(function) = self
            .function()
            .filter(|_| self.source.language == SourceLanguage::Cpp)
        else {
            return false;
        };
        let body = function.child_by_field_name("body");
        let end = body.map_or(function.end_byte(), |body| body.start_byte());
        let head = descendants(function).into_iter();
        let mut head = head.filter(|node| node.end_byte() <= end);
        head.any(|node| match node.kind() {
            "reference_declarator" => node.parent().is_some_and(|up| up.id() == function.id()),
            "trailing_return_type" => self.source.text_of(node).contains(['&', '(']),
            "decltype" => node
                .parent()
                .is_none_or(|up| up.kind() != "parameter_declaration"),
            _ => false,
        })
    }

    /// Whether what is added has to be expressions: it stands in the head of a loop.
    pub(crate) fn takes_expressions(&self) -> bool {
        matches!(self.part, StatementPart::Step)
    }
}

/// Whether an expression makes values beside its own, which live as long as the statement that it is a part of.
fn has_temporaries(value: Node<'_>) -> bool {
    let kinds = ["call_expression", "macro_invocation", "struct_expression"];
    let mut parts = descendants(value).into_iter();
    parts.any(|part| part.id() != value.id() && kinds.contains(&part.kind()))
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
    fn a_value_that_is_returned_after_a_label_gets_braces() {
        let text = "int f(int i)\n{\n\tswitch (i) {\n\tcase 1: return p->x = 1;\n\tdefault:\n\t\treturn 0;\n\t}\n}\n";
        let expected = "\tcase 1: { __typeof__(p->x = 1) pm_value_4 = p->x = 1; flush(); return pm_value_4; }\n\tdefault:";
        let new = repaired("x.c", text, 4, Some(17));
        assert!(new.contains(expected), "{new}");
    }

    #[test]
    fn a_reference_that_is_returned_stays_one() {
        let body = "{\n\treturn s->x = 1;\n}\n";
        let reference = repaired("x.cpp", &format!("u64 &f(S *s)\n{body}"), 3, None);
        assert!(
            reference.contains("\tauto &&pm_value_3 = s->x = 1;\n"),
            "{reference}"
        );
        for head in ["u64 f(S &s)", "u64 *f(const S &s)"] {
            let value = repaired("x.cpp", &format!("{head}\n{body}"), 3, None);
            assert!(value.contains("\tauto pm_value_3 = "), "{value}");
        }
    }

    #[test]
    fn an_arm_of_a_match_gets_braces() {
        let text = "fn f(n: u64, p: &mut P) -> u64 {\n    match n {\n        1 => p.n.fetch_add(1, SeqCst),\n        _ => 0,\n    }\n}\n";
        let expected = "        1 => {\n            let pm_value_3 = p.n.fetch_add(1, SeqCst);\n            flush();\n            pm_value_3\n        },\n        _ => 0,\n";
        let new = repaired("x.rs", text, 3, Some(20));
        assert!(new.contains(expected), "{new}");
        let text = "fn f(p: Option<&mut P>) {\n    match p {\n        Some(p) => p.x = 1,\n        None => {}\n    }\n}\n";
        let expected =
            "        Some(p) => {\n            p.x = 1;\n            flush();\n        },\n";
        let new = repaired("x.rs", text, 3, Some(20));
        assert!(new.contains(expected), "{new}");
    }

    #[test]
    fn what_a_match_looks_at_is_refused_if_it_has_temporaries() {
        let at = |scrutinee: &str, column| {
            let text = format!(
                "fn f() {{\n    match {scrutinee} {{\n        _ => g(),\n    }}\n    h();\n}}\n"
            );
            let source = SourceTree::new("x.rs", text).unwrap();
            Statement::at(&source, 2, Some(column)).map(|_| ())
        };
        assert!(at("p.n.swap(1, SeqCst)", 15).is_ok());
        let refused = at("p.lock().unwrap().swap(1, SeqCst)", 24).unwrap_err();
        assert!(
            matches!(refused, RepairRefusal::NoPlace { .. }),
            "{refused}"
        );
        let guard = at(
            "n { 1 if p.n.swap(1, SeqCst) == 0 => g(), _ => g() }; match m",
            20,
        );
        assert!(matches!(guard, Err(RepairRefusal::NoPlace { .. })));
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
