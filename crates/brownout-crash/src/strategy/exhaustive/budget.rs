//! How many states are tried at each failure point: `--max-states`, and a limit on samples.

use std::collections::HashMap;

use super::crash_times::Context;

/// States that are sampled at one failure point, at most.
const MOST_SAMPLES: u64 = 512;

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
        let used = self.states.get(&point).copied().unwrap_or(0);
        self.most.is_none_or(|most| used < most)
    }

    pub fn take(&mut self, point: Context) {
        *self.states.entry(point).or_default() += 1;
    }

    /// Takes a sample, if there may be one more.
    pub fn take_sample(&mut self, point: Context) -> bool {
        let samples = self.samples.entry(point).or_default();
        let is_left = *samples < MOST_SAMPLES;
        *samples += u64::from(is_left);
        is_left
    }
}
