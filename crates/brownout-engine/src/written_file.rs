//! Files that the target wrote with system calls, as notes of the trace name them.

use std::fmt;
use std::path::PathBuf;

use brownout_ring::WRITTEN_FILE;

/// A file that the target wrote with system calls. It need not have mapped it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WrittenFile {
    /// Device and inode number.
    pub identity: (u64, u64),
    /// A name that the file had.
    pub path: PathBuf,
}

impl WrittenFile {
    /// The file that a note is about; `None` for any other note.
    pub fn parse(note: &str) -> Option<Self> {
        let (identity, path) = note.strip_prefix(WRITTEN_FILE)?.split_once(' ')?;
        let (device, inode) = identity.split_once(':')?;
        Some(Self {
            identity: (device.parse().ok()?, inode.parse().ok()?),
            path: PathBuf::from(path),
        })
    }
}

/// The text of the note.
impl fmt::Display for WrittenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, inode) = self.identity;
        write!(f, "{WRITTEN_FILE}{device}:{inode} {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_file_and_other_notes_do_not() {
        let file = WrittenFile {
            identity: (66305, 12),
            path: "/pm/a log".into(),
        };
        assert_eq!(WrittenFile::parse(&file.to_string()), Some(file));
        assert_eq!(WrittenFile::parse("the program uses io_submit"), None);
        assert_eq!(WrittenFile::parse(WRITTEN_FILE), None);
    }
}
