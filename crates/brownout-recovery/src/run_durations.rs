//! How long recoveries take, and how long to wait for one that may hang.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// So many recoveries that hang get the full time limit. Further ones get this, or many times what those that pass take.
const HANGS_IN_FULL: u32 = 1;
const HANG_CHECK: Duration = Duration::from_secs(1);
const PASSES_IN_A_HANG: u32 = 20;
/// The least time after which a recovery that takes several times as long as those that pass is put off. That costs little if it does
/// not hang: it is tried again.
const PUT_OFF: Duration = Duration::from_millis(300);
const PASSES_UNTIL_PUT_OFF: u32 = 4;
/// The least time after which a recovery is given up during a search.
const GIVEN_UP: Duration = Duration::from_millis(100);

/// A recovery that has run out of time is run again with more, at most so many times as much: it may be slow. If those that pass are much
/// faster, it gets no more time than this, and at least as much as before.
const MORE_TIME: u32 = 4;
const PASSES_UNTIL_SURELY_HUNG: u32 = 500;
/// The least processor time after which a branch of a recovery seems to hang. Natively it is decided whether it does.
const BRANCH_HANGS: Duration = Duration::from_millis(250);

/// What the runners of one recovery know about how long it takes.
#[derive(Debug, Default)]
pub(crate) struct RunDurations {
    hangs: AtomicU32,
    /// The time of the slowest recovery that has passed, in microseconds.
    slowest_pass: AtomicU64,
    /// Recoveries that have passed, and the time that they and their images took together, in microseconds.
    passes: AtomicU64,
    total: AtomicU64,
}

impl RunDurations {
    /// A recovery has hung.
    pub(crate) fn hung(&self) {
        self.hangs.fetch_add(1, Ordering::Relaxed);
    }

    /// A recovery has passed in this time.
    pub(crate) fn passed(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.slowest_pass.fetch_max(micros, Ordering::Relaxed);
    }

