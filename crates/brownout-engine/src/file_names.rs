//! The names of the mapped files over time.
//!
//! A crash finds a file under the names that it has at that moment. The trace has one path for a file at a time, so the
//! path is defined again when it changes. Of several names (hard links) it has the oldest; the others are only known here.
//!
//! Can miss: a file or directory above it that is renamed by a process that is not recorded.

use brownout_trace::{FileId, FileIdentity};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A change of names by a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange<'a> {
    /// What was at `old`, a file or a directory, is now at `new`.
    Renamed {
        old: &'a Path,
        new: &'a Path,
        /// A file that was never mapped was at `new` before.
        replaced_unknown: bool,
    },
    /// What was at the two paths has been exchanged.
    Exchanged { old: &'a Path, new: &'a Path },
    /// The file has a name more.
    Linked { file: FileIdentity, new: &'a Path },
    /// The name no longer exists.
    Unlinked { old: &'a Path },
}

/// A mapped file.
struct NamedFile {
    identity: FileIdentity,
    /// Its names, the oldest first. Empty if it has lost them all.
    names: Vec<PathBuf>,
    /// The path in the trace.
    path: PathBuf,
}

/// The names of all mapped files.
#[derive(Default)]
pub(crate) struct FileNames {
    files: BTreeMap<FileId, NamedFile>,
}

/// A file whose path in the trace has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewPath {
    pub(crate) file: FileId,
    pub(crate) identity: FileIdentity,
    pub(crate) path: PathBuf,
}

impl FileNames {
    /// A file was mapped through the name `path`.
    pub(crate) fn mapped(&mut self, file: FileId, identity: FileIdentity, path: &Path) {
        let named = self.files.entry(file).or_insert_with(|| NamedFile {
            identity,
            names: Vec::new(),
            path: path.to_owned(),
        });
        if !named.names.iter().any(|name| name == path) {
            // A name that was not noticed: nothing is known about the earlier ones any more.
            named.names.clear();
            // The kernel shows a file without a name so.
            if !is_deleted(path) {
                named.names.push(path.to_owned());
            }
        }
        named.path = path.to_owned();
    }

    /// Applies a change and returns the files whose paths in the trace change.
    pub(crate) fn apply(&mut self, change: NameChange<'_>) -> Vec<NewPath> {
        match change {
            // A rename of one name of a file to another does nothing.
            NameChange::Renamed { old, new, .. } if self.are_of_one_file(old, new) => {}
            NameChange::Renamed { old, new, .. } => {
                for named in self.files.values_mut() {
                    // What the rename replaces.
                    named.names.retain(|name| name != new);
                    for name in &mut named.names {
                        if let Some(moved) = moved(name, old, new) {
                            *name = moved;
                        }
                    }
                }
            }
            NameChange::Exchanged { old, new } => {
                for name in self.files.values_mut().flat_map(|named| &mut named.names) {
                    if let Some(moved) = moved(name, old, new).or_else(|| moved(name, new, old)) {
                        *name = moved;
                    }
                }
            }
            NameChange::Linked { file, new } => {
                let linked = self.files.values_mut().find(|named| named.identity == file);
                if let Some(named) =
                    linked.filter(|named| !named.names.iter().any(|name| name == new))
                {
                    named.names.push(new.to_owned());
                }
            }
            NameChange::Unlinked { old } => {
                for named in self.files.values_mut() {
                    named.names.retain(|name| name != old);
                }
            }
        }
        self.new_paths()
    }

    fn are_of_one_file(&self, a: &Path, b: &Path) -> bool {
        let of_one = |named: &NamedFile| {
            [a, b]
                .iter()
                .all(|path| named.names.iter().any(|name| name == path))
        };
        self.files.values().any(of_one)
    }

    /// The file with a name.
    pub(crate) fn named(&self, path: &Path) -> Option<FileIdentity> {
        let has_name = |named: &&NamedFile| named.names.iter().any(|name| name == path);
        self.files
            .values()
            .find(has_name)
            .map(|named| named.identity)
    }

    /// The files with more names than the one in the trace, with these other names.
    pub(crate) fn other_names(&self) -> impl Iterator<Item = (FileIdentity, &Path)> {
        self.files.values().flat_map(|named| {
            let others = named.names.iter().filter(|name| **name != named.path);
            others.map(|name| (named.identity, name.as_path()))
        })
    }

    /// The files that have a name, with the path in the trace and the number of their names.
    pub(crate) fn known(&self) -> impl Iterator<Item = (FileIdentity, &Path, usize)> {
        let named = self.files.values().filter(|named| !named.names.is_empty());
        named.map(|named| (named.identity, named.path.as_path(), named.names.len()))
    }

    /// Brings the paths in the trace up to date. A file that has lost its last name keeps its path until another has it.
    fn new_paths(&mut self) -> Vec<NewPath> {
        let names: HashSet<PathBuf> = self
            .files
            .values()
            .flat_map(|named| named.names.iter().cloned())
            .collect();
        let mut changed = Vec::new();
        for (&file, named) in &mut self.files {
            let path = match named.names.first() {
                _ if named.names.contains(&named.path) => continue,
                Some(name) => name.clone(),
                None if names.contains(&named.path) => deleted(&named.path),
                None => continue,
            };
            named.path.clone_from(&path);
            changed.push(NewPath {
                file,
                identity: named.identity,
                path,
            });
        }
        changed
    }
}

