//! How many update behaviours a run has, and how few of them represent all others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use brownout_model::Profile;
use brownout_symbols::PointerTypes;

use super::{BehaviourNumber, UpdateBehaviours, read_stores_timed};
use crate::error::CrashError;
use crate::failure_point::Scope;
use crate::object_types::{StoreTypes, TypeId};
use crate::progress::ProgressObserver;
use crate::recorded_run::RecordedRun;
use crate::symbols::Symbols;

/// The update behaviours of a run, counted.
#[derive(Debug)]
pub struct UpdateStatistics {
    /// The types of all stores.
    pub types: StoreTypes,
    /// Those with the most update behaviours first.
    pub by_type: Vec<TypeStatistics>,
    /// Stores to persistent files.
    pub stores: u64,
    /// Objects that were updated.
    pub instances: u64,
    /// Update behaviours: epochs of instances.
    pub behaviours: u64,
    /// The behaviours that represent all others, one for each group; the largest and least ordered first.
    pub representatives: Vec<RepresentativeStatistics>,
    pub durations: StepDurations,
}

/// How long finding the update behaviours took.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepDurations {
    /// Reading the stores, their persist order and their sites: part of step B.
    pub order: Duration,
    /// Determining the types of the stores: the rest of step B.
    pub types: Duration,
    /// Instances, epochs and groups: steps C and D.
    pub groups: Duration,
}

/// A behaviour that represents others.
#[derive(Clone, Debug)]
pub struct RepresentativeStatistics {
    pub ty: TypeId,
    /// What it updates, in words, in the order of its stores; not all of a large one.
    pub fields: Vec<String>,
    pub stores: u64,
    /// How many pairs of its stores are ordered.
    pub ordered_pairs: u64,
    /// How many behaviours it represents, itself included.
    pub members: u64,
    /// The event of its first store.
    pub event: u64,
}

/// Fields that are named.
const MOST_FIELDS: usize = 8;

/// The update behaviours of the objects of one type.
#[derive(Clone, Copy, Debug)]
pub struct TypeStatistics {
    pub ty: TypeId,
    pub instances: u64,
    pub behaviours: u64,
    pub groups: u64,
    /// Stores of the largest behaviour.
    pub largest: u64,
}

impl TypeStatistics {
    fn none(ty: TypeId) -> Self {
        Self {
            ty,
            instances: 0,
            behaviours: 0,
            groups: 0,
            largest: 0,
        }
    }
}

/// Finds and counts the update behaviours of a run. What debug information could not be read from is among the problems of the second
/// result.
pub fn update_statistics(
    run: &RecordedRun,
    scope: &Scope,
    profile: Profile,
    symbols: &mut dyn Symbols,
    observer: &mut dyn ProgressObserver,
) -> Result<(UpdateStatistics, PointerTypes), CrashError> {
    let mut durations = StepDurations::default();
    let (stores, types, read) =
        read_stores_timed(run, scope, profile, symbols, observer, &mut durations)?;
    let start = Instant::now();
    let found = UpdateBehaviours::find(&stores.order, &types);
    durations.groups = start.elapsed();
    let mut by_type: BTreeMap<TypeId, TypeStatistics> = BTreeMap::new();
    let mut of = |ty: TypeId, count: &dyn Fn(&mut TypeStatistics)| {
        count(
            by_type
                .entry(ty)
                .or_insert_with(|| TypeStatistics::none(ty)),
        );
    };
    let mut instances = 0;
    for ty in found.instances_by_type() {
        instances += 1;
        of(ty, &|known| known.instances += 1);
    }
    for number in (0..found.len() as u32).map(BehaviourNumber) {
        let size = found.stores(number).len() as u64;
        of(found.type_of(number), &|known| {
            known.behaviours += 1;
            known.largest = known.largest.max(size);
        });
    }
    let mut representatives = Vec::new();
    for group in found.groups() {
        let number = found.representative(group);
        let ty = found.type_of(number);
        of(ty, &|known| known.groups += 1);
        let shape = found.shape(group.representative);
        let mut updates = found.stores(number).peekable();
        let first = updates
            .peek()
            .map(|&store| stores.order.store(store).issued);
        let names = updates.filter_map(|store| found.field_name(number, store, &types));
        representatives.push(RepresentativeStatistics {
            ty,
            fields: names.take(MOST_FIELDS).collect(),
            stores: shape.len() as u64,
            ordered_pairs: shape.constraints(),
            members: found.members(group).count() as u64,
            event: first.unwrap_or_default().0,
        });
    }
    let mut by_type: Vec<TypeStatistics> = by_type.into_values().collect();
    by_type.sort_by_key(|known| (std::cmp::Reverse(known.behaviours), known.ty));
    let statistics = UpdateStatistics {
        types,
        by_type,
        stores: stores.order.stores().len() as u64,
        instances,
        behaviours: found.len() as u64,
        representatives,
        durations,
    };
    Ok((statistics, read))
}
