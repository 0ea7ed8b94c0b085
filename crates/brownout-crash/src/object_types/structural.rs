//! Types without debug information: instructions that use the same objects belong to one type, and the offsets at which they store are
//! its fields.
//!
//! Each pointer that code computes (a parameter of a function, the result of an instruction) is a type at first. Two that point to the
//! start of the same object are one. Objects that an allocator has given have the type of their allocation instead.
//!
//! Can miss: a struct whose first member is another struct is one type with it, and so are types that use the same memory one
//! after the other.

use std::collections::BTreeMap;

use brownout_trace::{EventIndex, FileId};
use rustc_hash::FxHashMap;

use super::allocations::{Allocation, AllocationClass};
use super::names::FieldStep;
use super::store_addresses::{Origin, StoreAddresses};
use super::{ObjectId, StoreTypes, TypeId, TypeSource, TypedStore};

/// The smallest distance of array elements that are taken for objects. Smaller ones are those of copies.
const SMALLEST_ELEMENT: u64 = 8;

/// How far before a store through an index its object can start, and how many objects are looked at.
const FARTHEST: u64 = 4096;
const MOST_NEIGHBOURS: usize = 16;

/// A store whose type is inferred at the end.
#[derive(Clone, Copy, Debug)]
struct InferredStore {
    event: EventIndex,
    file: FileId,
    at: u64,
    len: u32,
    origin: u32,
    offset: i64,
    stride: u64,
}

/// A store into an allocated object.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllocatedStore {
    pub(super) event: EventIndex,
    pub(super) file: FileId,
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) allocation: Allocation,
}

/// Stores whose types are inferred at the end.
#[derive(Debug, Default)]
pub(super) struct Structural {
    origins: FxHashMap<Origin, u32>,
    /// Of each origin, another one of the same type; itself if there is none yet.
    parents: Vec<u32>,
    examples: Vec<Origin>,
    stores: Vec<InferredStore>,
    types: FxHashMap<AllocationClass, TypeId>,
}

/// The bytes of the objects of a type that are stored to, relative to the pointers to them.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: i64,
    end: i64,
}

/// The object and field that a store is found to change.
#[derive(Clone, Copy, Debug)]
struct FieldPlace {
    class: u32,
    /// What pointers to the object hold, as an offset in the file.
    pointer: u64,
    /// The offset of the field from there.
    offset: i64,
    /// The index, if the field is an array.
    index: Option<u32>,
}

impl Structural {
    /// Adds a store through a pointer of this origin.
    pub(super) fn add(
        &mut self,
        event: EventIndex,
        at: ObjectId,
        len: u64,
        (origin, offset, stride): (Origin, i64, u64),
    ) {
        let Self {
            origins,
            parents,
            examples,
            ..
        } = self;
        let number = *origins.entry(origin).or_insert_with(|| {
            let number = u32::try_from(parents.len()).expect("fewer than 2³² origins");
            parents.push(number);
            examples.push(origin);
            number
        });
        self.stores.push(InferredStore {
            event,
            file: at.file,
            at: at.offset,
            len: u32::try_from(len).unwrap_or(u32::MAX),
            origin: number,
            offset,
            stride,
        });
    }

    fn root(&mut self, mut origin: u32) -> u32 {
        while self.parents[origin as usize] != origin {
            let parent = self.parents[origin as usize];
            self.parents[origin as usize] = self.parents[parent as usize];
            origin = parent;
        }
        origin
    }

