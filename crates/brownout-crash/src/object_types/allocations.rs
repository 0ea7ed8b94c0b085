//! Objects that calls of allocators give: where they are, and which objects are of one type according to the program.
//!
//! libpmemobj lets programs number their types. A type that debug information gives to one object of a number is that of the others.
//! Without debug information, the number itself is a type; without a number, the call is.

use std::collections::BTreeMap;

use brownout_libraries::{Purpose, TxFunction};
use brownout_symbols::DataTypeId;
use brownout_trace::{
    Address, CallArguments, Definitions, Event, EventKind, FileId, FunctionId, ProcessId, ThreadId,
};
use rustc_hash::FxHashMap;

use super::store_addresses::{ModuleOffset, StoreAddresses};

/// What the objects of an allocation have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AllocationClass {
    /// The number of their type, in the pool with this file.
    Number(FileId, u64),
    /// The code that the call returns to, if it is in a module, and their size.
    Call(Option<ModuleOffset>, u64),
}

/// An allocated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) class: AllocationClass,
}

/// What a call did to the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeapChange {
    Allocated { file: FileId, start: u64, size: u64 },
    Freed { file: FileId, start: u64 },
}

#[derive(Debug)]
struct OpenAllocation {
    function: FunctionId,
    called: TxFunction,
    args: CallArguments,
    /// Where it returns to.
    caller: Option<ModuleOffset>,
}

/// The allocated objects at a time of the run.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    functions: FxHashMap<FunctionId, Option<TxFunction>>,
    open: FxHashMap<(ProcessId, ThreadId), Vec<OpenAllocation>>,
    /// The pool of the innermost transaction.
    pools: FxHashMap<(ProcessId, ThreadId), u64>,
    objects: FxHashMap<FileId, BTreeMap<u64, Allocation>>,
    types: FxHashMap<AllocationClass, DataTypeId>,
}

impl Allocations {
    /// Takes the next call or return.
    pub(super) fn observe(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        addresses: &mut StoreAddresses,
    ) -> Option<HeapChange> {
        let thread = (event.process, event.thread);
        match event.kind {
            EventKind::Call { function, args } => {
                let called = self.meaning(function, definitions)?;
                if called == TxFunction::Begin {
                    self.pools.insert(thread, args.get(0));
                }
                let mut callers = definitions.context_frames(event.process, event.context);
                let caller = callers.next();
                let caller = caller
                    .and_then(|caller| addresses.location(definitions, event.process, caller));
                self.open.entry(thread).or_default().push(OpenAllocation {
                    function,
                    called,
                    args,
                    caller,
                });
                None
            }
            EventKind::Return { function, value } => {
                self.meaning(function, definitions)?;
                let open = self.open.get_mut(&thread)?;
                let at = open.iter().rposition(|call| call.function == function)?;
                let call = open.drain(at..).next()?;
                self.change(event, &call, value?, definitions)
            }
            _ => None,
        }
    }

    fn meaning(&mut self, function: FunctionId, definitions: &Definitions) -> Option<TxFunction> {
        *self.functions.entry(function).or_insert_with(|| {
            let name = definitions.function(function)?;
            match brownout_libraries::function(name)?.purpose {
                Purpose::Transaction(called) => Some(called),
                _ => None,
            }
        })
    }

    fn change(
        &mut self,
        event: &Event<'_>,
        call: &OpenAllocation,
        result: [u64; 2],
        definitions: &Definitions,
    ) -> Option<HeapChange> {
        let thread = (event.process, event.thread);
        let pool = self.pools.get(&thread).copied().unwrap_or(0);
        let arguments = call.args.as_slice();
        let process = definitions.process(event.process)?;
        let in_file = |address: u64| process.address_space().resolve(Address(address), 1);
        if let Some(freed) = call.called.freed(pool, arguments, result) {
            let at = in_file(freed)?;
            self.objects.entry(at.file).or_default().remove(&at.offset);
            return Some(HeapChange::Freed {
                file: at.file,
                start: at.offset,
            });
        }
        let (address, size) = call.called.object(pool, arguments, result)?;
        let at = in_file(address)?;
        let number = call
            .called
            .type_number(arguments)
            .filter(|&number| number != 0);
        let class = match number {
            Some(number) => AllocationClass::Number(at.file, number),
            None => AllocationClass::Call(call.caller, size),
        };
        let (file, start) = (at.file, at.offset);
        // The root object is returned again and again, and keeps what it holds.
        let known = self.at(file, start);
        let is_again = call.called == TxFunction::Root && known.is_some_and(|k| k.start == start);
        if is_again {
            return None;
        }
        let objects = self.objects.entry(file).or_default();
        let end = start.saturating_add(size);
        let gone: Vec<u64> = objects.range(start..end).map(|(&at, _)| at).collect();
        for at in gone {
            objects.remove(&at);
        }
        objects.insert(start, Allocation { start, size, class });
        Some(HeapChange::Allocated { file, start, size })
    }

