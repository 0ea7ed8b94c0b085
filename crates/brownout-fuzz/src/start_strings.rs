//! Inputs that hold strings which the target is started with, before the bytes that it reads.
//!
//! The strings come first, in the order in which they are declared, each with a NUL at its end; the rest is what the target reads. So an
//! input is still a sequence of bytes, which can be mutated, minimised and kept in a file: `printf -- '--deep\0put 1\n'`. A string without
//! its NUL ends with the input.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use brownout_recovery::StartString;

use crate::start_per_run::TargetDescription;

/// An input, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputParts {
    /// The values of the strings.
    pub strings: Vec<Vec<u8>>,
    /// What the target reads.
    pub rest: Vec<u8>,
}

impl InputParts {
    /// Takes an input with this many strings apart.
    pub fn split(input: &[u8], strings: usize) -> Self {
        let mut rest = input;
        let values = (0..strings).map(|_| match rest.iter().position(|&byte| byte == 0) {
            Some(end) => {
                let value = &rest[..end];
                rest = &rest[end + 1..];
                value.to_vec()
            }
            None => std::mem::take(&mut rest).to_vec(),
        });
        let values = values.collect();
        Self {
            strings: values,
            rest: rest.to_vec(),
        }
    }

    /// The input. A value that contains a NUL ends there, as the target sees it.
    pub fn join(&self) -> Vec<u8> {
        let mut input = Vec::new();
        for value in &self.strings {
            input.extend(value.iter().take_while(|&&byte| byte != 0));
            input.push(0);
        }
        input.extend(&self.rest);
        input
    }
}

impl TargetDescription {
    /// Takes an input of the target apart.
    pub fn parts(&self, input: &[u8]) -> InputParts {
        InputParts::split(input, self.strings.len())
    }

    /// The strings of an input with their values.
    pub fn valued(&self, parts: &InputParts) -> Vec<(StartString, Vec<u8>)> {
        let strings = self.strings.iter().cloned();
        strings.zip(parts.strings.iter().cloned()).collect()
    }

    /// What a shell does so that its commands get the environment variables of an input.
    pub fn exports(&self, parts: &InputParts) -> String {
        let mut line = String::new();
        for (number, (string, value)) in self.valued(parts).into_iter().enumerate() {
            if let StartString::Variable(name) = string {
                let word = quoted(&value, number, &mut line);
                line.push_str(&format!("export {name}={word}; "));
            }
        }
        line
    }

    /// The same target with the strings of an input in its command, for a native run.
    pub fn started_with(&self, parts: &InputParts) -> Self {
        let mut target = self.clone();
        for (string, value) in self.valued(parts) {
            if let StartString::Argument(index) = string
                && let Some(word) = target.command.get_mut(index as usize)
            {
                *word = OsString::from_vec(value);
            }
        }
        let mut line = self.exports(parts);
        let mut words = Vec::new();
        for (number, word) in target.command.iter().enumerate() {
            let number = self.strings.len() + number;
            words.push(quoted(word.as_encoded_bytes(), number, &mut line));
        }
        // The shell must not be what is killed by a signal.
        line.push_str(&format!("exec {}", words.join(" ")));
        if self.is_standard_input {
            let path = self.input.as_os_str().as_encoded_bytes();
            let number = self.strings.len() + words.len();
            let mut prelude = String::new();
            let path = quoted(path, number, &mut prelude);
            line = format!("{prelude}{line} < {path}");
        }
        target.command_line = line;
        target
    }
}

/// A word of a shell. What is not plain is assigned to a variable before, in octal.
fn quoted(value: &[u8], number: usize, prelude: &mut String) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@ ".contains(byte);
    if value.iter().all(is_plain) {
        return format!("'{}'", String::from_utf8_lossy(value));
    }
    let octal: String = value.iter().map(|byte| format!("\\{byte:03o}")).collect();
    // A command substitution drops newlines at the end, so something else is there.
    prelude.push_str(&format!("brownout_{number}=$(printf '{octal}.'); "));
    format!("\"${{brownout_{number}%.}}\"")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_input_is_its_strings_and_the_rest() {
        let parts = InputParts::split(b"--deep\0wild\0put 1\n\0", 2);
        assert_eq!(parts.strings, [b"--deep".to_vec(), b"wild".to_vec()]);
        assert_eq!(parts.rest, b"put 1\n\0");
        assert_eq!(parts.join(), b"--deep\0wild\0put 1\n\0");
        let short = InputParts::split(b"ab", 2);
        assert_eq!(
            (&short.strings[0][..], &short.strings[1][..]),
            (&b"ab"[..], &b""[..])
        );
        assert_eq!(short.join(), b"ab\0\0");
    }

    #[test]
    fn a_value_ends_at_its_first_nul() {
        let parts = InputParts {
            strings: vec![b"--deep\0AAAA".to_vec()],
            rest: b"x".to_vec(),
        };
        assert_eq!(parts.join(), b"--deep\0x");
    }

    #[test]
    fn every_value_is_the_same_behind_a_shell() {
        for value in [&b"plain"[..], b"", b"{pm} it's $HOME\n\n", b"\xff\x01*"] {
            let mut line = String::new();
            let word = quoted(value, 1, &mut line);
            let line = format!("{line}printf %s {word}");
            let output = Command::new("/bin/sh").args(["-c", &line]).output();
            assert_eq!(output.unwrap().stdout, value, "{line}");
        }
    }
}
