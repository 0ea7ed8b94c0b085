//! What the notes of a trace say about the recording.

use std::path::{Path, PathBuf};

use brownout_engine::{NameNote, WrittenFile, is_unrecorded_program};
use brownout_trace::replay::FinalContent;
use brownout_trace::{FailedSync, MappedFile, RENAME_NOTE};

/// The notes of a trace, by their meaning, without repetitions.
#[derive(Clone, Debug, Default)]
pub struct TraceNotes {
    /// Programs that ran without being recorded, one sentence each.
    pub unrecorded: Vec<String>,
    /// What else could not be recorded, one sentence each.
    pub gaps: Vec<String>,
    /// Files that the target wrote with system calls.
    written: Vec<WrittenFile>,
    /// What crash images cannot show of the names of mapped files.
    names: Vec<NameNote>,
    /// What mapped files held at the end.
    final_contents: Vec<FinalContent>,
}

impl TraceNotes {
    /// Takes a note. The same trace may be read several times.
    pub fn add(&mut self, text: &str) {
        // Lint reports what the failure of a call has left without durability.
        if text.starts_with(RENAME_NOTE) || FailedSync::parse(text).is_some() {
            return;
        }
        if let Some(file) = WrittenFile::parse(text) {
            if !self.written.contains(&file) {
                self.written.push(file);
            }
            return;
        }
        if let Some(note) = NameNote::parse(text) {
            if !self.names.contains(&note) {
                self.names.push(note);
            }
            return;
        }
        if let Some(content) = FinalContent::parse(text) {
            if !self.final_contents.contains(&content) {
                self.final_contents.push(content);
            }
            return;
        }
        let list = if is_unrecorded_program(text) {
            &mut self.unrecorded
        } else {
            &mut self.gaps
        };
        if !list.iter().any(|known| known == text) {
            list.push(text.to_owned());
        }
    }

    /// What mapped files held at the end, as far as the recorder could read them.
    pub fn final_contents(&self) -> &[FinalContent] {
        &self.final_contents
    }

    /// What crash images cannot show of the names of `persistent` files, one sentence each.
    pub fn unshown_names(&self, persistent: &[MappedFile]) -> Vec<String> {
        let is_persistent = |note: &&NameNote| {
            let mut files = persistent.iter().map(|file| file.identity);
            files.any(|file| (file.dev, file.ino) == note.identity)
        };
        let shown = self.names.iter().filter(is_persistent);
        shown.map(NameNote::sentence).collect()
    }

    /// The files below the directories of `persistent` files that the target wrote with system calls and never mapped: crash
    /// images do not contain them. `mapped` are the device and inode numbers of the files that it mapped.
    pub fn files_beside(&self, persistent: &[PathBuf], mapped: &[(u64, u64)]) -> Vec<String> {
        let directories: Vec<&Path> = persistent.iter().filter_map(|path| path.parent()).collect();
        let mut files: Vec<String> = self
            .written
            .iter()
            .filter(|file| !mapped.contains(&file.identity) && !persistent.contains(&file.path))
            .filter(|file| {
                directories
                    .iter()
                    .any(|directory| file.path.starts_with(directory))
            })
            .map(|file| file.path.to_string_lossy().into_owned())
            .collect();
        files.sort();
        files.dedup();
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_persistent_ones_are_found() {
        let mut notes = TraceNotes::default();
        for (identity, path) in [
            ((1, 2), "/d/pool"),
            ((1, 3), "/d/log/wal"),
            ((1, 4), "/elsewhere/x"),
            ((1, 5), "/d/renamed-and-mapped"),
            ((1, 3), "/d/log/wal"),
        ] {
            let path = path.into();
            notes.add(&WrittenFile { identity, path }.to_string());
        }
        notes.add("something else");
        let pool = [PathBuf::from("/d/pool")];
        assert_eq!(notes.files_beside(&pool, &[(1, 5)]), ["/d/log/wal"]);
        assert_eq!(notes.gaps, ["something else"]);
    }
}
