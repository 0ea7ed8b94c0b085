//! Parts of a source file by lines and columns, as debug information counts them.

use std::ops::Range;

use crate::syntax::SourceTree;

/// A part of a source file. Lines and columns are counted from 1, columns in bytes; the end is the first position after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceSpan {
    pub start: (u32, u32),
    pub end: (u32, u32),
}

impl SourceSpan {
    pub(crate) fn of(source: &SourceTree, range: Range<usize>) -> Self {
        let position = |offset: usize| {
            let line = source.line_of(offset);
            let start = source.line_range(line).map_or(0, |line| line.start);
            (line, (offset - start) as u32 + 1)
        };
        Self {
            start: position(range.start),
            end: position(range.end),
        }
    }

    /// Whether a position is in it. Without a column, whether the line has a part of it.
    pub fn contains(&self, line: u32, column: Option<u32>) -> bool {
        match column {
            Some(column) => (self.start..self.end).contains(&(line, column)),
            None => self.start.0 <= line && (line, 1) < self.end,
        }
    }
}

/// The store of a statement that is meant, which may have others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpan {
    pub span: SourceSpan,
    /// Other stores inside of it.
    pub others: Vec<SourceSpan>,
}

impl StoreSpan {
    pub fn contains(&self, line: u32, column: Option<u32>) -> bool {
        let is_other = |other: &SourceSpan| other.contains(line, column);
        self.span.contains(line, column) && !self.others.iter().any(is_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_line_are_distinguished_by_the_column() {
        let source = SourceTree::new("x.c", "a = 1; b = 2;\n".to_owned()).unwrap();
        let [first, second] = [0..6, 7..13].map(|range| SourceSpan::of(&source, range));
        assert!(first.contains(1, Some(3)) && !first.contains(1, Some(10)));
        assert!(second.contains(1, Some(10)) && !second.contains(1, Some(3)));
        assert!(first.contains(1, None) && second.contains(1, None));
        assert!(!first.contains(2, None));
    }

    #[test]
    fn a_store_inside_of_another_is_not_a_part_of_it() {
        let source = SourceTree::new("x.c", "p->a = q->b = 1;\n".to_owned()).unwrap();
        let outer = StoreSpan {
            span: SourceSpan::of(&source, 0..15),
            others: vec![SourceSpan::of(&source, 7..15)],
        };
        assert!(outer.contains(1, Some(6)));
        assert!(!outer.contains(1, Some(13)));
    }
}
