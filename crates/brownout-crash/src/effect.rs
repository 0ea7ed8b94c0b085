//! What an event of a trace does to persistent memory, in the terms of the persistency model.

use std::ops::Range;

use brownout_model::{
    Access, FlushEffect, PmAddress, Profile, SpaceId, StoreHistoryBuilder, StoreKind, ThreadSlot,
    Time,
};
use brownout_trace::selection::Selection;
use brownout_trace::{
    Address, Definitions, Event, EventKind, FileId, FileRange, FlushKind, ProcessId, StoreFlavor,
    Sync, ThreadId,
};
use rustc_hash::FxHashMap;

/// An effect on persistent memory.
#[derive(Clone, Debug)]
pub enum Effect<'e> {
    Fence,
    /// In a mapping.
    Store {
        at: PmAddress,
        bytes: &'e [u8],
        kind: StoreKind,
    },
    Flush {
        at: PmAddress,
        effect: FlushEffect,
    },
    WriteBack {
        space: SpaceId,
        range: Range<u64>,
    },
    /// The kernel wrote these bytes to a file, in place of what was stored there.
    Replace {
        at: PmAddress,
        bytes: &'e [u8],
    },
    /// A file lost these bytes.
    Remove {
        space: SpaceId,
        range: Range<u64>,
    },
}

impl Effect<'_> {
    /// Whether the files have another content afterwards, whatever reaches persistent memory.
    pub fn changes_content(&self) -> bool {
        matches!(
            self,
            Self::Store { .. } | Self::Replace { .. } | Self::Remove { .. }
        )
    }
}

impl<'e> Effect<'e> {
    /// The bytes that have another content afterwards.
    pub fn changed_bytes(&self) -> Option<(SpaceId, Range<u64>)> {
        match self {
            Self::Store { at, bytes, .. } | Self::Replace { at, bytes } => {
                let end = at.offset.saturating_add(bytes.len() as u64);
                Some((at.space, at.offset..end))
            }
            Self::Remove { space, range } => Some((*space, range.clone())),
            Self::Fence | Self::Flush { .. } | Self::WriteBack { .. } => None,
        }
    }

    /// The same effect in another space; `None` if there is none for it.
    pub fn moved(self, space_of: impl Fn(SpaceId) -> Option<SpaceId>) -> Option<Self> {
        let moved = |at: PmAddress| {
            let space = space_of(at.space)?;
            Some(PmAddress { space, ..at })
        };
        Some(match self {
            Self::Fence => Self::Fence,
            Self::Store { at, bytes, kind } => Self::Store {
                at: moved(at)?,
                bytes,
                kind,
            },
            Self::Flush { at, effect } => Self::Flush {
                at: moved(at)?,
                effect,
            },
            Self::WriteBack { space, range } => Self::WriteBack {
                space: space_of(space)?,
                range,
            },
            Self::Replace { at, bytes } => Self::Replace {
                at: moved(at)?,
                bytes,
            },
            Self::Remove { space, range } => Self::Remove {
                space: space_of(space)?,
                range,
            },
        })
    }
}

/// Adds an effect of an event to the history of its run.
pub fn add_to_history(
    history: &mut StoreHistoryBuilder,
    threads: &mut Threads,
    event: &Event<'_>,
    effect: Effect<'_>,
) {
    let by = Access {
        thread: threads.of(event, || history.add_thread()),
        time: Time(event.index.0),
    };
    match effect {
        Effect::Fence => history.fence(by),
        Effect::Flush { at, effect } => history.flush(by, at, effect),
        Effect::WriteBack { space, range } => history.write_back(by, space, range),
        Effect::Remove { space, range } => history.remove(by.time, space, range),
        Effect::Store { at, bytes, kind } => history.store(by, at, bytes, kind),
        Effect::Replace { at, bytes } => history.replace(by.time, at, bytes),
    }
}

