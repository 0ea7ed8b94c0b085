//! Source files and their syntax trees.

use std::ops::Range;
use std::path::Path;

use tree_sitter::{Node, Parser, Tree};

use crate::RepairRefusal;

/// The language of a source file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLanguage {
    C,
    Cpp,
    Rust,
}

impl SourceLanguage {
    pub fn of(path: &str) -> Option<Self> {
        let extension = Path::new(path).extension()?.to_str()?;
        Some(match extension {
            "c" => Self::C,
            // A header may be either; what is valid C is parsed in the same way.
            "h" | "cc" | "cpp" | "cxx" | "c++" | "C" | "hh" | "hpp" | "hxx" | "ipp" | "tcc"
            | "inl" => Self::Cpp,
            "rs" => Self::Rust,
            _ => return None,
        })
    }

    fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::C => tree_sitter_c::LANGUAGE.into(),
            Self::Cpp => tree_sitter_cpp::LANGUAGE.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
        }
    }

    fn parse(self, text: &str) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.grammar()).ok()?;
        parser.parse(text, None)
    }
}

/// A source file with its syntax tree.
pub struct SourceTree {
    pub path: String,
    pub text: String,
    pub language: SourceLanguage,
    tree: Tree,
    /// Where each line starts.
    starts: Vec<usize>,
}

impl SourceTree {
    pub fn new(path: &str, text: String) -> Result<Self, RepairRefusal> {
        let other = || RepairRefusal::OtherLanguage {
            file: path.to_owned(),
        };
        let language = SourceLanguage::of(path).ok_or_else(other)?;
        Self::of_language(path, text, language).ok_or_else(|| RepairRefusal::NotParsed {
            file: path.to_owned(),
            line: 1,
        })
    }

    pub(crate) fn of_language(path: &str, text: String, language: SourceLanguage) -> Option<Self> {
        let tree = language.parse(&text)?;
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0)
            .chain(ends.map(|(at, _)| at + 1))
            .collect();
        Some(Self {
            path: path.to_owned(),
            text,
            language,
            tree,
            starts,
        })
    }

    /// An expression, parsed as a statement of a function.
    pub(crate) fn of_expression(expression: &str, language: SourceLanguage) -> Option<Self> {
        let code = match language {
            SourceLanguage::Rust => format!("fn f() {{ ({expression}); }}\n"),
            _ => format!("void f(void) {{ ({expression}); }}\n"),
        };
        let source = Self::of_language("expression", code, language)?;
        (!source.root().has_error()).then_some(source)
    }

    /// The expression of a tree that was made of one.
    pub(crate) fn expression(&self) -> Option<Node<'_>> {
        let nodes = descendants(self.root()).into_iter();
        let mut statements = nodes.filter(|node| node.kind() == "expression_statement");
        statements.next()?.named_child(0)?.named_child(0)
    }

    pub(crate) fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }

    pub(crate) fn text_of(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// The line of a byte, counted from 1.
    pub fn line_of(&self, offset: usize) -> u32 {
        self.starts.partition_point(|&start| start <= offset) as u32
    }

    /// The bytes of a line, counted from 1, with its end.
    pub(crate) fn line_range(&self, line: u32) -> Option<Range<usize>> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied();
        Some(start..end.unwrap_or(self.text.len()))
    }

    /// The byte that debug information means. Compilers count columns in bytes; without one it is the first that is not blank.
    pub(crate) fn offset(&self, line: u32, column: Option<u32>) -> Option<usize> {
        let range = self.line_range(line)?;
        let text = &self.text[range.clone()];
        let blank = text.len() - text.trim_start().len();
        let column = column.map_or(blank, |column| column as usize - 1);
        let within = column.max(blank).min(text.trim_end().len().max(blank));
        let offset = range.start + within;
        self.text.is_char_boundary(offset).then_some(offset)
    }

    /// The blanks at the start of the line of a byte.
    pub(crate) fn indent(&self, offset: usize) -> &str {
        let start = self
            .line_range(self.line_of(offset))
            .map_or(0, |line| line.start);
        let line = &self.text[start..];
        let code = line.find(|c| c != ' ' && c != '\t').unwrap_or(0);
        &line[..code]
    }

    /// One step of indentation, as the file has it.
    pub(crate) fn indent_unit(&self) -> &'static str {
        let mut spaces = [0u32; 9];
        for line in self.text.lines() {
            let blanks = line.len() - line.trim_start_matches(' ').len();
            if line.starts_with('\t') {
                spaces[0] += 1;
            } else if let Some(count) = spaces.get_mut(blanks).filter(|_| blanks > 1) {
                *count += 1;
            }
        }
        if spaces[0] > spaces[2].max(spaces[4]).max(spaces[8]) {
            "\t"
        } else if spaces[2] > 0 {
            "  "
        } else {
            "    "
        }
    }
}

/// All nodes below a node, itself first, outer before inner.
pub(crate) fn descendants(node: Node<'_>) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        found.push(node);
        let mut cursor = node.walk();
        let children: Vec<_> = node.children(&mut cursor).collect();
        waiting.extend(children.into_iter().rev());
    }
    found
}

/// The nodes around a node, inner before outer.
pub(crate) fn ancestors(node: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    std::iter::successors(node.parent(), tree_sitter::Node::parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_bytes_and_blanks_are_skipped() {
        let source = SourceTree::new("x.c", "int a;\n\tb = 1;\n".to_owned()).unwrap();
        assert_eq!(source.offset(2, None), Some(8));
        assert_eq!(source.offset(2, Some(4)), Some(10));
        assert_eq!(source.offset(2, Some(99)), Some(14));
        assert_eq!(source.offset(9, None), None);
        assert_eq!(source.line_of(8), 2);
        assert_eq!(source.indent(10), "\t");
    }

    #[test]
    fn other_languages_are_refused() {
        let refused = SourceTree::new("x.go", String::new()).err();
        assert!(matches!(refused, Some(RepairRefusal::OtherLanguage { .. })));
    }
}
