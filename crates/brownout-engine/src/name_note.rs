//! What crash images cannot show of the names of mapped files, as notes of the trace say it.

use std::fmt;
use std::path::PathBuf;

/// Something about the names of a mapped file that is in no crash image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameNote {
    /// Device and inode number of the file.
    pub identity: (u64, u64),
    pub kind: NameNoteKind,
    pub path: PathBuf,
}

/// What a [`NameNote`] says about its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameNoteKind {
    /// At the end, the file had this name, too.
    OtherName,
    /// At the end, the file had more names than the recording has seen.
    UnknownNames,
    /// When the file got this name, it replaced another file that was never mapped.
    ReplacedUnknown,
}

impl NameNoteKind {
    const ALL: [Self; 3] = [Self::OtherName, Self::UnknownNames, Self::ReplacedUnknown];

    /// How the text of the note begins.
    fn prefix(self) -> &'static str {
        match self {
            Self::OtherName => "another name of mapped file ",
            Self::UnknownNames => "unknown names of mapped file ",
            Self::ReplacedUnknown => "unknown file replaced by mapped file ",
        }
    }
}

impl NameNote {
    /// What it means, for people.
    pub fn sentence(&self) -> String {
        let path = self.path.display();
        match self.kind {
            NameNoteKind::OtherName => format!(
                "{path} is a second name (hard link) of a mapped file; crash images have the file under its first name only"
            ),
            NameNoteKind::UnknownNames => format!(
                "{path} has other names (hard links) that are not known; crash images have the file under this name only"
            ),
            NameNoteKind::ReplacedUnknown => format!(
                "a mapped file was renamed to {path}, where another file had been; crash images from before that do not \
                 contain the other file, because it was never mapped"
            ),
        }
    }

    /// What a note says; `None` for any other note.
    pub fn parse(note: &str) -> Option<Self> {
        NameNoteKind::ALL.into_iter().find_map(|kind| {
            let (identity, path) = note.strip_prefix(kind.prefix())?.split_once(' ')?;
            let (device, inode) = identity.split_once(':')?;
            Some(Self {
                identity: (device.parse().ok()?, inode.parse().ok()?),
                kind,
                path: PathBuf::from(path),
            })
        })
    }
}

/// The text of the note.
impl fmt::Display for NameNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, inode) = self.identity;
        let (prefix, path) = (self.kind.prefix(), self.path.display());
        write!(f, "{prefix}{device}:{inode} {path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_as_text_and_other_notes_are_not_mistaken_for_it() {
        for kind in NameNoteKind::ALL {
            let note = NameNote {
                identity: (66305, 12),
                kind,
                path: "/pm/a pool".into(),
            };
            assert_eq!(NameNote::parse(&note.to_string()), Some(note));
            assert_eq!(NameNote::parse(kind.prefix()), None);
        }
        assert_eq!(NameNote::parse("the program uses io_submit"), None);
    }
}
