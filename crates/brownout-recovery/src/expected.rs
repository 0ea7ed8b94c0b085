//! What a successful recovery must print, and where an output differs from it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::{fs, io};

/// Longer lines are cut.
const COLUMNS: usize = 200;

/// What a successful recovery must print to standard output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    #[default]
    Anything,
    Exactly(AllowedOutput),
    /// Any of these.
    OneOf(Vec<AllowedOutput>),
    /// Output number *k* is expected when *k* operations have taken effect.
    ByOperation(Vec<AllowedOutput>),
}

/// An output that recovery may print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOutput {
    /// The name of the file that contains it, if known.
    pub file: Option<String>,
    pub content: Vec<u8>,
}

impl From<Vec<u8>> for AllowedOutput {
    fn from(content: Vec<u8>) -> Self {
        let file = None;
        Self { file, content }
    }
}

impl AllowedOutput {
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Some(path.display().to_string()),
            content: fs::read(path)?,
        })
    }

    fn name(&self) -> String {
        match &self.file {
            Some(file) => format!("`{file}`"),
            None => "the expected output".to_owned(),
        }
    }
}

impl Expectation {
    /// Reads the files of a directory, except hidden ones. If operations are counted and the names of the files, without
    /// extension, are the numbers from 0 on, each file belongs to its number of operations. Names that are only partly such
    /// numbers are an error: outputs of other operations must not be allowed by mistake.
    pub fn from_directory(directory: &Path, operations: bool) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_file() && !name.starts_with('.') {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                files.push((stem.parse::<usize>().ok(), AllowedOutput::read(&path)?));
            }
        }
        if files.is_empty() {
            let what = "the directory contains no file to compare with";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        files.sort_by(|(one, left), (other, right)| {
            (one, &left.content).cmp(&(other, &right.content))
        });
        let numbered = operations && files.iter().any(|(number, _)| number.is_some());
        if numbered {
            check_numbers(&files)?;
        }
        let outputs = files.into_iter().map(|(_, output)| output).collect();
        Ok(match numbered {
            true => Self::ByOperation(outputs),
            false => Self::OneOf(outputs),
        })
    }

    /// Equal for equal expectations, whatever the names of the files.
    pub fn digest(&self) -> String {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        let (kind, outputs): (&str, &[AllowedOutput]) = match self {
            Self::Anything => return "anything".to_owned(),
            Self::Exactly(output) => ("exactly", std::slice::from_ref(output)),
            Self::OneOf(outputs) => ("one of", outputs),
            Self::ByOperation(outputs) => ("by operation", outputs),
        };
        for AllowedOutput { content, .. } in outputs {
            hash.update(&content.len().to_le_bytes());
            hash.update(content);
        }
        format!("{kind} {:032x}", hash.digest128())
    }

    /// Whether `output` is as expected when one of these numbers of operations has taken effect.
    pub(crate) fn met_by(&self, output: &[u8], operations: &RangeInclusive<u64>) -> bool {
        let mut allowed = self.allowed(operations).into_iter();
        *self == Self::Anything || allowed.any(|allowed| allowed.content == output)
    }

    /// The outputs that are allowed when one of these numbers of operations has taken effect.
    fn allowed(&self, operations: &RangeInclusive<u64>) -> Vec<&AllowedOutput> {
        match self {
            Self::Anything => Vec::new(),
            Self::Exactly(expected) => vec![expected],
            Self::OneOf(allowed) => allowed.iter().collect(),
            Self::ByOperation(outputs) => operations
                .clone()
                .filter_map(|number| outputs.get(usize::try_from(number).ok()?))
                .collect(),
        }
    }

    /// Where an output that does not meet the expectation differs first, in lines of text. If several outputs are allowed, it is
    /// compared with the one that begins with the most equal lines.
    pub(crate) fn difference(
        &self,
        output: &[u8],
        operations: &RangeInclusive<u64>,
    ) -> Vec<String> {
        let allowed = self.allowed(operations);
        let nearest = allowed.iter().rev();
        let nearest = nearest.max_by_key(|allowed| equal_lines(&allowed.content, output));
        let Some(nearest) = nearest else {
            let (least, most) = operations.clone().into_inner();
            let number = match least == most {
                true => format!("{least}"),
                false => format!("{least} or {most}"),
            };
            return vec![
                format!("there is no expected output after operation {number}"),
                format!("printed in line 1: {}", line(output, 0)),
            ];
        };
        let at = equal_lines(&nearest.content, output);
        let number = at + 1;
        let mut lines = Vec::new();
        if allowed.len() > 1 {
            let (count, name) = (allowed.len(), nearest.name());
            lines.push(format!(
                "none of the {count} allowed outputs; the most similar is {name}"
            ));
        }
        let expected = line(&nearest.content, at);
        lines.push(format!(
            "expected in line {number} of {}: {expected}",
            nearest.name()
        ));
        lines.push(format!("printed in line {number}: {}", line(output, at)));
        lines
    }
}

