//! Verdicts: what the end of a recovery says about the image it ran on.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::{Actor, End, Outcome, Recovery};

/// Whether recovery copes with a crash image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    /// Ended with a status that does not mean success.
    Failed(i32),
    /// A server ended before its client did.
    ServerEnded,
    /// Succeeded, but did not print what was expected.
    WrongOutput,
    /// Exceeded the memory limit.
    OutOfMemory,
    /// Killed by a signal.
    Crashed(i32),
    /// Did not end within the time limit, nor within several times that limit, or was stuck.
    Hung,
}

impl Verdict {
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }

    pub fn of(
        outcome: &Outcome,
        recovery: &Recovery,
        expected: &Expectation,
        operations: &RangeInclusive<u64>,
    ) -> Self {
        match outcome.end {
            End::Exited(_) if outcome.actor == Actor::Recovery && recovery.client.is_some() => {
                Self::ServerEnded
            }
            End::Exited(status) if !outcome.succeeded(recovery) => Self::Failed(status),
            End::Exited(_) if !expected.met_by(&outcome.stdout, operations) => Self::WrongOutput,
            End::Exited(_) => Self::Passed,
            End::Signaled(signal) => Self::Crashed(signal),
            End::TimedOut => Self::Hung,
            End::OutOfMemory => Self::OutOfMemory,
        }
    }
}

/// Completes the sentence "recovery …".
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => write!(f, "passes"),
            Self::Failed(status) => write!(f, "fails with exit status {status}"),
            Self::ServerEnded => write!(f, "ends instead of serving its client"),
            Self::WrongOutput => write!(f, "does not print what is expected"),
            Self::OutOfMemory => write!(f, "exceeds the memory limit"),
            Self::Crashed(signal) => write!(f, "is killed by {}", signal_text(*signal)),
            Self::Hung => write!(f, "does not end"),
        }
    }
}

/// A signal as people know it.
pub fn signal_text(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// The name of a signal that can end a process; `None` for one without a common name.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// What a successful recovery must print to standard output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    #[default]
    Anything,
    Exactly(Vec<u8>),
    /// Any of these.
    OneOf(Vec<Vec<u8>>),
    /// Output number *k* is expected when *k* operations have taken effect.
    ByOperation(Vec<Vec<u8>>),
}

impl Expectation {
    /// Reads the files of a directory. If operations are counted and the names of the files, without extension, are the
    /// numbers from 0 on, each file belongs to its number of operations.
    pub fn from_directory(directory: &Path, operations: bool) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_file() {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                files.push((stem.parse::<usize>().ok(), fs::read(&path)?));
            }
        }
        if files.is_empty() {
            let what = "the directory contains no file to compare with";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        files.sort();
        let numbered = (0..).zip(&files).all(|(at, file)| file.0 == Some(at));
        let contents = files.into_iter().map(|(_, content)| content).collect();
        Ok(if operations && numbered {
            Self::ByOperation(contents)
        } else {
            Self::OneOf(contents)
        })
    }

    /// Equal for equal expectations.
    pub fn digest(&self) -> String {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        let (kind, outputs): (&str, &[Vec<u8>]) = match self {
            Self::Anything => return "anything".to_owned(),
            Self::Exactly(output) => ("exactly", std::slice::from_ref(output)),
            Self::OneOf(outputs) => ("one of", outputs),
            Self::ByOperation(outputs) => ("by operation", outputs),
        };
        for output in outputs {
            hash.update(&output.len().to_le_bytes());
            hash.update(output);
        }
        format!("{kind} {:032x}", hash.digest128())
    }

    /// Whether `output` is as expected when one of these numbers of operations has taken effect.
    fn met_by(&self, output: &[u8], operations: &RangeInclusive<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Exactly(expected) => expected == output,
            Self::OneOf(allowed) => allowed.iter().any(|expected| expected == output),
            Self::ByOperation(outputs) => operations.clone().any(|number| {
                let number = usize::try_from(number).unwrap_or(usize::MAX);
                outputs
                    .get(number)
                    .is_some_and(|expected| expected == output)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_may_have_taken_effect_or_not() {
        let outputs = ["none\n", "one\n", "two\n"].map(|text| text.as_bytes().to_vec());
        let expected = Expectation::ByOperation(outputs.to_vec());
        assert!(expected.met_by(b"one\n", &(1..=1)));
        assert!(!expected.met_by(b"two\n", &(1..=1)));
        assert!(expected.met_by(b"two\n", &(1..=2)));
        assert!(!expected.met_by(b"none\n", &(1..=2)));
        assert!(!expected.met_by(b"three\n", &(7..=8)));
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
        fs::write(directory.path().join("other"), "?").unwrap();
        assert!(matches!(read(true), Expectation::OneOf(_)));
    }
}
