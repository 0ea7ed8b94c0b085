//! All that a crash at one moment can leave: the product, over all units, of what it can leave of each.

use std::collections::BTreeMap;

use crate::address::PmAddress;
use crate::live_stores::LiveStore;
use crate::profile::Profile;
use crate::tracker::StoreKind;
use crate::unit_states::{Standing, Tearing, UnitState, UnitStates};

/// What a crash can leave of the units that hold stores which are not settled. Everything else is
/// as it was [settled](crate::PersistObserver::settled).
#[derive(Clone, Debug)]
pub struct CrashStates<T> {
    unit: u64,
    units: Vec<UnitStates<T>>,
}

/// One way in which a crash can leave persistent memory: a state for each of the
/// [units](CrashStates::units), in their order.
pub type CrashState = Vec<UnitState>;

impl<T: Copy> CrashStates<T> {
    pub(crate) fn new<'a>(
        profile: &Profile,
        tearing: Tearing,
        lines: impl Iterator<Item = (PmAddress, impl Iterator<Item = &'a LiveStore<T>>)>,
    ) -> Self
    where
        T: 'a,
    {
        let mut units: BTreeMap<PmAddress, Vec<(PmAddress, &LiveStore<T>)>> = BTreeMap::new();
        for (line, stores) in lines {
            let unit = PmAddress {
                offset: line.offset - line.offset % profile.unit,
                ..line
            };
            let stores = stores.map(|store| (line, store));
            units.entry(unit).or_default().extend(stores);
        }
        let in_sequence = |kind| match kind {
            StoreKind::Cached => true,
            // Where non-temporal stores wait for the same as all others, they are no exception.
            StoreKind::NonTemporal => profile.non_temporal == profile.cached,
        };
        let units = units
            .into_iter()
            .map(|(address, mut stores)| {
                stores.sort_by_key(|&(line, store)| (store.time, line));
                let parts = stores.into_iter().map(|(line, store)| {
                    let standing = if store.guaranteed {
                        Standing::Guaranteed
                    } else if in_sequence(store.kind) {
                        Standing::Sequence
                    } else {
                        Standing::Loose
                    };
                    (store.time, line, store.bytes, standing, store.tag)
                });
                UnitStates::new(address, profile.unit, tearing, parts)
            })
            .collect();
        CrashStates {
            unit: profile.unit,
            units,
        }
    }
}

impl<T> CrashStates<T> {
    /// The units that can differ, in the order of their addresses.
    pub fn units(&self) -> &[UnitStates<T>] {
        &self.units
    }

    /// The unit that holds `address`, unless all of it is settled.
    pub fn unit_mut(&mut self, address: PmAddress) -> Option<&mut UnitStates<T>> {
        let offset = address.offset - address.offset % self.unit;
        let unit = PmAddress { offset, ..address };
        let at = self.units.binary_search_by_key(&unit, UnitStates::address);
        at.ok().map(|at| &mut self.units[at])
    }

    /// Number of states; `None` when there are too many to count.
    pub fn count(&self) -> Option<u128> {
        self.units.iter().try_fold(1_u128, |product, unit| {
            product.checked_mul(unit.states().len() as u128)
        })
    }

    /// All states, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = CrashState> + use<T> {
        let choices: Vec<Vec<UnitState>> = self.units.iter().map(UnitStates::states).collect();
        let mut next = choices
            .iter()
            .all(|states| !states.is_empty())
            .then(|| vec![0; choices.len()]);
        std::iter::from_fn(move || {
            let mut chosen = next.take()?;
            let state = choices.iter().zip(&chosen);
            let state = state.map(|(states, &at)| states[at].clone()).collect();
            for (at, states) in chosen.iter_mut().zip(&choices) {
                *at += 1;
                if *at < states.len() {
                    next = Some(chosen);
                    break;
                }
                *at = 0;
            }
            Some(state)
        })
    }
}
