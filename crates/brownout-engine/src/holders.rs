//! Which processes hold the wire, be they known by a slot or not.
//!
//! A process that the target forks just before it ends has the wire's descriptor from its first
//! instant and a slot only a little later. In between, the descriptor in `/proc` is all that tells of
//! it.

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;

/// The processes that have a wire open under the number it was handed on with.
pub(crate) struct Holders {
    descriptor: RawFd,
    device: u64,
    inode: u64,
}

impl Holders {
    pub(crate) fn of(wire: &fs::File, descriptor: RawFd) -> io::Result<Holders> {
        let metadata = wire.metadata()?;
        Ok(Holders {
            descriptor,
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Whether there are any. Where `/proc` cannot be read, none are seen.
    pub(crate) fn exist(&self) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        processes.flatten().any(|entry| {
            let is_process = entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit);
            is_process
                && fs::metadata(entry.path().join(format!("fd/{}", self.descriptor)))
                    .is_ok_and(|file| file.dev() == self.device && file.ino() == self.inode)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn whoever_has_the_file_under_the_number_is_a_holder() {
        let wire = crate::wire::Wire::create(0).unwrap();
        let held = Holders::of(wire.file(), wire.file().as_raw_fd()).unwrap();
        assert!(held.exist());
        let other = crate::wire::Wire::create(0).unwrap();
        let elsewhere = Holders::of(wire.file(), other.file().as_raw_fd()).unwrap();
        assert!(!elsewhere.exist());
    }
}
