//! Types of objects that neither debug information nor the code describes, from the sites and offsets that touch them.
//!
//! Code that stores to several fields of an object does so at the same distances each time. Two sites that store one after the other
//! always at the same distance belong to one type, and so do sites that store to the same address. The sites of a type have
//! displacements from the start of its objects. A site that stores to neighbouring bytes in a row, as copying does, updates an
//! array.
//!
//! Can miss: objects that only one site touches have one field each. Can join too much: objects that are neighbours in memory
//! whenever they are updated one after the other.

use brownout_model::StoreNumber;
use brownout_trace::{EventIndex, FileId};
use rustc_hash::FxHashMap;

use super::run_stores::{RunStores, StoredBytes};
use crate::object_types::{
    FieldId, FieldStep, ObjectId, StoreTypes, TypeId, TypeNames, TypedStore,
};

/// Fields that are farther apart belong to different objects.
const LARGEST_OBJECT: u64 = 4096;

/// Adds types for the stores of a run that have none.
pub(crate) fn add_structural_types(stores: &RunStores, types: &mut StoreTypes) {
    let displacements = displacements(stores);
    let mut naming = Naming::default();
    let mut runs = Runs::default();
    for number in stores.numbers() {
        let stored = stores.stored(number);
        let run = runs.next(stores, number);
        let event = EventIndex(stores.order.store(number).issued.0);
        if types.of(event).is_some() {
            continue;
        }
        let (class, displacement) = displacements.of(run.site);
        let object = ObjectId {
            file: stored.file,
            offset: run.start.saturating_sub(displacement),
        };
        let ty = naming.ty(class, object, &mut types.names);
        let is_element = run.element > 0;
        let field = naming.field((ty, displacement, is_element), &mut types.names);
        let store = TypedStore {
            object,
            ty,
            field,
            indices: is_element.then_some(run.element).into_iter().collect(),
            generation: 0,
        };
        types.add_inferred(event, store);
    }
    types.finish();
}

/// Names types by their first object and fields by their displacements.
#[derive(Default)]
struct Naming {
    types: FxHashMap<u32, TypeId>,
    fields: FxHashMap<FieldKey, FieldId>,
}

/// A type, the displacement of the field, and whether it is an element of an array that begins there.
type FieldKey = (TypeId, u64, bool);

impl Naming {
    fn ty(&mut self, class: u32, first: ObjectId, names: &mut TypeNames) -> TypeId {
        *self.types.entry(class).or_insert_with(|| {
            let name = format!("object@{:#x}", first.offset);
            names.add_type(&name, 0)
        })
    }

    fn field(&mut self, key: FieldKey, names: &mut TypeNames) -> FieldId {
        let (ty, displacement, is_element) = key;
        *self.fields.entry(key).or_insert_with(|| {
            let step = |name: String| FieldStep {
                name,
                composite: None,
                offset: displacement,
            };
            let mut path = vec![step(format!("+{displacement:#x}"))];
            path.extend(is_element.then(|| step("[]".to_owned())));
            names.field(ty, &path)
        })
    }
}

/// A store as an element of a run of stores to neighbouring bytes by one site.
#[derive(Clone, Copy, Debug)]
struct Element {
    /// The site, as [`StoreSite::caller`](super::run_stores::StoreSite::caller) numbers them.
    site: u32,
    file: FileId,
    /// Where the run starts.
    start: u64,
    element: u32,
    /// The site and the start of the run before it of the same thread, if this store begins a run.
    before: Option<(u32, FileId, u64)>,
}

/// Finds runs.
#[derive(Default)]
struct Runs {
    /// By thread, the last store and its element.
    last: FxHashMap<usize, (StoredBytes, Element)>,
}

impl Runs {
    fn next(&mut self, stores: &RunStores, number: StoreNumber) -> Element {
        let stored = *stores.stored(number);
        let site = stores.site(stored.site).caller;
        let thread = stores.order.store(number).thread.index();
        let last = self.last.get(&thread);
        let continued = last.filter(|(last, element)| {
            let end = last.offset + u64::from(last.len);
            element.site == site && last.file == stored.file && end == stored.offset
        });
        let element = match continued {
            Some((_, last)) => Element {
                element: last.element + 1,
                before: None,
                ..*last
            },
            None => Element {
                site,
                file: stored.file,
                start: stored.offset,
                element: 0,
                before: last.map(|(_, last)| (last.site, last.file, last.start)),
            },
        };
        self.last.insert(thread, (stored, element));
        element
    }
}

/// How far apart two sites store, one after the other.
#[derive(Clone, Copy, Debug)]
struct Distance {
    /// `None` if it differs.
    constant: Option<i64>,
    times: u64,
}

