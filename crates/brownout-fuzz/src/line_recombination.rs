//! Mutations of inputs that consist of lines: commands are added, removed, repeated and exchanged, and their words replaced.
//!
//! New commands come from a grammar or, without one, from the lines of seeds and of the corpus: the words that a command had at a
//! position in one line come to the same position of another.

use std::collections::BTreeMap;

use libafl_bolts::rands::Rand;

use crate::grammar::Grammar;
use crate::mutation::{below, pick};

/// The most lines that an input is made to have.
const MOST_LINES: usize = 400;
/// The most words that are remembered for one position of a command, and lines in total.
const MOST_KNOWN: usize = 256;

/// Where new lines come from.
#[derive(Clone, Debug, Default)]
pub struct LineSource {
    grammar: Option<Grammar>,
    lines: Vec<Vec<u8>>,
    /// Words by command and position.
    words: BTreeMap<(Vec<u8>, usize), Vec<Vec<u8>>>,
    /// Words that are no part of a known line.
    tokens: Vec<Vec<u8>>,
}

impl LineSource {
    pub fn new(grammar: Option<Grammar>, tokens: &[Vec<u8>]) -> Self {
        let is_word = |token: &&Vec<u8>| token.iter().all(u8::is_ascii_graphic);
        Self {
            grammar,
            tokens: tokens.iter().filter(is_word).cloned().collect(),
            ..Self::default()
        }
    }

    /// Learns the lines of an input.
    pub fn learn(&mut self, input: &[u8]) {
        for line in input.split(|&byte| byte == b'\n') {
            if line.is_empty() || line.len() > 256 || self.lines.len() >= MOST_KNOWN {
                continue;
            }
            if self.lines.iter().any(|known| known == line) {
                continue;
            }
            self.lines.push(line.to_vec());
            let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            for (position, word) in words.iter().enumerate() {
                let key = (words[0].to_vec(), position);
                let known = self.words.entry(key).or_default();
                if known.len() < MOST_KNOWN && !known.iter().any(|known| known == word) {
                    known.push(word.to_vec());
                }
            }
        }
    }

    /// Whether inputs seem to consist of lines.
    pub fn is_useful(&self) -> bool {
        let is_text = |line: &Vec<u8>| {
            let printable = line
                .iter()
                .filter(|byte| matches!(byte, 0x20..0x7f | b'\t'));
            printable.count() * 10 >= line.len() * 9
        };
        let text = self.lines.iter().filter(|line| is_text(line)).count();
        match self.lines.is_empty() {
            true => self.grammar.is_some() || !self.tokens.is_empty(),
            false => self.grammar.is_some() || text * 2 > self.lines.len(),
        }
    }

    /// A new line.
    fn line(&self, rand: &mut impl Rand) -> Vec<u8> {
        if let Some(grammar) = &self.grammar {
            return grammar.command(rand);
        }
        // A word of the program is often a command that no line has shown.
        let known = pick(&self.lines, rand).filter(|_| below(8, rand) < 5);
        match known {
            Some(line) => self.vary(line, rand),
            None => {
                let mut line = pick(&self.tokens, rand).cloned().unwrap_or_default();
                for _ in 0..below(4, rand) {
                    line.push(b' ');
                    line.extend(self.word(rand));
                }
                line
            }
        }
    }

    /// A word that may be anything.
    fn word(&self, rand: &mut impl Rand) -> Vec<u8> {
        match below(4, rand) {
            0 => pick(&self.tokens, rand).cloned().unwrap_or_default(),
            1 => vec![b'a' + below(26, rand) as u8],
            _ => number(rand),
        }
    }

    /// A line with other words.
    fn vary(&self, line: &[u8], rand: &mut impl Rand) -> Vec<u8> {
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let mut varied = words[0].to_vec();
        for (position, word) in words.iter().enumerate().skip(1) {
            varied.push(b' ');
            let known = || self.words.get(&(words[0].to_vec(), position));
            match below(8, rand) {
                0..4 => varied.extend_from_slice(word),
                4..6 => match known().and_then(|words| pick(words, rand)) {
                    Some(other) => varied.extend(other),
                    None => varied.extend_from_slice(word),
                },
                6 => varied.extend(self.word(rand)),
                _ => varied.extend(neighbour(word, rand)),
            }
        }
        varied
    }

