//! What `replay` needs to repeat the recoveries of a test: their environment, and what they have to print.

use std::fs;
use std::path::Path;

use brownout_recovery::Expectation;

use crate::expected_output::ExpectedOutput;
use crate::failure::Failure;
use crate::run_environment::{ENVIRONMENT, RunEnvironment};

/// What recoveries depend on besides the crash image.
pub struct RecoveryContext {
    /// `None` if the results do not have it.
    environment: Option<RunEnvironment>,
    expected: Expectation,
}

impl RecoveryContext {
    /// Recoveries in the environment of this process.
    pub fn here(expected: &Expectation) -> Self {
        Self {
            environment: Some(RunEnvironment::current()),
            expected: expected.clone(),
        }
    }

    /// The recoveries whose results are in the directory.
    pub fn read(directory: &Path) -> Result<Self, Failure> {
        Ok(Self {
            environment: RunEnvironment::read(directory)?,
            expected: ExpectedOutput::read(directory)?,
        })
    }

    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        match &self.environment {
            Some(environment) => environment.write(directory)?,
            // That of an earlier test, if there is one. The next test replaces what cannot be removed.
            None => drop(fs::remove_file(directory.join(ENVIRONMENT))),
        }
        ExpectedOutput::from(&self.expected).write(directory)
    }
}
