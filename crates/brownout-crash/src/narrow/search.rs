//! Tries images between one that passes and one that does not.

use std::sync::atomic::{AtomicBool, Ordering};

use brownout_trace::replay::Content;

use super::between::{Between, Unit};
use crate::image::CrashImage;
use crate::minimize::minimize;
use crate::recovery_environment::CrashSituation;
use brownout_recovery::{RecoveryRunner, RunnerError};

/// A larger set of stores explains nothing.
const MOST_CULPRITS: usize = 6;

/// How many of the stores that lint names are tried first: those nearest to the failing image.
const MOST_GUESSED: usize = 8;

/// Runs recovery on images to find out which stores matter.
pub(super) struct Search<'a> {
    runner: &'a mut RecoveryRunner,
    /// That of the failure.
    situation: CrashSituation,
    tests: u64,
    budget: usize,
    /// Set when nobody waits for the result any more.
    stopped: &'a AtomicBool,
}

impl<'a> Search<'a> {
    /// Runs up to `budget` recoveries to minimise the set in each direction, until `stopped` is set. Its result is of no use then.
    pub(super) fn new(
        runner: &'a mut RecoveryRunner,
        situation: CrashSituation,
        budget: usize,
        stopped: &'a AtomicBool,
    ) -> Self {
        Self {
            runner,
            situation,
            tests: 0,
            budget,
            stopped,
        }
    }

    /// Recoveries run so far.
    pub(super) fn tests(&self) -> u64 {
        self.tests
    }

    /// The units before a failing image without which recovery passes.
    pub(super) fn present(
        &mut self,
        good: &CrashImage,
        before: &Between,
    ) -> Result<Vec<usize>, RunnerError> {
        let count = before.units.len();
        let suspected = (0..count)
            .rev()
            .filter(|&unit| before.units[unit].is_suspected);
        let guess = self.guess(suspected, |part| {
            let kept = (0..count).filter(|unit| !part.contains(unit));
            with_units(good, &before.units, kept)
        })?;
        if let Some(found) = guess {
            return Ok(found);
        }
        // Backwards from the failing image, to the last prefix of the run that passes.
        let back = nearest(count, |back| self.prefix_passes(good, before, count - back))?;
        let Some(passes) = back.map(|back| count - back) else {
            return Ok(Vec::new());
        };
        let base = with_units(good, &before.units, 0..passes);
        // Prefer the newest stores.
        let window: Vec<usize> = (passes..count).rev().collect();
        let found = self.smallest(&window, |part| {
            let kept = (passes..count).filter(|unit| !part.contains(unit));
            with_units(&base, &before.units, kept)
        })?;
        Ok(found.unwrap_or_else(|| vec![passes]))
    }

    /// The units after a failing image with which recovery passes.
    pub(super) fn absent(
        &mut self,
        bad: &CrashImage,
        after: &Between,
    ) -> Result<Vec<usize>, RunnerError> {
        let count = after.units.len();
        let with = |part: &[usize]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            with_units(bad, &after.units, part.into_iter())
        };
        let suspected = (0..count).filter(|&unit| after.units[unit].is_suspected);
        if let Some(found) = self.guess(suspected, with)? {
            return Ok(found);
        }
        let Some(passes) = nearest(count, |on| self.prefix_passes(bad, after, on))? else {
            return Ok(Vec::new());
        };
        let window: Vec<usize> = (0..passes).collect();
        let found = self.smallest(&window, with)?;
        Ok(found.unwrap_or_else(|| vec![passes - 1]))
    }

    /// Whether recovery passes after the first `count` units, with the operation of that instant.
    fn prefix_passes(
        &mut self,
        base: &CrashImage,
        between: &Between,
        count: usize,
    ) -> Result<bool, RunnerError> {
        let next = between.units.get(count);
        let operation = next.map_or(between.operation, |unit| unit.operation);
        let operation = self.situation.operation.map(|_| operation);
        let situation = CrashSituation {
            operation,
            ..self.situation.clone()
        };
        self.passes(|| with_units(base, &between.units, 0..count), &situation)
    }

    /// Whether recovery passes on an image.
    fn passes(
        &mut self,
        image: impl FnOnce() -> CrashImage,
        situation: &CrashSituation,
    ) -> Result<bool, RunnerError> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.tests += 1;
        self.runner.passes(&image().files, &situation.task())
    }

    /// The smallest set of some units that lint suspects, the likeliest first, for which recovery passes on its image, if there is one.
    fn guess(
        &mut self,
        suspected: impl Iterator<Item = usize>,
        image: impl Fn(&[usize]) -> CrashImage,
    ) -> Result<Option<Vec<usize>>, RunnerError> {
        let suspected: Vec<usize> = suspected.take(MOST_GUESSED).collect();
        let situation = self.situation.clone();
        match &suspected[..] {
            [] => Ok(None),
            [_] => {
                let passes = self.passes(|| image(&suspected), &situation)?;
                Ok(passes.then_some(suspected))
            }
            _ => self.smallest(&suspected, image),
        }
    }

    /// The smallest subset of `window` for which recovery passes on its image, if it is small enough to explain something.
    fn smallest(
        &mut self,
        window: &[usize],
        image: impl Fn(&[usize]) -> CrashImage,
    ) -> Result<Option<Vec<usize>>, RunnerError> {
        let (situation, budget) = (self.situation.clone(), self.budget);
        let mut passes = |part: &[usize]| self.passes(|| image(part), &situation);
        // The whole window gives an image that passed, but perhaps with another operation.
        if window.len() < 2 || !passes(window)? {
            return Ok(None);
        }
        let members = |part: &[usize]| part.iter().map(|&at| window[at]).collect::<Vec<_>>();
        let found = minimize(window.len(), budget, |part| passes(&members(part)))?;
        let mut part = members(&found.part);
        part.sort_unstable();
        Ok((part.len() <= MOST_CULPRITS).then_some(part))
    }
}

/// The smallest distance up to `farthest` at which recovery passes, given that it fails at 0; searched in ever longer steps,
/// and then by halving. If recovery passes and fails alternately, one of the distances at which it starts to pass.
fn nearest<E>(
    farthest: usize,
    mut passes: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    let (mut failing, mut distance) = (0, 1);
    while !passes(distance.min(farthest))? {
        if distance >= farthest {
            return Ok(None);
        }
        (failing, distance) = (distance, distance * 2);
    }
    let mut passing = distance.min(farthest);
    while passing - failing > 1 {
        let middle = failing.midpoint(passing);
        if passes(middle)? {
            passing = middle;
        } else {
            failing = middle;
        }
    }
    Ok(Some(passing))
}

fn with_units(
    base: &CrashImage,
    units: &[Unit],
    chosen: impl Iterator<Item = usize>,
) -> CrashImage {
    let mut image = base.clone();
    for unit in chosen {
        for change in &units[unit].changes {
            let file = image.files[change.file].get_or_insert_with(Content::default);
            file.write(change.offset, &change.bytes);
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_nearest_is_found_in_few_steps() {
        for (wanted, farthest) in [(1, 1), (1, 9), (2, 2), (7, 7), (7, 1000), (617, 1000)] {
            let mut tests = 0;
            let found = nearest(farthest, |distance| {
                assert!((1..=farthest).contains(&distance));
                tests += 1;
                Ok::<_, Infallible>(distance >= wanted)
            });
            assert_eq!(found, Ok(Some(wanted)));
            assert!(tests <= 21, "{tests} tests for {wanted} of {farthest}");
        }
        assert_eq!(nearest(9, |_| Ok::<_, Infallible>(false)), Ok(None));
    }
}
