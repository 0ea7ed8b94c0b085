//! Decodes a record on the wire into an event of the trace.
//!
//! The bytes come from a process that may have overwritten its own ring. Every field is checked; an impossible value is
//! reported as a [`Corruption`] and never causes a panic.

use crate::file_names::NameChange;
use crate::slot_owner::SlotOwner;
use crate::stream::Corruption;
use brownout_ring::{Record, fence, flush, kind, map, name, origin, store, sync};
use brownout_trace::{
    Address, AppPc, Arguments, CallArguments, ContextId, Event, EventIndex, EventKind, FenceKind,
    FileId, FileIdentity, FlushKind, FunctionId, Mapping, ProcessEnd, ProcessId, ProcessOrigin,
    StoreFlavor, Sync, ThreadId,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// Passed on as it is.
const _: () = assert!(brownout_ring::FOLDED_RECURSION == brownout_trace::FOLDED_RECURSION.0);

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded<'a> {
    Event(Event<'a>),
    /// A file was mapped. The caller fills in the file's number.
    Map {
        file: FileIdentity,
        path: &'a Path,
        event: Event<'a>,
    },
    /// Code was mapped. The caller fills in its build-id.
    Module {
        path: &'a Path,
        event: Event<'a>,
    },
    /// A note, which may not be UTF-8.
    Note {
        text: &'a [u8],
        event: Event<'a>,
    },
    Context {
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    },
    /// A thread is about to create another one.
    ThreadCreate {
        creation: u64,
        pointer: u64,
    },
    /// A thread starts. The caller fills in its parent.
    ThreadStart {
        creation: u64,
        event: Event<'a>,
    },
    ThreadExit {
        pointer: u64,
        event: Event<'a>,
    },
    /// Names of files changed.
    Name(NameChange<'a>),
    /// A record that is not part of the trace: about a file that was never mapped, or a process that does not exist.
    Unrelated,
}

/// Consumes decoded events. Its code is inlined once for each kind of event, where the branches for other kinds fall
/// away; a call for all kinds would need a second jump that cannot be predicted.
pub(crate) trait EventConsumer<'a> {
    type Output;

    fn consume(self, kind: EventKind<'a>) -> Self::Output;
}

/// Decodes accesses to memory and calls, which outnumber everything else, for `consumer`. Returns `None` for any other
/// kind of record. `watched` is the number of watched functions.
#[inline(always)]
pub(crate) fn decode_frequent<'a, C: EventConsumer<'a>>(
    head: &Record,
    payload: &'a [u8],
    watched: usize,
    consumer: C,
) -> Result<Option<C::Output>, Corruption> {
    let wrong_flags = Corruption::Flags {
        kind: head.kind,
        flags: head.flags,
    };
    let bytes = || match payload.get(..head.size as usize) {
        None | Some([]) => Err(wrong_payload(head)),
        Some(bytes) => Ok(bytes),
    };
    let addr = Address(head.addr);
    Ok(Some(match head.kind {
        kind::STORE => consumer.consume(EventKind::Store {
            addr,
            bytes: bytes()?,
            flavor: store_flavor(head.flags).ok_or(wrong_flags)?,
            locked: head.flags & store::LOCKED != 0,
            string: head.flags & store::STRING != 0,
        }),
        kind::LOAD => consumer.consume(EventKind::Load {
            addr,
            bytes: bytes()?,
        }),
        kind::FLUSH => consumer.consume(EventKind::Flush {
            addr,
            kind: match head.flags & !flush::VOLATILE {
                flush::CLFLUSH => FlushKind::Clflush,
                flush::CLFLUSHOPT => FlushKind::Clflushopt,
                flush::CLWB => FlushKind::Clwb,
                _ => return Err(wrong_flags),
            },
            volatile: head.flags & flush::VOLATILE != 0,
        }),
        kind::FENCE => consumer.consume(EventKind::Fence {
            kind: match head.flags {
                fence::SFENCE => FenceKind::Sfence,
                fence::MFENCE => FenceKind::Mfence,
                fence::LOCKED => FenceKind::Locked,
                _ => return Err(wrong_flags),
            },
        }),
        kind::CALL => consumer.consume(EventKind::Call {
            function: function(head, watched)?,
            args: call_arguments(head, payload)?,
        }),
        kind::RETURN => consumer.consume(EventKind::Return {
            function: function(head, watched)?,
            value: match payload.get(..head.size as usize) {
                Some([]) => None,
                Some(result) => match *words(head, result)? {
                    [value, second] => Some([value, second].map(u64::from_ne_bytes)),
                    _ => return Err(wrong_payload(head)),
                },
                None => return Err(wrong_payload(head)),
            },
        }),
        _ => return Ok(None),
    }))
}

/// A payload of whole words.
#[inline]
fn words<'a>(head: &Record, payload: &'a [u8]) -> Result<&'a [[u8; 8]], Corruption> {
    match payload.as_chunks() {
        (words, []) => Ok(words),
        _ => Err(wrong_payload(head)),
    }
}

