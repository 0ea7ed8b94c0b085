//! Statements: which one a position belongs to, and how code is put after it.

use tree_sitter::Node;

use crate::RepairRefusal;
use crate::edit::Edit;
use crate::span::SourceSpan;
use crate::statement_part::StatementPart;
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// A statement after which code can be inserted, or a part of one that can be given a statement of its own.
#[derive(Clone, Copy)]
pub(crate) struct Statement<'s> {
    pub node: Node<'s>,
    pub source: &'s SourceTree,
    pub part: StatementPart<'s>,
}

const LOOPS: [&str; 7] = [
    "for_statement",
    "while_statement",
    "do_statement",
    "for_range_loop",
    "for_expression",
    "while_expression",
    "loop_expression",
];
const BLOCKS: [&str; 5] = [
    "compound_statement",
    "case_statement",
    "block",
    "translation_unit",
    "source_file",
];
const FUNCTIONS: [&str; 4] = [
    "function_definition",
    "lambda_expression",
    "function_item",
    "closure_expression",
];

/// A part of the syntax in which nothing can be inserted after the expression that is there.
fn closed_part(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "return_statement" | "return_expression" | "co_return_statement" => "a return statement",
        "if_statement" | "while_statement" | "switch_statement" | "if_expression"
        | "while_expression" | "match_expression" | "match_pattern" | "do_statement" => {
            "a condition"
        }
        "for_statement" | "for_range_loop" | "for_expression" => "the head of a loop",
        "field_initializer_list" => "the initialiser list of a constructor",
        _ => return None,
    })
}

impl<'s> Statement<'s> {
    /// The innermost statement at a position.
    pub fn at(
        source: &'s SourceTree,
        line: u32,
        column: Option<u32>,
    ) -> Result<Self, RepairRefusal> {
        let not_parsed = || RepairRefusal::NotParsed {
            file: source.path.clone(),
            line,
        };
        let offset = source
            .offset(line, column)
            .ok_or_else(|| RepairRefusal::Stale {
                file: source.path.clone(),
                why: "it has fewer lines",
            })?;
        let root = source.root();
        let leaf = root.descendant_for_byte_range(offset, offset);
        let leaf = leaf.ok_or_else(not_parsed)?;
        let mut below: Option<Node<'_>> = None;
        for node in std::iter::once(leaf).chain(ancestors(leaf)) {
            let kind = node.kind();
            if node.is_error() {
                return Err(not_parsed());
            }
            if kind == "preproc_def" || kind == "preproc_function_def" || kind == "macro_definition"
            {
                return Err(RepairRefusal::MacroDefinition {
                    file: source.path.clone(),
                    line,
                });
            }
            if let Some(part) = closed_part(kind)
                && !below.is_some_and(|below| is_body(node, below))
            {
                if let Some(found) = StatementPart::at(source, node, below) {
                    return Ok(found);
                }
                return Err(RepairRefusal::NoPlace {
                    file: source.path.clone(),
                    line,
                    part,
                });
            }
            if StatementPart::is_arm(node) {
                let part = StatementPart::Arm;
                return match node.has_error() {
                    true => Err(not_parsed()),
                    false => Ok(Self { node, source, part }),
                };
            }
            let parent_is_block = node.parent().is_some_and(|up| BLOCKS.contains(&up.kind()));
            let is_tail = source.language == SourceLanguage::Rust
                && parent_is_block
                && node.is_named()
                && node.kind() != "block"
                && !node.kind().ends_with("comment");
            if is_simple(kind) || is_tail {
                let part = match is_tail && !is_simple(kind) {
                    true => StatementPart::of_tail(source, node),
                    false => StatementPart::Whole,
                };
                return match node.has_error() {
                    true => Err(not_parsed()),
                    false => Ok(Self { node, source, part }),
                };
            }
            if FUNCTIONS.contains(&kind) {
                break;
            }
            below = Some(node);
        }
        Err(not_parsed())
    }

    pub fn whole(source: &'s SourceTree, node: Node<'s>) -> Self {
        Self {
            node,
            source,
            part: StatementPart::Whole,
        }
    }

