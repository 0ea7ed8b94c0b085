//! An event as a line of text.

use std::fmt::{self, Display, Formatter};

use brownout_recovery::signal_text;
use brownout_trace::replay::FinalContent;
use brownout_trace::{
    Address, Definitions, Event, EventKind, FailedSync, FileId, FunctionId, Mapping, ProcessEnd,
    StoreFlavor, Sync,
};

use crate::terminal_text::{Hex, OneLine};

/// How many bytes of an event are shown unless `--full` is given.
const SHOWN_BYTES: usize = 16;

/// `PROT_WRITE` of Linux.
const PROT_WRITE: u32 = 2;

/// The part of an event's line after its number and thread.
pub struct EventText<'a> {
    pub event: &'a Event<'a>,
    pub definitions: &'a Definitions,
    /// Show all bytes.
    pub full: bool,
}

impl Display for EventText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:<13}", self.event.kind.class().name())?;
        match self.event.kind {
            EventKind::Store { .. }
            | EventKind::Load { .. }
            | EventKind::Flush { .. }
            | EventKind::Fence { .. }
            | EventKind::KernelWrite { .. } => self.access(f),
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                syscall,
            } => {
                let (path, bytes) = (self.path(file), self.hex(bytes));
                write!(f, " {path}:{offset:#x} {bytes} syscall {syscall}")
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => write!(f, " {}:{offset:#x} {}", self.path(file), self.hex(bytes)),
            EventKind::FileResize { file, len } => write!(f, " {} to {len}", self.path(file)),
            EventKind::Sync(sync) => self.sync(f, sync),
            EventKind::Map(mapping) => self.map(f, &mapping),
            EventKind::Unmap { addr, len } => write!(f, " {}", Span(addr, len)),
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => write!(f, " {} to {}", Span(old, old_len), Span(new, new_len)),
            EventKind::Protect {
                addr,
                len,
                writable,
            } => {
                let now = if writable { "writable" } else { "read-only" };
                write!(f, " {} {now}", Span(addr, len))
            }
            EventKind::Call { .. } | EventKind::Return { .. } => self.call(f),
            EventKind::Note { text } => match FinalContent::parse(text) {
                // Digests are for programs.
                Some(content) => write!(f, " content at the end: {} bytes", content.bytes()),
                None => match FailedSync::parse(text) {
                    Some(failed) => write!(f, " {failed}"),
                    None => write!(f, " {}", OneLine(text.into())),
                },
            },
            _ => self.process(f),
        }
    }
}