#[inline]
fn call_arguments(head: &Record, payload: &[u8]) -> Result<CallArguments, Corruption> {
    let payload = payload.get(..head.size as usize);
    let words = words(head, payload.ok_or(wrong_payload(head))?)?;
    let mut values = [0; CallArguments::MAX];
    let values = values.get_mut(..words.len()).ok_or(wrong_payload(head))?;
    for (value, word) in values.iter_mut().zip(words) {
        *value = u64::from_ne_bytes(*word);
    }
    Ok(CallArguments::new(values))
}

/// The event of `kind` with the process, thread, site and context of a record.
#[inline(always)]
pub(crate) fn event<'a>(owner: &SlotOwner, head: &Record, kind: EventKind<'a>) -> Event<'a> {
    Event {
        index: EventIndex(head.seq),
        process: ProcessId(owner.process),
        thread: ThreadId(owner.tid),
        pc: AppPc(head.pc),
        context: ContextId(head.context),
        kind,
    }
}

/// Builds a complete [`Event`] from the decoded kind.
pub(crate) struct WholeEvent<'r> {
    pub(crate) owner: &'r SlotOwner,
    pub(crate) head: &'r Record,
}

impl<'a> EventConsumer<'a> for WholeEvent<'_> {
    type Output = Event<'a>;

    fn consume(self, kind: EventKind<'a>) -> Event<'a> {
        event(self.owner, self.head, kind)
    }
}

fn wrong_payload(head: &Record) -> Corruption {
    Corruption::Payload {
        kind: head.kind,
        size: head.size.into(),
    }
}

