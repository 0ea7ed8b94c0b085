//! Words from the strings in a program, which are often the commands that it knows.

use std::path::Path;

use object::{Object as _, ObjectSection as _, SectionKind};
use rustc_hash::FxHashSet;

/// Only words of such lengths are commands, keys or magic values.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=24;
/// More words are not used: each would hardly ever be tried.
const MOST: usize = 512;

/// The words in the read-only data of a program. None if it is not a program.
pub fn binary_strings(program: &Path) -> Vec<Vec<u8>> {
    let Ok(bytes) = std::fs::read(program) else {
        return Vec::new();
    };
    let Ok(file) = object::File::parse(&*bytes) else {
        return Vec::new();
    };
    let mut words = Words::default();
    for section in file.sections() {
        let is_text = matches!(
            section.kind(),
            SectionKind::ReadOnlyString | SectionKind::ReadOnlyData
        );
        let is_table = section.name().is_ok_and(|name| name.starts_with(".eh_"));
        if let Ok(data) = section.data()
            && is_text
            && !is_table
        {
            words.add_of(data);
        }
    }
    words.all
}

/// The first words, each once.
#[derive(Default)]
struct Words {
    all: Vec<Vec<u8>>,
    known: FxHashSet<Vec<u8>>,
}

impl Words {
    /// Adds the words of strings that end with a NUL.
    fn add_of(&mut self, data: &[u8]) {
        for word in words_of(data) {
            if self.all.len() == MOST {
                return;
            }
            if self.known.insert(word.to_vec()) {
                self.all.push(word.to_vec());
            }
        }
    }
}

/// The words of strings that end with a NUL.
fn words_of(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_print = |byte: &u8| (0x20..0x7f).contains(byte) || matches!(byte, b'\n' | b'\t');
    let texts = data.split(|&byte| byte == 0);
    let texts =
        texts.filter(move |text| text.len() >= *LENGTHS.start() && text.iter().all(is_print));
    let words = texts.flat_map(|text| text.split(u8::is_ascii_whitespace));
    // Conversions of printf are no input.
    words.filter(|word| !word.contains(&b'%') && LENGTHS.contains(&word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_strings_are_found_and_binary_data_is_not() {
        let mut words = Words::default();
        words.add_of(b"put\0get %s\n\0\x01\x02\xff\0x\0usage: put KEY\0put\0");
        let expected: [&[u8]; 4] = [b"put", b"get", b"usage:", b"KEY"];
        assert_eq!(words.all, expected);
    }

    #[test]
    fn of_many_words_the_first_are_taken() {
        let text: String = (0..100_000)
            .map(|number| format!("word{number}\0"))
            .collect();
        let mut words = Words::default();
        words.add_of(text.as_bytes());
        assert_eq!(words.all.len(), MOST);
        assert_eq!(
            words.all[MOST - 1],
            format!("word{}", MOST - 1).into_bytes()
        );
    }

    #[test]
    fn a_file_that_is_no_program_has_no_words() {
        assert!(binary_strings(Path::new("/etc/passwd")).is_empty());
        assert!(binary_strings(Path::new("/nonexistent")).is_empty());
    }
}
