//! Recoveries that are repeated, to find out whether chance decides what they do.
//!
//! Each sequence of bytes that recovery reads is run once, so nothing is compared if it always reads the same bytes first. If recovery uses
//! the time or random numbers, the first, second, fourth, eighth … run that has passed is therefore repeated, from the beginning: copies of
//! a process have drawn the same numbers.
//!
//! Can miss: what chance decides in other runs than those that were repeated, or seldom.

use std::collections::HashSet;

use brownout_recovery::Observation;

use super::coverage::OTHER_FILES;
use crate::crash_point::CrashPoint;

/// Which runs are repeated.
#[derive(Default)]
pub struct Repeats {
    /// The runs that chance may have decided, and that have passed.
    passed: u64,
    /// Those of them that have to be repeated.
    waiting: Vec<CrashPoint>,
    underway: HashSet<CrashPoint>,
}

impl Repeats {
    /// A run that is no repetition has passed.
    pub fn note(&mut self, point: &CrashPoint, observation: &Observation) {
        let mut inputs = observation.other_inputs.iter();
        if observation.reads.is_none() || !inputs.any(|input| input != OTHER_FILES) {
            return;
        }
        self.passed += 1;
        if self.passed.is_power_of_two() {
            self.waiting.push(point.clone());
        }
    }

    /// The runs that have to be repeated. From now on they are under way.
    pub fn take(&mut self) -> Vec<CrashPoint> {
        let points = std::mem::take(&mut self.waiting);
        self.underway.extend(points.iter().cloned());
        points
    }

    pub fn is_underway(&self, point: &CrashPoint) -> bool {
        self.underway.contains(point)
    }

    /// A run has ended. Returns whether it was a repetition.
    pub fn end(&mut self, point: &CrashPoint) -> bool {
        self.underway.remove(point)
    }
}
