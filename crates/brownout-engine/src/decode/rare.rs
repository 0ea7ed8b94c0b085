//! Decodes the records that are neither accesses to memory nor calls.

use super::{Decoded, event, wrong_flags};
use crate::decode::payload::Payload;
use crate::file_use::FileUse;
use crate::slot_owner::SlotOwner;
use crate::stream::Corruption;
use brownout_ring::{Record, kind, lock, sync};
use brownout_trace::{
    Address, AppPc, ContextId, EventKind, FileId, FileIdentity, ProcessEnd, ProcessId, Sync,
};

/// A record, and what is left of its payload.
pub(super) struct RareRecord<'r, 'a> {
    pub(super) owner: &'r SlotOwner,
    pub(super) head: &'r Record,
    pub(super) payload: Payload<'a>,
}

impl<'a> RareRecord<'_, 'a> {
    /// A record that is a whole event.
    pub(super) fn event(mut self) -> Result<Decoded<'a>, Corruption> {
        let (head, payload) = (self.head, &mut self.payload);
        let addr = Address(head.addr);
        let kind = match head.kind {
            kind::KERNEL_WRITE => EventKind::KernelWrite {
                addr,
                bytes: payload.rest_not_empty()?,
                syscall: head.flags,
            },
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
            kind::PROTECT => EventKind::Protect {
                addr,
                len: payload.u64()?,
                writable: match head.flags {
                    0 => false,
                    1 => true,
                    _ => return Err(wrong_flags(head)),
                },
            },
            kind::LOCK_ACQUIRE => lock_acquire(addr, head)?,
            kind::LOCK_RELEASE => lock_release(addr, head)?,
            kind::PROCESS_START => payload.process_start()?,
            kind::PROCESS_EXIT => EventKind::ProcessExit {
                end: match head.flags {
                    0 => ProcessEnd::Exited {
                        status: head.addr as i32,
                    },
                    signal => ProcessEnd::Signaled {
                        signal: signal.into(),
                    },
                },
            },
            kind => return Err(Corruption::Kind { kind }),
        };
        Ok(Decoded::Event(event(self.owner, head, kind)))
    }

    /// The use of a file, which is no event.
    pub(super) fn file_use(mut self) -> Result<Decoded<'a>, Corruption> {
        let (file, len) = (self.payload.file_at()?, self.payload.u64()?);
        let file_use = FileUse::of_record(self.head.flags, file, len);
        let file_use = file_use.ok_or_else(|| wrong_flags(self.head))?;
        Ok(Decoded::FileUse(file_use))
    }

    /// A record that the caller completes, or that is no event.
    pub(super) fn incomplete(mut self) -> Result<Decoded<'a>, Corruption> {
        let (head, payload) = (self.head, &mut self.payload);
        let event = |kind| event(self.owner, head, kind);
        let addr = Address(head.addr);
        Ok(match head.kind {
            kind::MAP => {
                let (file, mapping) = payload.mapping(addr)?;
                Decoded::Map {
                    file,
                    path: payload.path(),
                    event: event(EventKind::Map(mapping)),
                }
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
                Decoded::Module {
                    path,
                    event: event(kind),
                }
            }
            kind::CONTEXT => Decoded::Context {
                process: ProcessId(self.owner.process),
                context: ContextId(head.context),
                parent: ContextId(payload.u32()?),
                return_address: AppPc(head.addr),
            },
            kind::NAME => {
                let change = payload.name_change(head.flags)?;
                Decoded::Name {
                    change: change.ok_or(wrong_flags(head))?,
                    event: event(EventKind::Note { text: "" }),
                }
            }
            kind::THREAD_CREATE => Decoded::ThreadCreate {
                creation: head.addr,
                pointer: payload.u64()?,
            },
            kind::THREAD_START => Decoded::ThreadStart {
                creation: head.addr,
                event: event(EventKind::ThreadStart { parent: None }),
            },
            kind::THREAD_EXIT => Decoded::ThreadExit {
                pointer: head.addr,
                event: event(EventKind::ThreadExit),
            },
            kind::NOTE => Decoded::Note {
                text: payload.bytes,
                event: event(EventKind::Note { text: "" }),
            },
            kind => return Err(Corruption::Kind { kind }),
        })
    }

    /// A system call on a file, which matters only if the file was mapped.
    pub(super) fn of_file(
        mut self,
        file_number: impl Fn(FileIdentity) -> Option<FileId>,
    ) -> Result<Decoded<'a>, Corruption> {
        let (head, payload) = (self.head, &mut self.payload);
        let (identity, offset) = payload.file_at()?;
        let file = file_number(identity);
        let kind = match head.kind {
            kind::SYNC => {
                let range = (offset, payload.u64()?);
                self.sync(file, range)?.map(EventKind::Sync)
            }
            kind::FILE_RESIZE => file.map(|file| EventKind::FileResize { file, len: offset }),
            _ => match file {
                Some(file) => Some(EventKind::FileWrite {
                    file,
                    offset,
                    bytes: payload.rest_not_empty()?,
                    syscall: head.flags,
                }),
                None => None,
            },
        };
        Ok(match kind {
            Some(kind) => Decoded::Event(event(self.owner, head, kind)),
            None => Decoded::Unrelated,
        })
    }

    /// A system call that makes `len` bytes at `offset`, or all, of a file durable. `None` if it concerns no mapped file.
    fn sync(
        &self,
        file: Option<FileId>,
        (offset, len): (u64, u64),
    ) -> Result<Option<Sync>, Corruption> {
        let flags = self.head.flags;
        Ok(match flags & !sync::ASYNC {
            sync::MSYNC => Some(Sync::Msync {
                addr: Address(self.head.addr),
                len,
                asynchronous: flags & sync::ASYNC != 0,
            }),
            sync::FSYNC => file.map(|file| Sync::Fsync { file }),
            sync::FDATASYNC => file.map(|file| Sync::Fdatasync { file }),
            sync::SYNC_FILE_RANGE => file.map(|file| Sync::SyncFileRange { file, offset, len }),
            sync::SYNCFS => file.map(|file| Sync::Syncfs { file }),
            _ => return Err(wrong_flags(self.head)),
        })
    }

    /// What a file held when it was mapped.
    pub(super) fn content(
        mut self,
        file_number: impl Fn(FileIdentity) -> Option<FileId>,
    ) -> Result<Decoded<'a>, Corruption> {
        let (identity, offset) = self.payload.file_at()?;
        let unknown = Corruption::File {
            dev: identity.dev,
            ino: identity.ino,
        };
        let kind = EventKind::Content {
            file: file_number(identity).ok_or(unknown)?,
            offset,
            bytes: self.payload.rest_not_empty()?,
        };
        Ok(Decoded::Event(event(self.owner, self.head, kind)))
    }
}

fn lock_acquire(word: Address, head: &Record) -> Result<EventKind<'static>, Corruption> {
    let size = head.flags >> lock::SIZE_SHIFT;
    let flags = head.flags & ((1 << lock::SIZE_SHIFT) - 1);
    match (size, flags) {
        (1..=8, 0 | lock::SHARED) => Ok(EventKind::LockAcquire {
            word,
            size: size as u8,
            shared: flags == lock::SHARED,
        }),
        _ => Err(wrong_flags(head)),
    }
}

fn lock_release(word: Address, head: &Record) -> Result<EventKind<'static>, Corruption> {
    match head.flags {
        0 | lock::SHARED | lock::EXCHANGED => Ok(EventKind::LockRelease {
            word,
            shared: head.flags == lock::SHARED,
            exchanged: head.flags == lock::EXCHANGED,
        }),
        _ => Err(wrong_flags(head)),
    }
}
