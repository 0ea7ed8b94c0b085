//! Compares two outcomes of one case, without what is declared nondeterministic, and reports where they differ.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::test_directory::{Outcome, Produced};

/// Takes declared nondeterminism out of a text before it is compared.
#[derive(Clone, Copy, Debug)]
pub enum Normaliser {
    /// The order of lines is open.
    SortLines,
    /// Every run of digits (with decimal point) becomes `#`.
    MaskNumbers,
    /// Lines that contain the text are dropped.
    DropLines(&'static str),
}

/// What is compared of an outcome, in addition to its end.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub stdout: bool,
    pub stderr: bool,
    pub files: bool,
    /// Names of produced files (or directories, with all in them) that are not compared.
    pub ignored: &'a [&'a str],
    pub normalisers: &'a [Normaliser],
}

/// What of `tested` differs from `native`, one line each; empty if nothing does.
pub fn differences(native: &Outcome, tested: &Outcome, scope: Scope) -> Vec<String> {
    let mut found = Vec::new();
    if native.end != tested.end {
        found.push(format!(
            "ended with {}, natively {}",
            tested.end, native.end
        ));
    }
    if scope.stdout {
        found.extend(text_difference(
            "stdout",
            &native.stdout,
            &tested.stdout,
            scope.normalisers,
        ));
    }
    if scope.stderr {
        let tested = without_own_messages(&tested.stderr);
        found.extend(text_difference(
            "stderr",
            &native.stderr,
            &tested,
            scope.normalisers,
        ));
    }
    if scope.files {
        let names: BTreeSet<&PathBuf> = native.files.keys().chain(tested.files.keys()).collect();
        let judged = |name: &Path| {
            !scope
                .ignored
                .iter()
                .any(|ignored| name.starts_with(ignored))
        };
        for name in names.into_iter().filter(|name| judged(name)) {
            let (native, tested) = (native.files.get(name), tested.files.get(name));
            found.extend(file_difference(name, native, tested, scope.normalisers));
        }
    }
    if !found.is_empty() {
        found.extend(last_words(&tested.stderr));
    }
    found
}

/// The end of a standard error: where a failure often explains itself.
fn last_words(stderr: &[u8]) -> Option<String> {
    const LINES: usize = 3;
    let text = stderr.trim_ascii_end();
    let lines: Vec<String> = text
        .rsplit(|&byte| byte == b'\n')
        .take(LINES)
        .map(quoted)
        .collect();
    let joined = lines.into_iter().rev().collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then(|| format!("stderr ends with {joined}"))
}

/// Messages of the recorder share the target's stderr; they start with its name.
fn without_own_messages(stderr: &[u8]) -> Vec<u8> {
    stderr
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"brownout"))
        .flatten()
        .copied()
        .collect()
}

fn file_difference(
    name: &Path,
    native: Option<&Produced>,
    tested: Option<&Produced>,
    normalisers: &[Normaliser],
) -> Option<String> {
    let name = name.display();
    match (native, tested) {
        (None, None) => None,
        (Some(_), None) => Some(format!("{name} is not produced")),
        (None, Some(_)) => Some(format!("{name} is produced, natively it is not")),
        (
            Some(Produced::File {
                mode: native_mode,
                bytes: native,
            }),
            Some(Produced::File {
                mode: tested_mode,
                bytes: tested,
            }),
        ) => {
            if native_mode != tested_mode {
                return Some(format!(
                    "{name} has mode {tested_mode:o}, natively {native_mode:o}"
                ));
            }
            text_difference(&name.to_string(), native, tested, normalisers)
        }
        (Some(native), Some(tested)) => {
            (native != tested).then(|| format!("{name} is {tested:?}, natively {native:?}"))
        }
    }
}

