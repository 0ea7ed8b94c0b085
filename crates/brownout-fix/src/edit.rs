//! Edits of a source file: what is replaced by what.
//!
//! An edit names bytes of the file as it was read. All edits of a file are applied at once, so that none moves what another refers to.

use std::ops::Range;

/// Replaces bytes of a file. An empty range is an insertion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edit {
    pub start: usize,
    pub end: usize,
    pub text: String,
    /// The order of insertions at one place: what follows an inner statement comes before what follows the one around it.
    rank: (usize, u8),
}

impl Edit {
    pub fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::replace(at..at, text)
    }

    pub fn replace(range: Range<usize>, text: impl Into<String>) -> Self {
        Self {
            start: range.start,
            end: range.end,
            text: text.into(),
            rank: (0, 0),
        }
    }

    /// After a statement that starts at `start`: code with `step` 0, what ends or closes the statement with higher ones.
    pub(crate) fn after(mut self, start: usize, step: u8) -> Self {
        self.rank = (usize::MAX - start, step);
        self
    }

    /// The same edit of a text that begins `by` bytes later.
    pub(crate) fn moved_back(mut self, by: usize) -> Self {
        self.start -= by;
        self.end -= by;
        self
    }

    fn overlaps(&self, other: &Edit) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Two edits change the same bytes in different ways.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two repairs change the same part of the file")]
pub struct EditConflict;

/// Puts the edits in order and drops repetitions. Insertions at one place that follow the same statement stay in the order in which they
/// were given.
pub fn in_order(edits: impl IntoIterator<Item = Edit>) -> Result<Vec<Edit>, EditConflict> {
    let mut ordered: Vec<Edit> = Vec::new();
    for edit in edits {
        if !ordered.contains(&edit) {
            ordered.push(edit);
        }
    }
    ordered.sort_by_key(|edit| (edit.start, edit.end, edit.rank));
    let conflicts = |pair: &[Edit]| pair[0].overlaps(&pair[1]);
    match ordered.windows(2).any(conflicts) {
        true => Err(EditConflict),
        false => Ok(ordered),
    }
}

/// The text after the edits, which must be in order.
pub fn apply(text: &str, edits: &[Edit]) -> String {
    let mut edited = String::with_capacity(text.len() + 256);
    let mut done = 0;
    for edit in edits {
        edited.push_str(&text[done..edit.start]);
        edited.push_str(&edit.text);
        done = edit.end;
    }
    edited.push_str(&text[done..]);
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_applied_at_once_and_in_order() {
        let edits = [
            Edit::insert(6, "!"),
            Edit::replace(0..5, "Good"),
            Edit::insert(6, "?"),
        ];
        let edits = in_order(edits).unwrap();
        assert_eq!(apply("Hello day", &edits), "Good !?day");
    }

    #[test]
    fn the_same_edit_of_two_repairs_is_one() {
        let edit = Edit::insert(3, "x");
        assert_eq!(in_order([edit.clone(), edit.clone()]), Ok(vec![edit]));
    }

    #[test]
    fn braces_close_after_the_code_of_all_repairs_of_a_statement() {
        let edits = [
            Edit::insert(4, "1").after(3, 0),
            Edit::insert(4, "}").after(3, 2),
            Edit::insert(4, "2").after(3, 0),
            Edit::insert(4, "}").after(3, 2),
            Edit::insert(4, "outer").after(0, 0),
        ];
        assert_eq!(apply("x = y", &in_order(edits).unwrap()), "x = 12}outery");
    }

    #[test]
    fn edits_of_the_same_bytes_conflict() {
        let edits = [Edit::replace(0..3, "a"), Edit::replace(2..4, "b")];
        assert_eq!(in_order(edits), Err(EditConflict));
    }
}
