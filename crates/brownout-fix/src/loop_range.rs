//! Stores of a loop that fills consecutive elements: one object covers them, which is flushed once, after the loop.
//!
//! The loop counts a variable up from an expression to another one, and stores to the element of that number, or to a part of it. What
//! these expressions depend on must not change in the loop, and nothing may leave the loop before its end.
//!
//! Elements of elements (`s[i].word[j]`, counted by `i`) are not covered: `word` may be a pointer, and the flush would be of the pointers.
//!
//! Can miss: members of C++ that are references; loops that count down, in other steps, or with a pointer; these are repaired in each
//! iteration. Memory that the bounds are read from and that the loop changes under another name.

use tree_sitter::Node;

use crate::statement::Statement;
use crate::stored_object::{StoredObject, has_effect, primary};
use crate::syntax::{SourceLanguage, SourceTree, descendants};

/// A loop that counts.
struct CountingLoop<'s> {
    variable: &'s str,
    first: &'s str,
    end: &'s str,
    is_inclusive: bool,
    body: Node<'s>,
}

/// The object that covers all that a statement stores in the loop around it, and that loop.
pub(crate) fn covering<'s>(
    object: &StoredObject,
    statement: &Statement<'s>,
) -> Option<(Statement<'s>, StoredObject)> {
    let around = statement.enclosing_loop()?;
    let source = statement.source;
    let counting = CountingLoop::of(source, around.node)?;
    let place = object.place.as_ref().filter(|_| is_plain(object))?;
    let base = element_base(place, counting.variable, source.language)?;
    if !counting.is_steady(source, &base) {
        return None;
    }
    Some((around, counting.object(&base, source.language)))
}

fn is_plain(object: &StoredObject) -> bool {
    object.saved.is_none() && object.length.is_none() && object.guard.is_none()
}

impl<'s> CountingLoop<'s> {
    fn of(source: &'s SourceTree, node: Node<'s>) -> Option<Self> {
        let node = match node.kind() {
            "expression_statement" => node.named_child(0)?,
            _ => node,
        };
        let field = |name| node.child_by_field_name(name);
        let text = |node: Node<'s>| source.text_of(node);
        match node.kind() {
            "for_statement" => {
                let (variable, first) = start(source, field("initializer")?)?;
                let condition = field("condition")?;
                let side = |name| condition.child_by_field_name(name).map(text);
                let operator = side("operator")?;
                let is_tested =
                    condition.kind() == "binary_expression" && side("left")? == variable;
                let counts = ["++", "+= 1", "+=1"];
                let step = text(field("update")?).replace(variable, "");
                let is_counted = is_tested
                    && matches!(operator, "<" | "<=" | "!=")
                    && counts.contains(&step.trim());
                is_counted.then_some(Self {
                    variable,
                    first,
                    end: side("right")?,
                    is_inclusive: operator == "<=",
                    body: field("body")?,
                })
            }
            "for_expression" => {
                let range = field("value").filter(|range| range.kind() == "range_expression")?;
                let pattern = field("pattern").filter(|node| node.kind() == "identifier")?;
                let whole = text(range);
                let is_inclusive = whole.contains("..=");
                let (first, end) = whole.split_once(if is_inclusive { "..=" } else { ".." })?;
                let is_bounded = !first.trim().is_empty() && !end.trim().is_empty();
                is_bounded.then_some(Self {
                    variable: text(pattern),
                    first: first.trim(),
                    end: end.trim(),
                    is_inclusive,
                    body: field("body")?,
                })
            }
            _ => None,
        }
    }