    /// Infers the types of all stores and adds them to the result.
    pub(super) fn finish(mut self, addresses: &StoreAddresses, result: &mut StoreTypes) {
        let stores = std::mem::take(&mut self.stores);
        let exact = |store: &&InferredStore| store.stride == 0;
        let mut owners: BTreeMap<(FileId, u64), u32> = BTreeMap::new();
        for store in stores.iter().filter(exact) {
            let Some(pointer) = pointer(store) else {
                continue;
            };
            let owner = *owners.entry((store.file, pointer)).or_insert(store.origin);
            let (owner, own) = (self.root(owner), self.root(store.origin));
            self.parents[own.max(owner) as usize] = own.min(owner);
        }
        let mut extents: FxHashMap<u32, Extent> = FxHashMap::default();
        for store in stores.iter().filter(exact) {
            let end = store.offset + i64::from(store.len);
            let extent = extents.entry(self.root(store.origin)).or_insert(Extent {
                first: store.offset.min(0),
                end,
            });
            extent.first = extent.first.min(store.offset);
            extent.end = extent.end.max(end);
        }
        let mut types: FxHashMap<u32, TypeId> = FxHashMap::default();
        for store in &stores {
            let own = self.root(store.origin);
            let found = match pointer(store).filter(|_| store.stride == 0) {
                Some(pointer) => Some(FieldPlace {
                    class: own,
                    pointer,
                    offset: store.offset,
                    index: None,
                }),
                None => self
                    .around(store, &owners, &extents)
                    .or_else(|| element(own, store)),
            };
            let start = found.and_then(|place| {
                let first = extents.get(&place.class).map_or(0, |extent| extent.first);
                Some((place, first, place.pointer.checked_add_signed(first)?))
            });
            let Some((place, first, start)) = start else {
                result.add_untyped();
                continue;
            };
            let class = place.class;
            let ty = *types.entry(class).or_insert_with(|| {
                let code = addresses.name_of(self.examples[class as usize]);
                let size = extents.get(&class).map(|extent| extent.end - extent.first);
                let size = size.unwrap_or(store.stride as i64).unsigned_abs();
                result
                    .names
                    .add_type(&format!("object used at {code}"), size)
            });
            let at = ObjectId {
                file: store.file,
                offset: start,
            };
            let offset = place.offset.wrapping_sub(first).unsigned_abs();
            let field = (ty, offset, place.index);
            // An allocated object has the type of its allocation instead.
            add(result, store.event, (at, 0), field, TypeSource::Structural);
        }
    }

    /// The object around a store through an index: its type, the pointer to it and the offset of the store from that. An object
    /// of the type that the pointer has comes first, then any that is known to reach that far.
    fn around(
        &mut self,
        store: &InferredStore,
        owners: &BTreeMap<(FileId, u64), u32>,
        extents: &FxHashMap<u32, Extent>,
    ) -> Option<FieldPlace> {
        let own = self.root(store.origin);
        let nearest = owners
            .range((store.file, store.at.saturating_sub(FARTHEST))..=(store.file, store.at))
            .rev()
            .take(MOST_NEIGHBOURS);
        let mut reaching = None;
        for (&(_, pointer), &owner) in nearest {
            let class = self.root(owner);
            let offset = i64::try_from(store.at - pointer).ok()?;
            if class == own && offset >= store.offset {
                let behind = offset.abs_diff(store.offset) / store.stride.max(1);
                return Some(FieldPlace {
                    class,
                    pointer,
                    offset: store.offset,
                    index: Some(u32::try_from(behind).unwrap_or(u32::MAX)),
                });
            }
            let reaches = extents
                .get(&class)
                .is_some_and(|extent| offset < extent.end);
            if reaches && reaching.is_none() {
                reaching = Some(FieldPlace {
                    class,
                    pointer,
                    offset,
                    index: None,
                });
            }
        }
        reaching
    }

    /// Adds a store into an allocated object whose type debug information does not give.
    pub(super) fn add_allocated(
        &mut self,
        store: AllocatedStore,
        addresses: &StoreAddresses,
        result: &mut StoreTypes,
    ) {
        let Allocation {
            start,
            size,
            class,
            generation,
        } = store.allocation;
        let ty = *self.types.entry(class).or_insert_with(|| {
            let name = match class {
                AllocationClass::Number(_, number) => format!("object of type number {number}"),
                AllocationClass::Call(Some(call), _) => {
                    format!("object allocated at {}", addresses.location_name(call))
                }
                AllocationClass::Call(None, _) => "object allocated by unknown code".to_owned(),
            };
            result.names.add_type(&name, size)
        });
        let at = ObjectId {
            file: store.file,
            offset: start,
        };
        let field = (ty, store.at - start, None);
        let source = TypeSource::Allocation;
        add(result, store.event, (at, generation), field, source);
    }
}

/// What the pointer of a store points to, as an offset in the file.
fn pointer(store: &InferredStore) -> Option<u64> {
    store.at.checked_add_signed(store.offset.checked_neg()?)
}

