//! The file of `--memory`: update behaviours that earlier runs have tested, and behaviours of recovery that explorations have shown.
//!
//! The file is replaced atomically, and locked while it is read, extended and replaced, so that runs at the same time lose nothing of each
//! other. The lock is on the file itself: a process that waited for it checks that the file was not replaced meanwhile. An empty file is a
//! new memory.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use brownout_crash::{ExploredBehaviours, TestedBehaviours};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output_directory::write_file;

/// What the file says it is.
const FORMAT: &str = "brownout tested update behaviours";
const VERSION: u32 = 1;

/// A file that remembers behaviours.
#[derive(Clone, Debug)]
pub struct BehaviourMemory {
    path: PathBuf,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it was not written by --memory, or is damaged; give another name, or remove it")]
    Foreign(#[source] serde_json::Error),
    #[error("it was not written by --memory; give another name")]
    OtherFormat,
    #[error(
        "it has version {found}, but this brownout reads version {VERSION}; give another name, or remove it to test everything again"
    )]
    OtherVersion { found: u32 },
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Content {
    #[serde(flatten)]
    head: Head,
    behaviours: TestedBehaviours,
    #[serde(default, skip_serializing_if = "ExploredBehaviours::is_empty")]
    explored: ExploredBehaviours,
}

/// What a memory remembers.
#[derive(Default)]
pub struct Remembered {
    /// Update behaviours.
    pub tested: TestedBehaviours,
    /// Behaviours of recovery.
    pub explored: ExploredBehaviours,
}

impl BehaviourMemory {
    /// A memory that can be read and written. It is created if there is none.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let memory = Self {
            path: path.to_owned(),
        };
        memory.read()?;
        // It is replaced by a file beside it.
        let beside = tempfile::tempfile_in(memory.directory());
        beside.map_err(|source| memory.failure(source.into()))?;
        Ok(memory)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it remembers.
    pub fn read(&self) -> Result<Remembered, Failure> {
        let read = || read_content(&mut self.locked()?);
        read().map_err(|source| self.failure(source))
    }

    /// Changes what it remembers.
    pub fn change<T>(&self, change: impl FnOnce(&mut Remembered) -> T) -> Result<T, Failure> {
        let failed = |source| self.failure(source);
        let mut locked = self.locked().map_err(failed)?;
        let mut remembered = read_content(&mut locked).map_err(failed)?;
        let result = change(&mut remembered);
        let head = Head {
            format: FORMAT.to_owned(),
            version: VERSION,
        };
        let content = Content {
            head,
            behaviours: remembered.tested,
            explored: remembered.explored,
        };
        // A link stays one.
        let path = fs::canonicalize(&self.path).map_err(|source| failed(source.into()))?;
        write_file(&path, |out| {
            serde_json::to_writer(&mut *out, &content)?;
            out.write_all(b"\n")
        })?;
        Ok(result)
    }

    /// The file as it is now, locked as far as the file system has locks.
    fn locked(&self) -> Result<File, MemoryError> {
        loop {
            if self.path.exists() && !self.path.is_file() {
                return Err(MemoryError::NotAFile);
            }
            let mut options = File::options();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .open(&self.path)?;
            let is_locked = flock(&file, FlockOperation::LockExclusive).is_ok();
            let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let own = identity(file.metadata()?);
            // Another run may have replaced it before this one got the lock.
            let is_current = fs::metadata(&self.path).is_ok_and(|found| identity(found) == own);
            if is_current || !is_locked {
                return Ok(file);
            }
        }
    }

    fn directory(&self) -> PathBuf {
        // A link is followed: the file that it leads to is replaced.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        }
    }

    fn failure(&self, source: MemoryError) -> Failure {
        Failure::Memory {
            path: self.path.clone(),
            source,
        }
    }
}

fn read_content(file: &mut File) -> Result<Remembered, MemoryError> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    if text.is_empty() {
        return Ok(Remembered::default());
    }
    let head: Head = serde_json::from_slice(&text).map_err(MemoryError::Foreign)?;
    if head.format != FORMAT {
        return Err(MemoryError::OtherFormat);
    }
    if head.version != VERSION {
        return Err(MemoryError::OtherVersion {
            found: head.version,
        });
    }
    let content: Content = serde_json::from_slice(&text).map_err(MemoryError::Foreign)?;
    Ok(Remembered {
        tested: content.behaviours,
        explored: content.explored,
    })
}

#[cfg(test)]
mod tests {
    use brownout_crash::{TestConfiguration, TestedBehaviour};

    use super::*;
    use crate::failure::sentence;

    fn refused(content: &[u8]) -> String {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("memory");
        fs::write(&path, content).unwrap();
        let failure = BehaviourMemory::open(&path).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), content, "it is left as it is");
        sentence(&failure)
    }

    #[test]
    fn a_file_that_is_something_else_is_refused_and_left_as_it_is() {
        assert!(refused(b"#!/bin/sh\n").contains("was not written by --memory"));
        let other = br#"{"format":"something","version":1,"behaviours":[]}"#;
        assert!(refused(other).contains("was not written by --memory"));
        let newer = format!(r#"{{"format":"{FORMAT}","version":2,"behaviours":{{}}}}"#);
        assert!(refused(newer.as_bytes()).contains("it has version 2"));
        let cut = format!(r#"{{"format":"{FORMAT}","version":1,"behaviours":[{{"#);
        assert!(refused(cut.as_bytes()).contains("is damaged"));
    }

    #[test]
    fn a_directory_and_an_unwritable_place_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let failure = BehaviourMemory::open(root.path()).unwrap_err();
        assert!(sentence(&failure).contains("not a regular file"));
        let nowhere = root.path().join("missing/memory");
        assert!(BehaviourMemory::open(&nowhere).is_err());
    }

    /// A behaviour of code of its own.
    fn behaviour(code: u64) -> TestedBehaviour {
        let text = format!(
            r#"{{"circumstances":"","shape":{{"type":"t","size":8,"updates":[]}},"code":[{code}],
                "trace":{{"started":0,"bytes":0}},"passed":true}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn configuration() -> TestConfiguration {
        let text = r#"{"version":5,"strategy":{"name":"representative","version":1},
            "trace":{"started":1,"bytes":1},"patterns":[],"recovery":RECOVERY,"granularity":"flush","profile":"adr",
            "tearing":"whole","occurrences":null,"depth":1,"after":null,"operations":[],"within":[],"time_limit":null,
            "expected":""}"#;
        let recovery = brownout_recovery::Recovery::new("./check", "/");
        let recovery = serde_json::to_string(&recovery).unwrap();
        serde_json::from_str(&text.replace("RECOVERY", &recovery)).unwrap()
    }

    #[test]
    fn runs_at_the_same_time_lose_nothing_of_each_other() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("memory");
        let path = &path;
        std::thread::scope(|scope| {
            for run in 0..4 {
                scope.spawn(move || {
                    let memory = BehaviourMemory::open(path).unwrap();
                    for number in 0..5 {
                        let tested = vec![behaviour(10 * run + number)];
                        let add =
                            |known: &mut Remembered| known.tested.add(tested, &configuration());
                        memory.change(add).unwrap();
                    }
                });
            }
        });
        let memory = BehaviourMemory::open(path).unwrap();
        assert_eq!(memory.read().unwrap().tested.len(), 20);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_memory_is_empty() {
        let root = tempfile::tempdir().unwrap();
        let memory = BehaviourMemory::open(&root.path().join("memory")).unwrap();
        let known = memory.read().unwrap();
        assert!(known.tested.is_empty() && known.explored.is_empty());
    }
}
