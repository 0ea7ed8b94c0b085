//! Words from the strings in a program, which are often the commands that it knows.

use std::path::Path;

use object::{Object as _, ObjectSection as _, SectionKind};

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
    let mut words: Vec<Vec<u8>> = Vec::new();
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
            words_of(data, &mut words);
        }
    }
    words.truncate(MOST);
    words
}

/// Adds the words of strings that end with a NUL.
fn words_of(data: &[u8], words: &mut Vec<Vec<u8>>) {
    let is_print = |byte: &u8| (0x20..0x7f).contains(byte) || matches!(byte, b'\n' | b'\t');
    for text in data.split(|&byte| byte == 0) {
        if text.len() < *LENGTHS.start() || !text.iter().all(is_print) {
            continue;
        }
        for word in text.split(u8::is_ascii_whitespace) {
            // Conversions of printf are no input.
            let is_plain = !word.contains(&b'%');
            let word = word.to_vec();
            if is_plain && LENGTHS.contains(&word.len()) && !words.contains(&word) {
                words.push(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_strings_are_found_and_binary_data_is_not() {
        let mut words = Vec::new();
        words_of(
            b"put\0get %s\n\0\x01\x02\xff\0x\0usage: put KEY\0put\0",
            &mut words,
        );
        let expected: [&[u8]; 4] = [b"put", b"get", b"usage:", b"KEY"];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_file_that_is_no_program_has_no_words() {
        assert!(binary_strings(Path::new("/etc/passwd")).is_empty());
        assert!(binary_strings(Path::new("/nonexistent")).is_empty());
    }
}
