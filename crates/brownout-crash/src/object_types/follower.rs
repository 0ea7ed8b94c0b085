//! Follows the events of a run and determines what each store changes.
//!
//! The code of a store says what its pointer points to; the map of live objects finds the outer object, and the object where the code
//! does not say enough: an index into an array, a copy. Pointers that are stored extend the map.

use std::path::Path;

use brownout_symbols::{AccessedPart, DataTypeId, DataTypes, PointerTypes, Shape};
use brownout_trace::selection::Selection;
use brownout_trace::{
    Address, ContextId, Definitions, Event, EventIndex, EventKind, FileId, ProcessId, ThreadId,
};
use rustc_hash::FxHashMap;

use super::allocations::{Allocations, HeapChange};
use super::fields::{Fields, ReferenceAt};
use super::live_objects::{LiveObject, LiveObjects, ObjectEvidence};
use super::store_addresses::{StoreAddress, StoreAddresses};
use super::structural::{AllocatedStore, Structural};
use super::{ObjectId, StoreTypes, TypeId, TypeSource, TypedStore};

/// How many stores wait for a better one of the same calling context, at most.
const LONGEST_WAIT: usize = 4096;

/// A store to a persistent file.
#[derive(Clone, Copy, Debug)]
struct FollowedStore {
    event: EventIndex,
    at: ObjectId,
    len: u64,
    address: StoreAddress,
    /// The start and the generation of the allocated object that it changes.
    allocated: Option<(u64, u32)>,
}

impl FollowedStore {
    /// The generation of the object at `start` that it changes: 0 if that is not, or not only, what a call has allocated.
    fn generation(&self, start: u64) -> u32 {
        let inside = self.allocated.filter(|&(allocated, _)| start >= allocated);
        inside.map_or(0, |(_, generation)| generation)
    }
}

/// Stores of one calling context whose object is not known yet. A copy may store its end before its start.
#[derive(Debug, Default)]
struct Waiting {
    context: ContextId,
    stores: Vec<FollowedStore>,
}

/// Determines the types of the stores of a run.
pub(super) struct Follower<'s> {
    selection: &'s Selection,
    addresses: StoreAddresses,
    fields: Fields,
    live: LiveObjects,
    allocations: Allocations,
    waiting: FxHashMap<(ProcessId, ThreadId), Waiting>,
    allocated: Vec<AllocatedStore>,
    /// Stores to objects that were not known when they were stored to. They may be at the end.
    early: Vec<FollowedStore>,
    structural: Structural,
    result: StoreTypes,
}

impl<'s> Follower<'s> {
    pub(super) fn new(selection: &'s Selection, directory: &Path) -> Self {
        Self {
            selection,
            addresses: StoreAddresses::new(directory),
            fields: Fields::default(),
            live: LiveObjects::default(),
            allocations: Allocations::default(),
            waiting: FxHashMap::default(),
            allocated: Vec::new(),
            early: Vec::new(),
            structural: Structural::default(),
            result: StoreTypes::default(),
        }
    }

