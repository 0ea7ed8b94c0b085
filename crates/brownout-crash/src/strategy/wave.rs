//! How many crash points are tried in one wave.
//!
//! A wave costs a pass over the trace, and its crash points are tried in the order of the trace, not in that of what they
//! promise. So a wave lasts a few times as long as a pass, and not much longer: the time limit then cuts off what promises
//! least, whether recovery takes a millisecond or a second.

use std::time::{Duration, Instant};

/// Crash points of the first wave, of the smallest and of the largest.
const FIRST: usize = 64;
const SMALLEST: usize = 16;
const LARGEST: usize = 8192;
/// How long a wave lasts at least, and in passes over the trace.
const SHORTEST: Duration = Duration::from_millis(1500);
const PASSES: u32 = 4;
/// A wave is at most so many times as large as the one before, which may have been short by chance.
const GROWTH: f64 = 4.0;

/// Chooses the sizes of waves.
#[derive(Debug)]
pub struct WaveSize {
    target: Duration,
    size: usize,
    /// When the last wave began.
    began: Option<Instant>,
    /// Crash points that were proposed in it. Those that another part of the test tries cost nothing, so the next wave can have more.
    proposed: usize,
}

impl WaveSize {
    /// `pass` is how long a pass over the trace takes.
    pub fn new(pass: Duration) -> Self {
        Self {
            target: SHORTEST.max(pass * PASSES),
            size: FIRST,
            began: None,
            proposed: 0,
        }
    }

    /// The wave that has just begun has this many crash points.
    pub fn proposed(&mut self, count: usize) {
        self.proposed = count;
    }

    /// The size of the wave that begins now.
    pub fn next(&mut self) -> usize {
        let proposed = std::mem::take(&mut self.proposed);
        if let Some(began) = self.began.replace(Instant::now()) {
            self.size = next_size(self.size, proposed, began.elapsed(), self.target);
        }
        self.size
    }
}

/// The size of a wave that lasts as long as `target`, if one of `proposed` crash points took `elapsed`. A wave that was short because there
/// was little to try does not make the next one smaller.
fn next_size(size: usize, proposed: usize, elapsed: Duration, target: Duration) -> usize {
    let factor = target.as_secs_f64() / elapsed.as_secs_f64().max(1e-6);
    let wanted = (proposed as f64 * factor.min(GROWTH)) as usize;
    let least = if factor < 1.0 { SMALLEST } else { size };
    wanted.clamp(least, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_lasts_about_as_long_as_wanted() {
        let second = Duration::from_secs(1);
        assert_eq!(next_size(64, 64, 8 * second, 2 * second), SMALLEST);
        assert_eq!(next_size(200, 200, 4 * second, 2 * second), 100);
        assert_eq!(next_size(64, 64, second / 1000, second), 256);
        assert_eq!(next_size(LARGEST, LARGEST, second, 9 * second), LARGEST);
        assert_eq!(next_size(100, 2, second / 1000, second), 100);
        assert_eq!(next_size(100, 100, Duration::ZERO, second), 400);
    }
}
