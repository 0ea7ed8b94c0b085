//! How many states are tried at each failure point: `--max-states`, and a limit on samples.

use std::collections::HashMap;

use super::crash_times::Context;

/// States that are sampled at one failure point, at most.
pub const MOST_SAMPLES: u64 = 512;

/// How many states are tried at each failure point.
#[derive(Default)]
pub struct Budget {
    pub most: Option<u64>,
    pub states: HashMap<Context, u64>,
    samples: HashMap<Context, u64>,
}

impl Budget {
    pub fn new(most: Option<u64>) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    pub fn is_left(&self, point: Context) -> bool {
        self.most.is_none_or(|most| self.used(point) < most)
    }

    /// How many states were tried at a failure point.
    pub fn used(&self, point: Context) -> u64 {
        self.states.get(&point).copied().unwrap_or(0)
    }

    pub fn take(&mut self, point: Context) {
        *self.states.entry(point).or_default() += 1;
    }

    /// Whether there may be one more sample.
    pub fn is_sample_left(&self, point: Context) -> bool {
        self.samples.get(&point).copied().unwrap_or(0) < MOST_SAMPLES
    }

    pub fn take_sample(&mut self, point: Context) {
        *self.samples.entry(point).or_default() += 1;
    }
}