/// Gives the effects of an event to `take`, in order.
pub fn effects<'e>(
    event: &Event<'e>,
    definitions: &Definitions,
    selection: &Selection,
    profile: &Profile,
    mut take: impl FnMut(Effect<'e>),
) {
    let fences = profile.needs_fences();
    let resolve = |addr: Address, len: u64| {
        let process = definitions.process(event.process)?;
        let range = process.address_space().resolve(addr, len)?;
        selection.is_persistent(range.file).then_some(range)
    };
    match event.kind {
        EventKind::Store {
            addr,
            bytes,
            flavor,
            locked,
            ..
        } => {
            if locked && fences {
                // A locked instruction is a fence before it is a store.
                take(Effect::Fence);
            }
            let kind = match flavor {
                StoreFlavor::NonTemporal | StoreFlavor::Direct => StoreKind::NonTemporal,
                _ => StoreKind::Cached,
            };
            store(addr, bytes, kind, resolve, take);
        }
        EventKind::KernelWrite { addr, bytes, .. } => {
            store(addr, bytes, StoreKind::Cached, resolve, take);
        }
        EventKind::Flush { addr, kind, .. } if fences => {
            if let Some(range) = resolve(addr, 1) {
                let effect = match kind {
                    FlushKind::Clflush => FlushEffect::Immediate,
                    _ => FlushEffect::Deferred,
                };
                let at = address(range.file, range.offset);
                take(Effect::Flush { at, effect });
            }
        }
        EventKind::Fence { .. } if fences => take(Effect::Fence),
        EventKind::Sync(sync) => write_back(event, definitions, sync, take),
        EventKind::FileWrite {
            file,
            offset,
            bytes,
            ..
        } if selection.is_persistent(file) => {
            let at = address(file, offset);
            take(Effect::Replace { at, bytes });
        }
        EventKind::FileResize { file, len } if selection.is_persistent(file) => {
            let (space, range) = (SpaceId(file.0), len..u64::MAX);
            take(Effect::Remove { space, range });
        }
        _ => {}
    }
}

fn store<'e>(
    mut addr: Address,
    mut bytes: &'e [u8],
    kind: StoreKind,
    resolve: impl Fn(Address, u64) -> Option<FileRange>,
    mut take: impl FnMut(Effect<'e>),
) {
    while let Some(range) = resolve(addr, bytes.len() as u64).filter(|_| !bytes.is_empty()) {
        let (now, later) = bytes.split_at(range.len as usize);
        take(Effect::Store {
            at: address(range.file, range.offset),
            bytes: now,
            kind,
        });
        addr = Address(addr.0.wrapping_add(range.len));
        bytes = later;
    }
}

fn write_back<'e>(
    event: &Event<'e>,
    definitions: &Definitions,
    sync: Sync,
    mut take: impl FnMut(Effect<'e>),
) {
    let mut take = |file: FileId, range| {
        let space = SpaceId(file.0);
        take(Effect::WriteBack { space, range });
    };
    match sync {
        Sync::Msync {
            addr,
            len,
            asynchronous: false,
        } => {
            let Some(process) = definitions.process(event.process) else {
                return;
            };
            let (mut addr, mut left) = (addr, len);
            while left > 0 {
                let Some(range) = process.address_space().resolve(addr, left) else {
                    break;
                };
                let end = range.offset.saturating_add(range.len);
                take(range.file, range.offset..end);
                addr = Address(addr.0.wrapping_add(range.len));
                left -= range.len.min(left);
            }
        }
        Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
            take(file, 0..u64::MAX);
        }
        // These begin to write back and do not wait for the end.
        _ => {}
    }
}

/// A place in a file, to the model.
pub fn address(file: FileId, offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(file.0),
        offset,
    }
}

/// The threads of a run, as the model numbers them.
#[derive(Debug, Default)]
pub struct Threads(FxHashMap<(ProcessId, ThreadId), ThreadSlot>);

impl Threads {
    /// The thread of an event; `add` numbers a new one.
    pub fn of(&mut self, event: &Event<'_>, add: impl FnOnce() -> ThreadSlot) -> ThreadSlot {
        let key = (event.process, event.thread);
        *self.0.entry(key).or_insert_with(add)
    }
}