fn displacements(stores: &RunStores) -> Displacements {
    let mut at_address: FxHashMap<(FileId, u64), u32> = FxHashMap::default();
    let mut distances: FxHashMap<(u32, u32), Distance> = FxHashMap::default();
    let mut in_order: Vec<(u32, u32)> = Vec::new();
    let mut found = Displacements::default();
    let mut runs = Runs::default();
    for number in stores.numbers() {
        let run = runs.next(stores, number);
        if run.element > 0 {
            continue;
        }
        let known = at_address.entry((run.file, run.start)).or_insert(run.site);
        found.join(*known, run.site, 0);
        let Some((site, file, start)) = run.before else {
            continue;
        };
        if site == run.site {
            continue;
        }
        let is_near = file == run.file && start.abs_diff(run.start) <= LARGEST_OBJECT;
        let distance = run.start.wrapping_sub(start) as i64;
        let constant = is_near.then_some(distance);
        let known = distances.entry((site, run.site)).or_insert_with(|| {
            in_order.push((site, run.site));
            Distance { constant, times: 0 }
        });
        known.times += 1;
        if known.constant != constant {
            known.constant = None;
        }
    }
    // What is seen most often first: from the last field of an object to the first of the next is the rarer way.
    in_order.sort_by_key(|pair| std::cmp::Reverse(distances[pair].times));
    for (one, other) in in_order {
        // If the way back differs, they are two objects of which one happens to be updated next.
        let back = distances.get(&(other, one));
        let is_certain = back.is_none_or(|back| back.constant.is_some());
        let distance = distances[&(one, other)].constant.filter(|_| is_certain);
        if let Some(distance) = distance {
            found.join(one, other, distance);
        }
    }
    found.settle();
    found
}

/// Classes of sites, each with a displacement.
#[derive(Debug, Default)]
struct Displacements {
    /// For each site another one of its class, and the distance from there.
    links: FxHashMap<u32, (u32, i64)>,
    /// For each class its smallest displacement from its root.
    least: FxHashMap<u32, i64>,
}

impl Displacements {
    /// The site that stands for the class of a site, and the distance from there.
    fn root(&mut self, site: u32) -> (u32, i64) {
        let (mut at, mut distance) = (site, 0);
        while let Some(&(next, step)) = self.links.get(&at).filter(|(next, _)| *next != at) {
            (at, distance) = (next, distance + step);
        }
        self.links.insert(site, (at, distance));
        (at, distance)
    }

    /// `second` stores `distance` bytes after `first`, unless it is known to store elsewhere.
    fn join(&mut self, first: u32, second: u32, distance: i64) {
        let (one, from_one) = self.root(first);
        let (other, from_other) = self.root(second);
        if one != other {
            self.links
                .insert(other, (one, from_one + distance - from_other));
        }
    }

    /// Ends joining.
    fn settle(&mut self) {
        let sites: Vec<u32> = self.links.keys().copied().collect();
        for site in sites {
            let (root, distance) = self.root(site);
            let least = self.least.entry(root).or_insert(distance);
            *least = distance.min(*least);
        }
    }

    /// The class of a site, and how far from the start of an object it stores.
    fn of(&self, site: u32) -> (u32, u64) {
        let (root, distance) = self.links.get(&site).copied().unwrap_or((site, 0));
        let least = self.least.get(&root).copied().unwrap_or(0);
        (root, distance.abs_diff(least))
    }
}

#[cfg(test)]
mod tests {
    use super::super::small_run::{SmallRun, structural};

    #[test]
    fn fields_that_are_always_equally_far_apart_are_one_object() {
        let mut run = SmallRun::default();
        for entry in [0x100_u64, 0x400, 0x240] {
            run.store_at(entry, 8, 1);
            run.store_at(entry + 0x40, 8, 2);
            run.store_at(entry + 0x80, 1, 3);
            run.persist_all();
        }
        // Deleting touches one field only.
        run.store_at(0x480, 1, 4);
        let (fields, stores) = structural(run);
        assert_eq!(
            fields[..3],
            [
                "object@0x100.+0x0",
                "object@0x100.+0x40",
                "object@0x100.+0x80"
            ]
        );
        assert_eq!(fields[9], fields[2]);
        assert_eq!(stores[9].object.offset, 0x400);
        assert_eq!(stores[6].object.offset, 0x240);
    }

    #[test]
    fn neighbouring_bytes_that_one_site_stores_are_an_array() {
        let mut run = SmallRun::default();
        for (entry, len) in [(0x100_u64, 3_u64), (0x400, 2)] {
            for at in 0..len {
                run.store_at(entry + 8 * at, 8, 1);
            }
            run.store_at(entry + 0x40, 8, 2);
        }
        let (fields, stores) = structural(run);
        assert_eq!(fields[1], "object@0x100.+0x0[]");
        let indices: Vec<&[u32]> = stores.iter().map(|store| &store.indices[..]).collect();
        assert_eq!(indices, [&[][..], &[1], &[2], &[], &[], &[1], &[]]);
        assert_eq!(stores[6].object.offset, 0x400);
        assert_eq!((&fields[3], stores[3].object.offset), (&fields[6], 0x100));
    }

    #[test]
    fn sites_without_a_constant_distance_have_types_of_their_own() {
        let mut run = SmallRun::default();
        for (node, head) in [(0x100_u64, 0x800_u64), (0x400, 0x840)] {
            run.store_at(node, 8, 1);
            run.store_at(head, 8, 2);
        }
        let (_, stores) = structural(run);
        assert_ne!(stores[0].ty, stores[1].ty);
        assert_eq!(stores[1].object.offset, 0x800);
    }
}