    /// The allocated object with the bytes at `offset`.
    pub(super) fn at(&self, file: FileId, offset: u64) -> Option<Allocation> {
        let (_, found) = self.objects.get(&file)?.range(..=offset).next_back()?;
        (offset - found.start < found.size).then_some(*found)
    }

    /// Learns that an object of this type starts at the start of an allocation.
    pub(super) fn learn(&mut self, class: AllocationClass, ty: DataTypeId) {
        self.types.insert(class, ty);
    }

    /// The type of the objects of a class, if one of them has been seen.
    pub(super) fn type_of(&self, class: AllocationClass) -> Option<DataTypeId> {
        self.types.get(&class).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use brownout_trace::{AppPc, ContextId, EventIndex, Mapping};

    use super::*;

    const POOL: u64 = 0x10_0000;
    const FILE: FileId = FileId(3);
    const FUNCTIONS: [&str; 4] = [
        "pmemobj_tx_begin",
        "pmemobj_tx_alloc",
        "pmemobj_tx_free",
        "pmemobj_root_construct",
    ];

    /// A process with a pool, and the calls that it makes.
    struct Heap {
        definitions: Definitions,
        allocations: Allocations,
        addresses: StoreAddresses,
    }

    fn event(kind: EventKind<'_>) -> Event<'_> {
        Event {
            index: EventIndex(0),
            process: ProcessId(0),
            thread: ThreadId(1),
            pc: AppPc(0x1000),
            context: ContextId::ROOT,
            kind,
        }
    }

    impl Heap {
        fn new() -> Self {
            let mut definitions = Definitions::default();
            for (number, name) in (0..).zip(FUNCTIONS) {
                definitions.define_function(FunctionId(number), name);
            }
            definitions.apply(&event(EventKind::Map(Mapping {
                addr: Address(POOL),
                len: 0x1_0000,
                file: FILE,
                offset: 0,
                file_len: 0x1_0000,
                prot: 3,
                flags: 1,
                dax: true,
                snapshot: true,
            })));
            let mut heap = Self {
                definitions,
                allocations: Allocations::default(),
                addresses: StoreAddresses::new(Path::new("/")),
            };
            heap.call("pmemobj_tx_begin", &[POOL, 0], [0, 0]);
            heap
        }

        fn call(&mut self, name: &str, args: &[u64], result: [u64; 2]) -> Option<HeapChange> {
            let number = FUNCTIONS.iter().position(|known| *known == name).unwrap();
            let function = FunctionId(number as u32);
            let args = CallArguments::new(args);
            let value = Some(result);
            let events = [
                event(EventKind::Call { function, args }),
                event(EventKind::Return { function, value }),
            ];
            let Self {
                definitions,
                allocations,
                addresses,
            } = self;
            let changes = events.map(|event| allocations.observe(&event, definitions, addresses));
            assert_eq!(changes[0], None);
            changes[1]
        }
    }

    #[test]
    fn an_allocated_object_lasts_until_it_is_freed() {
        let mut heap = Heap::new();
        let change = heap.call("pmemobj_tx_alloc", &[48, 7], [1, 0x400]);
        let (file, start, size) = (FILE, 0x400, 48);
        assert_eq!(change, Some(HeapChange::Allocated { file, start, size }));
        let class = AllocationClass::Number(FILE, 7);
        let expected = Allocation { start, size, class };
        assert_eq!(heap.allocations.at(FILE, 0x42f), Some(expected));
        assert_eq!(heap.allocations.at(FILE, 0x430), None);
        let change = heap.call("pmemobj_tx_free", &[1, 0x400], [0, 0]);
        assert_eq!(change, Some(HeapChange::Freed { file, start }));
        assert_eq!(heap.allocations.at(FILE, 0x400), None);
    }

    #[test]
    fn objects_without_a_type_number_are_of_the_type_of_their_call() {
        let mut heap = Heap::new();
        heap.call("pmemobj_tx_alloc", &[48, 0], [1, 0x400]);
        heap.call("pmemobj_tx_alloc", &[64, 0], [1, 0x500]);
        let class = |at| heap.allocations.at(FILE, at).unwrap().class;
        assert_ne!(class(0x400), class(0x500));
        assert!(matches!(class(0x400), AllocationClass::Call(_, 48)));
    }

    #[test]
    fn the_root_object_is_allocated_once() {
        let mut heap = Heap::new();
        assert!(
            heap.call("pmemobj_root_construct", &[POOL, 64], [1, 0x800])
                .is_some()
        );
        assert_eq!(
            heap.call("pmemobj_root_construct", &[POOL, 64], [1, 0x800]),
            None
        );
    }
}
