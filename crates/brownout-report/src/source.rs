//! Source files, read when a snippet is shown.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::rc::Rc;

use crate::Frame;

/// A line of source text that a finding points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    /// The text of the whole file.
    pub text: Rc<str>,
    /// Counted from 1.
    pub number: u32,
    /// The bytes of the line in `text`, without its end.
    pub line: Range<usize>,
    /// The bytes of the statement in `text`.
    pub statement: Range<usize>,
}

/// A file and the start of each line, so that finding a line takes constant time.
#[derive(Clone, Debug)]
struct SourceFile {
    text: Rc<str>,
    starts: Rc<[usize]>,
}

/// Why a line cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSource {
    #[error("cannot read source file {file}: {why}")]
    Unreadable { file: String, why: String },
    #[error("{file} has no line {line}; it has changed since the program was built")]
    TooShort { file: String, line: u32 },
}

type Load = Box<dyn Fn(&str) -> io::Result<String>>;

/// Where source text comes from. Each file is read once.
pub struct Sources {
    load: Load,
    files: RefCell<HashMap<String, Result<SourceFile, String>>>,
    line_texts: RefCell<HashMap<(String, u32), Option<LineText>>>,
}

/// What identifies a line of a file independently of its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineText {
    /// Words separated by single spaces.
    pub words: Rc<str>,
    /// How many earlier lines of the file have the same words.
    pub earlier: u32,
}

impl Sources {
    /// Longer files are not read, to save memory; source files are hardly ever longer.
    const MAX_LEN: u64 = 32 << 20;

    /// Files on disk. Relative paths are relative to the working directory.
    pub fn on_disk() -> Self {
        Self::from_fn(read)
    }

    /// Files that `load` returns.
    pub fn from_fn(load: impl Fn(&str) -> io::Result<String> + 'static) -> Self {
        Self {
            load: Box::new(load),
            files: RefCell::default(),
            line_texts: RefCell::default(),
        }
    }

    /// A line, counted from 1; `column` selects one of its statements.
    pub(crate) fn line(
        &self,
        file: &str,
        line: u32,
        column: Option<u32>,
    ) -> Result<SourceLine, NoSource> {
        let source = self.file(file).map_err(|why| NoSource::Unreadable {
            file: file.into(),
            why,
        })?;
        let range = source.line_range(line).ok_or_else(|| NoSource::TooShort {
            file: file.into(),
            line,
        })?;
        let statement = statement(&source.text[range.clone()], column);
        let statement = range.start + statement.start..range.start + statement.end;
        Ok(SourceLine {
            text: source.text,
            number: line,
            line: range,
            statement,
        })
    }

    /// The text of a line, if its source file can be read and the line is not empty.
    pub(crate) fn line_text(&self, file: &str, line: u32) -> Option<LineText> {
        let key = (file.to_owned(), line);
        if let Some(known) = self.line_texts.borrow().get(&key) {
            return known.clone();
        }
        let text = self.file(file).ok().and_then(|file| file.line_text(line));
        self.line_texts.borrow_mut().insert(key, text.clone());
        text
    }

    /// What identifies the line of a frame independently of its number: its text, and how many earlier lines of the file have the same.
    /// `None` if the source file cannot be read.
    pub fn line_identity(&self, frame: &Frame) -> Option<String> {
        let LineText { words, earlier } = self.line_text(frame.file.as_deref()?, frame.line?)?;
        Some(format!("{words} #{earlier}"))
    }

    /// The statement of a frame, if its source file can be read.
    pub(crate) fn statement(&self, frame: &Frame) -> Option<String> {
        let shown = self
            .line(frame.file.as_deref()?, frame.line?, frame.column)
            .ok()?;
        let statement = &shown.text[shown.statement];
        Some(statement.to_owned()).filter(|statement| !statement.is_empty())
    }

    fn file(&self, file: &str) -> Result<SourceFile, String> {
        let mut files = self.files.borrow_mut();
        let known = files.entry(file.to_owned()).or_insert_with(|| {
            (self.load)(file)
                .map(SourceFile::new)
                .map_err(|error| error.to_string())
        });
        known.clone()
    }
}

impl SourceFile {
    fn new(text: String) -> Self {
        let behind_ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(behind_ends);
        Self {
            starts: starts.filter(|&start| start < text.len()).collect(),
            text: text.into(),
        }
    }

    fn line_text(&self, line: u32) -> Option<LineText> {
        let text = &self.text[self.line_range(line)?];
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return None;
        }
        let earlier = self.text.lines().take(line as usize - 1);
        let earlier = earlier.filter(|other| other.split_whitespace().eq(words.iter().copied()));
        Some(LineText {
            earlier: earlier.count() as u32,
            words: words.join(" ").into(),
        })
    }

    fn line_range(&self, line: u32) -> Option<Range<usize>> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self
            .starts
            .get(index + 1)
            .copied()
            .unwrap_or(self.text.len());
        let content = self.text[start..end].trim_end_matches(['\n', '\r']);
        Some(start..start + content.len())
    }
}