    /// A mutation of an input. `other` is another input of the corpus.
    pub fn mutate(&self, input: &[u8], other: &[u8], rand: &mut impl Rand) -> Vec<u8> {
        let split = |input: &[u8]| -> Vec<Vec<u8>> {
            let body = input.strip_suffix(b"\n").unwrap_or(input);
            let lines = body.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
            lines.filter(|line| !line.is_empty()).collect()
        };
        let mut lines = split(input);
        for _ in 0..1 << below(4, rand) {
            let at = below(lines.len() + 1, rand);
            let inside = at.min(lines.len().saturating_sub(1));
            match below(10, rand) {
                0..3 => lines.insert(at, self.line(rand)),
                3 => {
                    let count = 1 + below(8, rand);
                    let new: Vec<Vec<u8>> = (0..count).map(|_| self.line(rand)).collect();
                    lines.splice(at..at, new);
                }
                4 if !lines.is_empty() => {
                    let end = (inside + 1 + below(4, rand)).min(lines.len());
                    lines.drain(inside..end);
                }
                // What grows, fills up or wraps around needs a command many times.
                5 if !lines.is_empty() => {
                    let end = (inside + 1 + below(4, rand)).min(lines.len());
                    let block = lines[inside..end].to_vec();
                    for _ in 0..1 << below(5, rand) {
                        let again = block.iter().map(|line| self.vary(line, rand));
                        let again: Vec<Vec<u8>> = again.collect();
                        lines.splice(inside..inside, again);
                    }
                }
                6 if lines.len() > 1 => {
                    let other = below(lines.len(), rand);
                    lines.swap(inside, other);
                }
                7 => {
                    let others = split(other);
                    let start = below(others.len() + 1, rand);
                    lines.truncate(at);
                    lines.extend_from_slice(&others[start..]);
                }
                _ if !lines.is_empty() => lines[inside] = self.vary(&lines[inside], rand),
                _ => lines.push(self.line(rand)),
            }
            lines.truncate(MOST_LINES);
        }
        let mut joined = lines.join(&b'\n');
        joined.push(b'\n');
        joined
    }
}

/// A number, small ones and powers of two more often.
fn number(rand: &mut impl Rand) -> Vec<u8> {
    let number = match below(4, rand) {
        0 => below(10, rand) as i64,
        1 => below(100, rand) as i64,
        2 => (1 << below(32, rand)) + below(3, rand) as i64 - 1,
        _ => -(below(3, rand) as i64),
    };
    number.to_string().into_bytes()
}

/// A number close to the one that a word is; another number for other words.
fn neighbour(word: &[u8], rand: &mut impl Rand) -> Vec<u8> {
    let text = std::str::from_utf8(word).ok();
    match text.and_then(|text| text.parse::<i64>().ok()) {
        Some(value) => {
            let step = 1 + below(4, rand) as i64;
            let near = match below(4, rand) {
                0 => value.wrapping_add(step),
                1 => value.wrapping_sub(step),
                2 => value.wrapping_mul(2),
                _ => value / 2,
            };
            near.to_string().into_bytes()
        }
        None => number(rand),
    }
}

#[cfg(test)]
mod tests {
    use libafl_bolts::rands::StdRand;

    use super::*;

    #[test]
    fn words_keep_their_positions_and_lines_are_recombined() {
        let mut source = LineSource::new(None, &[]);
        source.learn(b"set a 1\nset b 2\ndel a\n");
        assert!(source.is_useful());
        let mut rand = StdRand::with_seed(3);
        let mut seen = Vec::new();
        for _ in 0..3000 {
            let input = source.mutate(b"set a 1\n", b"del a\nset b 2\n", &mut rand);
            assert!(input.ends_with(b"\n"));
            let lines = input.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
            seen.extend(lines);
        }
        for wanted in ["set a 2", "set b 1", "del a", "set a 3"] {
            assert!(seen.contains(&wanted.into()), "{wanted}");
        }
    }

    #[test]
    fn any_bytes_can_be_mutated() {
        let source = LineSource::new(None, &[]);
        let mut rand = StdRand::with_seed(5);
        let inputs: [&[u8]; 4] = [b"", b"\n\n\n", b"\0\xff", b" "];
        for input in inputs {
            for other in inputs {
                for _ in 0..200 {
                    source.mutate(input, other, &mut rand);
                }
            }
        }
    }
}