/// Where a name is after `old` was renamed to `new`; `None` if it is not affected.
fn moved(name: &Path, old: &Path, new: &Path) -> Option<PathBuf> {
    let below = name.strip_prefix(old).ok()?;
    Some(if below.as_os_str().is_empty() {
        new.to_owned()
    } else {
        new.join(below)
    })
}

const DELETED: &str = " (deleted)";

/// A path that no file has, as the kernel shows it.
fn deleted(path: &Path) -> PathBuf {
    let mut text = OsString::from(path);
    text.push(DELETED);
    text.into()
}

fn is_deleted(path: &Path) -> bool {
    path.as_os_str()
        .as_encoded_bytes()
        .ends_with(DELETED.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: FileId = FileId(0);
    const OTHER: FileId = FileId(1);

    fn identity(file: FileId) -> FileIdentity {
        FileIdentity {
            dev: 1,
            ino: u64::from(file.0),
        }
    }

    fn mapped(paths: &[(FileId, &str)]) -> FileNames {
        let mut names = FileNames::default();
        for &(file, path) in paths {
            names.mapped(file, identity(file), Path::new(path));
        }
        names
    }

    fn renamed<'a>(old: &'a str, new: &'a str) -> NameChange<'a> {
        NameChange::Renamed {
            old: Path::new(old),
            new: Path::new(new),
            replaced_unknown: false,
        }
    }

    fn linked(file: FileId, new: &str) -> NameChange<'_> {
        NameChange::Linked {
            file: identity(file),
            new: Path::new(new),
        }
    }

    fn unlinked(old: &str) -> NameChange<'_> {
        NameChange::Unlinked {
            old: Path::new(old),
        }
    }

    /// The paths that a change defines.
    fn apply(names: &mut FileNames, change: NameChange<'_>) -> Vec<(FileId, PathBuf)> {
        let new = names.apply(change).into_iter();
        new.map(|new| (new.file, new.path)).collect()
    }

    #[test]
    fn a_rename_changes_the_path_and_takes_it_from_the_file_that_had_it() {
        let mut names = mapped(&[(POOL, "/d/pool"), (OTHER, "/d/pool.tmp")]);
        assert_eq!(apply(&mut names, renamed("/d/x", "/d/y")), []);
        assert_eq!(
            apply(&mut names, renamed("/d/pool.tmp", "/d/pool")),
            [
                (POOL, "/d/pool (deleted)".into()),
                (OTHER, "/d/pool".into())
            ]
        );
        assert_eq!(names.named(Path::new("/d/pool")), Some(identity(OTHER)));
        assert_eq!(names.other_names().count(), 0);
    }

    #[test]
    fn a_renamed_directory_takes_its_files_along() {
        let mut names = mapped(&[(POOL, "/d/a/b/pool"), (OTHER, "/d/ab")]);
        let moved = apply(&mut names, renamed("/d/a", "/d/c"));
        assert_eq!(moved, [(POOL, "/d/c/b/pool".into())]);
    }

    #[test]
    fn exchanged_files_exchange_their_paths() {
        let mut names = mapped(&[(POOL, "/d/a"), (OTHER, "/d/b")]);
        let change = NameChange::Exchanged {
            old: Path::new("/d/a"),
            new: Path::new("/d/b"),
        };
        let expected = [(POOL, "/d/b".into()), (OTHER, "/d/a".into())];
        assert_eq!(apply(&mut names, change), expected);
    }

    #[test]
    fn a_link_counts_once_the_first_name_is_gone() {
        let mut names = mapped(&[(POOL, "/d/pool.tmp")]);
        assert_eq!(apply(&mut names, linked(POOL, "/d/pool")), []);
        let other = names.other_names().next().map(|(_, path)| path.to_owned());
        assert_eq!(other, Some("/d/pool".into()));
        let expected = [(POOL, "/d/pool".into())];
        assert_eq!(apply(&mut names, unlinked("/d/pool.tmp")), expected);
        assert_eq!(names.other_names().count(), 0);
    }

    #[test]
    fn a_file_without_a_name_gets_one() {
        let mut names = mapped(&[(POOL, "/d/#12 (deleted)")]);
        let expected = [(POOL, "/d/pool".into())];
        assert_eq!(apply(&mut names, linked(POOL, "/d/pool")), expected);
    }

    #[test]
    fn an_unlinked_file_keeps_its_last_path() {
        let mut names = mapped(&[(POOL, "/d/pool")]);
        assert_eq!(apply(&mut names, unlinked("/d/pool")), []);
        assert_eq!(apply(&mut names, renamed("/d/a", "/d/b")), []);
    }

    #[test]
    fn a_rename_between_names_of_one_file_does_nothing() {
        let mut names = mapped(&[(POOL, "/pm/a")]);
        let (a, b) = (Path::new("/pm/a"), Path::new("/pm/b"));
        let file = identity(POOL);
        names.apply(NameChange::Linked { file, new: b });
        let renamed = NameChange::Renamed {
            old: a,
            new: b,
            replaced_unknown: false,
        };
        assert_eq!(names.apply(renamed), []);
        assert_eq!(names.known().collect::<Vec<_>>(), [(file, a, 2)]);
    }
}