/// Decodes a record of any kind, whose length has been checked. `watched` is the number of watched functions, and
/// `file_number` looks up the files that were mapped so far.
pub(crate) fn decode<'a>(
    owner: &SlotOwner,
    head: &Record,
    payload: &'a [u8],
    watched: usize,
    file_number: impl Fn(FileIdentity) -> Option<FileId>,
) -> Result<Decoded<'a>, Corruption> {
    if let Some(event) = decode_frequent(head, payload, watched, WholeEvent { owner, head })? {
        return Ok(Decoded::Event(event));
    }
    let wrong_flags = Corruption::Flags {
        kind: head.kind,
        flags: head.flags,
    };
    let wrong = wrong_payload(head);
    let mut payload = Payload {
        bytes: payload.get(..head.size as usize).ok_or(wrong)?,
        wrong,
    };
    let process = ProcessId(owner.process);
    let event = |kind| event(owner, head, kind);
    let addr = Address(head.addr);

    let kind = match head.kind {
        kind::KERNEL_WRITE => EventKind::KernelWrite {
            addr,
            bytes: payload.rest_not_empty()?,
            syscall: head.flags,
        },
        kind::FILE_WRITE => {
            let (identity, offset) = payload.file_at()?;
            let Some(file) = file_number(identity) else {
                return Ok(Decoded::Unrelated);
            };
            EventKind::FileWrite {
                file,
                offset,
                bytes: payload.rest_not_empty()?,
                syscall: head.flags,
            }
        }
        kind::FILE_RESIZE => {
            let (identity, len) = payload.file_at()?;
            let Some(file) = file_number(identity) else {
                return Ok(Decoded::Unrelated);
            };
            EventKind::FileResize { file, len }
        }
        kind::SYNC => {
            let (identity, offset) = payload.file_at()?;
            let len = payload.u64()?;
            let file = || file_number(identity);
            let sync = match head.flags & !sync::ASYNC {
                sync::MSYNC => Some(Sync::Msync {
                    addr,
                    len,
                    asynchronous: head.flags & sync::ASYNC != 0,
                }),
                sync::FSYNC => file().map(|file| Sync::Fsync { file }),
                sync::FDATASYNC => file().map(|file| Sync::Fdatasync { file }),
                sync::SYNC_FILE_RANGE => {
                    file().map(|file| Sync::SyncFileRange { file, offset, len })
                }
                sync::SYNCFS => file().map(|file| Sync::Syncfs { file }),
                _ => return Err(wrong_flags),
            };
            match sync {
                Some(sync) => EventKind::Sync(sync),
                None => return Ok(Decoded::Unrelated),
            }
        }
        kind::MAP => {
            let (file, mapping) = payload.mapping(addr)?;
            let path = payload.path();
            return Ok(Decoded::Map {
                file,
                path,
                event: event(EventKind::Map(mapping)),
            });
        }
        kind::UNMAP => EventKind::Unmap {
            addr,
            len: payload.u64()?,
        },
        kind::REMAP => EventKind::Remap {
            old: addr,
            old_len: payload.u64()?,
            new: Address(payload.u64()?),
            new_len: payload.u64()?,
        },
        kind::CONTENT => {
            let (identity, offset) = payload.file_at()?;
            let unknown = Corruption::File {
                dev: identity.dev,
                ino: identity.ino,
            };
            let file = file_number(identity).ok_or(unknown)?;
            EventKind::Content {
                file,
                offset,
                bytes: payload.rest_not_empty()?,
            }
        }
        kind::CONTEXT => {
            return Ok(Decoded::Context {
                process,
                context: ContextId(head.context),
                parent: ContextId(payload.u32()?),
                return_address: AppPc(head.addr),
            });
        }
        kind::MODULE => {
            let (len, file_offset) = (payload.u64()?, payload.u64()?);
            let path = payload.path();
            let kind = EventKind::Module {
                addr,
                len,
                file_offset,
                path,
                build_id: &[],
            };
            return Ok(Decoded::Module {
                path,
                event: event(kind),
            });
        }
        kind::NAME => {
            return Ok(Decoded::Name(
                payload.name_change(head.flags)?.ok_or(wrong_flags)?,
            ));
        }
        kind::NO_PROCESS => return Ok(Decoded::Unrelated),
        kind::THREAD_CREATE => {
            return Ok(Decoded::ThreadCreate {
                creation: head.addr,
                pointer: payload.u64()?,
            });
        }
        kind::THREAD_START => {
            return Ok(Decoded::ThreadStart {
                creation: head.addr,
                event: event(EventKind::ThreadStart { parent: None }),
            });
        }
        kind::THREAD_EXIT => {
            return Ok(Decoded::ThreadExit {
                pointer: head.addr,
                event: event(EventKind::ThreadExit),
            });
        }
        kind::PROCESS_START => payload.process_start()?,
        kind::PROCESS_EXIT => EventKind::ProcessExit {
            end: ProcessEnd::Exited {
                status: head.addr as i32,
            },
        },
        kind::NOTE => {
            let kind = EventKind::Note { text: "" };
            return Ok(Decoded::Note {
                text: payload.bytes,
                event: event(kind),
            });
        }
        kind::PROTECT => EventKind::Protect {
            addr,
            len: payload.u64()?,
            writable: match head.flags {
                0 => false,
                1 => true,
                _ => return Err(wrong_flags),
            },
        },
        kind => return Err(Corruption::Kind { kind }),
    };
    Ok(Decoded::Event(event(kind)))
}

