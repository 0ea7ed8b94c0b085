//! What can go wrong with a corpus itself. That a program yields other findings than expected is no error
//! but a [`CorpusOutcome`](crate::CorpusOutcome).

use std::io;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("{}:{line}: {problem}", path.display())]
    Source {
        path: PathBuf,
        line: u32,
        problem: String,
    },
    #[error("{} is not a C, C++ or Rust source file", path.display())]
    Language { path: PathBuf },
    #[error("`{command}` failed:\n{output}")]
    Compile { command: String, output: String },
    #[error("line {line} of the findings: {source}")]
    Findings {
        line: usize,
        source: serde_json::Error,
    },
}

impl Error {
    /// For `map_err` on what was done with `path`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }
}
