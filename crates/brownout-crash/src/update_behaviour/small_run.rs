//! Small runs with named fields, for tests.

use brownout_model::{
    Access, FlushEffect, LINE, PersistOrder, PersistOrderBuilder, PmAddress, Profile, SpaceId,
    StoreKind, StoreNumber, ThreadSlot, Time,
};
use brownout_trace::{EventIndex, FileId};
use rustc_hash::FxHashMap;

use super::instances::Instances;
use super::run_stores::{RunStores, SiteNumber, StoreSite, StoredBytes};
use super::shape::{Shape, ShapeBuilder};
use super::structural_types::add_structural_types;
use super::{BehaviourNumber, UpdateBehaviours};
use crate::failure_point::StackId;
use crate::object_types::{
    FieldStep, ObjectId, StoreTypes, TypeId, TypeNames, TypeSource, TypedStore,
};

/// A run that is being made.
pub(crate) struct SmallRun {
    order: PersistOrderBuilder,
    threads: Vec<ThreadSlot>,
    pub(crate) thread: usize,
    /// Of the objects that are updated.
    pub(crate) generation: u32,
    time: u64,
    stored: Vec<StoredBytes>,
    names: TypeNames,
    types: FxHashMap<String, TypeId>,
    typed: Vec<(EventIndex, TypedStore)>,
    /// The place of each field of each object.
    addresses: FxHashMap<String, u64>,
}

impl Default for SmallRun {
    fn default() -> Self {
        let mut order = PersistOrderBuilder::new(Profile::ADR);
        Self {
            threads: (0..2).map(|_| order.add_thread()).collect(),
            order,
            thread: 0,
            generation: 0,
            time: 0,
            stored: Vec::new(),
            names: TypeNames::default(),
            types: FxHashMap::default(),
            typed: Vec::new(),
            addresses: FxHashMap::default(),
        }
    }
}

impl SmallRun {
    fn by(&mut self) -> Access {
        self.time += 1;
        Access {
            thread: self.threads[self.thread],
            time: Time(self.time),
        }
    }

    /// A store without a type.
    pub(crate) fn store_at(&mut self, offset: u64, len: u32, site: u32) -> StoreNumber {
        let by = self.by();
        let at = address(offset);
        self.stored.push(StoredBytes {
            file: FileId(0),
            offset,
            len,
            is_locked: false,
            site: SiteNumber(site),
        });
        self.order.store(by, at, len.into(), StoreKind::Cached)
    }

    /// Puts a field of an object at an offset. Without this, each field is in a line of its own.
    pub(crate) fn place(&mut self, field: &str, offset: u64) {
        self.addresses.insert(field.to_owned(), offset);
    }

    /// Updates a field such as `x: T.a`, `x: T.in(inner).b` or `x: T.slots[3].key`: the object, its type and the path.
    pub(crate) fn update(&mut self, field: &str) -> StoreNumber {
        let next = 0x1_0000 + LINE * self.addresses.len() as u64;
        let offset = *self.addresses.entry(field.to_owned()).or_insert(next);
        let store = self.store_at(offset, 8, 1);
        let (object, rest) = field.split_once(": ").unwrap();
        let (ty, path) = rest.split_once('.').unwrap();
        let ty = self.ty(ty);
        let mut indices = Vec::new();
        let mut steps = Vec::new();
        for step in path.split('.') {
            let (step, composite) = match step.split_once('(') {
                Some((step, ty)) => (step, Some(self.ty(ty.trim_end_matches(')')))),
                None => (step, None),
            };
            let (name, index) = match step.split_once('[') {
                Some((name, index)) => (name, Some(index.trim_end_matches(']'))),
                None => (step, None),
            };
            let mut add = |name: &str, composite| {
                steps.push(FieldStep {
                    name: name.to_owned(),
                    composite,
                    offset: 0,
                });
            };
            match index {
                Some(index) => {
                    indices.push(index.parse().unwrap());
                    add(name, None);
                    add("[]", composite);
                }
                None => add(name, composite),
            }
        }
        let field = self.names.field(ty, &steps);
        let object = ObjectId {
            file: FileId(0),
            offset: object
                .bytes()
                .fold(0, |sum, byte| sum * 256 + u64::from(byte)),
        };
        let typed = TypedStore {
            object,
            ty,
            field,
            indices,
            generation: self.generation,
        };
        self.typed.push((EventIndex(self.time), typed));
        store
    }