/// The element of an array that a store through an index changes, if elements are large enough to be objects.
fn element(class: u32, store: &InferredStore) -> Option<FieldPlace> {
    let stride = i64::try_from(store.stride).ok()?;
    let within = store.offset.rem_euclid(stride.max(1));
    (store.stride >= SMALLEST_ELEMENT).then_some(FieldPlace {
        class,
        pointer: store.at.checked_add_signed(within.checked_neg()?)?,
        offset: within,
        index: None,
    })
}

fn add(
    result: &mut StoreTypes,
    event: EventIndex,
    (object, generation): (ObjectId, u32),
    (ty, offset, index): (TypeId, u64, Option<u32>),
    source: TypeSource,
) {
    let name = format!("[+{offset}]");
    let step = |name| FieldStep {
        name,
        composite: None,
        offset,
    };
    let element = index.map(|_| step("[]".to_owned()));
    let path: Vec<FieldStep> = std::iter::once(step(name)).chain(element).collect();
    let field = result.names.field(ty, &path);
    let store = TypedStore {
        object,
        ty,
        field,
        indices: index.into_iter().collect(),
        generation,
    };
    result.add(event, store, source);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use brownout_symbols::{FileOffset, PointerBase, PointerTypes};

    use super::*;

    const FILE: FileId = FileId(0);

    fn origin(at: u64) -> Origin {
        let module = PointerTypes::new().add_module(Path::new("/none"), None);
        Origin::of(module, PointerBase::Code(FileOffset(at), 0))
    }

    /// Infers types of stores: offset in the file, origin, offset from it, stride. Returns the fields in words, and the starts of
    /// the objects.
    fn inferred(stores: &[(u64, Origin, i64, u64)]) -> Vec<Option<(String, u64)>> {
        let mut structural = Structural::default();
        for (event, &(at, origin, offset, stride)) in (0..).zip(stores) {
            let at = ObjectId {
                file: FILE,
                offset: at,
            };
            structural.add(EventIndex(event), at, 8, (origin, offset, stride));
        }
        let mut result = StoreTypes::default();
        structural.finish(&StoreAddresses::new(Path::new("/")), &mut result);
        let events = 0..stores.len() as u64;
        let found = events.map(|event| {
            let store = result.of(EventIndex(event))?;
            let name = result.names.field_name(store.field);
            Some((name, store.object.offset))
        });
        found.collect()
    }

    fn object(code: u64, field: u64, start: u64) -> Option<(String, u64)> {
        Some((format!("object used at +{code:#x}[+{field}]"), start))
    }

    #[test]
    fn code_that_uses_the_same_objects_uses_one_type() {
        let (one, two, three) = (origin(0x10), origin(0x20), origin(0x30));
        let found = inferred(&[
            (100, one, 0, 0),
            (108, two, 8, 0),
            (300, three, 0, 0),
            (216, two, 16, 0),
        ]);
        let expected = [
            object(0x10, 0, 100),
            object(0x10, 8, 100),
            object(0x30, 0, 300),
            object(0x10, 16, 200),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_store_through_an_index_belongs_to_the_object_around_it() {
        let (object_pointer, array) = (origin(0x10), origin(0x20));
        let array_of_object = object_pointer;
        let found = inferred(&[
            (100, object_pointer, 0, 0),
            (140, object_pointer, 40, 0),
            (116, array, 8, 8),
            // Behind the last field that is known.
            (156, array_of_object, 48, 4),
            // There is no object around these; elements of an array are objects, bytes of a copy are not.
            (10016, array, 8, 32),
            (20000, array, 0, 1),
        ]);
        let expected = [
            object(0x10, 0, 100),
            object(0x10, 40, 100),
            object(0x10, 16, 100),
            Some(("object used at +0x10[+48][]".to_owned(), 100)),
            object(0x20, 8, 10008),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pointer_behind_the_start_of_an_object_leads_to_its_start() {
        let list = origin(0x10);
        let found = inferred(&[(92, list, -8, 0), (100, list, 0, 0)]);
        assert_eq!(found, [object(0x10, 0, 92), object(0x10, 8, 92)]);
    }
}
