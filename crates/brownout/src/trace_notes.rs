//! What the notes of a trace say about the recording.

use std::path::{Path, PathBuf};

use brownout_engine::{NameNote, WrittenFile, is_lost_record, is_unrecorded_program};
use brownout_trace::replay::FinalContent;
use brownout_trace::{FailedSync, MappedFile, RENAME_NOTE};

/// The notes of a trace, by their meaning, without repetitions.
#[derive(Clone, Debug, Default)]
pub struct TraceNotes {
    /// Programs that ran without being recorded, one sentence each.
    pub unrecorded: Vec<String>,
    /// Records that were lost, one sentence for each loss.
    pub lost: Vec<String>,
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
        } else if is_lost_record(text) {
            &mut self.lost
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
        let written = self.written.iter();
        let files = written.filter(|file| !mapped.contains(&file.identity));
        beside(persistent, files.map(|file| file.path.as_path()))
    }
}

/// Those of the `files` below the directories of `persistent` files that are not persistent themselves.
pub fn beside<'f>(persistent: &[PathBuf], files: impl Iterator<Item = &'f Path>) -> Vec<String> {
    let directories: Vec<&Path> = persistent.iter().filter_map(|path| path.parent()).collect();
    let is_below = |file: &&Path| {
        let mut directories = directories.iter();
        directories.any(|directory| file.starts_with(directory))
    };
    let others = files.filter(|file| !persistent.iter().any(|path| path == file));
    let below = others.filter(is_below);
    let mut files: Vec<String> = below
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    files.sort();
    files.dedup();
    files
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
        let lost =
            "a record of thread 1 of process 2 is damaged, and its later records are lost: x";
        notes.add(lost);
        assert_eq!(notes.lost, [lost]);
        let pool = [PathBuf::from("/d/pool")];
        assert_eq!(notes.files_beside(&pool, &[(1, 5)]), ["/d/log/wal"]);
        assert_eq!(notes.gaps, ["something else"]);
    }
}
