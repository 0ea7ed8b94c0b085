//! A recorded trace with the flushes and fences that a repair would add.
//!
//! This is the cheapest proof of a repair: nothing is executed, and every analysis of traces can judge the result. A repair adds its
//! operations after each execution of a statement ([`executions`](crate::executions)).
//!
//! It shows what the operations do, not that the edited source computes these addresses.

use std::io::{Read, Seek};

use brownout_trace::{
    Address, ContextId, Definitions, Event, EventKind, FOLDED_RECURSION, FenceKind, FlushKind,
    ProcessId, ReadError, Sync, TraceReader, TraceSink, TraceWriter, WriteError,
};
use rustc_hash::FxHashSet;

use crate::RepairOperation;
use crate::executions::{LINE, Membership, OpenExecutions, RepairedStatements, StatementExecution};

/// What a repair adds at each execution of its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedOperation {
    pub operation: RepairOperation,
    /// Syncs in place of flushes and fences.
    pub syncs: bool,
}

/// How many operations were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedCounts {
    pub flushes: u64,
    pub fences: u64,
    pub syncs: u64,
    pub removed_flushes: u64,
    pub removed_fences: u64,
    pub removed_syncs: u64,
    /// Stores in the course of statements that are removed.
    pub stores_in_removed: u64,
    /// For each repair, how often its statement was executed.
    pub executions: Vec<u64>,
}

/// Why a patched trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PatchedTraceError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Copies a trace and adds the operations of repairs.
pub fn write_patched<R: Read + Seek, S: TraceSink>(
    reader: &mut TraceReader<R>,
    sink: S,
    operations: &[AddedOperation],
    statements: &mut dyn RepairedStatements,
) -> Result<AddedCounts, PatchedTraceError> {
    let mut copy = TraceCopy {
        writer: TraceWriter::new(sink, reader.header())?,
        contexts: FxHashSet::default(),
        path_changes: usize::MAX,
    };
    let is_removed = |membership: &Membership| {
        operations[membership.repair].operation == RepairOperation::Removal
    };
    let mut open = OpenExecutions::default();
    let mut counts = AddedCounts {
        executions: vec![0; operations.len()],
        ..AddedCounts::default()
    };
    while let Some((event, definitions)) = reader.next_defined()? {
        let memberships = statements.memberships(&event, definitions);
        for execution in open.ended_by(&event, &memberships) {
            let added = operations[execution.repair];
            copy.add(&execution, added, &mut counts)?;
        }
        // What a removed statement does is gone, except the stores of a function that it calls, which callers have to look for.
        let removed = memberships.iter().any(is_removed);
        match (removed, &event.kind) {
            (true, EventKind::Store { .. }) => counts.stores_in_removed += 1,
            (true, EventKind::Flush { .. } | EventKind::Fence { .. } | EventKind::Sync(_)) => {
                match event.kind {
                    EventKind::Flush { .. } => counts.removed_flushes += 1,
                    EventKind::Fence { .. } => counts.removed_fences += 1,
                    _ => counts.removed_syncs += 1,
                }
                open.note(&event, &memberships);
                continue;
            }
            _ => {}
        }
        copy.write(&event, definitions)?;
        open.note(&event, &memberships);
    }
    copy.fold_recursion(reader.definitions())?;
    let ending = reader.summary().map(|summary| summary.ending.clone());
    copy.writer.finish(ending.unwrap_or_default())?;
    Ok(counts)
}

/// Writes events with the definitions that they refer to.
struct TraceCopy<S: TraceSink> {
    writer: TraceWriter<S>,
    contexts: FxHashSet<(ProcessId, ContextId)>,
    /// How often a path had changed when the files were last defined.
    path_changes: usize,
}

impl<S: TraceSink> TraceCopy<S> {
    fn write(&mut self, event: &Event<'_>, definitions: &Definitions) -> Result<(), WriteError> {
        let is_frequent = matches!(
            event.kind,
            EventKind::Store { .. }
                | EventKind::Load { .. }
                | EventKind::Flush { .. }
                | EventKind::Fence { .. }
        );
        let changes = definitions.path_changes().len();
        if !is_frequent || changes != self.path_changes {
            self.path_changes = changes;
            for file in definitions.files() {
                self.writer.file(file.identity, &file.path)?;
            }
        }
        if let EventKind::Call { .. } | EventKind::Return { .. } = event.kind {
            for (_, name) in definitions.functions() {
                self.writer.function(name)?;
            }
        }
        self.define_context(event.process, event.context, definitions)?;
        self.writer.write(event)?;
        Ok(())
    }

