//! Which of two sources of crashes is next: the one whose recoveries are expected to show more that is new.
//!
//! The value of a source is the rate at which its recoveries have failed in ways that none before has. A failure is new if no other was at
//! the same line with the same last lost store. Rates of the past fade, and each source keeps a share: what has shown nothing so far may be
//! about to. Until one has shown more than the other, they take turns. The order decides what is tried when the time is over, never whether
//! something is tried.

use std::collections::HashSet;

use crate::trial::Trial;

/// A source of crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Representatives,
    Further,
}

/// The smallest share of a source.
const LEAST: f64 = 0.25;
/// After so many recoveries of a source, those before count half.
const HALF_LIFE: f64 = 1024.0;
/// Recoveries that a source is taken to have had, one of which has shown something.
const PRIOR: f64 = 64.0;

#[derive(Debug, Default)]
struct Rate {
    recoveries: f64,
    new_failures: f64,
}

impl Rate {
    fn value(&self) -> f64 {
        (self.new_failures + 1.0) / (self.recoveries + PRIOR)
    }

    fn add(&mut self, is_new_failure: bool) {
        self.recoveries += 1.0;
        self.new_failures += f64::from(u8::from(is_new_failure));
        if self.recoveries >= HALF_LIFE {
            self.recoveries /= 2.0;
            self.new_failures /= 2.0;
        }
    }
}

/// Follows what the sources have shown.
#[derive(Debug, Default)]
pub struct ExpectedValues {
    representatives: Rate,
    further: Rate,
    /// The lines of failures and of their last lost stores.
    failures: HashSet<(String, Option<String>)>,
    /// How many turns the representatives are ahead or behind.
    due: f64,
}

impl ExpectedValues {
    /// A crash was tried; `source` is where it came from, if it is one of these.
    pub fn learn(&mut self, trial: &Trial, source: Option<Source>) {
        let failure = trial.failure.as_ref().filter(|_| trial.is_failure());
        let is_new = failure.is_some_and(|failure| {
            let key = (failure.line.clone(), failure.lost.clone());
            self.failures.insert(key)
        });
        // An image that was known takes no recovery.
        let is_recovery = trial.same_as.is_none() && trial.reached_from.is_none();
        match source.filter(|_| is_recovery) {
            Some(Source::Representatives) => self.representatives.add(is_new),
            Some(Source::Further) => self.further.add(is_new),
            None => {}
        }
    }

    /// The source that is next.
    pub fn next(&mut self) -> Source {
        let values = [self.representatives.value(), self.further.value()];
        let share = values[0] / (values[0] + values[1]);
        self.due += share.clamp(LEAST, 1.0 - LEAST);
        if self.due >= 0.5 {
            self.due -= 1.0;
            return Source::Representatives;
        }
        Source::Further
    }
}

#[cfg(test)]
mod tests {
    use brownout_recovery::Verdict;

    use super::*;
    use crate::coverage::TrialPurpose;
    use crate::crash_point::CrashPoint;
    use crate::failure_point::PointKind;
    use crate::trial::Failure;

    fn trial(line: Option<&str>) -> Trial {
        let failure = line.map(|line| Failure {
            line: line.to_owned(),
            ..Failure::default()
        });
        Trial {
            point: CrashPoint::program_order(1),
            kind: PointKind::Flush,
            purpose: TrialPurpose::default(),
            operation: None,
            image: String::new(),
            same_as: None,
            reached_from: None,
            verdict: match failure {
                Some(_) => Verdict::Failed(1),
                None => Verdict::Passed,
            },
            fails_anyway: false,
            seconds: 0.0,
            failure,
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    /// How many of 100 turns representatives have.
    fn turns(values: &mut ExpectedValues) -> usize {
        let turns = (0..100).map(|_| values.next());
        turns
            .filter(|source| *source == Source::Representatives)
            .count()
    }

    #[test]
    fn sources_take_turns_until_one_has_shown_more() {
        let mut values = ExpectedValues::default();
        assert_eq!(values.next(), Source::Representatives);
        assert_eq!(values.next(), Source::Further);
        assert_eq!(turns(&mut values), 50);
    }

    #[test]
    fn new_failures_raise_the_share_of_their_source_and_the_other_keeps_one() {
        let mut values = ExpectedValues::default();
        for number in 0..40 {
            values.learn(
                &trial(Some(&format!("kv.c:{number}"))),
                Some(Source::Further),
            );
            values.learn(&trial(None), Some(Source::Representatives));
        }
        assert_eq!(turns(&mut values), 25);
        // The same failure again is nothing new.
        let mut values = ExpectedValues::default();
        for _ in 0..40 {
            values.learn(&trial(Some("kv.c:7")), Some(Source::Further));
            values.learn(&trial(None), Some(Source::Representatives));
        }
        let share = turns(&mut values);
        assert!((30..40).contains(&share), "{share}");
    }
}
