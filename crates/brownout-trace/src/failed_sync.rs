//! Calls that should have made data durable and failed: the form of their [notes](crate::EventKind::Note).

use std::fmt;

use crate::FileIdentity;
use crate::ids::Address;

/// The text of such a note begins so. The name of the call, the error number and two more numbers follow, separated by spaces.
pub const FAILED_SYNC_NOTE: &str = "data was not made durable by ";

/// A call that should have made data durable and failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedSync {
    /// The call, and what it was made for.
    pub call: FailedCall,
    /// The error number.
    pub error: u32,
}

/// A call, and what it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailedCall {
    /// `msync` of a range of addresses.
    Msync {
        /// The first address, which need not be that of a page.
        addr: Address,
        /// The length in bytes.
        len: u64,
    },
    /// `fsync` of a file.
    Fsync(FileIdentity),
    /// `fdatasync` of a file.
    Fdatasync(FileIdentity),
}

impl FailedSync {
    /// Reads the text of a note; `None` if it is about something else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(FAILED_SYNC_NOTE)?.split(' ');
        let name = parts.next()?;
        let error = parts.next()?.parse().ok()?;
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (first, second) = (number()?, number()?);
        if parts.next().is_some() {
            return None;
        }
        let file = FileIdentity {
            dev: first,
            ino: second,
        };
        let call = match name {
            "msync" => FailedCall::Msync {
                addr: Address(first),
                len: second,
            },
            "fsync" => FailedCall::Fsync(file),
            "fdatasync" => FailedCall::Fdatasync(file),
            _ => return None,
        };
        Some(FailedSync { call, error })
    }

    /// The name of the call.
    pub fn name(&self) -> &'static str {
        match self.call {
            FailedCall::Msync { .. } => "msync",
            FailedCall::Fsync(_) => "fsync",
            FailedCall::Fdatasync(_) => "fdatasync",
        }
    }

    /// What the user has to know.
    pub fn sentence(&self) -> String {
        let (name, error) = (self.name(), self.error_text());
        format!("{name} of a mapped file failed with {error}: its data was not made durable")
    }

    /// The name of the error, or its number.
    pub fn error_text(&self) -> String {
        let name = self.error_name().map(str::to_owned);
        name.unwrap_or_else(|| format!("error {}", self.error))
    }

    /// The name of the error that the call returned, if it is one of those that such calls document.
    fn error_name(&self) -> Option<&'static str> {
        Some(match self.error {
            4 => "EINTR",
            5 => "EIO",
            9 => "EBADF",
            12 => "ENOMEM",
            16 => "EBUSY",
            22 => "EINVAL",
            28 => "ENOSPC",
            30 => "EROFS",
            122 => "EDQUOT",
            _ => return None,
        })
    }
}

/// `msync of 8 bytes at 0x1008 failed with EINVAL`.
impl fmt::Display for FailedSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let FailedCall::Msync { addr, len } = self.call {
            let bytes = if len == 1 { "byte" } else { "bytes" };
            write!(f, " of {len} {bytes} at {:#x}", addr.0)?;
        }
        write!(f, " failed with {}", self.error_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_the_call_the_error_and_the_range() {
        let text = format!("{FAILED_SYNC_NOTE}msync 22 4104 8");
        let failed = FailedSync::parse(&text).unwrap();
        let addr = Address(4104);
        assert_eq!(failed.call, FailedCall::Msync { addr, len: 8 });
        assert_eq!((failed.name(), failed.error), ("msync", 22));
        let words = "msync of 8 bytes at 0x1008 failed with EINVAL";
        assert_eq!(failed.to_string(), words);
        let text = format!("{FAILED_SYNC_NOTE}fsync 5 1 77");
        let failed = FailedSync::parse(&text).unwrap();
        let file = FileIdentity { dev: 1, ino: 77 };
        assert_eq!(failed.call, FailedCall::Fsync(file));
        let words = "fsync of a mapped file failed with EIO: its data was not made durable";
        assert_eq!(failed.sentence(), words);
        let unknown = FailedSync {
            error: 99,
            ..failed
        };
        assert_eq!(unknown.to_string(), "fsync failed with error 99");
    }

    #[test]
    fn other_texts_are_not_taken_for_it() {
        for rest in [
            "",
            "msync",
            "msync x 1 2",
            "msync 22 1",
            "msync 22 1 2 3",
            "open 22 1 2",
        ] {
            let text = format!("{FAILED_SYNC_NOTE}{rest}");
            assert_eq!(FailedSync::parse(&text), None, "{rest}");
        }
        assert_eq!(FailedSync::parse("something else"), None);
    }
}
