//! `expected.json`: what recovery has to print, so that `replay` comes to the same verdict.
//!
//! The file exists only if --expect-output or --expect-one-of was given. Outputs may contain secrets of the program, so only its
//! owner can read it.

use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

use brownout_recovery::{AllowedOutput, Expectation};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output_directory::write_private_file;

/// The name of the file in a results directory.
pub const EXPECTED: &str = "expected.json";

/// What recovery has to print.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedOutput {
    Anything,
    Exactly(Output),
    OneOf(Vec<Output>),
    ByOperation(Vec<Output>),
}

/// An output: a string, or a list of bytes if it is not UTF-8.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Output {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&AllowedOutput> for Output {
    fn from(allowed: &AllowedOutput) -> Self {
        match std::str::from_utf8(&allowed.content) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(allowed.content.clone()),
        }
    }
}

impl From<Output> for AllowedOutput {
    fn from(output: Output) -> Self {
        Self::from(match output {
            Output::Text(text) => text.into_bytes(),
            Output::Bytes(bytes) => bytes,
        })
    }
}

impl From<&Expectation> for ExpectedOutput {
    fn from(expectation: &Expectation) -> Self {
        let all = |outputs: &[AllowedOutput]| outputs.iter().map(Output::from).collect();
        match expectation {
            Expectation::Anything => Self::Anything,
            Expectation::Exactly(output) => Self::Exactly(output.into()),
            Expectation::OneOf(outputs) => Self::OneOf(all(outputs)),
            Expectation::ByOperation(outputs) => Self::ByOperation(all(outputs)),
        }
    }
}

impl From<ExpectedOutput> for Expectation {
    fn from(expected: ExpectedOutput) -> Self {
        let all = |outputs: Vec<Output>| outputs.into_iter().map(Into::into).collect();
        match expected {
            ExpectedOutput::Anything => Self::Anything,
            ExpectedOutput::Exactly(output) => Self::Exactly(output.into()),
            ExpectedOutput::OneOf(outputs) => Self::OneOf(all(outputs)),
            ExpectedOutput::ByOperation(outputs) => Self::ByOperation(all(outputs)),
        }
    }
}

impl ExpectedOutput {
    /// Writes the file, or removes it if recovery may print anything.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        let path = directory.join(EXPECTED);
        if *self == Self::Anything {
            // There is usually none. One that cannot be removed belongs to another test, which its digest shows.
            let _ = fs::remove_file(path);
            return Ok(());
        }
        write_private_file(&path, |out| {
            serde_json::to_writer(&mut *out, self)?;
            out.write_all(b"\n")
        })
    }

    /// What recovery had to print in the test whose results are in the directory.
    pub fn read(directory: &Path) -> Result<Expectation, Failure> {
        let path = directory.join(EXPECTED);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Expectation::Anything);
            }
            Err(source) => return Err(Failure::ResultsFile { path, source }),
        };
        let parsed: Result<Self, _> = serde_json::from_str(&text);
        match parsed {
            Ok(expected) => Ok(expected.into()),
            Err(source) => Err(Failure::DamagedResults { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let root = tempfile::tempdir().unwrap();
        for expectation in [
            Expectation::Exactly(b"3 entries\n\xff".to_vec().into()),
            Expectation::OneOf(vec![b"a\0b".to_vec().into(), Vec::new().into()]),
            Expectation::ByOperation(vec![b"0\n".to_vec().into(), b"1\n".to_vec().into()]),
            Expectation::Anything,
        ] {
            ExpectedOutput::from(&expectation)
                .write(root.path())
                .unwrap();
            assert_eq!(ExpectedOutput::read(root.path()).unwrap(), expectation);
        }
        assert!(!root.path().join(EXPECTED).exists());
    }
}