    /// Whether what the object depends on stays the same, and the loop runs to its end.
    fn is_steady(&self, source: &SourceTree, base: &str) -> bool {
        let inside = descendants(self.body);
        let leaves = |node: &Node<'_>| {
            matches!(
                node.kind(),
                "return_statement"
                    | "goto_statement"
                    | "break_statement"
                    | "throw_statement"
                    | "co_return_statement"
                    | "labeled_statement"
                    | "return_expression"
                    | "break_expression"
                    | "try_expression"
            )
        };
        let parts = [base, self.first, self.end];
        let Some(uses) = parts
            .iter()
            .map(|part| Uses::of(part, source.language))
            .collect::<Option<Vec<Uses>>>()
        else {
            return false;
        };
        let is_used = |name: &str| {
            uses.iter()
                .any(|uses| uses.names.iter().any(|it| it == name))
        };
        let reads_memory = uses.iter().any(|uses| uses.reads_memory);
        let changes = |node: &Node<'_>| {
            let target = match node.kind() {
                "assignment_expression" | "compound_assignment_expr" => {
                    node.child_by_field_name("left")
                }
                "update_expression" => node.child_by_field_name("argument"),
                "pointer_expression" if source.text_of(*node).starts_with('&') => {
                    node.child_by_field_name("argument")
                }
                // A function can change what is not a variable of this one.
                "call_expression" if reads_memory => {
                    return !source.text_of(*node).starts_with("mem") && has_effect(source, *node);
                }
                _ => None,
            };
            if declared_names(source, *node).into_iter().any(is_used) {
                return true;
            }
            target.is_some_and(|target| {
                let field = target.child_by_field_name("field");
                let name = source.text_of(field.unwrap_or(target));
                is_used(name) || name == self.variable
            })
        };
        !uses[0].names.iter().any(|name| name == self.variable)
            && !uses[1..].iter().any(|uses| uses.has_effect)
            && !inside.iter().any(|node| leaves(node) || changes(node))
    }

    fn object(&self, base: &str, language: SourceLanguage) -> StoredObject {
        let Self { first, end, .. } = *self;
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        let compared = if self.is_inclusive { "<=" } else { "<" };
        let (low, high) = (primary(first), primary(end));
        // An empty loop may have bounds whose difference is not a length.
        let guard = (!is_number(first) || !is_number(end)).then(|| match first {
            "0" if !self.is_inclusive => format!("{high} > 0"),
            _ => format!("{low} {compared} {high}"),
        });
        if language == SourceLanguage::Rust {
            let dots = if self.is_inclusive { "..=" } else { ".." };
            let slice = format!("{base}[{first}{dots}{end}]");
            return StoredObject {
                address: format!("{slice}.as_ptr()"),
                place: None,
                length: Some(format!("std::mem::size_of_val(&{slice})")),
                saved: None,
                guard,
            };
        }
        let count = match (first, self.is_inclusive) {
            ("0", false) => high,
            ("0", true) => format!("({high} + 1)"),
            (_, false) => format!("({high} - {low})"),
            (_, true) => format!("({high} + 1 - {low})"),
        };
        StoredObject {
            // In C++, what has elements can be an object of a class.
            address: match (first, language) {
                ("0", SourceLanguage::C) => base.to_owned(),
                _ => format!("&{base}[{first}]"),
            },
            place: None,
            length: Some(format!("{count} * sizeof({base}[0])")),
            saved: None,
            guard,
        }
    }
}

/// The variable that a loop starts with, and its first value.
fn start<'s>(source: &'s SourceTree, node: Node<'s>) -> Option<(&'s str, &'s str)> {
    let (name, value) = match node.kind() {
        "declaration" => {
            let mut cursor = node.walk();
            let mut declared = node.children_by_field_name("declarator", &mut cursor);
            let only = declared.next().filter(|_| declared.next().is_none())?;
            (
                only.child_by_field_name("declarator")?,
                only.child_by_field_name("value")?,
            )
        }
        "assignment_expression" => (
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        ),
        _ => return None,
    };
    let is_variable = name.kind() == "identifier";
    is_variable.then(|| (source.text_of(name), source.text_of(value)))
}

/// The names that a node declares. After the loop they mean something else, or nothing.
fn declared_names<'s>(source: &'s SourceTree, node: Node<'s>) -> Vec<&'s str> {
    let field = match node.kind() {
        "declaration" | "for_range_loop" | "init_declarator" => "declarator",
        "let_declaration" | "let_condition" | "for_expression" => "pattern",
        "match_arm" => "pattern",
        "closure_expression" => "parameters",
        _ => return Vec::new(),
    };
    let mut cursor = node.walk();
    let declarators = node.children_by_field_name(field, &mut cursor);
    let parts = declarators.flat_map(|declarator| {
        // The value of a variable is not declared.
        let declared = match declarator.kind() {
            "init_declarator" => declarator.child_by_field_name("declarator"),
            _ => Some(declarator),
        };
        declared.map(descendants).unwrap_or_default()
    });
    let names = parts.filter(|part| matches!(part.kind(), "identifier" | "self"));
    names.map(|name| source.text_of(name)).collect()
}

/// What an expression names.
struct Uses {
    names: Vec<String>,
    reads_memory: bool,
    has_effect: bool,
}

impl Uses {
    fn of(expression: &str, language: SourceLanguage) -> Option<Self> {
        let tree = SourceTree::of_expression(expression, language)?;
        let node = tree.expression()?;
        let nodes = descendants(node);
        let names = nodes.iter().filter(|node| {
            matches!(
                node.kind(),
                "identifier" | "field_identifier" | "this" | "self"
            )
        });
        Some(Self {
            names: names.map(|node| tree.text_of(*node).to_owned()).collect(),
            reads_memory: nodes.iter().any(|node| {
                matches!(
                    node.kind(),
                    "field_expression" | "pointer_expression" | "subscript_expression"
                )
            }),
            has_effect: has_effect(&tree, node),
        })
    }
}

