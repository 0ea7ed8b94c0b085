//! The distinct bytes that a load can see over all units it touches.

use std::sync::Arc;

use super::state_set::StateSet;
use super::unit_reads::UnitRead;
use crate::address::PmAddress;

/// Bytes that a load can see.
#[derive(Clone, Debug)]
pub struct ReadClass {
    /// The bytes that the load returns.
    pub bytes: Vec<u8>,
    /// The states that show them, of each unit in which the load distinguishes states.
    pub(super) states: Vec<(PmAddress, Arc<StateSet>)>,
}

/// All distinct byte strings that a load can see. Units are independent, so they are the product of what it can see in each
/// unit; no two of them are equal.
#[derive(Clone, Debug)]
pub struct ReadClasses {
    units: Vec<(PmAddress, Vec<UnitRead>)>,
}

impl ReadClasses {
    pub(super) fn new(units: Vec<(PmAddress, Vec<UnitRead>)>) -> Self {
        ReadClasses { units }
    }

    /// How many there are, at most `u128::MAX`.
    pub fn count(&self) -> u128 {
        let counts = self.units.iter().map(|(_, reads)| reads.len() as u128);
        counts.fold(1, u128::saturating_mul)
    }

    /// The bytes, if they are the same in all possible states: the load is no choice.
    pub fn certain(&self) -> Option<Vec<u8>> {
        (self.count() == 1).then(|| self.class(&vec![0; self.units.len()]).bytes)
    }

    /// All classes, computed one at a time: that with the newest stores first.
    pub fn iter(&self) -> impl Iterator<Item = ReadClass> {
        let mut next = Some(vec![0; self.units.len()]);
        std::iter::from_fn(move || {
            let mut chosen = next.take()?;
            let class = self.class(&chosen);
            for (at, (_, reads)) in chosen.iter_mut().zip(&self.units) {
                *at += 1;
                if *at < reads.len() {
                    next = Some(chosen);
                    break;
                }
                *at = 0;
            }
            Some(class)
        })
    }

    fn class(&self, chosen: &[usize]) -> ReadClass {
        let mut class = ReadClass {
            bytes: Vec::new(),
            states: Vec::new(),
        };
        for ((unit, reads), &at) in self.units.iter().zip(chosen) {
            class.bytes.extend_from_slice(&reads[at].bytes);
            if reads.len() > 1 {
                class.states.push((*unit, reads[at].states.clone()));
            }
        }
        class
    }
}
