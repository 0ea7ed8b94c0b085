//! The file that holds the input of an execution.

use super::server::set_up;
use super::{FuzzServerError, InputChannel};
use crate::sys::memory::{MemfdUse, create_memfd};
use std::fs::File;
use std::io;

/// Creates the file.
pub(super) fn open(channel: &InputChannel) -> Result<File, FuzzServerError> {
    let opened = match channel {
        InputChannel::Stdin => create_memfd(c"input", MemfdUse::Data),
        InputChannel::File(path) | InputChannel::Clients(path) => File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path),
    };
    opened.map_err(|source| failed(channel, source))
}

/// Why the file cannot be used.
pub(super) fn failed(channel: &InputChannel, source: io::Error) -> FuzzServerError {
    match channel {
        InputChannel::Stdin => set_up(source),
        InputChannel::File(path) | InputChannel::Clients(path) => FuzzServerError::Input {
            path: path.clone(),
            source,
        },
    }
}
