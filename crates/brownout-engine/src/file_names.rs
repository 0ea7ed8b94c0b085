//! The names of the mapped files over time.
//!
//! A crash finds a file under the names that it has at that moment. The trace has one path for a file at a time, so the
//! path is defined again when it changes. Of several names (hard links) it has the oldest; the others are only known here.
//!
//! Can miss: a file or directory above it that is renamed by a process that is not recorded.

use brownout_trace::{FileId, FileIdentity};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// The names of all mapped files. A change takes time for the files that it concerns, not for all.
#[derive(Default)]
pub(crate) struct FileNames {
    files: BTreeMap<FileId, NamedFile>,
    by_identity: HashMap<FileIdentity, FileId>,
    by_name: FilesByPath,
    /// Files without a name, by their paths in the trace.
    nameless: FilesByPath,
    /// Names that files have got since paths were last brought up to date.
    new_names: Vec<PathBuf>,
}

/// Files by path. What is below a directory follows it.
type FilesByPath = BTreeSet<(PathBuf, FileId)>;

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
        self.by_identity.entry(identity).or_insert(file);
        self.files.entry(file).or_insert_with(|| NamedFile {
            identity,
            names: Vec::new(),
            path: path.to_owned(),
        });
        self.change_names(file, |names| {
            if !names.iter().any(|name| name == path) {
                // A name that was not noticed: nothing is known about the earlier ones any more.
                names.clear();
                // The kernel shows a file without a name so.
                if !is_deleted(path) {
                    names.push(path.to_owned());
                }
            }
        });
        self.set_path(file, path);
    }

    /// Applies a change and returns the files whose paths in the trace change.
    pub(crate) fn apply(&mut self, change: NameChange<'_>) -> Vec<NewPath> {
        let mut files = BTreeSet::new();
        match change {
            // A rename of one name of a file to another does nothing.
            NameChange::Renamed { old, new, .. } if self.are_of_one_file(old, new) => {}
            NameChange::Renamed { old, new, .. } => {
                files.extend(at(&self.by_name, new));
                files.extend(below(&self.by_name, old));
                self.change_all(&files, |names| {
                    // What the rename replaces.
                    names.retain(|name| name != new);
                    move_names(names, |name| moved(name, old, new));
                });
            }
            NameChange::Exchanged { old, new } => {
                files.extend(below(&self.by_name, old));
                files.extend(below(&self.by_name, new));
                self.change_all(&files, |names| {
                    move_names(names, |name| {
                        moved(name, old, new).or_else(|| moved(name, new, old))
                    });
                });
            }
            NameChange::Linked { file, new } => {
                files.extend(self.by_identity.get(&file));
                self.change_all(&files, |names| {
                    if !names.iter().any(|name| name == new) {
                        names.push(new.to_owned());
                    }
                });
            }
            NameChange::Unlinked { old } => {
                files.extend(at(&self.by_name, old));
                self.change_all(&files, |names| names.retain(|name| name != old));
            }
        }
        self.new_paths(files)
    }

    fn change_all(&mut self, files: &BTreeSet<FileId>, change: impl Fn(&mut Vec<PathBuf>)) {
        for &file in files {
            self.change_names(file, &change);
        }
    }

    fn change_names(&mut self, file: FileId, change: impl Fn(&mut Vec<PathBuf>)) {
        let Some(named) = self.files.get_mut(&file) else {
            return;
        };
        let before = named.names.clone();
        change(&mut named.names);
        let new = named.names.iter().filter(|name| !before.contains(name));
        self.new_names.extend(new.cloned());
        for name in before {
            self.by_name.remove(&(name, file));
        }
        let now = named.names.iter().map(|name| (name.clone(), file));
        self.by_name.extend(now);
    }

    fn set_path(&mut self, file: FileId, path: &Path) {
        let Some(named) = self.files.get_mut(&file) else {
            return;
        };
        let before = std::mem::replace(&mut named.path, path.to_owned());
        self.nameless.remove(&(before, file));
        if named.names.is_empty() {
            self.nameless.insert((path.to_owned(), file));
        }
    }

    fn are_of_one_file(&self, a: &Path, b: &Path) -> bool {
        at(&self.by_name, a).any(|file| at(&self.by_name, b).any(|other| other == file))
    }

    /// The file with a name.
    pub(crate) fn named(&self, path: &Path) -> Option<FileIdentity> {
        let file = at(&self.by_name, path).next()?;
        self.files.get(&file).map(|named| named.identity)
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

    /// Brings the paths in the trace up to date after the names of `files` have changed. A file that has lost its last name keeps
    /// its path until another has it.
    fn new_paths(&mut self, mut files: BTreeSet<FileId>) -> Vec<NewPath> {
        for name in std::mem::take(&mut self.new_names) {
            files.extend(at(&self.nameless, &name));
        }
        let mut changed = Vec::new();
        for file in files {
            let Some(named) = self.files.get(&file) else {
                continue;
            };
            let is_taken = || at(&self.by_name, &named.path).next().is_some();
            let path = match named.names.first() {
                _ if named.names.contains(&named.path) => None,
                Some(name) => Some(name.clone()),
                None if is_taken() => Some(deleted(&named.path)),
                None => None,
            };
            let (identity, now) = (named.identity, path.as_ref().unwrap_or(&named.path).clone());
            self.set_path(file, &now);
            changed.extend(path.map(|path| NewPath {
                file,
                identity,
                path,
            }));
        }
        changed
    }
}

/// The files with this path.
fn at(files: &FilesByPath, path: &Path) -> impl Iterator<Item = FileId> {
    let first = (path.to_owned(), FileId(0));
    let last = (path.to_owned(), FileId(u32::MAX));
    files.range(first..=last).map(|&(_, file)| file)
}

/// The files with this path, or with one below it.
fn below(files: &FilesByPath, directory: &Path) -> impl Iterator<Item = FileId> {
    let from = files.range((directory.to_owned(), FileId(0))..);
    from.take_while(move |(path, _)| path.starts_with(directory))
        .map(|&(_, file)| file)
}

fn move_names(names: &mut [PathBuf], moved: impl Fn(&Path) -> Option<PathBuf>) {
    for name in names {
        if let Some(moved) = moved(name) {
            *name = moved;
        }
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
mod tests;
