//! Grammars of inputs that consist of lines: the commands of a program, in a small file.
//!
//! ```text
//! # Each line is a command. <NAME> stands for one of its alternatives.
//! set <key> <value>
//! get <key>
//! resize <int:1..4096>
//! <key> = a | b | <int:0..9>
//! <value> = <word> | <key><key>
//! ```
//!
//! `<int>`, `<int:LOW..HIGH>`, `<word>` and `<byte>` need no definition. `\<`, `\|`, `\#`, `\\`, `\n`, `\t` and `\xHH` are characters.

use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use libafl_bolts::rands::Rand;

use crate::mutation::{below, pick};

/// Names inside of names are followed this deep; deeper ones are left empty.
const DEPTH: u32 = 16;
/// When a line is this long, names in it are left empty: one that contains itself twice would become longer than memory.
const LONGEST_LINE: usize = 64 << 10;

/// The commands of a program.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    commands: Vec<Vec<Part>>,
    definitions: HashMap<String, Vec<Vec<Part>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Name(String),
    Integer(RangeInclusive<i64>),
    Word,
    Byte,
}

/// Why a grammar cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    #[error("cannot read the grammar {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("line {line} of the grammar {}: {why}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        why: String,
    },
    #[error("the grammar {} has no command: a line that does not begin with `<NAME> =`", path.display())]
    Empty { path: PathBuf },
}

impl Grammar {
    pub fn read(path: &Path) -> Result<Self, GrammarError> {
        let text = std::fs::read_to_string(path).map_err(|source| GrammarError::Read {
            path: path.to_owned(),
            source,
        })?;
        let grammar = Self::parse(&text).map_err(|(line, why)| GrammarError::Line {
            path: path.to_owned(),
            line,
            why,
        })?;
        match grammar.commands.is_empty() {
            true => Err(GrammarError::Empty {
                path: path.to_owned(),
            }),
            false => Ok(grammar),
        }
    }

    /// Fails with the number of a line and what is wrong with it.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut grammar = Self::default();
        let mut used = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| (number, why);
            match definition(line) {
                Some((name, body)) => {
                    let alternatives = alternatives(body).map_err(wrong)?;
                    if is_built_in(name) {
                        return Err((number, format!("<{name}> is built in")));
                    }
                    let known = grammar.definitions.entry(name.to_owned()).or_default();
                    known.extend(alternatives);
                }
                None => grammar.commands.push(parts(line).map_err(wrong)?),
            }
            let all = grammar
                .commands
                .iter()
                .chain(grammar.definitions.values().flatten());
            for part in all.flatten() {
                if let Part::Name(name) = part
                    && !used.iter().any(|(known, _)| known == name)
                {
                    used.push((name.clone(), number));
                }
            }
        }
        let is_unknown = |(name, _): &&(String, usize)| !grammar.definitions.contains_key(name);
        match used.iter().find(is_unknown) {
            Some((name, line)) => Err((
                *line,
                format!("<{name}> is not defined; add a line `<{name}> = …`"),
            )),
            None => Ok(grammar),
        }
    }

    /// A random command, without the end of its line.
    pub fn command(&self, rand: &mut impl Rand) -> Vec<u8> {
        let mut line = Vec::new();
        if let Some(parts) = pick(&self.commands, rand) {
            self.generate(parts, rand, &mut line, DEPTH);
        }
        line
    }

    fn generate(&self, parts: &[Part], rand: &mut impl Rand, line: &mut Vec<u8>, depth: u32) {
        for part in parts {
            match part {
                Part::Text(text) => line.extend(text),
                Part::Integer(range) => {
                    let size = range.end().abs_diff(*range.start()).saturating_add(1);
                    let at = rand.next() % size.max(1);
                    let value = range.start().wrapping_add_unsigned(at);
                    line.extend(value.to_string().into_bytes());
                }
                Part::Word => {
                    let length = 1 + below(8, rand);
                    line.extend((0..length).map(|_| b'a' + below(26, rand) as u8));
                }
                Part::Byte => line.push(below(256, rand) as u8),
                Part::Name(name) => {
                    let alternatives = self.definitions.get(name);
                    let chosen = alternatives.and_then(|all| pick(all, rand));
                    if let Some(parts) = chosen.filter(|_| depth > 0 && line.len() < LONGEST_LINE) {
                        self.generate(parts, rand, line, depth - 1);
                    }
                }
            }
        }
    }
}

fn is_built_in(name: &str) -> bool {
    matches!(name, "int" | "word" | "byte") || name.starts_with("int:")
}

/// The name and the body of a definition.
fn definition(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix('<')?.split_once('>')?;
    let body = rest.trim_start().strip_prefix('=')?;
    Some((name.trim(), body.trim()))
}

