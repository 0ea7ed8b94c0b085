//! Calls of functions that synchronise or allocate, and locks that are recognised by their instructions.

use brownout_libraries::{LockFunction, OrderFunction};
use brownout_model::{Access, SpaceId, Time};
use brownout_trace::{
    Address, CallArguments, Definitions, Event, EventKind, FileRange, FunctionId, ProcessId,
};

use super::RaceDetector;
use crate::address_cache::AddressCache;
use crate::lifetimes::Knowledge;
use crate::locks::{LockName, LockOperation};
use crate::sites::TargetCode;
use crate::sync_functions::SyncMeaning;
use crate::synchronization::{Caller, apply_recognised};
use crate::threads::OpenCall;

impl<C: TargetCode> RaceDetector<C> {
    /// Takes a call, a return, or an operation on a recognised lock.
    pub(super) fn synchronize(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let by = (self.access(event), event.process);
        match event.kind {
            EventKind::Call { function, args } => self.called(by, function, args, definitions),
            EventKind::Return { function, value } => {
                self.returned(by, function, value, definitions);
            }
            EventKind::LockAcquire { word, size, .. } => {
                if let Some(known) = self.recognised.lock(event.index) {
                    let lock = lock_name(&mut self.addresses, by.1, word.0, definitions);
                    if let LockName::InFile { file, offset } = lock {
                        let len = size.into();
                        let word = FileRange { file, offset, len };
                        let words = &mut self.knowledge.lock_words;
                        words.acquired(word, by.0.thread, known);
                    }
                    let mode = known.mode;
                    let acquire = LockOperation::Acquire { lock, mode };
                    apply_recognised(by.0.thread, acquire, &mut self.knowledge);
                }
            }
            EventKind::LockRelease { word, .. } => {
                let lock = lock_name(&mut self.addresses, by.1, word.0, definitions);
                let release = LockOperation::Release { lock };
                apply_recognised(by.0.thread, release, &mut self.knowledge);
            }
            _ => {}
        }
    }

    fn called(
        &mut self,
        (by, process): (Access, ProcessId),
        function: FunctionId,
        args: CallArguments,
        definitions: &Definitions,
    ) {
        let allocations = &mut self.knowledge.threads[by.thread].allocations;
        let call = (function, args, by.time);
        allocations.called(call, &mut self.allocators, definitions);
        let Some(meaning) = self.functions.get(function, definitions) else {
            return;
        };
        let mut call = OpenCall::new(function, args, meaning);
        let addresses = &mut self.addresses;
        let name = |addr| lock_name(addresses, process, addr, definitions);
        let (caller, knowledge) = (Caller::from(by), &mut self.knowledge);
        self.synchronization
            .called(caller, meaning, args, knowledge, name, &mut call);
        knowledge.threads[by.thread].open.push(call);
    }

    fn returned(
        &mut self,
        (by, process): (Access, ProcessId),
        function: FunctionId,
        value: Option<[u64; 2]>,
        definitions: &Definitions,
    ) {
        let allocations = &mut self.knowledge.threads[by.thread].allocations;
        if let Some(allocation) = allocations.returned(function, value) {
            let (addr, len) = (allocation.addr, allocation.len);
            if let Some(object) = self.addresses.resolve(process, addr, len, definitions) {
                self.allocated(by, allocation.called, object);
            }
        }
        let Some(meaning) = self.functions.get(function, definitions) else {
            return;
        };
        let open = &mut self.knowledge.threads[by.thread].open;
        let Some(index) = open.iter().rposition(|call| call.function == function) else {
            return;
        };
        let call = open.remove(index);
        if matches!(meaning, SyncMeaning::Output) {
            self.knowledge.forced.sent(by);
        }
        let addresses = &mut self.addresses;
        let name = |addr| lock_name(addresses, process, addr, definitions);
        let value = value.map(|[value, _]| value);
        let (caller, knowledge) = (Caller::from(by), &mut self.knowledge);
        self.synchronization
            .returned(caller, meaning, call, value, knowledge, name);
    }
}

impl<C: TargetCode> RaceDetector<C> {
    /// A thread has allocated memory, by a call that began at `called`. Stores that others could see there before stay visible.
    fn allocated(&mut self, by: Access, called: Time, object: FileRange) {
        let Knowledge {
            lines, lock_words, ..
        } = &mut self.knowledge;
        let bytes = object.offset..object.offset.saturating_add(object.len);
        let space = SpaceId(object.file.0);
        self.tracker.retain(space, bytes, |address, _, store| {
            // What the call has stored belongs to the new object.
            if store.thread != by.thread || store.time < called {
                let line = lines.number(address);
                let visible = lines.visible(line);
                store.tag.seen = store.tag.seen.or(store.bytes.and(visible));
            }
            true
        });
        lock_words.allocated(object, by.time);
        self.publication.allocated(object, lines);
    }

    /// A thread that has made the held store goes on: another one may have waited meanwhile for a lock that it holds.
    pub(super) fn look_for_blocked(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let held = self.access(event).thread;
        if !self.knowledge.forced.is_held(held) {
            return;
        }
        let others = self.knowledge.threads.all();
        let calls: Vec<_> = others
            .filter(|other| other.key != (event.process, event.thread))
            .flat_map(|other| other.open.iter().map(|call| (other.key, *call)))
            .collect();
        for (waiter, call) in calls {
            let Some(
                SyncMeaning::Lock {
                    function: LockFunction::Exclusive | LockFunction::Shared,
                    argument,
                    ..
                }
                | SyncMeaning::Order {
                    function: OrderFunction::SemaphoreWait,
                    argument,
                },
            ) = self.functions.get(call.function, definitions)
            else {
                continue;
            };
            let addr = call.args.get(*argument);
            let name = lock_name(&mut self.addresses, waiter.0, addr, definitions);
            let Knowledge {
                threads,
                locks,
                forced,
                ..
            } = &mut self.knowledge;
            let lock = locks.find(name);
            if lock.is_some_and(|lock| threads[held].held.holds(lock))
                && let Some(waiter) = threads.last_with(waiter)
            {
                forced.waits(waiter, name);
            }
        }
    }
}

/// The lock, or another object that threads share, at an address.
fn lock_name(
    addresses: &mut AddressCache,
    process: ProcessId,
    addr: u64,
    definitions: &Definitions,
) -> LockName {
    let addr = Address(addr);
    match addresses.resolve(process, addr, 1, definitions) {
        Some(range) => LockName::InFile {
            file: range.file,
            offset: range.offset,
        },
        None => LockName::InMemory { process, addr },
    }
}

impl From<Access> for Caller {
    fn from(by: Access) -> Self {
        Caller {
            thread: by.thread,
            time: by.time,
        }
    }
}
