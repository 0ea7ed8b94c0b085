//! Update behaviours: the stores that update one object close together in time (Squint: Neal, §4.4.2 to §4.4.4).
//!
//! | file | step of Squint |
//! |---|---|
//! | `run_stores` | B: the stores of a run, their persist order and their sites |
//! | `structural_types` | B: types of objects that [`object_types`](crate::object_types) does not determine |
//! | `instances`, `fields` | C1, C2: the stores to each instance of each type, also of types inside others |
//! | `epochs` | C3: where one update of an instance ends and the next begins |
//! | `shape`, `representation` | what of a behaviour counts when it is compared with others |
//! | `named_shape` | the same in names, to compare behaviours of several runs |
//! | `groups` | D: groups of behaviours, each with one that represents all of it |
//! | `statistics` | how many there are of all these |
//! | `words` | which order a failed test shows to be open |
//!
//! Deviations from Squint: the order of stores to one line is a constraint like a guarantee when behaviours are compared; array indices are
//! numbered by the order in which a behaviour touches them, and the updates of a field by a behaviour are distinguished by their order.
//! Otherwise each slot of an array would be a behaviour of its own. An object ends when its memory is freed or allocated again (C2). Both
//! criteria of C3 apply to the whole instance, each as if the other had ended nothing (`epochs`).
//!
//! Can miss: behaviours of stores whose type is not known; that memory without a known allocator holds another object of the same type;
//! order between threads, which also lets a store of another thread end no epoch.

mod epochs;
mod fields;
mod groups;
mod instances;
mod named_shape;
mod representation;
mod run_stores;
mod shape;
mod statistics;
mod structural_types;
mod words;

#[cfg(test)]
mod figures;
#[cfg(test)]
mod small_run;

use std::ops::Range;
use std::time::Instant;

use brownout_model::{PersistOrder, Profile, StoreNumber};
use brownout_symbols::PointerTypes;

use crate::error::CrashError;
use crate::failure_point::Scope;
use crate::object_types::{StoreTypes, TypeId, type_stores};
use crate::progress::ProgressObserver;
use crate::recorded_run::RecordedRun;
use crate::symbols::Symbols;

use groups::Grouping;
pub(crate) use groups::{BehaviourGroup, ShapeNumber};
use instances::Instances;
pub use named_shape::NamedShape;
pub(crate) use named_shape::{ComparableShape, ShapeComparison};
pub(crate) use run_stores::RunStores;
use shape::{Shape, ShapeBuilder};
pub use statistics::{
    RepresentativeStatistics, StepDurations, TypeStatistics, UpdateStatistics, update_statistics,
};
use structural_types::add_structural_types;
pub use words::TriedUpdate;
pub(crate) use words::open_order;

/// The stores of one update of one object.
#[derive(Clone, Debug)]
pub(crate) struct UpdateBehaviour {
    instance: u32,
    /// Among the updates of the instance.
    updates: Range<u32>,
    pub(crate) shape: ShapeNumber,
}

/// The number of an update behaviour of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BehaviourNumber(pub(crate) u32);

/// All update behaviours of a run, in groups.
#[derive(Debug, Default)]
pub(crate) struct UpdateBehaviours {
    instances: Instances,
    behaviours: Vec<UpdateBehaviour>,
    /// For each shape, the behaviours that have it, in the order of their first stores.
    by_shape: Vec<Vec<BehaviourNumber>>,
    grouping: Grouping,
}

/// Reads a run and determines the types of its stores: step B. What debug information could not be read from is among the problems of
/// the last result. If the observer stops it, stores are missing.
pub(crate) fn read_stores(
    run: &RecordedRun,
    scope: &Scope,
    profile: Profile,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
) -> Result<(RunStores, StoreTypes, PointerTypes), CrashError> {
    let durations = &mut StepDurations::default();
    read_stores_timed(run, scope, profile, symbols, observer, durations)
}

fn read_stores_timed(
    run: &RecordedRun,
    scope: &Scope,
    profile: Profile,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
    durations: &mut StepDurations,
) -> Result<(RunStores, StoreTypes, PointerTypes), CrashError> {
    let start = Instant::now();
    let stores = RunStores::read(run, scope, profile, symbols, observer)?;
    durations.order = start.elapsed();
    let start = Instant::now();
    let (mut types, read) = type_stores(run, &stores.directory, observer)?;
    add_structural_types(&stores, &mut types);
    durations.types = start.elapsed();
    Ok((stores, types, read))
}