fn read(file: &str) -> io::Result<String> {
    let unusable = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    // Checked before opening: opening a pipe or a device may block or have side effects.
    let metadata = std::fs::metadata(file)?;
    if !metadata.is_file() {
        return Err(unusable("not a regular file"));
    }
    if metadata.len() > Sources::MAX_LEN {
        return Err(unusable("the file is too long"));
    }
    let mut bytes = Vec::new();
    File::open(file)?
        .take(Sources::MAX_LEN)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The statement at a column of a line. Compilers give the column of the operator for one statement and of the
/// first character for another, so the whole statement is used: the text between semicolons and braces, without
/// surrounding white space and comments. Semicolons and slashes inside literals are not recognised as such; the
/// result is then too short.
fn statement(line: &str, column: Option<u32>) -> Range<usize> {
    let code_end = line.find("//").unwrap_or(line.len());
    let code = &line[..code_end];
    let column = column.map_or(0, |column| (column as usize).saturating_sub(1));
    let mut start = 0;
    let mut chosen = 0..code.len();
    for piece in code.split_inclusive([';', '{', '}']) {
        let range = start..start + piece.len();
        start = range.end;
        if has_code(piece) {
            chosen = range.clone();
            if column < range.end {
                break;
            }
        }
    }
    trimmed(line, chosen)
}

fn has_code(piece: &str) -> bool {
    let piece = piece.trim();
    piece.contains(|c: char| c.is_alphanumeric()) && !piece.starts_with("/*")
}

fn trimmed(line: &str, mut range: Range<usize>) -> Range<usize> {
    let piece = &line[range.clone()];
    let piece = piece.split("/*").next().unwrap_or(piece);
    range.end = range.start + piece.len();
    let around = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';');
    let behind = piece.trim_start_matches(around);
    range.start += piece.len() - behind.len();
    range.end = range.start + behind.trim_end_matches(around).len();
    if range.is_empty() {
        let indent = line.len() - line.trim_start().len();
        range = indent..line.trim_end().len().max(indent);
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marked(line: &str, column: Option<u32>) -> &str {
        &line[statement(line, column)]
    }

    #[test]
    fn the_whole_statement_is_marked() {
        let line = "\tstore->entries += 1; /* not flushed; ever */";
        assert_eq!(marked(line, Some(17)), "store->entries += 1");
        assert_eq!(marked(line, None), "store->entries += 1");
        assert_eq!(marked("    x = 1; // why; because", Some(5)), "x = 1");
    }

    #[test]
    fn the_column_chooses_among_statements() {
        let line = "static void f(void *p) { _mm_clwb(p); _mm_sfence(); }";
        assert_eq!(marked(line, Some(26)), "_mm_clwb(p)");
        assert_eq!(marked(line, Some(39)), "_mm_sfence()");
        assert_eq!(marked("a = 1; b = 2;", Some(9)), "b = 2");
    }

    #[test]
    fn a_line_without_code_is_marked_completely() {
        assert_eq!(marked("  }", Some(3)), "}");
        assert_eq!(marked("", Some(9)), "");
        assert_eq!(marked("   ", None), "");
    }

    #[test]
    fn lines_are_counted_from_one_and_may_end_with_crlf() {
        let sources = Sources::from_fn(|_| Ok("one\r\n  two;\nthree".into()));
        let second = sources.line("f", 2, None).unwrap();
        assert_eq!(&second.text[second.statement], "two");
        assert_eq!(&second.text[second.line], "  two;");
        assert!(sources.line("f", 3, None).is_ok());
        assert!(sources.line("f", 0, None).is_err());
        assert!(sources.line("f", 4, None).is_err());
    }

    #[test]
    fn a_missing_source_line_is_explained() {
        let sources = Sources::from_fn(|_| Ok("one\n".into()));
        assert_eq!(
            sources.line("kv.c", 9, None).unwrap_err().to_string(),
            "kv.c has no line 9; it has changed since the program was built"
        );
        let disk = Sources::on_disk();
        let missing = disk.line("/nonexistent/kv.c", 1, None).unwrap_err();
        assert!(missing.to_string().contains("No such file"), "{missing}");
        let directory = disk.line("/", 1, None).unwrap_err();
        assert!(directory.to_string().contains("not a regular file"));
    }

    proptest! {
        #[test]
        fn any_line_has_a_statement(line in "[^\\n]{0,40}", column in proptest::option::of(0..60_u32)) {
            let range = statement(&line, column);
            prop_assert!(line.get(range).is_some());
        }
    }
}
