//! Patches: the edits of all files, as a diff and as new contents.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_fix::{Edit, EditConflict, FunctionCopy, apply, in_order, unified};

use brownout_report::SourceEdit;

use super::planned_repair::PlannedRepair;
use crate::failure::Failure;

/// The edits of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    pub path: PathBuf,
    /// The text that the edits refer to.
    pub text: String,
    pub edits: Vec<Edit>,
}

impl FilePatch {
    /// The text with the edits.
    pub fn edited(&self) -> String {
        apply(&self.text, &self.edits)
    }
}

impl FilePatch {
    /// The lines that lines of the text have become, with what the edits put on them.
    fn edited_lines(&self, lines: (u32, u32)) -> (u32, u32) {
        let starts = std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1));
        let starts: Vec<usize> = starts.collect();
        let start = |line: u32| {
            let start = starts.get((line as usize).saturating_sub(1));
            start.copied().unwrap_or(self.text.len())
        };
        let newlines = |text: &str| text.matches('\n').count() as i64;
        let moved = |until: usize| -> i64 {
            let before = self.edits.iter().filter(|edit| edit.end < until);
            before
                .map(|edit| newlines(&edit.text) - newlines(&self.text[edit.start..edit.end]))
                .sum()
        };
        let end = start(lines.1 + 1);
        // What is put at the end of the last line stands before its newline.
        let first = i64::from(lines.0) + moved(start(lines.0));
        let last = i64::from(lines.1) + moved(end);
        (first.max(1) as u32, last.max(first).max(1) as u32)
    }

    /// The line and column of a byte, counted from 1, the column in UTF-16 code units.
    fn position(&self, offset: usize) -> (u32, u32) {
        let before = &self.text[..offset];
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let lines = before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before[line..].encode_utf16().count();
        (lines as u32 + 1, column as u32 + 1)
    }
}

/// The edits of several files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    pub files: Vec<FilePatch>,
}