impl UpdateBehaviours {
    /// Finds the update behaviours of a run: steps C and D.
    pub(crate) fn find(order: &PersistOrder, types: &StoreTypes) -> Self {
        let instances = Instances::find(order, types);
        let mut shapes = ShapeBuilder::default();
        let mut behaviours = Vec::new();
        for (number, instance) in (0..).zip(instances.all()) {
            for updates in epochs::epochs(&instance.updates, order) {
                let range = updates.start as usize..updates.end as usize;
                let shape = shapes.add(
                    instance.ty,
                    &instance.updates[range],
                    instances.fields(),
                    order,
                );
                behaviours.push(UpdateBehaviour {
                    instance: number,
                    updates,
                    shape,
                });
            }
        }
        let first = |behaviour: &UpdateBehaviour| {
            let instance = &instances.all()[behaviour.instance as usize];
            instance.updates[behaviour.updates.start as usize].store
        };
        behaviours.sort_by_key(first);
        let shapes = shapes.finish();
        let mut by_shape = vec![Vec::new(); shapes.len()];
        for (number, behaviour) in (0..).map(BehaviourNumber).zip(&behaviours) {
            by_shape[behaviour.shape.index()].push(number);
        }
        Self {
            grouping: Grouping::new(shapes),
            instances,
            behaviours,
            by_shape,
        }
    }

    pub(crate) fn behaviour(&self, number: BehaviourNumber) -> &UpdateBehaviour {
        &self.behaviours[number.0 as usize]
    }

    /// How many behaviours there are.
    pub(crate) fn len(&self) -> usize {
        self.behaviours.len()
    }

    /// The groups; what is largest and least ordered comes first.
    pub(crate) fn groups(&self) -> &[BehaviourGroup] {
        self.grouping.groups()
    }

    /// The behaviour that is tested for all others of a group: the first one with the shape that represents the group.
    pub(crate) fn representative(&self, group: &BehaviourGroup) -> BehaviourNumber {
        self.by_shape[group.representative.index()][0]
    }

    /// Other behaviours of the shape that represents a group: the first one of an object that was updated before, and the last.
    pub(crate) fn further_representatives(
        &self,
        group: &BehaviourGroup,
    ) -> impl Iterator<Item = BehaviourNumber> {
        let [first, others @ ..] = &self.by_shape[group.representative.index()][..] else {
            unreachable!("a shape is that of a behaviour");
        };
        let is_again = |number: &&BehaviourNumber| self.behaviour(**number).updates.start > 0;
        let has_again = is_again(&first);
        let again = others.iter().find(is_again).filter(|_| !has_again);
        let last = others.last().filter(|&last| Some(last) != again);
        again.into_iter().chain(last).copied()
    }

    /// All behaviours of a group, the representative first.
    pub(crate) fn members(&self, group: &BehaviourGroup) -> impl Iterator<Item = BehaviourNumber> {
        let shapes = group.shapes.iter();
        shapes.flat_map(|shape| self.by_shape[shape.index()].iter().copied())
    }

    /// The type of the object.
    pub(crate) fn type_of(&self, behaviour: BehaviourNumber) -> TypeId {
        let instance = self.behaviour(behaviour).instance;
        self.instances.all()[instance as usize].ty
    }

    /// The stores of a behaviour, in the order of issue.
    pub(crate) fn stores(
        &self,
        behaviour: BehaviourNumber,
    ) -> impl DoubleEndedIterator<Item = StoreNumber> + ExactSizeIterator {
        self.updates(behaviour).iter().map(|update| update.store)
    }

    /// What a store of a behaviour updates, in words such as `entry.valid`.
    pub(crate) fn field_name(
        &self,
        behaviour: BehaviourNumber,
        store: StoreNumber,
        types: &StoreTypes,
    ) -> Option<String> {
        let updates = self.updates(behaviour);
        let at = updates.binary_search_by_key(&store, |update| update.store);
        let slot = updates[at.ok()?].slot;
        Some(self.instances.fields().name(slot, &types.names))
    }

    fn updates(&self, behaviour: BehaviourNumber) -> &[instances::Update] {
        let UpdateBehaviour {
            instance, updates, ..
        } = self.behaviour(behaviour);
        let all = &self.instances.all()[*instance as usize].updates;
        &all[updates.start as usize..updates.end as usize]
    }

    /// The type of each object that is updated.
    pub(crate) fn instances_by_type(&self) -> impl Iterator<Item = TypeId> {
        self.instances.all().iter().map(|instance| instance.ty)
    }

    /// The shape of a group's representative.
    pub(crate) fn shape(&self, shape: ShapeNumber) -> &Shape {
        self.grouping.shape(shape)
    }
}
