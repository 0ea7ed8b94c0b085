//! Unified diffs in the form that `git apply` and `patch -p1` take.
//!
//! The hunks follow from the edits: nothing needs to be searched for. Lines that an edit touches but does not change are context.

use std::fmt::Write as _;

use crate::edit::{Edit, apply};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Consecutive lines of the old text, and what takes their place.
struct LineChange {
    /// Numbers of the old lines, counted from 0.
    from: usize,
    to: usize,
    new: Vec<String>,
}

/// The diff of one file; empty if the edits change nothing. `path` is relative to the directory in which the diff is applied.
pub fn unified(path: &str, text: &str, edits: &[Edit]) -> String {
    let old: Vec<&str> = text.split_inclusive('\n').collect();
    let changes = line_changes(text, &old, edits);
    if changes.is_empty() {
        return String::new();
    }
    let mut diff = format!("--- a/{path}\n+++ b/{path}\n");
    let mut hunk: Vec<&LineChange> = Vec::new();
    let mut moved: isize = 0;
    for change in &changes {
        if let Some(last) = hunk.last()
            && change.from > last.to + 2 * CONTEXT
        {
            write_hunk(&mut diff, &old, &hunk, &mut moved);
            hunk.clear();
        }
        hunk.push(change);
    }
    write_hunk(&mut diff, &old, &hunk, &mut moved);
    diff
}

/// The lines that edits change. Edits on the same line are one change.
fn line_changes(text: &str, old: &[&str], edits: &[Edit]) -> Vec<LineChange> {
    let mut starts = vec![0];
    for line in old {
        starts.push(starts[starts.len() - 1] + line.len());
    }
    let line_at = |offset: usize| {
        let line = starts.partition_point(|&start| start <= offset) - 1;
        line.min(old.len())
    };
    let mut groups: Vec<(usize, usize, Vec<Edit>)> = Vec::new();
    for edit in edits {
        let from = line_at(edit.start);
        let to = (line_at(edit.end) + 1).min(old.len());
        match groups.last_mut() {
            Some((_, last, group)) if from < *last => {
                *last = to.max(*last);
                group.push(edit.clone());
            }
            _ => groups.push((from, to, vec![edit.clone()])),
        }
    }
    let changed = groups.into_iter().filter_map(|(from, to, edits)| {
        let base = starts[from];
        let local: Vec<Edit> = edits
            .into_iter()
            .map(|edit| Edit::replace(edit.start - base..edit.end - base, edit.text))
            .collect();
        let new = apply(&text[base..starts[to]], &local);
        let new: Vec<String> = new.split_inclusive('\n').map(str::to_owned).collect();
        trimmed(old, from, to, new)
    });
    changed.collect()
}

/// The change without lines that stay the same at its ends; `None` if nothing is left.
fn trimmed(
    old: &[&str],
    mut from: usize,
    mut to: usize,
    mut new: Vec<String>,
) -> Option<LineChange> {
    while from < to && new.first().is_some_and(|line| line == old[from]) {
        new.remove(0);
        from += 1;
    }
    while from < to && new.last().is_some_and(|line| line == old[to - 1]) {
        new.pop();
        to -= 1;
    }
    (from < to || !new.is_empty()).then_some(LineChange { from, to, new })
}

/// `moved` is by how many lines the earlier hunks have made the text longer.
fn write_hunk(diff: &mut String, old: &[&str], changes: &[&LineChange], moved: &mut isize) {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
        return;
    };
    let from = first.from.saturating_sub(CONTEXT);
    let to = (last.to + CONTEXT).min(old.len());
    let mut body = String::new();
    let (mut at, mut growth) = (from, 0isize);
    for change in changes {
        old[at..change.from]
            .iter()
            .for_each(|line| push(&mut body, ' ', line));
        let removed = &old[change.from..change.to];
        removed.iter().for_each(|line| push(&mut body, '-', line));
        change
            .new
            .iter()
            .for_each(|line| push(&mut body, '+', line));
        growth += change.new.len() as isize - removed.len() as isize;
        at = change.to;
    }
    old[at..to]
        .iter()
        .for_each(|line| push(&mut body, ' ', line));
    let old_len = to - from;
    let new_len = (old_len as isize + growth) as usize;
    let new_from = (from as isize + *moved) as usize;
    let (old_range, new_range) = (range(from, old_len), range(new_from, new_len));
    // Writing to a string cannot fail.
    let _ = write!(diff, "@@ -{old_range} +{new_range} @@\n{body}");
    *moved += growth;
}

/// `start,length` as a hunk header has it: an empty range names the line before it.
fn range(from: usize, len: usize) -> String {
    let start = from + usize::from(len > 0);
    format!("{start},{len}")
}

fn push(body: &mut String, mark: char, line: &str) {
    body.push(mark);
    body.push_str(line);
    if !line.ends_with('\n') {
        body.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inserted_line_is_a_hunk_with_context() {
        let text = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let diff = unified("x.c", text, &[Edit::insert(8, "new\n")]);
        let expected = "--- a/x.c\n+++ b/x.c\n@@ -2,6 +2,7 @@\n b\n c\n d\n+new\n e\n f\n g\n";
        assert_eq!(diff, expected);
    }

    #[test]
    fn distant_changes_are_hunks_of_their_own() {
        let text: String = (0..20).map(|line| format!("{line}\n")).collect();
        let last = text.len();
        let diff = unified(
            "x",
            &text,
            &[Edit::insert(0, "first\n"), Edit::insert(last, "last\n")],
        );
        assert!(diff.contains("@@ -1,3 +1,4 @@\n+first\n 0\n"), "{diff}");
        assert!(diff.contains("@@ -18,3 +19,4 @@\n"), "{diff}");
        assert!(diff.ends_with(" 19\n+last\n"), "{diff}");
    }

    #[test]
    fn edits_inside_one_line_are_one_change() {
        let text = "if (x) y = 1;\n";
        let diff = unified("x", text, &[Edit::insert(6, " {"), Edit::insert(13, " }")]);
        assert!(
            diff.ends_with("@@ -1,1 +1,1 @@\n-if (x) y = 1;\n+if (x) { y = 1; }\n"),
            "{diff}"
        );
    }

    #[test]
    fn a_missing_newline_at_the_end_is_kept() {
        let diff = unified("x", "a\nb", &[Edit::insert(0, "n\n")]);
        assert!(
            diff.ends_with("+n\n a\n b\n\\ No newline at end of file\n"),
            "{diff}"
        );
    }

    #[test]
    fn edits_that_change_nothing_give_no_diff() {
        assert_eq!(unified("x", "a\n", &[Edit::replace(0..1, "a")]), "");
    }
}
