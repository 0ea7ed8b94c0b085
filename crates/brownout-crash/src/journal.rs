//! The journal: every trial as soon as it is done, so that nothing is lost when crash testing ends early.
//!
//! A file of JSON lines. The first says what was asked for, each other is a [`Trial`] or a [`Cause`]. A line that was
//! cut off in writing is dropped when the journal is read again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::failure_point::Granularity;
use crate::trial::Trial;
use brownout_recovery::Recovery;

const VERSION: u32 = 1;

/// What decides the verdicts in a journal: results of different assignments must not be mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestConfiguration {
    /// Of the journal's format.
    pub version: u32,
    /// Size and events of the trace, which tell it from others.
    pub trace: (u64, u64),
    pub patterns: Vec<String>,
    pub recovery: Recovery,
    pub granularity: Granularity,
    pub occurrences: usize,
    pub after: Option<String>,
    pub operation: Option<String>,
    /// Functions, files and modules in which crashes are tried.
    pub within: Vec<String>,
    /// Of a recovery, in milliseconds, if the user gave one.
    pub time_limit: Option<u64>,
    /// What outputs are compared with, as its digest.
    pub expected: String,
}

impl TestConfiguration {
    pub const VERSION: u32 = VERSION;
}

/// A part of the work: number `index` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub index: u32,
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 1, count: 1 }
    }
}

impl Shard {
    /// Whether an image belongs to this part. Equal images always go to the same.
    pub fn takes(self, digest: u128) -> bool {
        digest % u128::from(self.count) == u128::from(self.index - 1)
    }
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    #[serde(flatten)]
    pub configuration: TestConfiguration,
    pub shards: Vec<Shard>,
    /// Failure points there are in all shards.
    pub points: u64,
}

/// Any other line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Trial(Trial),
    Cause(Cause),
}

/// What a journal holds.
#[derive(Clone, Debug)]
pub struct Entries {
    pub head: Head,
    pub trials: Vec<Trial>,
    pub causes: Vec<Cause>,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    #[error("the journal {} cannot be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the journal {} cannot be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a journal of crash testing", path.display())]
    NotAJournal {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("line {line} of the journal {} is damaged", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
}

/// Reads a journal; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<Entries>, JournalError> {
    let read_failed = |source| JournalError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(read_failed)?,
    };
    let mut reader = BufReader::new(file);
    let mut text = String::new();
    reader.read_line(&mut text).map_err(read_failed)?;
    if !text.ends_with('\n') {
        // Cut off in its first line: nothing was done yet.
        return Ok(None);
    }
    let head = serde_json::from_str(&text).map_err(|source| JournalError::NotAJournal {
        path: path.to_owned(),
        source,
    })?;
    let mut entries = Entries {
        head,
        trials: Vec::new(),
        causes: Vec::new(),
    };
    for line in 2.. {
        text.clear();
        reader.read_line(&mut text).map_err(read_failed)?;
        if !text.ends_with('\n') {
            break;
        }
        match serde_json::from_str(&text) {
            Ok(Line::Trial(trial)) => entries.trials.push(trial),
            Ok(Line::Cause(cause)) => entries.causes.push(cause),
            Err(source) => {
                return Err(JournalError::Damaged {
                    path: path.to_owned(),
                    line,
                    source,
                });
            }
        }
    }
    Ok(Some(entries))
}

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Begins a journal anew.
    pub fn create(path: &Path, head: &Head) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        let mut journal = Self {
            path: path.to_owned(),
            file: File::create(path).map_err(failed)?,
        };
        journal.write(head)?;
        Ok(journal)
    }

    /// Goes on with a journal that was [read](read), dropping a line that was cut off.
    pub fn resume(path: &Path) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        let open = || -> io::Result<File> {
            let mut file = OpenOptions::new().read(true).write(true).open(path)?;
            let content = std::fs::read(path)?;
            let whole = content.iter().rposition(|&byte| byte == b'\n');
            file.set_len(whole.map_or(0, |end| end as u64 + 1))?;
            file.seek(io::SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    pub fn trial(&mut self, trial: &Trial) -> Result<(), JournalError> {
        self.write(trial)
    }

    pub fn cause(&mut self, cause: &Cause) -> Result<(), JournalError> {
        self.write(cause)
    }

    /// A line at once, so that it is whole or cut off, but never mixed with another.
    fn write(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let written = serde_json::to_vec(line).map_err(io::Error::from);
        let written = written.and_then(|mut text| {
            text.push(b'\n');
            self.file.write_all(&text)
        });
        written.map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })
    }
}
