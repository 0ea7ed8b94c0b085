//! The crash times whose states are sampled. They take turns, so that one with very many states holds up no other.

use std::collections::VecDeque;

use brownout_model::PossibleMemory;

use super::behaviours::NodeId;
use super::explorer::Explorer;
use super::samples::Samples;

/// Crash times with samples that were not tried.
#[derive(Default)]
pub struct SampledTimes {
    waiting: VecDeque<SampledTime>,
}

/// A crash time and its samples.
pub struct SampledTime {
    pub time: u32,
    /// An end at which recovery could have read something else too often.
    end: NodeId,
    /// `None` if none was wanted yet.
    samples: Option<Samples>,
}

impl SampledTimes {
    pub fn add(&mut self, end: NodeId, time: u32) {
        self.waiting.push_back(SampledTime {
            time,
            end,
            samples: None,
        });
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// The one whose turn it is. To be [put back](Self::put_back) if it has had a sample.
    pub fn next_turn(&mut self) -> Option<SampledTime> {
        self.waiting.pop_front()
    }

    pub fn put_back(&mut self, sampled: SampledTime) {
        self.waiting.push_back(sampled);
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl SampledTime {
    /// The next sample after which it is not known what recovery does.
    pub fn next_sample(&mut self, explorer: &mut Explorer) -> Option<PossibleMemory> {
        let Self { time, end, samples } = self;
        let samples = samples.get_or_insert_with(|| {
            let units = explorer.open_units(*end, *time);
            let situations = explorer.situations();
            let crash = situations.memory(*time, None, &explorer.behaviours);
            let is_inside = situations.depth(*time) > 1;
            let inside = is_inside.then(|| explorer.versions.unit_size());
            Samples::new(crash, units, inside, u64::from(*time))
        });
        samples.find(|memory| !explorer.is_known(memory, *time))
    }
}