fn alternatives(body: &str) -> Result<Vec<Vec<Part>>, String> {
    let mut texts = vec![String::new()];
    let mut is_escaped = false;
    for c in body.chars() {
        if c == '|' && !is_escaped {
            texts.push(String::new());
        } else if let Some(last) = texts.last_mut() {
            last.push(c);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    texts.iter().map(|text| parts(text.trim())).collect()
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut found = Vec::new();
    let mut plain = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(escaped(&mut chars)?),
            '<' => {
                let rest = chars.as_str();
                let (name, after) = rest.split_once('>').ok_or("`<` without `>`")?;
                chars = after.chars();
                if !plain.is_empty() {
                    found.push(Part::Text(std::mem::take(&mut plain)));
                }
                found.push(reference(name.trim())?);
            }
            c => plain.extend(c.to_string().into_bytes()),
        }
    }
    if !plain.is_empty() {
        found.push(Part::Text(plain));
    }
    Ok(found)
}

fn escaped(chars: &mut std::str::Chars<'_>) -> Result<Vec<u8>, String> {
    Ok(match chars.next() {
        Some('n') => vec![b'\n'],
        Some('t') => vec![b'\t'],
        Some('x') => {
            let digits: Option<Vec<u32>> = chars
                .by_ref()
                .take(2)
                .map(|digit| digit.to_digit(16))
                .collect();
            match digits.as_deref() {
                Some([high, low]) => vec![(high * 16 + low) as u8],
                _ => return Err("`\\x` needs two hexadecimal digits".to_owned()),
            }
        }
        Some(c) => c.to_string().into_bytes(),
        None => return Err("a line ends with `\\`".to_owned()),
    })
}

fn reference(name: &str) -> Result<Part, String> {
    let wrong = || format!("<{name}> is not a range such as <int:0..9>");
    match name {
        "" => Err("`<>` names nothing; write `\\<` for the character".to_owned()),
        "int" => Ok(Part::Integer(-1000..=1000)),
        "word" => Ok(Part::Word),
        "byte" => Ok(Part::Byte),
        name => match name.strip_prefix("int:") {
            Some(range) => {
                let (low, high) = range.split_once("..").ok_or_else(wrong)?;
                let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong());
                let range = number(low)?..=number(high)?;
                match range.is_empty() {
                    true => Err(wrong()),
                    false => Ok(Part::Integer(range)),
                }
            }
            None => Ok(Part::Name(name.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use libafl_bolts::rands::StdRand;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let grammar = Grammar::parse(text).unwrap();
        let mut rand = StdRand::with_seed(1);
        let lines = (0..200).map(|_| grammar.command(&mut rand));
        lines
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .collect()
    }

    #[test]
    fn commands_are_generated_from_their_parts() {
        let found = lines("set <key> <int:1..3>\ndel <key>\n<key> = a | <key2>\n<key2> = b\\|c\n");
        for line in &found {
            let words: Vec<&str> = line.split(' ').collect();
            let is_key = |word: &str| matches!(word, "a" | "b|c");
            match words[..] {
                ["set", key, number] => {
                    assert!(is_key(key) && matches!(number, "1" | "2" | "3"), "{line}");
                }
                ["del", key] => assert!(is_key(key), "{line}"),
                _ => panic!("{line}"),
            }
        }
        for wanted in ["set a 1", "set b|c 3", "del a", "del b|c"] {
            assert!(found.iter().any(|line| line == wanted), "{wanted}");
        }
    }

    #[test]
    fn a_definition_that_contains_itself_ends() {
        let found = lines("<list>\n<list> = x<list> | y\n");
        assert!(found.iter().all(|line| line.len() <= 20), "{found:?}");
    }

    #[test]
    fn a_definition_that_contains_itself_many_times_does_not_take_all_memory() {
        let grammar = Grammar::parse(&format!("<a>\n<a> = {}x\n", "<a>".repeat(32))).unwrap();
        let line = grammar.command(&mut StdRand::with_seed(1));
        assert!(line.len() < 2 * LONGEST_LINE, "{}", line.len());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, word) in [
            ("get <key>", 1, "<key> is not defined"),
            ("a\nget <", 2, "without"),
            ("<int> = 3\nx", 1, "built in"),
            ("a <int:5..1>", 1, "range"),
            ("a\n\nb\\", 3, "ends with"),
            ("<>", 1, "names nothing"),
        ] {
            let (found, why) = Grammar::parse(text).unwrap_err();
            assert!(found == line && why.contains(word), "{text}: {found} {why}");
        }
    }
}
