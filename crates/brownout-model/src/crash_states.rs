//! All states that a crash at one time can leave: the product of the possible states of all units.

use std::collections::BTreeMap;

use crate::address::PmAddress;
use crate::live_stores::LiveStore;
use crate::observer::StoreKind;
use crate::profile::Profile;
use crate::unit_states::{Presence, Tearing, UnitState, UnitStates};

/// The states that a crash can leave of the units with stores that are not settled. All other bytes have their
/// [settled](crate::PersistObserver::settled) values.
///
/// ```
/// use brownout_model::*;
///
/// # struct Ignore;
/// # impl PersistObserver for Ignore {
/// #     type Store = &'static str;
/// #     type Flush = ();
/// #     const HISTORY: bool = true;
/// #     fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, _: &LiveStore<&'static str>, _: Access) {}
/// # }
/// // `Ignore` is an observer with history that tags each store with a name.
/// let mut tracker = Tracker::<Ignore>::new(Profile::ADR);
/// let thread = tracker.add_thread();
/// let mut store = |time, offset, name| {
///     let by = Access { thread, time: Time(time) };
///     let line = tracker.line(PmAddress { space: SpaceId(0), offset });
///     tracker.store(&mut Ignore, by, line, ByteMask::range(0, 8), StoreKind::Cached, name);
/// };
/// store(1, 0, "a"); // line 0
/// store(2, 0, "b"); // line 0, after "a"
/// store(3, 64, "c"); // line 1, independent of line 0
///
/// // Line 0 keeps nothing, "a", or "a" and "b"; line 1 keeps nothing or "c".
/// let states = tracker.crash_states(Tearing::Whole);
/// assert_eq!(states.count(), Some(3 * 2));
/// let kept: Vec<Vec<&str>> = states
///     .iter()
///     .map(|state| {
///         let units = states.units().iter().zip(&state);
///         units
///             .flat_map(|(unit, state)| state.pieces.iter().map(|piece| unit.parts()[piece.part].tag))
///             .collect()
///     })
///     .collect();
/// assert!(kept.contains(&vec!["c"]));
/// assert!(kept.contains(&vec!["a", "b"]));
/// assert!(!kept.contains(&vec!["b"]));
/// ```
#[derive(Clone, Debug)]
pub struct CrashStates<T> {
    unit: u64,
    units: Vec<UnitStates<T>>,
}

/// One state that a crash can leave: the state of each of the [units](CrashStates::units), in the same order.
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
            // If non-temporal stores wait for the same as cached stores, they are part of the sequence.
            StoreKind::NonTemporal => profile.non_temporal == profile.cached,
        };
        let units = units
            .into_iter()
            .map(|(address, mut stores)| {
                stores.sort_by_key(|&(line, store)| (store.time, line));
                let parts = stores.into_iter().map(|(line, store)| {
                    let presence = if store.guaranteed {
                        Presence::Guaranteed
                    } else if in_sequence(store.kind) {
                        Presence::InSequence
                    } else {
                        Presence::Optional
                    };
                    (store.time, line, store.bytes, presence, store.tag)
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
    /// The units with stores that are not settled, ordered by address.
    pub fn units(&self) -> &[UnitStates<T>] {
        &self.units
    }

    /// The unit that contains `address`, unless all its stores are settled.
    pub fn unit_mut(&mut self, address: PmAddress) -> Option<&mut UnitStates<T>> {
        let offset = address.offset - address.offset % self.unit;
        let unit = PmAddress { offset, ..address };
        let at = self.units.binary_search_by_key(&unit, UnitStates::address);
        at.ok().map(|at| &mut self.units[at])
    }

    /// The number of states; `None` if it does not fit in 128 bits.
    pub fn count(&self) -> Option<u128> {
        self.units.iter().try_fold(1_u128, |product, unit| {
            product.checked_mul(unit.states().len() as u128)
        })
    }

    /// All states, computed one at a time.
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
