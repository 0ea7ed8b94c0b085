//! What a target reads other than by loads that are events, for a destination that asks for it.

use brownout_ring::{Record, file_use, kind, store};
use brownout_trace::{Address, FileIdentity};

/// How the target has used a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileUse {
    /// It was opened, or looked up by its name.
    Opened(FileIdentity),
    /// Bytes were read by a system call, or mapped in a way that does not show which of them are loaded.
    Read {
        file: FileIdentity,
        offset: u64,
        len: u64,
    },
    /// An instruction has read the mapped bytes that it overwrote; the event of the store follows.
    Modified { addr: Address, len: u64 },
    /// From now on, files may be read without being reported.
    Unseen,
}

impl FileUse {
    /// The use in a record of [`kind::FILE_USE`]; `None` if it has impossible flags.
    pub(crate) fn of_record(
        flags: u16,
        (file, offset): (FileIdentity, u64),
        len: u64,
    ) -> Option<Self> {
        Some(match flags {
            file_use::OPENED => Self::Opened(file),
            file_use::READ => Self::Read { file, offset, len },
            file_use::UNSEEN => Self::Unseen,
            _ => return None,
        })
    }

    /// What the instruction of a store has read.
    #[inline(always)]
    pub(crate) fn of_store(head: &Record) -> Option<Self> {
        let modifies = head.kind == kind::STORE && head.flags & store::MODIFIES != 0;
        modifies.then(|| Self::Modified {
            addr: Address(head.addr),
            len: head.size.into(),
        })
    }
}