impl Patch {
    /// `text` is what the sources were read as.
    pub fn new(
        repairs: &[&PlannedRepair],
        text: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<Self, EditConflict> {
        let mut edits: BTreeMap<&Path, Vec<Edit>> = BTreeMap::new();
        let mut copies: Vec<FunctionCopy> = Vec::new();
        for repair in repairs {
            let of_file = edits.entry(&repair.path).or_default();
            of_file.extend(repair.source.edits.iter().cloned());
            for (path, edit) in &repair.source.elsewhere {
                edits.entry(Path::new(path)).or_default().push(edit.clone());
            }
            for copy in &repair.source.copies {
                edits.entry(Path::new(&copy.path)).or_default();
                match copies.iter_mut().find(|known| known.is_of_same(copy)) {
                    Some(known) => known.share(copy),
                    None => copies.push(copy.clone()),
                }
            }
        }
        let mut files = Vec::new();
        for (path, edits) in edits {
            // What a source holds by now is another matter: it is written only if it still holds that.
            let text = text(path).ok_or(EditConflict)?;
            let of_file = copies.iter().filter(|copy| Path::new(&copy.path) == path);
            let added: Result<Vec<Edit>, EditConflict> =
                of_file.map(|copy| copy.addition(&text, &edits)).collect();
            let mut edits = in_order(edits.into_iter().chain(added?))?;
            if text.contains("\r\n") {
                for edit in &mut edits {
                    edit.text = edit.text.replace("\r\n", "\n").replace('\n', "\r\n");
                }
            }
            files.push(FilePatch {
                path: path.to_owned(),
                edits,
                text,
            });
        }
        Ok(Self { files })
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The lines that lines of a file have become.
    pub fn edited_lines(&self, path: &Path, lines: (u32, u32)) -> (u32, u32) {
        let file = self.files.iter().find(|file| file.path == path);
        file.map_or(lines, |file| file.edited_lines(lines))
    }

    /// The unified diff. Paths below `directory` are relative to it, as `git apply` and `patch -p1` take them there.
    pub fn diff(&self, directory: &Path) -> String {
        let diffs = self.files.iter().map(|file| {
            let path = file.path.strip_prefix(directory).unwrap_or(&file.path);
            let path = path.to_string_lossy();
            unified(path.trim_start_matches('/'), &file.text, &file.edits)
        });
        diffs.collect()
    }

    /// The edits with lines and columns in place of offsets.
    pub fn source_edits(&self) -> Vec<SourceEdit> {
        let edits = self.files.iter().flat_map(|file| {
            file.edits.iter().map(|edit| {
                let (line, column) = file.position(edit.start);
                let (end_line, end_column) = file.position(edit.end);
                SourceEdit {
                    file: file.path.to_string_lossy().into_owned(),
                    line,
                    column,
                    end_line,
                    end_column,
                    text: edit.text.clone(),
                }
            })
        });
        edits.collect()
    }

    /// Changes the sources: all of them, or none. Files with changes that are not committed are refused unless `force`.
    pub fn write(&self, force: bool) -> Result<(), Failure> {
        for file in &self.files {
            let changed = || Failure::SourceChanged {
                path: file.path.clone(),
            };
            let now = fs::read_to_string(&file.path).map_err(|_| changed())?;
            if now != file.text {
                return Err(changed());
            }
            let path = file.path.clone();
            match git_state(&file.path) {
                _ if force => {}
                GitState::AsCommitted => {}
                GitState::Changed => return Err(Failure::Uncommitted { path }),
                GitState::Unknown(why) => return Err(Failure::GitFailed { path, why }),
            }
        }
        let failed = |path: &Path, source| Failure::Written {
            path: path.to_owned(),
            source,
        };
        let mut ready = Vec::new();
        for file in &self.files {
            let directory = file.path.parent().unwrap_or(Path::new("/"));
            let write = || -> std::io::Result<tempfile::NamedTempFile> {
                let mut new = tempfile::NamedTempFile::new_in(directory)?;
                new.write_all(file.edited().as_bytes())?;
                let permissions = fs::metadata(&file.path)?.permissions();
                new.as_file().set_permissions(permissions)?;
                new.as_file().sync_all()?;
                Ok(new)
            };
            ready.push((file, write().map_err(|error| failed(&file.path, error))?));
        }
        // What can fail has been done: only names change from here on.
        for (file, new) in ready {
            new.persist(&file.path)
                .map_err(|error| failed(&file.path, error.error))?;
        }
        Ok(())
    }
}

/// Whether git can give a file back.
enum GitState {
    /// It is as git has it, or in no repository.
    AsCommitted,
    /// It differs from the last commit, or git does not track it.
    Changed,
    /// It is in a repository, but git does not say that, for this reason.
    Unknown(String),
}

fn git_state(path: &Path) -> GitState {
    let Some((directory, name)) = path.parent().zip(path.file_name()) else {
        return GitState::AsCommitted;
    };
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(directory)
        .args([
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--ignored",
            "--",
        ])
        .arg(name);
    let is_in_repository = || directory.ancestors().any(|up| up.join(".git").exists());
    match git.output() {
        Ok(output) if output.status.success() => match output.stdout.is_empty() {
            true => GitState::AsCommitted,
            false => GitState::Changed,
        },
        _ if !is_in_repository() => GitState::AsCommitted,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            GitState::Unknown(said.lines().next().unwrap_or_default().to_owned())
        }
        Err(error) => GitState::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(path: &Path, text: &str) -> Patch {
        Patch {
            files: vec![FilePatch {
                path: path.to_owned(),
                text: text.to_owned(),
                edits: vec![Edit::insert(2, "b\n")],
            }],
        }
    }

    #[test]
    fn a_source_that_has_changed_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.c");
        fs::write(&path, "a\nc\n").unwrap();
        let other = patch(&path, "a\nd\n").write(false);
        assert!(matches!(other, Err(Failure::SourceChanged { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nc\n");
        patch(&path, "a\nc\n").write(false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\nc\n");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_git_cannot_give_back_is_written_only_by_force() {
        let root = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
            git.arg("-C").arg(root.path()).args(identity);
            assert!(git.args(arguments).output().unwrap().status.success());
        };
        git(&["init"]);
        let path = root.path().join("x.c");
        fs::write(&path, "a\nc\n").unwrap();
        let untracked = patch(&path, "a\nc\n").write(false);
        assert!(matches!(untracked, Err(Failure::Uncommitted { .. })));
        git(&["add", "x.c"]);
        git(&["commit", "-m", "x"]);
        patch(&path, "a\nc\n").write(false).unwrap();
        let changed = patch(&path, "a\nb\nc\n").write(false);
        assert!(matches!(changed, Err(Failure::Uncommitted { .. })));
        patch(&path, "a\nb\nc\n").write(true).unwrap();
    }

    #[test]
    fn a_repository_that_git_cannot_read_is_written_only_by_force() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        let path = root.path().join("x.c");
        fs::write(&path, "a\nc\n").unwrap();
        let refused = patch(&path, "a\nc\n").write(false);
        assert!(matches!(refused, Err(Failure::GitFailed { .. })));
        patch(&path, "a\nc\n").write(true).unwrap();
    }

    #[test]
    fn lines_move_with_what_is_inserted_before_and_in_them() {
        let path = Path::new("/src/x.c");
        let mut patch = patch(path, "a\nb\nc\nd\n");
        // `b` has a line before it and one after it.
        patch.files[0].edits = vec![Edit::insert(2, "x\n"), Edit::insert(3, "\ny")];
        assert_eq!(patch.edited_lines(path, (1, 1)), (1, 1));
        assert_eq!(patch.edited_lines(path, (2, 2)), (2, 4));
        assert_eq!(patch.edited_lines(path, (3, 3)), (5, 5));
        assert_eq!(patch.edited_lines(Path::new("/src/y.c"), (3, 3)), (3, 3));
    }

    #[test]
    fn the_diff_has_paths_relative_to_the_directory() {
        let diff = patch(Path::new("/src/a/x.c"), "a\nc\n").diff(Path::new("/src"));
        assert!(diff.starts_with("--- a/a/x.c\n+++ b/a/x.c\n@@ -1,2 +1,3 @@\n a\n+b\n c\n"));
    }
}