/// Fails if the numbers of the files, which are sorted by them, are not those from 0 on.
fn check_numbers(files: &[(Option<usize>, AllowedOutput)]) -> io::Result<()> {
    for (expected, (number, output)) in (0..).zip(files) {
        let name = output.name();
        let why = match number {
            Some(number) if *number == expected => continue,
            Some(number) if *number < expected => {
                format!("there is more than one file for operation {number}; one is {name}")
            }
            Some(_) => {
                format!("there is no file for operation {expected}, but there is {name}")
            }
            None => format!(
                "{name} is not named after a number of operations, as other files in the directory are; move it elsewhere"
            ),
        };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
}

/// How many lines at the beginning are equal.
fn equal_lines(one: &[u8], other: &[u8]) -> usize {
    let pairs = lines(one).zip(lines(other));
    pairs.take_while(|(one, other)| one == other).count()
}

/// A line with its end visible.
fn line(text: &[u8], number: usize) -> String {
    match lines(text).nth(number) {
        Some(line) => {
            let line = String::from_utf8_lossy(line);
            let cut: String = line.chars().take(COLUMNS).collect();
            format!("{cut:?}")
        }
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(texts: &[&str]) -> Vec<AllowedOutput> {
        let outputs = texts.iter().map(|text| text.as_bytes().to_vec());
        outputs.map(AllowedOutput::from).collect()
    }

    #[test]
    fn operations_may_have_taken_effect_or_not() {
        let expected = Expectation::ByOperation(outputs(&["none\n", "one\n", "two\n"]));
        assert!(expected.met_by(b"one\n", &(1..=1)));
        assert!(!expected.met_by(b"two\n", &(1..=1)));
        assert!(expected.met_by(b"two\n", &(1..=2)));
        assert!(!expected.met_by(b"none\n", &(1..=2)));
        assert!(!expected.met_by(b"three\n", &(7..=8)));
        let beyond = expected.difference(b"three\n", &(7..=8));
        assert!(beyond[0].ends_with("after operation 7 or 8"), "{beyond:?}");
    }

    #[test]
    fn the_first_line_that_differs_is_shown() {
        let exactly = Expectation::Exactly(AllowedOutput {
            file: Some("good".to_owned()),
            content: b"a\nb\n".to_vec(),
        });
        for (printed, expected, shown) in [
            (&b"a\nc\n"[..], "line 2 of `good`: \"b\\n\"", "\"c\\n\""),
            (b"a\nb", "line 2 of `good`: \"b\\n\"", "\"b\""),
            (b"a\nb\nc", "line 3 of `good`: nothing", "\"c\""),
            (b"", "line 1 of `good`: \"a\\n\"", "nothing"),
        ] {
            let lines = exactly.difference(printed, &(0..=0));
            assert_eq!(lines.len(), 2);
            assert!(lines[0].ends_with(expected), "{lines:?}");
            assert!(lines[1].ends_with(shown), "{lines:?}");
        }
        let one_of = Expectation::OneOf(outputs(&["x\n", "a\nb\n", "a\nd\n"]));
        let lines = one_of.difference(b"a\nc\n", &(0..=0));
        assert!(lines[0].starts_with("none of the 3 allowed"), "{lines:?}");
        assert!(lines[1].ends_with("\"b\\n\""), "{lines:?}");
    }

    #[test]
    fn numbered_files_belong_to_operations_only_if_these_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Expectation::from_directory(directory.path(), true).is_err());
        fs::write(directory.path().join("0.txt"), "none").unwrap();
        fs::write(directory.path().join("1.txt"), "one").unwrap();
        let read = |operations| Expectation::from_directory(directory.path(), operations).unwrap();
        assert!(matches!(read(true), Expectation::ByOperation(_)));
        assert!(matches!(read(false), Expectation::OneOf(_)));
        fs::write(directory.path().join(".gitkeep"), "").unwrap();
        assert!(matches!(read(true), Expectation::ByOperation(files) if files.len() == 2));
    }

    #[test]
    fn names_that_are_only_partly_numbers_are_refused() {
        for (stray, why) in [
            ("README", "README` is not named after"),
            ("0~", "0~` is not named after"),
            ("3.txt", "no file for operation 2, but there is"),
            ("1.out", "more than one file for operation 1"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            for name in ["0.txt", "1.txt", stray] {
                fs::write(directory.path().join(name), name).unwrap();
            }
            let error = Expectation::from_directory(directory.path(), true).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(
                error.to_string().contains(stray) || stray == "1.out",
                "{error}"
            );
            assert!(Expectation::from_directory(directory.path(), false).is_ok());
        }
        let directory = tempfile::tempdir().unwrap();
        for name in ["before", "after"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let read = Expectation::from_directory(directory.path(), true).unwrap();
        assert!(matches!(read, Expectation::OneOf(_)));
    }
}