fn text_difference(
    what: &str,
    native: &[u8],
    tested: &[u8],
    normalisers: &[Normaliser],
) -> Option<String> {
    if native == tested {
        return None;
    }
    let (native, tested) = (
        normalised(native, normalisers),
        normalised(tested, normalisers),
    );
    if native == tested {
        return None;
    }
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    if !is_text(&native) || !is_text(&tested) {
        let at = native
            .iter()
            .zip(&tested)
            .take_while(|(a, b)| a == b)
            .count();
        return Some(format!(
            "{what} differs at byte {at} ({} bytes, natively {})",
            tested.len(),
            native.len()
        ));
    }
    let mut native = native.split(|&byte| byte == b'\n');
    let mut tested = tested.split(|&byte| byte == b'\n');
    for number in 1.. {
        let (a, b) = (native.next(), tested.next());
        if a != b {
            let side = |line: Option<&[u8]>| line.map_or("nothing".to_owned(), quoted);
            return Some(format!(
                "{what} line {number}: {}, natively {}",
                side(b),
                side(a)
            ));
        }
        if a.is_none() {
            break;
        }
    }
    None
}

fn quoted(line: &[u8]) -> String {
    const SHOWN: usize = 120;
    let text = String::from_utf8_lossy(line);
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}

fn normalised(bytes: &[u8], normalisers: &[Normaliser]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return bytes.to_vec();
    };
    let mut text = text.to_owned();
    for normaliser in normalisers {
        text = match normaliser {
            Normaliser::SortLines => {
                let mut lines: Vec<&str> = text.lines().collect();
                lines.sort_unstable();
                lines.join("\n")
            }
            Normaliser::MaskNumbers => mask_numbers(&text),
            Normaliser::DropLines(part) => text
                .split_inclusive('\n')
                .filter(|line| !line.contains(part))
                .collect(),
        };
    }
    text.into_bytes()
}

fn mask_numbers(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut in_number = false;
    for letter in text.chars() {
        if letter.is_ascii_digit() || (in_number && letter == '.') {
            if !in_number {
                masked.push('#');
            }
            in_number = true;
        } else {
            in_number = false;
            masked.push(letter);
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::test_directory::End;

    const ALL: Scope = Scope {
        stdout: true,
        stderr: true,
        files: true,
        ignored: &[],
        normalisers: &[],
    };

    fn outcome(stdout: &str, files: &[(&str, &str)]) -> Outcome {
        let produced = |text: &&str| Produced::File {
            mode: 0o644,
            bytes: text.as_bytes().to_vec(),
        };
        let files: BTreeMap<_, _> = files
            .iter()
            .map(|(name, text)| (name.into(), produced(text)))
            .collect();
        Outcome {
            end: End::Exit(0),
            stdout: stdout.into(),
            stderr: Vec::new(),
            files,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn the_first_differing_line_is_named() {
        let found = differences(&outcome("a\nb\nc\n", &[]), &outcome("a\nB\nc\n", &[]), ALL);
        assert_eq!(found, [r#"stdout line 2: "B", natively "b""#]);
        let found = differences(&outcome("a\n", &[]), &outcome("a\nb\n", &[]), ALL);
        assert_eq!(found, [r#"stdout line 2: "b", natively """#]);
    }

    #[test]
    fn ends_and_files_are_compared() {
        let native = outcome("", &[("kept", "1"), ("lost", ""), ("tmp/x", "1")]);
        let mut tested = outcome("", &[("kept", "2"), ("new", ""), ("tmp/x", "2")]);
        tested.end = End::Signal(11);
        let found = differences(
            &native,
            &tested,
            Scope {
                ignored: &["tmp"],
                ..ALL
            },
        );
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("SIGSEGV") && found[0].contains("exit 0"));
    }

    #[test]
    fn declared_nondeterminism_is_no_difference() {
        let native = outcome("took 1.25 s\nb\na\nat 0\n", &[]);
        let tested = outcome("a\nb\ntook 13 s\n", &[]);
        let normalisers = [
            Normaliser::MaskNumbers,
            Normaliser::DropLines("at "),
            Normaliser::SortLines,
        ];
        assert!(
            differences(
                &native,
                &tested,
                Scope {
                    normalisers: &normalisers,
                    ..ALL
                }
            )
            .is_empty()
        );
        assert!(
            !differences(
                &native,
                &tested,
                Scope {
                    normalisers: &normalisers[..2],
                    ..ALL
                }
            )
            .is_empty()
        );
    }

    #[test]
    fn messages_of_the_recorder_are_not_the_targets() {
        let mut tested = outcome("", &[]);
        tested.stderr = b"brownout: warning: nothing persistent was seen\n".to_vec();
        assert!(differences(&outcome("", &[]), &tested, ALL).is_empty());
    }
}
