//! Trials that are put off because their recovery takes much longer than usual.
//!
//! To find out that a recovery hangs takes many times as long as a recovery that passes. So only the first one that seems to hang is
//! waited for at once; others are put off, and tried in small numbers when each failure point that has to be tried was started.
//! Otherwise a mistake that makes recovery hang at every other failure point would hide all other mistakes within the time limit.
//!
//! Nothing is concluded from the short time: a trial that is put off and not tried again has no verdict.

use std::collections::VecDeque;

use crate::campaign::Key;
use crate::image::CrashImage;
use crate::recovery_environment::CrashSituation;
use crate::strategy::ProposedCrash;

/// Trials that are kept; if there are more, they are not put off.
const MOST: usize = 1 << 10;

/// What a trial needs.
#[derive(Debug)]
pub(crate) struct TrialInput {
    pub(crate) key: Key,
    pub(crate) proposal: ProposedCrash,
    pub(crate) image: CrashImage,
    pub(crate) situation: CrashSituation,
}

/// The trials that were put off, the first one first.
#[derive(Debug, Default)]
pub(crate) struct Postponed {
    trials: VecDeque<TrialInput>,
    /// The trial of the first recovery that seems to hang: it is not put off.
    first: Option<Key>,
}

impl Postponed {
    /// Puts a trial off. Returns it if it has to be tried at once.
    pub(crate) fn put_off(&mut self, trial: TrialInput) -> Option<TrialInput> {
        if self.first.is_none() {
            self.first = Some(trial.key);
            return Some(trial);
        }
        if self.trials.len() >= MOST {
            return Some(trial);
        }
        self.trials.push_back(trial);
        None
    }

    /// A trial has a verdict. If the first recovery that seemed to hang has ended after all, the next one is waited for.
    pub(crate) fn decided(&mut self, key: Key, hangs: bool) {
        if self.first == Some(key) && !hangs {
            self.first = None;
        }
    }

    /// At most so many of them, which are to be tried now.
    pub(crate) fn take(&mut self, most: usize) -> Vec<TrialInput> {
        let count = most.min(self.trials.len());
        self.trials.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brownout_trace::EventIndex;

    use super::*;
    use crate::failure_point::{FailurePoint, Occurrence, PointKind};
    use crate::image::ImageDigest;
    use crate::operation::Operation;

    fn key(number: u64) -> Key {
        (ImageDigest(number.into()), None)
    }

    fn trial(number: u64) -> TrialInput {
        let occurrence = Occurrence {
            event: EventIndex(number),
            operation: Operation::default(),
        };
        TrialInput {
            key: key(number),
            proposal: ProposedCrash::from(FailurePoint {
                kind: PointKind::Fence,
                stack: None,
                occurrence,
            }),
            image: CrashImage { files: Vec::new() },
            situation: CrashSituation {
                event: number,
                operation: None,
                time_limit: Duration::from_secs(5),
            },
        }
    }

    /// Which of these trials are put off.
    fn put_off(postponed: &mut Postponed, numbers: &[u64]) -> Vec<u64> {
        let mut numbers = numbers.to_vec();
        numbers.retain(|&number| postponed.put_off(trial(number)).is_none());
        numbers
    }

    #[test]
    fn all_but_the_first_are_put_off_and_come_back_in_order() {
        let mut postponed = Postponed::default();
        assert_eq!(put_off(&mut postponed, &[1, 2, 3, 4]), [2, 3, 4]);
        postponed.decided(key(1), true);
        assert_eq!(put_off(&mut postponed, &[5]), [5]);
        let numbers = |trials: Vec<TrialInput>| -> Vec<u64> {
            trials.iter().map(|trial| trial.situation.event).collect()
        };
        assert_eq!(numbers(postponed.take(2)), [2, 3]);
        assert_eq!(numbers(postponed.take(9)), [4, 5]);
        assert!(postponed.take(1).is_empty());
    }

    #[test]
    fn if_the_first_one_ends_another_one_is_waited_for() {
        let mut postponed = Postponed::default();
        assert_eq!(put_off(&mut postponed, &[1, 2]), [2]);
        postponed.decided(key(7), false);
        assert_eq!(put_off(&mut postponed, &[3]), [3], "it is another one");
        postponed.decided(key(1), false);
        assert_eq!(put_off(&mut postponed, &[4, 5]), [5]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut postponed = Postponed::default();
        let numbers: Vec<u64> = (0..2 * MOST as u64).collect();
        assert_eq!(put_off(&mut postponed, &numbers).len(), MOST);
    }
}
