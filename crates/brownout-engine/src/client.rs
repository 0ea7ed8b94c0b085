//! The client of a target that is a server: the engine's end of [`brownout_ring::client`].

use crate::wire::Wire;
use brownout_ring::client::{ClientPage, DIVIDER, PAGE, divide};
use brownout_ring::fuzz::{MAX_PATH, PathText};
use rustix::process::Signal;
use std::io;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Says before the start of the target which file holds the input.
pub(crate) fn put(wire: &Wire, input: &Path) -> io::Result<()> {
    let path = input.as_os_str().as_bytes();
    if path.len() > MAX_PATH {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    }
    let text = PAGE + offset_of!(ClientPage, input);
    let len = (path.len() as u32).to_ne_bytes();
    let fields = [
        (offset_of!(PathText, len), &len[..]),
        (offset_of!(PathText, bytes), path),
    ];
    for (offset, bytes) in fields {
        wire.file().write_all_at(bytes, (text + offset) as u64)?;
    }
    begin(wire)
}

/// Forgets what the client has done, before the target runs once more.
pub(crate) fn begin(wire: &Wire) -> io::Result<()> {
    for field in [offset_of!(ClientPage, owner), offset_of!(ClientPage, ended)] {
        wire.file().write_all_at(&[0; 4], (PAGE + field) as u64)?;
    }
    Ok(())
}

/// Whether the target, which was killed by a signal, got it because its input was consumed.
pub(crate) fn has_sent(wire: &Wire, signal: i32) -> bool {
    let mut sent = [0; 4];
    let at = (PAGE + offset_of!(ClientPage, ended)) as u64;
    let read = wire.file().read_exact_at(&mut sent, at);
    let last = i32::from_ne_bytes(sent);
    // It gets the first signal before the last one.
    read.is_ok() && last != 0 && (signal == last || signal == Signal::TERM.as_raw())
}

/// What is between the parts of an input that are sent over connections of their own.
pub const CLIENT_DIVIDER: &[u8] = DIVIDER;

/// The parts of an input, each of which a client sends over a connection of its own.
pub fn client_parts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    divide(input).map(|(start, end)| &input[start..end])
}