    /// The loop around the statement in its function, if there is one.
    pub fn enclosing_loop(&self) -> Option<Self> {
        let in_function = ancestors(self.node).take_while(|node| !FUNCTIONS.contains(&node.kind()));
        let mut loops = in_function.filter(|node| LOOPS.contains(&node.kind()));
        let node = loops.next()?;
        // In Rust a loop is an expression, which may be a statement with a semicolon.
        let node = node
            .parent()
            .filter(|parent| parent.kind() == "expression_statement")
            .unwrap_or(node);
        Some(Self::whole(self.source, node)).filter(|found| !found.node.has_error())
    }

    /// The function that the statement is in.
    pub fn function(&self) -> Option<Node<'s>> {
        ancestors(self.node).find(|node| FUNCTIONS.contains(&node.kind()))
    }

    /// Whether it is one of the statements of a block.
    pub fn is_in_block(&self) -> bool {
        self.node
            .parent()
            .is_some_and(|parent| matches!(parent.kind(), "compound_statement" | "block"))
    }

    /// Whether a variable can be declared before it: in a block, or in the braces that it gets as the only statement of a branch.
    pub fn can_follow_declaration(&self) -> bool {
        let parent = self.node.parent();
        let is_branch = parent.is_some_and(|parent| head_end(parent, self.node).is_some());
        matches!(self.part, StatementPart::Whole) && (self.is_in_block() || is_branch)
    }

    /// What is executed after the statement whenever it is: the rest of its block, up to the first statement that can leave the block
    /// or be entered from elsewhere. `None` if it is not one of the statements of a block.
    pub fn followers(&self) -> Option<SourceSpan> {
        if !self.is_in_block() {
            return None;
        }
        let own_end = self.node.end_byte();
        let mut end = own_end;
        let mut next = self.node.next_named_sibling();
        while let Some(node) = next {
            if descendants(node).iter().any(|node| is_jump(node.kind())) {
                break;
            }
            end = node.end_byte();
            next = node.next_named_sibling();
        }
        let span = SourceSpan::of(self.source, own_end..end);
        Some(span).filter(|_| !is_jump(self.node.kind()))
    }

    /// Where the block begins in which it is.
    pub fn block(&self) -> Option<(u32, u32)> {
        let parent = self.node.parent().filter(|_| self.is_in_block())?;
        Some(SourceSpan::of(self.source, parent.byte_range()).start)
    }

    pub fn span(&self) -> SourceSpan {
        SourceSpan::of(self.source, self.node.byte_range())
    }

    /// Whether other statements have a part of a line.
    pub fn shares_line(&self, line: u32) -> bool {
        let others = self.on_line(line).into_iter();
        others
            .into_iter()
            .any(|other| other.node.id() != self.node.id())
    }

    /// The statements that have a part of a line.
    pub fn on_line(&self, line: u32) -> Vec<Self> {
        let nodes = descendants(self.source.root()).into_iter();
        let simple = nodes.filter(|node| is_simple(node.kind()) && !node.has_error());
        let has_part =
            |node: &Node<'_>| SourceSpan::of(self.source, node.byte_range()).contains(line, None);
        simple
            .filter(has_part)
            .map(|node| Self::whole(self.source, node))
            .collect()
    }

    /// The edits that put `lines` after the statement, with braces if it is the only one of its branch.
    pub fn insert_after(&self, lines: &[String]) -> Result<Vec<Edit>, RepairRefusal> {
        self.surround(&[], lines)
    }

    /// The edits that put `lines` before the statement.
    pub fn insert_before(&self, lines: &[String]) -> Result<Vec<Edit>, RepairRefusal> {
        self.surround(lines, &[])
    }

    pub fn surround(
        &self,
        before: &[String],
        after: &[String],
    ) -> Result<Vec<Edit>, RepairRefusal> {
        match self.part {
            StatementPart::Whole => self.surround_whole(before, after, &[]),
            _ => self.surround_part(before, after),
        }
    }

    /// The edits around a whole statement; `last` comes after all code that repairs add after it.
    pub(crate) fn surround_whole(
        &self,
        before: &[String],
        after: &[String],
        last: &[String],
    ) -> Result<Vec<Edit>, RepairRefusal> {
        let (source, node) = (self.source, self.node);
        // What a label stands before stays a statement of the block around it.
        let mut outer = node;
        while let Some(parent) = outer.parent()
            && parent.kind() == "labeled_statement"
        {
            outer = parent;
        }
        let parent = outer.parent();
        let in_block = parent.is_some_and(|parent| BLOCKS.contains(&parent.kind()));
        if self.follows_open_statement(outer) {
            return Err(RepairRefusal::NoPlace {
                file: source.path.clone(),
                line: source.line_of(node.start_byte()),
                part: "the statement behind a macro, which may be a loop or condition without braces,",
            });
        }
        if in_block {
            return Ok(self.surround_in_block(before, after, last));
        }
        let Some(head_end) = parent.and_then(|parent| head_end(parent, outer)) else {
            return Err(RepairRefusal::NoPlace {
                file: source.path.clone(),
                line: source.line_of(node.start_byte()),
                part: "a part of another statement",
            });
        };
        let parent = parent.unwrap_or(outer);
        let outer_indent = source.indent(parent.start_byte()).to_owned();
        let indent = format!("{outer_indent}{}", source.indent_unit());
        let mut edits = vec![Edit::insert(head_end, " {")];
        let starts_line = self.starts_line();
        let gap = head_end..outer.start_byte();
        let mut lead = String::new();
        for line in before {
            lead.push_str(&format!("{line}\n{indent}"));
        }
        if starts_line {
            edits.push(Edit::insert(outer.start_byte(), lead));
        } else {
            edits.push(Edit::replace(gap, format!("\n{indent}{lead}")));
        }
        let own_indent = if starts_line {
            source.indent(outer.start_byte()).to_owned()
        } else {
            indent
        };
        let end = self.end_with_comment(outer);
        let tail = |lines: &[String], step| {
            let text: String = lines
                .iter()
                .map(|line| format!("\n{own_indent}{line}"))
                .collect();
            Edit::insert(end, text).after(node.start_byte(), step)
        };
        edits.push(tail(after, 0));
        edits.push(tail(last, 1));
        let brace = Edit::insert(end, format!("\n{outer_indent}}}"));
        edits.push(brace.after(node.start_byte(), 2));
        edits.retain(|edit| !edit.text.is_empty());
        Ok(edits)
    }

    /// Whether what stands before a statement of C or C++ does not end: a macro whose definition begins a statement, which the statement
    /// is then a part of.
    fn follows_open_statement(&self, node: Node<'_>) -> bool {
        let source = self.source;
        let mut before = node.prev_sibling();
        while let Some(comment) = before.filter(|node| node.kind() == "comment") {
            before = comment.prev_sibling();
        }
        let Some(before) = before.filter(|_| source.language != SourceLanguage::Rust) else {
            return self.is_taken_for_declaration();
        };
        let text = source.text_of(before).trim_end();
        let is_open = before.kind() == "expression_statement" && !text.ends_with(';');
        before.is_error() || is_open || self.is_taken_for_declaration()
    }

    /// Whether it is a macro and a call that together look like a declaration: `FOR_EACH(n) set(n);`.
    fn is_taken_for_declaration(&self) -> bool {
        let (node, language) = (self.node, self.source.language);
        let taken = node.child_by_field_name("type").map(|taken| taken.kind());
        let declared = node.child_by_field_name("declarator");
        let is_function = declared.is_some_and(|node| node.kind() == "function_declarator");
        node.kind() == "declaration"
            && (taken == Some("macro_type_specifier")
                || (language == SourceLanguage::C && is_function))
    }

    fn surround_in_block(&self, before: &[String], after: &[String], last: &[String]) -> Vec<Edit> {
        let (source, node) = (self.source, self.node);
        let indent = source.indent(node.start_byte()).to_owned();
        let mut edits = Vec::new();
        let needs_semicolon =
            source.language == SourceLanguage::Rust && !source.text_of(node).ends_with([';', '}']);
        if needs_semicolon && !after.is_empty() {
            edits.push(Edit::insert(node.end_byte(), ";"));
        }
        if !before.is_empty() {
            let lead: String = before
                .iter()
                .map(|line| format!("{line}\n{indent}"))
                .collect();
            edits.push(Edit::insert(node.start_byte(), lead));
        }
        let (end, gap) = self.end_and_gap();
        for (lines, step) in [(after, 0), (last, 1)] {
            let tail: String = lines.iter().map(|line| format!("{gap}{line}")).collect();
            let edit = Edit::insert(end, tail);
            edits.push(edit.after(node.start_byte(), step));
        }
        edits.retain(|edit| !edit.text.is_empty());
        edits
    }

    /// Where code after the statement goes, and what separates it. Several statements on a line stay there.
    pub(crate) fn end_and_gap(&self) -> (usize, String) {
        let end = self.end_with_comment(self.node);
        let gap = match end == self.node.end_byte() && self.shares_its_line() {
            true => " ".to_owned(),
            false => format!("\n{}", self.source.indent(self.node.start_byte())),
        };
        (end, gap)
    }

    /// Whether nothing but blanks stands before it on its line.
    pub fn starts_line(&self) -> bool {
        let at = self.node.start_byte();
        let line = self.source.line_range(self.source.line_of(at));
        line.is_some_and(|line| self.source.text[line.start..at].trim().is_empty())
    }

    /// The bytes of the statement with the blanks beside it, or of its lines if nothing but a comment stands there.
    pub fn with_its_line(&self) -> std::ops::Range<usize> {
        let (source, own) = (self.source, self.node.byte_range());
        let end = self.end_with_comment(self.node);
        let line = |at| source.line_range(source.line_of(at));
        let (Some(first), Some(last)) = (line(own.start), line(end)) else {
            return own;
        };
        let (before, after) = (
            &source.text[first.start..own.start],
            &source.text[end..last.end],
        );
        match (self.starts_line(), after.trim().is_empty()) {
            (true, true) => first.start..last.end,
            (true, false) => own.start..end + after.len() - after.trim_start().len(),
            (false, _) => first.start + before.trim_end().len()..own.end,
        }
    }

    /// Whether other code stands on the lines of its first and last byte.
    fn shares_its_line(&self) -> bool {
        let end = self.node.end_byte();
        let line = self.source.line_range(self.source.line_of(end));
        let ends_line = line.is_none_or(|line| self.source.text[end..line.end].trim().is_empty());
        !self.starts_line() || !ends_line
    }

    /// The end of a node, or of the comment that follows it on its line.
    fn end_with_comment(&self, node: Node<'_>) -> usize {
        let source = self.source;
        let end = node.end_byte();
        let Some(line) = source.line_range(source.line_of(end)) else {
            return end;
        };
        let rest = source.text[end..line.end].trim_end();
        let comment = rest.trim_start();
        // Compilers want this one as the last thing before the next label.
        if comment.to_ascii_lowercase().contains("fall") {
            return end;
        }
        let is_closed = comment.starts_with("/*")
            && comment.ends_with("*/")
            && comment.matches("*/").count() == 1;
        match comment.starts_with("//") || is_closed {
            true => end + rest.len(),
            false => end,
        }
    }

    /// Whether the statement is below an `unsafe` block or in an unsafe function.
    pub fn is_unsafe(&self) -> bool {
        ancestors(self.node)
            .take_while(|node| node.kind() != "source_file")
            .any(|node| node.kind() == "unsafe_block")
    }

    /// The call at a position, if the statement has one there; the only one if the position is not known.
    pub fn call_at(&self, offset: Option<usize>) -> Option<Node<'s>> {
        let calls = descendants(self.node)
            .into_iter()
            .filter(|node| matches!(node.kind(), "call_expression" | "macro_invocation"));
        let calls: Vec<Node<'s>> = calls.collect();
        let around = |offset: usize| {
            let around = calls
                .iter()
                .filter(|call| call.byte_range().contains(&offset));
            around.min_by_key(|call| call.byte_range().len()).copied()
        };
        match (&calls[..], offset) {
            (_, Some(offset)) if around(offset).is_some() => around(offset),
            ([call], _) => Some(*call),
            _ => None,
        }
    }
}