/// The array of which a place is the element with the number `variable`, or a part of it.
fn element_base(place: &str, variable: &str, language: SourceLanguage) -> Option<String> {
    let tree = SourceTree::of_expression(place, language)?;
    let mut node = tree.expression()?;
    if has_effect(&tree, node) {
        return None;
    }
    loop {
        let field = |name| node.child_by_field_name(name);
        let operator = field("operator").map(|operator| tree.text_of(operator));
        node = match node.kind() {
            "parenthesized_expression" => node.named_child(0)?,
            "field_expression" if operator == Some("->") => {
                // The element by its address.
                let pointer = without_parentheses(field("argument")?);
                let is_address = tree.text_of(pointer).starts_with('&');
                pointer
                    .child_by_field_name("argument")
                    .filter(|_| is_address)?
            }
            // In Rust, a field of a field may be behind a reference.
            "field_expression" if language == SourceLanguage::Rust => {
                let element = field("value")?;
                (element.kind() == "index_expression").then_some(element)?
            }
            "field_expression" => field("argument")?,
            "subscript_expression" | "index_expression" => {
                let base = field("argument").or_else(|| node.named_child(0))?;
                let index = field("index").or_else(|| node.named_child(1))?;
                let is_counted = tree.text_of(index).trim_matches(['[', ']']).trim() == variable;
                // Another index may be into what a pointer in the element points to.
                return is_counted.then(|| tree.text_of(base).to_owned());
            }
            _ => return None,
        };
    }
}

fn without_parentheses(mut node: Node<'_>) -> Node<'_> {
    while node.kind() == "parenthesized_expression"
        && let Some(child) = node.named_child(0)
    {
        node = child;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::macros::MacroDefinitions;

    fn covered(path: &str, text: &str, line: u32) -> Option<StoredObject> {
        let source = SourceTree::new(path, text.to_owned()).unwrap();
        let at = text.lines().nth(line as usize - 1).unwrap();
        let column = at.find(|c: char| c.is_alphabetic() || c == '*' || c == '(');
        let column = column.map(|column| column as u32 + 1);
        let statement = Statement::at(&source, line, column).unwrap();
        let object = StoredObject::of(&statement, line, column, &MacroDefinitions::default());
        covering(&object.unwrap(), &statement).map(|(_, object)| object)
    }

    fn of_loop(head: &str, body: &str) -> Option<(String, String, Option<String>)> {
        let text = format!("void f(struct s *s, int n)\n{{\n\t{head}\n\t\t{body}\n}}\n");
        let object = covered("x.c", &text, 4)?;
        Some((object.address, object.length?, object.guard))
    }

    #[test]
    fn an_array_that_is_filled_is_flushed_as_a_whole() {
        let object = of_loop("for (int i = 0; i < 8; i++)", "s->word[i] = 1;").unwrap();
        let expected = ("s->word".into(), "8 * sizeof(s->word[0])".into(), None);
        assert_eq!(object, expected);
    }

    #[test]
    fn bounds_that_may_be_equal_are_compared() {
        let object = of_loop("for (i = 2; i <= n; ++i)", "s[i].x.y = 1;").unwrap();
        let length = "(n + 1 - 2) * sizeof(s[0])".to_owned();
        assert_eq!(object, ("&s[2]".into(), length, Some("2 <= n".into())));
        let object = of_loop("for (i = 0; i < n; i += 1)", "(&s[i])->x = 1;").unwrap();
        assert_eq!(object.2.as_deref(), Some("n > 0"));
    }

    #[test]
    fn a_slice_of_rust_covers_its_elements() {
        let text =
            "fn f(a: &mut [u64], n: usize) {\n    for i in 0..n {\n        a[i] = 1;\n    }\n}\n";
        let object = covered("x.rs", text, 3).unwrap();
        assert_eq!(object.address, "a[0..n].as_ptr()");
        assert_eq!(object.guard.as_deref(), Some("n > 0"));
    }

    #[test]
    fn an_array_of_cpp_may_be_an_object() {
        let text = "void f(T &a, int n) {\n\tfor (int i = 0; i < n; i++)\n\t\ta[i] = 1;\n}\n";
        assert_eq!(covered("x.cpp", text, 3).unwrap().address, "&a[0]");
    }

    #[test]
    fn a_field_of_rust_behind_another_one_is_not_covered() {
        let text =
            "fn f(a: &mut [R], n: usize) {\n    for i in 0..n {\n        a[i].x.y = 1;\n    }\n}\n";
        assert_eq!(covered("x.rs", text, 3), None);
        assert!(covered("x.rs", &text.replace("x.y", "x"), 3).is_some());
    }

    #[test]
    fn loops_that_change_what_they_depend_on_are_not_covered() {
        let head = "for (int i = 0; i < n; i++)";
        for body in [
            "{ s->word[i] = 1; n--; }",
            "{ s->word[i] = 1; s = next; }",
            "{ s->word[i] = 1; s->word = 0; }",
            "{ s->word[i] = 1; if (n) break; }",
            "{ s->word[i] = 1; if (n) return; }",
            "{ s->word[i] = 1; g(s); }",
            "s->word[i + 1] = 1;",
            "s->word[i]->x = 1;",
            "s[i].word[2] = 1;",
            "s[i].word[n].x = 1;",
            "{ s->word[i] = 1; struct s *s = next; }",
            "{ s->word[i] = 1; int other, n = 3; }",
            "*s++ = 1;",
        ] {
            assert_eq!(of_loop(head, body), None, "{body}");
        }
        assert_eq!(
            of_loop("for (i = 0; i < n; i += 2)", "s->word[i] = 1;"),
            None
        );
        assert_eq!(of_loop("while (n--)", "s->word[n] = 1;"), None);
    }
}