impl EventText<'_> {
    /// A store, load, flush, fence or write by the kernel.
    fn access(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let addr = match self.event.kind {
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                string,
            } => {
                write!(f, " {addr} {}", self.hex(bytes))?;
                for word in store_attributes(flavor, locked, string) {
                    write!(f, " {word}")?;
                }
                addr
            }
            EventKind::Load { addr, bytes } => {
                write!(f, " {addr} {}", self.hex(bytes))?;
                addr
            }
            EventKind::KernelWrite {
                addr,
                bytes,
                syscall,
            } => {
                write!(f, " {addr} {} syscall {syscall}", self.hex(bytes))?;
                addr
            }
            EventKind::Flush {
                addr,
                kind,
                volatile,
            } => {
                write!(f, " {addr} {}", kind.name())?;
                if volatile {
                    f.write_str(" volatile")?;
                }
                addr
            }
            EventKind::Fence { kind } => return write!(f, " {}", kind.name()),
            _ => return Ok(()),
        };
        self.file_location(f, addr)
    }

    /// The call or the end of a call of a watched function.
    fn call(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.event.kind {
            EventKind::Call { function, args } => {
                write!(f, " {}(", self.function(function))?;
                for (index, arg) in args.as_slice().iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{arg:#x}")?;
                }
                f.write_str(")")
            }
            EventKind::Return { function, value } => {
                write!(f, " {}", self.function(function))?;
                match value {
                    Some([first, second]) => write!(f, " = {first:#x}, {second:#x}"),
                    None => f.write_str(" left without returning"),
                }
            }
            _ => Ok(()),
        }
    }

    /// A module, a thread or a process.
    fn process(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.event.kind {
            EventKind::Module {
                addr,
                len,
                file_offset,
                path,
                build_id,
            } => {
                let (span, path) = (Span(addr, len), OneLine::of(path));
                write!(f, " {span} {path}:{file_offset:#x}")?;
                if !build_id.is_empty() {
                    write!(f, " build-id {}", Hex(build_id))?;
                }
                Ok(())
            }
            EventKind::ThreadStart {
                parent: Some(parent),
            } => write!(f, " by thread {}", parent.thread),
            EventKind::ThreadJoin { joined } => write!(f, " of thread {joined}"),
            EventKind::LockAcquire { word, size, shared } => {
                let shared = if shared { " shared" } else { "" };
                write!(f, " {word}+{size}{shared}")
            }
            EventKind::LockRelease {
                word,
                shared,
                exchanged,
            } => {
                let shared = if shared { " shared" } else { "" };
                let exchanged = if exchanged { " exchanged" } else { "" };
                write!(f, " {word}{shared}{exchanged}")
            }
            EventKind::ProcessStart {
                pid,
                parent_pid,
                origin,
                exe,
                args,
                ..
            } => {
                let (origin, exe) = (origin.name(), OneLine::of(exe));
                write!(f, " {origin} pid {pid} of {parent_pid} {exe}")?;
                for argument in args.iter().skip(1) {
                    write!(f, " {}", OneLine::of(argument.as_ref()))?;
                }
                Ok(())
            }
            EventKind::ProcessExit { end } => write!(f, " {}", EndText(end)),
            // The end of a thread, and kinds without fields.
            _ => Ok(()),
        }
    }

    fn hex<'b>(&self, bytes: &'b [u8]) -> HexPreview<'b> {
        let limit = if self.full { usize::MAX } else { SHOWN_BYTES };
        HexPreview { bytes, limit }
    }

    fn path(&self, file: FileId) -> OneLine<'_> {
        match self.definitions.file(file) {
            Some(file) => OneLine::of(&file.path),
            None => OneLine(format!("file {file}").into()),
        }
    }

    fn function(&self, function: FunctionId) -> OneLine<'_> {
        match self.definitions.function(function) {
            Some(name) => OneLine(name.into()),
            None => OneLine(format!("function {function}").into()),
        }
    }

    /// The file mapped at an address, and the offset in it, if any.
    fn file_location(&self, f: &mut Formatter<'_>, addr: Address) -> fmt::Result {
        let process = self.definitions.process(self.event.process);
        match process.and_then(|process| process.address_space().resolve(addr, 1)) {
            Some(range) => write!(f, " {}:{:#x}", self.path(range.file), range.offset),
            None => Ok(()),
        }
    }

    fn sync(&self, f: &mut Formatter<'_>, sync: Sync) -> fmt::Result {
        write!(f, " {}", sync.name())?;
        match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous,
            } => {
                write!(f, " {}", Span(addr, len))?;
                if asynchronous {
                    f.write_str(" async")?;
                }
                self.file_location(f, addr)
            }
            Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
                write!(f, " {}", self.path(file))
            }
            Sync::SyncFileRange { file, offset, len } => {
                write!(f, " {}:{offset:#x}, {len} bytes", self.path(file))
            }
            // A system call without fields.
            _ => Ok(()),
        }
    }

    fn map(&self, f: &mut Formatter<'_>, mapping: &Mapping) -> fmt::Result {
        let Mapping {
            addr,
            len,
            file,
            offset,
            file_len,
            ..
        } = *mapping;
        write!(
            f,
            " {} {}:{offset:#x} of {file_len}",
            Span(addr, len),
            self.path(file)
        )?;
        if mapping.prot & PROT_WRITE == 0 {
            f.write_str(" read-only")?;
        }
        if mapping.dax {
            f.write_str(" dax")?;
        }
        Ok(())
    }
}

pub fn store_attributes(
    flavor: StoreFlavor,
    locked: bool,
    string: bool,
) -> impl Iterator<Item = &'static str> {
    let special = flavor != StoreFlavor::Temporal;
    [
        special.then(|| flavor.name()),
        locked.then_some("locked"),
        string.then_some("string"),
    ]
    .into_iter()
    .flatten()
}

/// How a process ended.
pub struct EndText(pub ProcessEnd);

impl Display for EndText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            ProcessEnd::Exited { status } => write!(f, "exit status {status}"),
            ProcessEnd::Signaled { signal } => write!(f, "killed by {}", signal_text(signal)),
            _ => f.write_str("ended"),
        }
    }
}

/// The length of a byte string, and its first bytes.
struct HexPreview<'a> {
    bytes: &'a [u8],
    limit: usize,
}

impl Display for HexPreview<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(self.limit)];
        let more = if shown.len() < self.bytes.len() {
            "..."
        } else {
            ""
        };
        write!(f, "[{}] {}{more}", self.bytes.len(), Hex(shown))
    }
}

/// An address range: its start and length.
struct Span(Address, u64);

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_byte_strings_are_shortened_with_an_ellipsis() {
        let bytes = [0xab; 17];
        let cut = HexPreview {
            bytes: &bytes,
            limit: SHOWN_BYTES,
        };
        assert_eq!(cut.to_string(), format!("[17] {}...", "ab".repeat(16)));
        let whole = HexPreview {
            bytes: &bytes,
            limit: usize::MAX,
        };
        assert_eq!(whole.to_string(), format!("[17] {}", "ab".repeat(17)));
    }
}