    pub(super) fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.addresses.observe(event);
        match event.kind {
            EventKind::Store { addr, bytes, .. } => {
                (self.allocations).observe(event, definitions, &mut self.addresses);
                let address = self.addresses.of(event, definitions);
                self.mapped(event, definitions, addr, bytes, address);
            }
            EventKind::KernelWrite { addr, bytes, .. } => {
                self.mapped(event, definitions, addr, bytes, StoreAddress::Unknown);
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let at = ObjectId { file, offset };
                self.store(event, definitions, at, bytes, StoreAddress::Unknown);
            }
            EventKind::Call { .. } | EventKind::Return { .. } => {
                let change = (self.allocations).observe(event, definitions, &mut self.addresses);
                match change {
                    Some(HeapChange::Allocated { file, start, size }) => {
                        self.live.end(file, start, size);
                    }
                    Some(HeapChange::Freed { file, start }) => self.live.end(file, start, 1),
                    None => {}
                }
            }
            _ => {}
        }
    }

    fn mapped(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        addr: Address,
        bytes: &[u8],
        address: StoreAddress,
    ) {
        let Some(process) = definitions.process(event.process) else {
            return;
        };
        if let Some(range) = process.address_space().resolve(addr, bytes.len() as u64) {
            let at = ObjectId {
                file: range.file,
                offset: range.offset,
            };
            self.store(event, definitions, at, bytes, address);
        }
    }

    fn store(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        at: ObjectId,
        bytes: &[u8],
        address: StoreAddress,
    ) {
        if bytes.is_empty() || !self.selection.is_persistent(at.file) {
            return;
        }
        let thread = (event.process, event.thread);
        let waiting = self.waiting.entry(thread).or_default();
        if waiting.context != event.context && !waiting.stores.is_empty() {
            let stores = std::mem::take(&mut waiting.stores);
            self.settle(&stores);
        }
        let store = FollowedStore {
            event: event.index,
            at,
            len: bytes.len() as u64,
            address,
            allocated: self.allocations.generation(at.file, at.offset),
        };
        match self.object_of(&store) {
            Some(object) => {
                let source = TypeSource::DebugInfo;
                let references = self.add_typed(&store, object, source);
                self.follow_references(event, definitions, &references, at.file, bytes);
            }
            None => {
                let waiting = self.waiting.entry(thread).or_default();
                waiting.context = event.context;
                waiting.stores.push(store);
                if waiting.stores.len() >= LONGEST_WAIT {
                    let stores = std::mem::take(&mut waiting.stores);
                    self.settle(&stores);
                }
            }
        }
    }

    /// The outermost object that a store changes, if that can be decided now.
    fn object_of(&mut self, store: &FollowedStore) -> Option<LiveObject> {
        let at = store.at;
        let known = self.live.at(at.file, at.offset);
        let StoreAddress::Object { ty, offset, stride } = store.address else {
            return known;
        };
        let types = &self.addresses.pointers.types;
        match types.part(ty, offset, stride) {
            Some(AccessedPart::At(within)) if is_object(types, ty) => {
                let start = at.offset.checked_sub(within)?;
                let object = ObjectId {
                    offset: start,
                    ..at
                };
                let size = within + store.len;
                let found = self.live.add(object, ty, size, ObjectEvidence::Used, types);
                self.learn(at.file, found);
                found
            }
            Some(AccessedPart::InElement {
                element, within, ..
            }) => {
                let is_element = |known: &LiveObject| {
                    let start = (at.offset - known.start).checked_sub(within);
                    start.is_some_and(|start| types.contains(known.ty, start, element))
                };
                if known.as_ref().is_some_and(is_element) {
                    return known;
                }
                if let Some(allocation) = self.allocations.at(at.file, at.offset)
                    && is_element(&LiveObject {
                        start: allocation.start,
                        size: allocation.size,
                        ty,
                    })
                {
                    let object = ObjectId {
                        offset: allocation.start,
                        ..at
                    };
                    let size = at.offset - allocation.start + store.len;
                    let found = (self.live).add(object, ty, size, ObjectEvidence::Used, types);
                    self.learn(at.file, found);
                    return found;
                }
                if !is_object(types, element) {
                    return known;
                }
                let object = ObjectId {
                    offset: at.offset.checked_sub(within)?,
                    ..at
                };
                let size = within + store.len;
                (self.live).add(object, element, size, ObjectEvidence::Used, types)
            }
            _ => known,
        }
    }

    /// Learns the type of an allocation from an object at its start.
    fn learn(&mut self, file: FileId, object: Option<LiveObject>) {
        if let Some(object) = object
            && let Some(allocation) = self.allocations.at(file, object.start)
            && allocation.start == object.start
        {
            self.allocations.learn(allocation.class, object.ty);
        }
    }

    /// Adds a store to the result. Returns which of its words refer to other objects.
    fn add_typed(
        &mut self,
        store: &FollowedStore,
        object: LiveObject,
        source: TypeSource,
    ) -> Vec<ReferenceAt> {
        let FollowedStore { event, at, len, .. } = *store;
        let generation = store.generation(object.start);
        let (types, names) = (&mut self.addresses.pointers.types, &mut self.result.names);
        let ty = self.fields.type_of(object.ty, types, names);
        let offset = at.offset - object.start;
        let found = self.fields.at(object.ty, offset, len, types, names);
        let references = found.references.clone();
        let store = TypedStore {
            object: ObjectId {
                file: at.file,
                offset: object.start,
            },
            ty,
            field: found.field,
            indices: found.indices.clone(),
            generation,
        };
        self.result.add(event, store, source);
        references
    }

    /// Notes the objects that stored pointers and identifiers refer to.
    fn follow_references(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        references: &[ReferenceAt],
        file: FileId,
        bytes: &[u8],
    ) {
        let types = &self.addresses.pointers.types;
        for reference in references {
            let word = bytes.get(reference.offset..).and_then(<[u8]>::first_chunk);
            let value = word.map_or(0, |word| u64::from_le_bytes(*word));
            let target = if value == 0 {
                None
            } else if reference.is_identifier {
                Some((file, value))
            } else {
                let process = definitions.process(event.process);
                let range = process.and_then(|process| {
                    let space = process.address_space();
                    space.resolve(Address(value), 1)
                });
                range.map(|range| (range.file, range.offset))
            };
            if let Some((file, offset)) = target
                && self.selection.is_persistent(file)
                && is_object(types, reference.target)
            {
                let at = ObjectId { file, offset };
                self.live
                    .add(at, reference.target, 0, ObjectEvidence::Referred, types);
            }
        }
    }

    /// Decides about stores that have waited for the rest of a copy.
    fn settle(&mut self, stores: &[FollowedStore]) {
        self.place_copies(stores);
        for store in stores {
            let FollowedStore { event, at, len, .. } = *store;
            if let Some(object) = self.live.at(at.file, at.offset) {
                self.add_typed(store, object, TypeSource::DebugInfo);
            } else if let Some(allocation) = self.allocations.at(at.file, at.offset) {
                self.allocated.push(AllocatedStore {
                    event,
                    file: at.file,
                    at: at.offset,
                    len,
                    allocation,
                });
            } else {
                self.early.push(*store);
            }
        }
    }

    /// Decides about stores whose object was not known at the time. A constructor, for one, may store through a pointer without a
    /// type, to an object that other code uses later.
    fn settle_early(&mut self) {
        for store in std::mem::take(&mut self.early) {
            let FollowedStore { event, at, len, .. } = store;
            if let Some(object) = self.live.at(at.file, at.offset) {
                self.add_typed(&store, object, TypeSource::DebugInfo);
            } else if let StoreAddress::Origin {
                origin,
                offset,
                stride,
            } = store.address
            {
                let through = (origin, offset, stride);
                self.structural.add(event, at, len, through);
            } else {
                self.result.add_untyped();
            }
        }
    }

    /// Adds the objects into which stores copy. A copy that stores byte after byte does not say where its object starts: it is
    /// taken to start at the lowest byte.
    fn place_copies(&mut self, stores: &[FollowedStore]) {
        let types = &self.addresses.pointers.types;
        let mut lowest: Vec<(StoreAddress, ObjectId)> = Vec::new();
        for store in stores {
            let known = lowest
                .iter_mut()
                .find(|(address, at)| *address == store.address && at.file == store.at.file);
            match known {
                Some((_, at)) => at.offset = at.offset.min(store.at.offset),
                None => lowest.push((store.address, store.at)),
            }
        }
        for (address, at) in lowest {
            if let StoreAddress::Object { ty, offset, .. } = address
                && let Some(AccessedPart::At(within)) = types.part(ty, offset, 0)
                && let Some(start) = at.offset.checked_sub(within)
                && is_object(types, ty)
            {
                let object = ObjectId {
                    offset: start,
                    ..at
                };
                self.live.add(object, ty, 0, ObjectEvidence::Used, types);
            }
        }
    }

    /// Stores to an object of which it became known later that it is part of another one are stores to that one.
    fn add_outer_objects(&mut self) {
        const DEEPEST: usize = 8;
        let (types, fields) = (&self.addresses.pointers.types, &mut self.fields);
        let mut outer: FxHashMap<(ObjectId, TypeId), (DataTypeId, FileId, LiveObject)> =
            FxHashMap::default();
        for &(file, inner, around) in &self.live.absorbed {
            let ty = fields.type_of(inner.ty, types, &mut self.result.names);
            let offset = inner.start;
            outer.insert((ObjectId { file, offset }, ty), (inner.ty, file, around));
        }
        self.result.improve(|store, names| {
            let mut found: Option<TypedStore> = None;
            for _ in 0..DEEPEST {
                let store = found.as_ref().unwrap_or(store);
                let Some(&(inner, file, around)) = outer.get(&(store.object, store.ty)) else {
                    break;
                };
                found = Some(fields.in_outer(store, inner, (file, around), types, names)?);
            }
            found
        });
    }

    /// Ends the run.
    pub(super) fn finish(mut self) -> (StoreTypes, PointerTypes) {
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            self.settle(&waiting.stores);
        }
        self.settle_early();
        self.add_outer_objects();
        for store in std::mem::take(&mut self.allocated) {
            let allocation = store.allocation;
            let followed = FollowedStore {
                event: store.event,
                at: ObjectId {
                    file: store.file,
                    offset: store.at,
                },
                len: store.len,
                address: StoreAddress::Unknown,
                allocated: Some((allocation.start, allocation.generation)),
            };
            let Some(ty) = self.allocations.type_of(allocation.class) else {
                let (addresses, result) = (&self.addresses, &mut self.result);
                self.structural.add_allocated(store, addresses, result);
                continue;
            };
            // Several objects may have been allocated at once, or one with a flexible array at its end.
            let types = &self.addresses.pointers.types;
            let size = types.get(ty).size.max(1);
            let within = store.at - allocation.start;
            let is_flexible = !types.path(ty, size, 1).is_empty();
            let is_array = allocation.size.is_multiple_of(size) && !is_flexible;
            let start = if is_array { within - within % size } else { 0 };
            let object = LiveObject {
                start: allocation.start + start,
                size,
                ty,
            };
            self.add_typed(&followed, object, TypeSource::Allocation);
        }
        self.structural.finish(&self.addresses, &mut self.result);
        self.result.finish();
        (self.result, self.addresses.pointers)
    }
}

/// Whether values of a type are objects of their own: those with fields or elements (§4.4.3).
fn is_object(types: &DataTypes, ty: DataTypeId) -> bool {
    matches!(
        types.get(ty).shape,
        Shape::Composite { .. } | Shape::Array { .. }
    )
}