    /// A recovery that has passed took so much time, its image included.
    pub(crate) fn took(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.total.fetch_add(micros, Ordering::Relaxed);
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// What a recovery that passes takes on average, its image included.
    pub(crate) fn typical(&self) -> Duration {
        let total = self.total.load(Ordering::Relaxed);
        Duration::from_micros(total / self.known().max(1))
    }

    /// From how many recoveries that is known.
    pub(crate) fn known(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Takes over what another runner knows.
    pub(crate) fn unite(&self, other: &Self) {
        let hangs = other.hangs.load(Ordering::Relaxed);
        self.hangs.fetch_max(hangs, Ordering::Relaxed);
        self.passed(other.slowest_pass());
    }

    /// When a recovery with this time limit seems to hang. If one has hung, nobody waits as long for further ones as for the first.
    pub(crate) fn until_hung(&self, time_limit: Duration) -> Duration {
        if self.hangs.load(Ordering::Relaxed) < HANGS_IN_FULL {
            return time_limit;
        }
        let many_passes = self.slowest_pass().saturating_mul(PASSES_IN_A_HANG);
        time_limit.min(many_passes.max(HANG_CHECK))
    }

    /// When a recovery hangs that has run out of this time and is run again.
    pub(crate) fn until_surely_hung(&self, time_limit: Duration) -> Duration {
        let most = time_limit.saturating_mul(MORE_TIME);
        match self.slowest_pass() {
            Duration::ZERO => most,
            pass => {
                let many_passes = pass.saturating_mul(PASSES_UNTIL_SURELY_HUNG);
                many_passes.clamp(time_limit, most)
            }
        }
    }

    /// The processor time after which a branch of a recovery seems to hang, at most `most`.
    pub(crate) fn until_branch_hangs(&self, most: Duration) -> Duration {
        match self.slowest_pass() {
            Duration::ZERO => most,
            pass => most.min(pass.saturating_mul(PASSES_IN_A_HANG).max(BRANCH_HANGS)),
        }
    }

    /// When a recovery takes so much longer than those that pass that others are tried first.
    pub(crate) fn until_put_off(&self) -> Duration {
        let several_passes = self.slowest_pass().saturating_mul(PASSES_UNTIL_PUT_OFF);
        several_passes.max(PUT_OFF)
    }

    /// When a recovery with this time limit is given up during a search: many of its images may let recovery hang, and a pass that is
    /// missed only makes its result less exact.
    pub(crate) fn until_given_up(&self, time_limit: Duration) -> Duration {
        let patience = match (self.known(), self.slowest_pass()) {
            (0, Duration::ZERO) => time_limit,
            (0, _) => self.until_put_off(),
            _ => (self.typical() * PASSES_IN_A_HANG).max(GIVEN_UP),
        };
        time_limit.min(patience)
    }

    fn slowest_pass(&self) -> Duration {
        Duration::from_micros(self.slowest_pass.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn only_the_first_hang_gets_the_full_time() {
        let durations = RunDurations::default();
        assert_eq!(durations.until_hung(millis(5000)), millis(5000));
        durations.hung();
        assert_eq!(durations.until_hung(millis(5000)), HANG_CHECK);
        assert_eq!(durations.until_hung(millis(300)), millis(300));
        durations.passed(millis(100));
        assert_eq!(durations.until_hung(millis(5000)), millis(2000));
    }

    #[test]
    fn slow_recoveries_are_not_put_off() {
        let durations = RunDurations::default();
        assert_eq!(durations.until_put_off(), PUT_OFF);
        durations.passed(millis(200));
        durations.passed(millis(2));
        assert_eq!(durations.until_put_off(), millis(800));
    }

    #[test]
    fn a_recovery_that_is_run_again_gets_more_time_unless_those_that_pass_are_much_faster() {
        let durations = RunDurations::default();
        assert_eq!(durations.until_surely_hung(millis(5000)), millis(20000));
        durations.passed(millis(4));
        assert_eq!(durations.until_surely_hung(millis(5000)), millis(5000));
        assert_eq!(durations.until_surely_hung(millis(1000)), millis(2000));
        durations.passed(millis(25));
        assert_eq!(durations.until_surely_hung(millis(5000)), millis(12500));
        durations.passed(millis(300));
        assert_eq!(durations.until_surely_hung(millis(5000)), millis(20000));
    }

    #[test]
    fn a_branch_may_take_many_times_as_long_as_a_recovery_that_passes() {
        let durations = RunDurations::default();
        assert_eq!(durations.until_branch_hangs(millis(2000)), millis(2000));
        durations.passed(millis(2));
        assert_eq!(durations.until_branch_hangs(millis(2000)), BRANCH_HANGS);
        durations.passed(millis(40));
        assert_eq!(durations.until_branch_hangs(millis(2000)), millis(800));
        durations.passed(millis(400));
        assert_eq!(durations.until_branch_hangs(millis(2000)), millis(2000));
    }

    #[test]
    fn recoveries_are_given_up_early_once_it_is_known_how_long_they_take() {
        let durations = RunDurations::default();
        assert_eq!(durations.until_given_up(millis(5000)), millis(5000));
        durations.passed(millis(200));
        assert_eq!(durations.until_given_up(millis(5000)), millis(800));
        durations.took(millis(1));
        assert_eq!(durations.until_given_up(millis(5000)), GIVEN_UP);
        durations.took(millis(99));
        assert_eq!(durations.until_given_up(millis(5000)), millis(1000));
        assert_eq!(durations.until_given_up(millis(500)), millis(500));
    }

    #[test]
    fn runners_learn_from_each_other() {
        let (one, other) = (RunDurations::default(), RunDurations::default());
        one.hung();
        other.passed(millis(100));
        let shared = RunDurations::default();
        shared.unite(&one);
        shared.unite(&other);
        assert_eq!(shared.until_hung(millis(9000)), millis(2000));
    }
}
