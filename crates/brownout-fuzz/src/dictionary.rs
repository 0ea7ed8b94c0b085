//! Dictionaries in AFL's format: a token in quotation marks on each line, with an optional name and level before it.

use std::io;
use std::path::{Path, PathBuf};

/// Tokens that inputs may contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    pub tokens: Vec<Vec<u8>>,
}

/// Why a dictionary cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DictionaryError {
    #[error("cannot read the dictionary {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "line {line} of the dictionary {} is not a token such as `name=\"\\x7fELF\"`: {why}",
        path.display()
    )]
    Line {
        path: PathBuf,
        line: usize,
        why: &'static str,
    },
}

impl Dictionary {
    pub fn read(path: &Path) -> Result<Self, DictionaryError> {
        let text = std::fs::read(path).map_err(|source| DictionaryError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|(line, why)| DictionaryError::Line {
            path: path.to_owned(),
            line,
            why,
        })
    }

    /// Fails with the number of a line and what is wrong with it.
    fn parse(text: &[u8]) -> Result<Self, (usize, &'static str)> {
        let mut tokens = Vec::new();
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let wrong = |why| (number, why);
            let start = line.iter().position(|&byte| byte == b'"');
            let start = start.ok_or(wrong("there is no quotation mark"))?;
            let inner = line[start + 1..].strip_suffix(b"\"");
            let inner = inner.ok_or(wrong("it does not end with a quotation mark"))?;
            let token = unescape(inner).map_err(wrong)?;
            if !token.is_empty() && !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        Ok(Self { tokens })
    }
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match rest {
            [escaped @ (b'\\' | b'"'), tail @ ..] => {
                bytes.push(*escaped);
                rest = tail;
            }
            [b'n', tail @ ..] => {
                bytes.push(b'\n');
                rest = tail;
            }
            [b't', tail @ ..] => {
                bytes.push(b'\t');
                rest = tail;
            }
            [b'r', tail @ ..] => {
                bytes.push(b'\r');
                rest = tail;
            }
            [b'x', high, low, tail @ ..] => {
                let digit = |byte: &u8| (*byte as char).to_digit(16);
                let digits = digit(high).zip(digit(low));
                let (high, low) = digits.ok_or("\\x needs two hexadecimal digits")?;
                bytes.push((high * 16 + low) as u8);
                rest = tail;
            }
            _ => return Err("unknown escape; use \\\\, \\\", \\n, \\r, \\t or \\xHH"),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_levels_comments_and_escapes_are_read() {
        let text = b"# commands\nset=\"set \"\nkw_get@1=\"get\"\n\n\"\\x00\\\"\\\\\"\n\"get\"\n";
        let dictionary = Dictionary::parse(text).unwrap();
        let expected: [&[u8]; 3] = [b"set ", b"get", b"\0\"\\"];
        assert_eq!(dictionary.tokens, expected);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [
            ("set", 1),
            ("\"a\"\n\"b", 2),
            ("#\n\n\"\\x1\"", 3),
            ("\"\\q\"", 1),
            ("\"", 1),
        ] {
            assert_eq!(Dictionary::parse(text.as_bytes()).unwrap_err().0, line);
        }
        assert_eq!(Dictionary::parse(b"\xff").unwrap_err().0, 1);
    }
}