fn is_simple(kind: &str) -> bool {
    matches!(
        kind,
        "expression_statement" | "declaration" | "let_declaration"
    )
}

/// Whether control can leave or enter here.
fn is_jump(kind: &str) -> bool {
    matches!(
        kind,
        "return_statement"
            | "goto_statement"
            | "break_statement"
            | "continue_statement"
            | "labeled_statement"
            | "case_statement"
            | "throw_statement"
            | "co_return_statement"
            | "return_expression"
            | "break_expression"
            | "continue_expression"
            | "try_expression"
    )
}

/// Whether `node` is what `parent` executes, not what it tests.
fn is_body(parent: Node<'_>, node: Node<'_>) -> bool {
    let bodies = ["body", "consequence", "alternative"];
    let mut found = bodies
        .iter()
        .filter_map(|field| parent.child_by_field_name(field));
    found.any(|body| body.id() == node.id())
}

/// Where the head of a statement ends whose body is `body`.
fn head_end(parent: Node<'_>, body: Node<'_>) -> Option<usize> {
    let is_branch = parent.kind() == "else_clause" || is_body(parent, body);
    if !is_branch {
        return None;
    }
    let mut cursor = parent.walk();
    let children = parent.children(&mut cursor);
    let before =
        children.filter(|child| child.end_byte() <= body.start_byte() && child.kind() != "comment");
    before.last().map(|last| last.end_byte())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{apply, in_order};

    fn after(path: &str, text: &str, line: u32) -> Result<String, RepairRefusal> {
        after_column(path, text, line, None)
    }

    fn after_column(
        path: &str,
        text: &str,
        line: u32,
        column: Option<u32>,
    ) -> Result<String, RepairRefusal> {
        let source = SourceTree::new(path, text.to_owned())?;
        let statement = Statement::at(&source, line, column)?;
        let edits = statement.insert_after(&["fence();".to_owned()])?;
        Ok(apply(text, &in_order(edits).unwrap()))
    }

    #[test]
    fn code_is_put_after_the_comment_of_a_statement() {
        let text = "void f(void)\n{\n\tp->x = 1; /* why */\n\tg();\n}\n";
        let expected = "void f(void)\n{\n\tp->x = 1; /* why */\n\tfence();\n\tg();\n}\n";
        assert_eq!(after("x.c", text, 3).unwrap(), expected);
    }

    #[test]
    fn the_only_statement_of_a_branch_gets_braces() {
        let text = "void f(void)\n{\n\tif (a)\n\t\tp->x = 1;\n\telse\n\t\tp->x = 2; // two\n}\n";
        let first = "\tif (a) {\n\t\tp->x = 1;\n\t\tfence();\n\t}\n\telse\n";
        assert!(after("x.c", text, 4).unwrap().contains(first));
        let second = "\telse {\n\t\tp->x = 2; // two\n\t\tfence();\n\t}\n}\n";
        assert!(after("x.c", text, 6).unwrap().contains(second));
    }

    #[test]
    fn code_is_put_before_the_comment_of_a_fall_through() {
        let text = "void f(void)\n{\n\tswitch (a) {\n\tcase 1: p->x = 1; /* fallthrough */\n\tdefault: g();\n\t}\n}\n";
        let expected = "p->x = 1; fence(); /* fallthrough */\n\tdefault:";
        let repaired = after_column("x.c", text, 4, Some(15)).unwrap();
        assert!(repaired.contains(expected), "{repaired}");
    }

    #[test]
    fn a_branch_on_one_line_is_spread_over_several() {
        let text = "void f(void) {\n  if (a) p->x = 1;\n  g();\n}\n";
        let expected = "void f(void) {\n  if (a) {\n    p->x = 1;\n    fence();\n  }\n  g();\n}\n";
        assert_eq!(after_column("x.c", text, 2, Some(15)).unwrap(), expected);
    }

    #[test]
    fn statements_that_share_a_line_stay_there() {
        let text = "void f(void) { p->x = 1; g(); }\n";
        let expected = "void f(void) { p->x = 1; fence(); g(); }\n";
        assert_eq!(after_column("x.c", text, 1, Some(17)).unwrap(), expected);
    }

    #[test]
    fn the_body_of_a_loop_gets_braces_and_its_head_is_refused() {
        let text = "void f(void)\n{\n\tfor (i = 0;\n\t     i < 3; p->n++)\n\t\ta[i] = 1;\n}\n";
        assert!(
            after("x.c", text, 5)
                .unwrap()
                .contains("p->n++) {\n\t\ta[i] = 1;\n\t\tfence();\n\t}\n")
        );
        let refused = after("x.c", text, 4).unwrap_err();
        assert!(matches!(
            refused,
            RepairRefusal::NoPlace {
                part: "the head of a loop",
                ..
            }
        ));
    }

    #[test]
    fn conditions_that_are_tested_again_or_not_always_are_refused() {
        let text = "int f(void)\n{\n\twhile (p->x = 1)\n\t\tg();\n\tif (a) g();\n\telse if (p->x = 2)\n\t\tg();\n}\n";
        for line in [3, 6] {
            let refused = after_column("x.c", text, line, Some(12)).unwrap_err();
            assert!(
                matches!(refused, RepairRefusal::NoPlace { .. }),
                "{refused}"
            );
        }
    }

    #[test]
    fn the_body_of_a_macro_without_braces_is_refused() {
        let heads = [
            "FOR_EACH(n, list)",
            "FOR_EACH(n)",
            "FOR_EACH(n, list) /* all */",
            "FOREVER",
            "FOR_EACH(struct n *, n, list)",
        ];
        for head in heads {
            for code in ["n->x = 1;", "set(n);"] {
                let text = format!("void f(void)\n{{\n\tg();\n\t{head}\n\t\t{code}\n\th();\n}}\n");
                let done = after_column("x.c", &text, 5, Some(3));
                assert!(done.is_err(), "{done:?}");
            }
        }
        let text =
            "void f(void)\n{\n\tFOR_EACH(n, list) {\n\t\tn->x = 1;\n\t}\n\tTHEN;\n\tn->y = 1;\n}\n";
        for (line, column) in [(4, 3), (7, 2)] {
            after_column("x.c", text, line, Some(column)).unwrap();
        }
    }

    #[test]
    fn macro_definitions_are_refused() {
        let text = "#define SET(p) \\\n\t(p)->x = 1\nvoid f(void) { SET(q); }\n";
        let refused = after("x.c", text, 2).unwrap_err();
        assert!(matches!(refused, RepairRefusal::MacroDefinition { .. }));
    }

    #[test]
    fn a_rust_block_keeps_its_type_when_its_last_expression_is_a_store() {
        let text = "fn f(p: *mut u64) {\n    unsafe\n    {\n        *p = 1\n    }\n}\n";
        let expected = "        *p = 1;\n        fence();\n    }\n";
        assert!(after("x.rs", text, 4).unwrap().contains(expected));
    }

    #[test]
    fn only_what_is_always_executed_follows_a_statement() {
        let text = "void f(void)\n{\n\tp->a = 1;\n\tp->b = 2;\n\tif (x)\n\t\tgoto out;\n\tp->c = 3;\nout:\n\tg();\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let followers = |line| Statement::at(&source, line, None).unwrap().followers();
        let first = followers(3).unwrap();
        assert!(first.contains(4, None) && !first.contains(7, None));
        assert!(!followers(7).unwrap().contains(9, None));
        let text = "void f(void)\n{\n\twhile (a)\n\t\tp->x = 1;\n\tp->y = 1;\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        assert_eq!(Statement::at(&source, 4, None).unwrap().followers(), None);
    }

    #[test]
    fn a_loop_is_found_only_in_the_same_function() {
        let text = "void f(void)\n{\n\twhile (a) {\n\t\tx = 1;\n\t}\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let statement = Statement::at(&source, 4, None).unwrap();
        assert_eq!(statement.enclosing_loop().unwrap().span().start, (3, 2));
        assert!(statement.function().is_some());
    }
}