/// The watched function that a record is about, by its number in the table.
#[inline]
fn function(head: &Record, watched: usize) -> Result<FunctionId, Corruption> {
    let number = head.addr;
    if number < watched as u64 {
        Ok(FunctionId(number as u32))
    } else {
        Err(Corruption::Function { number })
    }
}

fn store_flavor(flags: u16) -> Option<StoreFlavor> {
    const KNOWN: u16 = store::NON_TEMPORAL | store::DIRECT | store::LOCKED | store::STRING;
    if flags & !KNOWN != 0 {
        None
    } else if flags & store::DIRECT != 0 {
        Some(StoreFlavor::Direct)
    } else if flags & store::NON_TEMPORAL != 0 {
        Some(StoreFlavor::NonTemporal)
    } else {
        Some(StoreFlavor::Temporal)
    }
}

/// The rest of a payload, and the error to report if it is too short.
struct Payload<'a> {
    bytes: &'a [u8],
    wrong: Corruption,
}

impl<'a> Payload<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corruption> {
        let (first, rest) = self.bytes.split_first_chunk().ok_or(self.wrong)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, Corruption> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Corruption> {
        self.array().map(u64::from_ne_bytes)
    }

    fn rest_not_empty(&mut self) -> Result<&'a [u8], Corruption> {
        if self.bytes.is_empty() {
            Err(self.wrong)
        } else {
            Ok(self.bytes)
        }
    }

    /// The rest as a path, up to the first NUL if there is one.
    fn path(&mut self) -> &'a Path {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.bytes.len());
        let path = Path::new(OsStr::from_bytes(&self.bytes[..end]));
        self.bytes = self.bytes.get(end + 1..).unwrap_or_default();
        path
    }

    /// A [`brownout_ring::FileAt`]: the file, and the offset in it.
    fn file_at(&mut self) -> Result<(FileIdentity, u64), Corruption> {
        let identity = FileIdentity {
            dev: self.u64()?,
            ino: self.u64()?,
        };
        Ok((identity, self.u64()?))
    }

    /// The change of names in a record with these flags; `None` if there are no such flags.
    fn name_change(&mut self, flags: u16) -> Result<Option<NameChange<'a>>, Corruption> {
        let (file, _) = self.file_at()?;
        let old = self.path();
        let new = self.path();
        Ok(Some(match flags & !name::REPLACED_UNKNOWN {
            name::RENAMED => NameChange::Renamed {
                old,
                new,
                replaced_unknown: flags & name::REPLACED_UNKNOWN != 0,
            },
            name::EXCHANGED => NameChange::Exchanged { old, new },
            name::LINKED => NameChange::Linked { file, new },
            name::UNLINKED => NameChange::Unlinked { old },
            _ => return Ok(None),
        }))
    }

    /// A [`brownout_ring::Map`].
    fn mapping(&mut self, addr: Address) -> Result<(FileIdentity, Mapping), Corruption> {
        let (identity, offset) = self.file_at()?;
        let (len, file_len) = (self.u64()?, self.u64()?);
        let (prot, flags, facts, _) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        let mapping = Mapping {
            addr,
            len,
            file: FileId::default(),
            offset,
            file_len,
            prot,
            flags,
            dax: facts & map::DAX != 0,
            snapshot: facts & map::SNAPSHOT != 0,
        };
        Ok((identity, mapping))
    }

    /// A [`brownout_ring::ProcessStart`], the path and the arguments.
    fn process_start(&mut self) -> Result<EventKind<'a>, Corruption> {
        let (pid, parent_pid, parent) = (self.u32()?, self.u32()?, self.u32()?);
        let origin = match self.u32()? {
            origin::EXEC => ProcessOrigin::Exec,
            origin::FORK => ProcessOrigin::Fork,
            _ => return Err(self.wrong),
        };
        Ok(EventKind::ProcessStart {
            pid,
            parent_pid,
            parent: (parent != u32::MAX).then_some(ProcessId(parent)),
            origin,
            exe: self.path(),
            args: Arguments::from_bytes(self.bytes),
        })
    }
}

#[cfg(test)]
mod tests;
