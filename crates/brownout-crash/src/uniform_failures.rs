//! Recognises a test in which recovery fails on every image in the same way: more images show nothing new.

use crate::trial::Trial;

/// So many different images must fail alike, and none may pass.
const ENOUGH: u64 = 200;

/// Whether all trials so far have failed alike.
#[derive(Debug, Default)]
pub struct UniformFailures {
    /// How recovery fails, and on how many images.
    alike: Option<(String, u64)>,
    is_mixed: bool,
}

impl UniformFailures {
    /// Takes the next trial.
    pub fn add(&mut self, trial: &Trial) {
        if self.is_mixed || trial.same_as.is_some() {
            return;
        }
        let failure = trial.failure.as_ref();
        let Some(signature) = failure.map(|failure| failure.signature(&trial.verdict)) else {
            self.is_mixed = true;
            return;
        };
        match &mut self.alike {
            None => self.alike = Some((signature, 1)),
            Some((known, count)) if *known == signature => *count += 1,
            Some(_) => self.is_mixed = true,
        }
    }

    /// Whether the others will fail, too, as far as anyone can tell.
    pub fn are_enough(&self) -> bool {
        let alike = self.alike.as_ref().filter(|_| !self.is_mixed);
        alike.is_some_and(|&(_, count)| count >= ENOUGH)
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

    fn trial(event: u64, verdict: Verdict) -> Trial {
        Trial {
            point: CrashPoint::program_order(event),
            kind: PointKind::Fence,
            purpose: TrialPurpose::default(),
            operation: None,
            image: event.to_string(),
            same_as: None,
            reached_from: None,
            failure: (!verdict.passed()).then(Failure::default),
            verdict,
            fails_anyway: false,
            seconds: 0.0,
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    fn are_enough(verdicts: impl IntoIterator<Item = Verdict>) -> bool {
        let mut failures = UniformFailures::default();
        for (event, verdict) in (0..).zip(verdicts) {
            failures.add(&trial(event, verdict));
        }
        failures.are_enough()
    }

    #[test]
    fn many_failures_of_one_kind_are_enough() {
        let alike = || std::iter::repeat_n(Verdict::Failed(1), ENOUGH as usize);
        assert!(are_enough(alike()));
        assert!(!are_enough(alike().skip(1)));
        assert!(!are_enough(alike().chain([Verdict::Passed])));
        assert!(!are_enough(alike().chain([Verdict::Failed(2)])));
    }
}
