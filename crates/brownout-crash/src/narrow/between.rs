//! The stores between two images, in the order of the run.

use brownout_trace::{Address, Definitions, Event, EventIndex, EventKind};

use crate::failure_point::StackId;
use crate::image::LostBytes;
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;
use crate::symbols::Symbols;

/// Stores that are held in memory for one search in one direction.
const MOST_STORES: usize = 1 << 15;

/// Consecutive stores of one calling context.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) stack: Option<StackId>,
    /// How far the workload was before these stores.
    pub(super) operation: Operation,
    pub(super) changes: Vec<Change>,
    /// Whether lint names one of these stores.
    pub(super) is_suspected: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) event: EventIndex,
    /// Number of the file.
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

impl From<LostBytes> for Change {
    fn from(lost: LostBytes) -> Self {
        Self {
            event: lost.event,
            file: lost.file,
            offset: lost.offset,
            bytes: lost.bytes,
        }
    }
}

/// The stores between two images.
#[derive(Clone, Debug, Default)]
pub(super) struct Between {
    pub(super) units: Vec<Unit>,
    pub(super) stores: usize,
    /// How far the workload was after all of them.
    pub(super) operation: Operation,
    /// A file changed its length, or there were too many stores: later stores are missing.
    cut: bool,
}

impl Between {
    /// Takes the next event; `operation` is how far the workload is. `is_suspected`: lint names the store.
    pub(super) fn take(
        &mut self,
        event: &Event<'_>,
        (operation, is_suspected): (Operation, bool),
        definitions: &Definitions,
        files: &PersistentFiles,
        symbols: &mut dyn Symbols,
    ) {
        if self.cut {
            return;
        }
        self.operation = operation;
        let changes = match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                stored(event, addr, bytes, definitions, files)
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            }
            | EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let known = definitions.file(file);
                let number = known.and_then(|known| files.number_of(&known.path));
                let change = number.map(|file| Change {
                    event: event.index,
                    file,
                    offset,
                    bytes: bytes.to_vec(),
                });
                change.into_iter().collect()
            }
            EventKind::FileResize { file, .. } => {
                let known = definitions.file(file);
                self.cut |= known.is_some_and(|known| files.number_of(&known.path).is_some());
                return;
            }
            _ => return,
        };
        if changes.is_empty() {
            return;
        }
        let stack = symbols.stack(event, definitions);
        self.add(stack, (operation, is_suspected), changes);
    }

    /// Adds a store.
    pub(super) fn add(
        &mut self,
        stack: Option<StackId>,
        (operation, is_suspected): (Operation, bool),
        changes: Vec<Change>,
    ) {
        if self.stores == MOST_STORES {
            self.cut = true;
            return;
        }
        self.stores += 1;
        self.operation = operation;
        match self.units.last_mut() {
            Some(unit) if unit.stack == stack && unit.operation == operation => {
                unit.changes.extend(changes);
                unit.is_suspected |= is_suspected;
            }
            _ => self.units.push(Unit {
                stack,
                operation,
                changes,
                is_suspected,
            }),
        }
    }

    pub(super) fn has_stores(&self) -> bool {
        !self.units.is_empty()
    }

    /// Whether the stores lead all the way from one image to the other.
    pub(super) fn is_whole(&self) -> bool {
        self.has_stores() && !self.cut
    }
}

/// A store as changes of files; it may cross the end of a mapping.
fn stored(
    event: &Event<'_>,
    addr: Address,
    bytes: &[u8],
    definitions: &Definitions,
    files: &PersistentFiles,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let Some(process) = definitions.process(event.process) else {
        return changes;
    };
    let (mut addr, mut rest) = (addr, bytes);
    while let Some(range) = process.address_space().resolve(addr, rest.len() as u64) {
        let (now, later) = rest.split_at(range.len as usize);
        let known = definitions.file(range.file);
        if let Some(file) = known.and_then(|known| files.number_of(&known.path)) {
            changes.push(Change {
                event: event.index,
                file,
                offset: range.offset,
                bytes: now.to_vec(),
            });
        }
        if later.is_empty() {
            break;
        }
        addr = Address(addr.0.wrapping_add(range.len));
        rest = later;
    }
    changes
}
