//! Objects that calls of allocators give: where they are, and which objects are of one type according to the program.
//!
//! libpmemobj lets programs number their types. A type that debug information gives to one object of a number is that of the others.
//! Without debug information, the number itself is a type; without a number, the call is.
//!
//! Can miss: where an object is whose identifier the program stores in volatile memory, and that such an object is freed: it ends when its
//! memory is allocated again; what a call that moves an object leaves behind.

use std::collections::BTreeMap;

use brownout_libraries::{Function, HeapCall, HeapEffect, HeapFunction, TxFunction, heap_function};
use brownout_symbols::DataTypeId;
use brownout_trace::{
    Address, Definitions, Event, EventKind, FileId, FunctionId, ProcessId, ThreadId,
};
use rustc_hash::FxHashMap;

use super::store_addresses::{ModuleOffset, StoreAddresses};

/// The functions whose calls have to be in the trace for the objects that they allocate and free to be known.
pub fn heap_functions() -> impl Iterator<Item = &'static Function> {
    let functions = brownout_libraries::functions();
    functions.filter(|function| heap_function(function.name).is_some())
}

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
    /// Distinguishes objects that have used the same memory one after the other; 0 for the first.
    pub(super) generation: u32,
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
    call: HeapCall,
    /// Where it returns to.
    caller: Option<ModuleOffset>,
}