    fn ty(&mut self, name: &str) -> TypeId {
        let names = &mut self.names;
        let ty = self.types.entry(name.to_owned());
        *ty.or_insert_with(|| names.add_type(name, 0))
    }

    pub(crate) fn flush(&mut self, field: &str) {
        let offset = self.addresses[field];
        let by = self.by();
        self.order.flush(by, address(offset), FlushEffect::Deferred);
    }

    pub(crate) fn fence(&mut self) {
        let by = self.by();
        self.order.fence(by);
    }

    /// Flushes fields, and a fence.
    pub(crate) fn persist(&mut self, fields: &[&str]) {
        fields.iter().for_each(|field| self.flush(field));
        self.fence();
    }

    pub(crate) fn persist_all(&mut self) {
        let by = self.by();
        self.order.write_back(by, SpaceId(0), 0..u64::MAX);
    }

    pub(crate) fn finish(self) -> (PersistOrder, StoreTypes) {
        let mut types = StoreTypes::new(self.names);
        for (event, store) in self.typed {
            types.add(event, store, TypeSource::DebugInfo);
        }
        types.finish();
        (self.order.finish(), types)
    }

    pub(crate) fn behaviours(self) -> Found {
        let (order, types) = self.finish();
        Found {
            behaviours: UpdateBehaviours::find(&order, &types),
            types,
        }
    }
}

fn address(offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(0),
        offset,
    }
}

/// The behaviours of a run.
pub(crate) struct Found {
    pub(crate) behaviours: UpdateBehaviours,
    pub(crate) types: StoreTypes,
}

impl Found {
    /// The fields that a behaviour updates.
    fn fields(&self, behaviour: BehaviourNumber) -> String {
        let stores = self.behaviours.stores(behaviour);
        let names = stores.map(|store| {
            let name = self.behaviours.field_name(behaviour, store, &self.types);
            name.unwrap()
        });
        names.collect::<Vec<String>>().join(" ")
    }

    /// All behaviours, in the order of their first stores.
    pub(crate) fn all(&self) -> Vec<String> {
        let numbers = (0..self.behaviours.len() as u32).map(BehaviourNumber);
        numbers.map(|number| self.fields(number)).collect()
    }

    /// The members of each group, the representative first.
    pub(crate) fn groups(&self) -> Vec<Vec<String>> {
        let groups = self.behaviours.groups().iter();
        let members = groups.map(|group| {
            let members = self.behaviours.members(group);
            members.map(|member| self.fields(member)).collect()
        });
        members.collect()
    }
}

/// The fields and objects that structural types give to the stores of a run.
pub(crate) fn structural(run: SmallRun) -> (Vec<String>, Vec<TypedStore>) {
    let last = run.stored.iter().map(|stored| stored.site.0).max();
    let sites = (0..=last.unwrap_or(0)).map(|site| StoreSite {
        stack: Some(StackId(site as usize)),
        caller: site,
    });
    let stores = RunStores::of_test(run.order.finish(), run.stored, sites.collect());
    let mut types = StoreTypes::default();
    add_structural_types(&stores, &mut types);
    let typed = stores.order.stores().iter().map(|store| {
        let event = EventIndex(store.issued.0);
        types.of(event).unwrap().clone()
    });
    let typed: Vec<TypedStore> = typed.collect();
    let fields = typed
        .iter()
        .map(|store| types.names.field_name(store.field));
    (fields.collect(), typed)
}

/// The shape of one behaviour that updates these fields, each at a multiple of `stride`, and persists everything after some of them.
pub(crate) fn shape_of(updates: &[(u64, bool)], stride: u64) -> Shape {
    let mut run = SmallRun::default();
    for (field, persist) in updates {
        let name = format!("x: T.f{field}");
        run.place(&name, field * stride);
        run.update(&name);
        if *persist {
            run.persist_all();
        }
    }
    // All in one type, so that types of two runs are equal.
    let (order, types) = run.finish();
    let instances = Instances::find(&order, &types);
    let mut shapes = ShapeBuilder::default();
    let instance = &instances.all()[0];
    shapes.add(instance.ty, &instance.updates, instances.fields(), &order);
    shapes.finish().remove(0)
}
