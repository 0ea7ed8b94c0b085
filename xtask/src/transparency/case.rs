//! A run of a real program, as the tables declare it.

use std::time::Duration;

use crate::compare::Normaliser;
use crate::test_directory::End;

/// What is run.
#[derive(Clone, Copy)]
pub enum Program {
    /// By `/bin/sh -c`, so the shell is under test too.
    Shell(&'static str),
    /// Directly; the first word is looked up.
    Argv(&'static [&'static str]),
}

/// One line of a table. The fresh directory of a run is its working directory and home; `$PORT` is a free
/// port on loopback and `$RUSTC` the compiler itself, not rustup's proxy.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub program: Program,
    pub needs: &'static [&'static str],
    pub setup: &'static str,
    pub stdin: &'static str,
    pub end: End,
    pub stdout: bool,
    pub stderr: bool,
    pub files: bool,
    pub ignored: &'static [&'static str],
    pub normalisers: &'static [Normaliser],
    pub core: bool,
    pub limit: Duration,
}

/// A shell script under test.
pub const fn sh(name: &'static str, script: &'static str) -> Case {
    case(name, Program::Shell(script))
}

/// A program under test, without a shell.
pub const fn argv(name: &'static str, words: &'static [&'static str]) -> Case {
    case(name, Program::Argv(words))
}

const fn case(name: &'static str, program: Program) -> Case {
    Case {
        name,
        program,
        needs: &[],
        setup: "",
        stdin: "",
        end: End::Exit(0),
        stdout: true,
        stderr: false,
        files: true,
        ignored: &[],
        normalisers: &[],
        core: false,
        limit: Duration::from_secs(120),
    }
}

impl Case {
    /// Programs that must be installed.
    pub const fn needs(self, needs: &'static [&'static str]) -> Case {
        Case { needs, ..self }
    }

    /// Prepares the directory, natively.
    pub const fn setup(self, setup: &'static str) -> Case {
        Case { setup, ..self }
    }

    pub const fn stdin(self, stdin: &'static str) -> Case {
        Case { stdin, ..self }
    }

    pub const fn ends(self, end: End) -> Case {
        Case { end, ..self }
    }

    /// Standard error is deterministic.
    pub const fn with_stderr(self) -> Case {
        Case {
            stderr: true,
            ..self
        }
    }

    /// Files that differ from run to run.
    pub const fn ignore(self, ignored: &'static [&'static str]) -> Case {
        Case { ignored, ..self }
    }

    pub const fn normalise(self, normalisers: &'static [Normaliser]) -> Case {
        Case {
            normalisers,
            ..self
        }
    }

    /// Part of the core run.
    pub const fn core(self) -> Case {
        Case { core: true, ..self }
    }

    /// Takes longer than two minutes under test.
    pub const fn limit(self, seconds: u64) -> Case {
        Case {
            limit: Duration::from_secs(seconds),
            ..self
        }
    }
}