/// The allocated objects at a time of the run.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    functions: FxHashMap<FunctionId, Option<HeapFunction>>,
    open: FxHashMap<(ProcessId, ThreadId), Vec<OpenAllocation>>,
    /// The pool of the innermost transaction.
    pools: FxHashMap<(ProcessId, ThreadId), u64>,
    objects: FxHashMap<FileId, BTreeMap<u64, Allocation>>,
    /// The objects whose identifiers calls have stored, by the addresses of these.
    identified: FxHashMap<(ProcessId, u64), u64>,
    /// Where objects were, with the generation of the next one there, to which stores before an allocation returns belong.
    freed: FxHashMap<FileId, BTreeMap<u64, Allocation>>,
    /// How many objects have ended.
    ended: u32,
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
                let meaning = self.meaning(function, definitions)?;
                if meaning == HeapFunction::Transaction(TxFunction::Begin) {
                    self.pools.insert(thread, args.get(0));
                }
                let call = HeapCall::new(meaning, args.as_slice());
                if let Some(freed) = call.freed() {
                    return self.apply(event, freed, None, definitions);
                }
                let mut callers = definitions.context_frames(event.process, event.context);
                let caller = callers.next();
                let caller = caller
                    .and_then(|caller| addresses.location(definitions, event.process, caller));
                self.open.entry(thread).or_default().push(OpenAllocation {
                    function,
                    call,
                    caller,
                });
                None
            }
            EventKind::Return { function, value } => {
                self.meaning(function, definitions)?;
                let open = self.open.get_mut(&thread)?;
                let at = open.iter().rposition(|call| call.function == function)?;
                let open = open.drain(at..).next()?;
                let pool = self.pools.get(&thread).copied().unwrap_or(0);
                let effect = open.call.returned(pool, value?)?;
                self.apply(event, effect, Some(&open), definitions)
            }
            EventKind::Store { addr, bytes, .. } => {
                let open = self.open.get_mut(&thread).into_iter().flatten();
                open.for_each(|open| open.call.stored(addr.0, bytes));
                None
            }
            _ => None,
        }
    }

    fn meaning(&mut self, function: FunctionId, definitions: &Definitions) -> Option<HeapFunction> {
        let known = self.functions.entry(function);
        *known.or_insert_with(|| heap_function(definitions.function(function)?))
    }

    fn apply(
        &mut self,
        event: &Event<'_>,
        effect: HeapEffect,
        open: Option<&OpenAllocation>,
        definitions: &Definitions,
    ) -> Option<HeapChange> {
        let process = definitions.process(event.process)?;
        let in_file = |address: u64| process.address_space().resolve(Address(address), 1);
        let freed = match effect {
            HeapEffect::Freed { address } => Some(address),
            HeapEffect::FreedIdentified { identifier } => {
                Some(self.identified.remove(&(event.process, identifier))?)
            }
            HeapEffect::Allocated { .. } => None,
        };
        if let Some(freed) = freed {
            let at = in_file(freed)?;
            return Some(self.end(at.file, at.offset));
        }
        let (HeapEffect::Allocated { address, size }, Some(open)) = (effect, open) else {
            return None;
        };
        if let Some(identifier) = open.call.identifier() {
            let place = (event.process, identifier);
            self.identified.insert(place, address);
        }
        let at = in_file(address)?;
        let (file, start) = (at.file, at.offset);
        let Some(size) = size else {
            // Something else begins there.
            return Some(self.end(file, start));
        };
        let class = match open.call.type_number() {
            Some(number) => AllocationClass::Number(file, number),
            None => AllocationClass::Call(open.caller, size),
        };
        // The root object is returned again and again, and keeps what it holds.
        let known = self.at(file, start);
        let is_root = open.call.function() == HeapFunction::Transaction(TxFunction::Root);
        if is_root && known.is_some_and(|known| known.start == start) {
            return None;
        }
        // What is there, and is not known to be freed, has ended.
        let range = start..start.saturating_add(size);
        let objects = self.objects.entry(file).or_default();
        let gone: Vec<u64> = objects.range(range.clone()).map(|(&at, _)| at).collect();
        for at in gone {
            self.end(file, at);
        }
        let freed = self.freed.entry(file).or_default();
        let before: Vec<Allocation> = freed.range(range).map(|(_, freed)| *freed).collect();
        for freed_object in &before {
            freed.remove(&freed_object.start);
        }
        let generations = before.iter().map(|freed| freed.generation);
        let allocation = Allocation {
            start,
            size,
            class,
            generation: generations.max().unwrap_or(0),
        };
        let objects = self.objects.entry(file).or_default();
        objects.insert(start, allocation);
        Some(HeapChange::Allocated { file, start, size })
    }

    /// Ends the object at an offset.
    fn end(&mut self, file: FileId, start: u64) -> HeapChange {
        if let Some(ended) = self.objects.entry(file).or_default().remove(&start) {
            self.ended = self.ended.saturating_add(1);
            let next = Allocation {
                generation: self.ended,
                ..ended
            };
            self.freed.entry(file).or_default().insert(start, next);
        }
        HeapChange::Freed { file, start }
    }

    /// Where the object with the bytes at `offset` starts that is allocated there now or next, and its generation.
    pub(super) fn generation(&self, file: FileId, offset: u64) -> Option<(u64, u32)> {
        let freed = || around(self.freed.get(&file)?, offset);
        let found = self.at(file, offset).or_else(freed)?;
        Some((found.start, found.generation))
    }

    /// The allocated object with the bytes at `offset`.
    pub(super) fn at(&self, file: FileId, offset: u64) -> Option<Allocation> {
        around(self.objects.get(&file)?, offset)
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

/// The object with the bytes at `offset`.
fn around(objects: &BTreeMap<u64, Allocation>, offset: u64) -> Option<Allocation> {
    let (_, found) = objects.range(..=offset).next_back()?;
    (offset - found.start < found.size).then_some(*found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use brownout_trace::{AppPc, CallArguments, ContextId, EventIndex, Mapping, StoreFlavor};

    use super::*;

    const POOL: u64 = 0x10_0000;
    const FILE: FileId = FileId(3);
    const FUNCTIONS: [&str; 6] = [
        "pmemobj_tx_begin",
        "pmemobj_tx_alloc",
        "pmemobj_tx_free",
        "pmemobj_root_construct",
        "pmemobj_zalloc",
        "pmemobj_free",
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
            self.call_storing(name, args, result, (0, &[]))
        }

        /// A call that stores bytes at an address.
        fn call_storing(
            &mut self,
            name: &str,
            args: &[u64],
            result: [u64; 2],
            (addr, bytes): (u64, &[u8]),
        ) -> Option<HeapChange> {
            let number = FUNCTIONS.iter().position(|known| *known == name).unwrap();
            let function = FunctionId(number as u32);
            let args = CallArguments::new(args);
            let value = Some(result);
            let events = [
                event(EventKind::Call { function, args }),
                event(EventKind::Store {
                    addr: Address(addr),
                    bytes,
                    flavor: StoreFlavor::Temporal,
                    locked: false,
                    string: false,
                }),
                event(EventKind::Return { function, value }),
            ];
            let Self {
                definitions,
                allocations,
                addresses,
            } = self;
            let changes = events.map(|event| allocations.observe(&event, definitions, addresses));
            let mut changes = changes.into_iter().flatten();
            let change = changes.next();
            assert_eq!(changes.next(), None);
            change
        }
    }

    #[test]
    fn an_allocated_object_lasts_until_it_is_freed() {
        let mut heap = Heap::new();
        let change = heap.call("pmemobj_tx_alloc", &[48, 7], [1, 0x400]);
        let (file, start, size) = (FILE, 0x400, 48);
        assert_eq!(change, Some(HeapChange::Allocated { file, start, size }));
        let class = AllocationClass::Number(FILE, 7);
        let expected = Allocation {
            start,
            size,
            class,
            generation: 0,
        };
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
    fn objects_outside_of_transactions_are_known_by_their_identifiers() {
        let mut heap = Heap::new();
        let identifier = POOL + 0x40;
        let offset = 0x400_u64.to_le_bytes();
        let zalloc = [POOL, identifier, 48, 7];
        let change =
            heap.call_storing("pmemobj_zalloc", &zalloc, [0, 0], (identifier + 8, &offset));
        let (file, start, size) = (FILE, 0x400, 48);
        assert_eq!(change, Some(HeapChange::Allocated { file, start, size }));
        let class = heap.allocations.at(FILE, 0x400).unwrap().class;
        assert_eq!(class, AllocationClass::Number(FILE, 7));
        let change = heap.call("pmemobj_free", &[identifier], [0, 0]);
        assert_eq!(change, Some(HeapChange::Freed { file, start }));
        assert_eq!(heap.allocations.at(FILE, 0x400), None);
        // Whose identifier it is is not known.
        assert_eq!(heap.call("pmemobj_free", &[identifier], [0, 0]), None);
    }

    #[test]
    fn memory_that_is_allocated_again_is_another_object() {
        let mut heap = Heap::new();
        let mut generations = Vec::new();
        for is_freed in [true, false, true] {
            // What a constructor stores belongs to the object.
            let before = heap.allocations.generation(FILE, 0x410);
            heap.call("pmemobj_tx_alloc", &[48, 7], [1, 0x400]);
            let generation = heap.allocations.generation(FILE, 0x410);
            if generations.len() == 1 {
                assert_eq!(before, generation);
            }
            generations.extend(generation);
            if is_freed {
                heap.call("pmemobj_tx_free", &[1, 0x400], [0, 0]);
            }
        }
        generations.dedup();
        assert_eq!(generations.len(), 3);
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