    fn define_context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        definitions: &Definitions,
    ) -> Result<(), WriteError> {
        let mut chain = Vec::new();
        let mut next = context;
        while next != ContextId::ROOT && self.contexts.insert((process, next)) {
            let known = definitions.process(process);
            let Some((parent, address)) = known.and_then(|known| known.context_caller(next)) else {
                break;
            };
            chain.push((next, parent, address));
            next = parent;
        }
        for (context, parent, address) in chain.into_iter().rev() {
            self.writer.context(process, context, parent, address)?;
        }
        Ok(())
    }

    fn fold_recursion(&mut self, definitions: &Definitions) -> Result<(), WriteError> {
        for process in definitions.processes() {
            for context in process.recursive_contexts() {
                self.writer
                    .context(process.id, context, context, FOLDED_RECURSION)?;
            }
        }
        Ok(())
    }

    /// Writes the operations that a repair adds after an execution of its statement.
    fn add(
        &mut self,
        execution: &StatementExecution,
        added: AddedOperation,
        counts: &mut AddedCounts,
    ) -> Result<(), WriteError> {
        counts.executions[execution.repair] += 1;
        let AddedOperation { operation, syncs } = added;
        if operation == RepairOperation::Removal {
            return Ok(());
        }
        let mut write = |kind| {
            let event = Event {
                kind,
                ..execution.last
            };
            self.writer.write(&event).map(|_| ())
        };
        if syncs {
            let Some((first, last)) = execution
                .lines
                .iter()
                .min()
                .zip(execution.lines.iter().max())
            else {
                return Ok(());
            };
            counts.syncs += 1;
            let page = first * LINE / 4096 * 4096;
            return write(EventKind::Sync(Sync::Msync {
                addr: Address(page),
                len: (last + 1) * LINE - page,
                asynchronous: false,
            }));
        }
        if operation.flushes() {
            for &line in &execution.lines {
                counts.flushes += 1;
                let addr = Address(line * LINE);
                write(EventKind::Flush {
                    addr,
                    kind: FlushKind::Clwb,
                    volatile: false,
                })?;
            }
        }
        if operation.fences() {
            counts.fences += 1;
            write(EventKind::Fence {
                kind: FenceKind::Sfence,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::time::SystemTime;

    use brownout_trace::{AppPc, Ending, EventIndex, Header, StoreFlavor, ThreadId};

    use super::*;

    /// Instructions at 1 belong to the statement itself, those at 2 to a library that it calls, others to other statements.
    struct ByAddress;

    impl RepairedStatements for ByAddress {
        fn memberships(&mut self, event: &Event<'_>, _: &Definitions) -> Vec<Membership> {
            let member = Membership {
                repair: 0,
                is_direct: event.pc.0 == 1,
                is_flushed: true,
                calls: 0,
            };
            match event.pc.0 {
                1 | 2 => vec![member],
                _ => Vec::new(),
            }
        }
    }

    fn store(pc: u64, addr: u64) -> Event<'static> {
        Event {
            index: EventIndex(0),
            process: ProcessId(0),
            thread: ThreadId(1),
            pc: AppPc(pc),
            context: ContextId::ROOT,
            kind: EventKind::Store {
                addr: Address(addr),
                bytes: &[0; 8],
                flavor: StoreFlavor::Temporal,
                locked: false,
                string: false,
            },
        }
    }

    /// What the patched trace does, a letter for each event.
    fn patched(events: &[Event<'_>], operation: RepairOperation) -> String {
        let header = Header {
            brownout_version: String::new(),
            command: Vec::new(),
            cwd: "/".into(),
            pm: Vec::new(),
            loads: false,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH,
        };
        let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
        for event in events {
            writer.write(event).unwrap();
        }
        let (_, bytes) = writer.finish(Ending::default()).unwrap();
        let mut reader = TraceReader::new(Cursor::new(bytes)).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        let added = AddedOperation {
            operation,
            syncs: false,
        };
        write_patched(
            &mut reader,
            path.reopen().unwrap(),
            &[added],
            &mut ByAddress,
        )
        .unwrap();
        let mut reader = TraceReader::open(path.path()).unwrap();
        let mut letters = String::new();
        while let Some(event) = reader.next().unwrap() {
            letters.push(match event.kind {
                EventKind::Store { .. } => 's',
                EventKind::Flush { .. } => 'f',
                EventKind::Fence { .. } => '|',
                _ => '?',
            });
        }
        letters
    }

    #[test]
    fn a_removed_statement_neither_flushes_nor_fences() {
        let at = |pc, kind| Event {
            kind,
            ..store(pc, 0x40)
        };
        let flush = EventKind::Flush {
            addr: Address(0x40),
            kind: FlushKind::Clwb,
            volatile: false,
        };
        let fence = EventKind::Fence {
            kind: FenceKind::Sfence,
        };
        let events = [
            store(3, 0x40),
            at(1, flush),
            at(2, fence),
            at(3, flush),
            at(3, fence),
        ];
        assert_eq!(patched(&events, RepairOperation::Removal), "sf|");
        assert_eq!(patched(&[store(1, 0x40)], RepairOperation::Removal), "s");
    }

    #[test]
    fn operations_follow_the_statement() {
        let events = [store(1, 0x40), store(3, 0x80)];
        assert_eq!(patched(&events, RepairOperation::FlushAndFence), "sf|s");
        assert_eq!(patched(&events, RepairOperation::Fence), "s|s");
    }

    #[test]
    fn each_iteration_is_an_execution_and_each_line_is_flushed_once() {
        let events = [store(1, 0x40), store(1, 0x48), store(3, 0)];
        assert_eq!(patched(&events, RepairOperation::Flush), "sfsfs");
        let copied = [store(2, 0x40), store(2, 0x48), store(2, 0x7c), store(3, 0)];
        assert_eq!(patched(&copied, RepairOperation::Flush), "sssffs");
    }
}
