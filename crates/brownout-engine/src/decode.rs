//! Decodes a record on the wire into an event of the trace.
//!
//! The bytes come from a process that may have overwritten its own ring. Every field is checked; an impossible value is
//! reported as a [`Corruption`] and never causes a panic.

mod payload;
mod rare;

use crate::decode::payload::Payload;
use crate::decode::rare::RareRecord;
use crate::file_names::NameChange;
use crate::file_use::FileUse;
use crate::slot_owner::SlotOwner;
use crate::stream::Corruption;
use brownout_ring::{Record, fence, flush, kind, store};
use brownout_trace::{
    Address, AppPc, CallArguments, ContextId, Event, EventIndex, EventKind, FenceKind, FileId,
    FileIdentity, FlushKind, FunctionId, ProcessId, StoreFlavor, ThreadId,
};
use std::path::Path;

// Passed on as it is.
const _: () = assert!(brownout_ring::FOLDED_RECURSION == brownout_trace::FOLDED_RECURSION.0);
const _: () = assert!(brownout_ring::FAILED_SYNC.len() == brownout_trace::FAILED_SYNC_NOTE.len());

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
    Name {
        change: NameChange<'a>,
        /// A note of the thread that made the change, without text.
        event: Event<'a>,
    },
    /// A file was opened or read.
    FileUse(FileUse),
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
    let wrong_flags = wrong_flags(head);
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

fn wrong_flags(head: &Record) -> Corruption {
    Corruption::Flags {
        kind: head.kind,
        flags: head.flags,
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
    let wrong = wrong_payload(head);
    let payload = Payload {
        bytes: payload.get(..head.size as usize).ok_or(wrong)?,
        wrong,
    };
    let record = RareRecord {
        owner,
        head,
        payload,
    };
    match head.kind {
        kind::FILE_WRITE | kind::FILE_RESIZE | kind::SYNC => record.of_file(file_number),
        kind::CONTENT => record.content(file_number),
        kind::MAP
        | kind::CONTEXT
        | kind::MODULE
        | kind::NAME
        | kind::THREAD_CREATE
        | kind::THREAD_START
        | kind::THREAD_EXIT
        | kind::NOTE => record.incomplete(),
        kind::FILE_USE => record.file_use(),
        kind::NO_PROCESS => Ok(Decoded::Unrelated),
        _ => record.event(),
    }
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
    const KNOWN: u16 =
        store::NON_TEMPORAL | store::DIRECT | store::LOCKED | store::STRING | store::MODIFIES;
    if flags & !KNOWN != 0 {
        None
    } else if flags & store::DIRECT != 0 {
        Some(StoreFlavor::Direct)
    } else if flags & store::NON_TEMPORAL != 0 {
        Some(StoreFlavor::NonTemporal)
    } else if flags & (store::MODIFIES | store::LOCKED) == store::MODIFIES {
        Some(StoreFlavor::Modifying)
    } else {
        Some(StoreFlavor::Temporal)
    }
}

#[cfg(test)]
mod tests;
