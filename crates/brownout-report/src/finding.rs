//! The type in which all analyses report.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fingerprint;
use crate::stack::role;
use crate::{
    Category, Evidence, Frame, LinelessId, Mistake, RuleInfo, Severity, SourceFix, Sources, Stack,
};

/// A bug or a suspicious pattern in the target. Field names are those of `findings.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub id: FindingId,
    pub rule: String,
    /// What the rule reports. It is not written: whoever reads findings knows the rules.
    #[serde(skip)]
    pub mistake: Mistake,
    pub severity: Severity,
    pub category: Category,
    /// What happened, in a sentence without a full stop.
    pub message: String,
    /// How many times it occurred.
    pub count: u64,
    /// The calling contexts involved; the first is the one to look at first.
    pub stacks: Vec<Stack>,
    #[serde(default)]
    pub evidence: Evidence,
    /// The token with which `brownout replay` repeats it.
    #[serde(default)]
    pub replay: Option<String>,
    /// Of a crash finding: the finding that names the same stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FindingId>,
    /// Whether recovery fails because of it: true if it failed on an image that shows it, false if it passed on every
    /// image tried, absent if it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
    /// Whether recovery reads bytes that its stores write; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_by_recovery: Option<bool>,
    /// How it can be repaired, if `brownout fix` has found that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<SourceFix>,
}

impl Finding {
    /// How crash testing has confirmed it, in a sentence, if it has.
    pub fn proof(&self) -> Option<&str> {
        let proof = self.evidence.details.get(Evidence::CONFIRMED);
        proof.map(String::as_str)
    }

    /// Whether recovery overwrites the bytes that it is about before it reads them, so that it cannot notice that they were lost.
    pub fn is_overwritten(&self) -> bool {
        self.evidence.details.contains_key(Evidence::OVERWRITTEN)
    }

    /// The token that repeats a crash. A finding without a crash has the position of its first event instead.
    pub fn crash_token(&self) -> Option<&str> {
        let token = self.replay.as_deref();
        token.filter(|token| !token.starts_with("event:"))
    }

    /// The directory, inside of the results directory, with the trace that shows it, if it is another one than theirs.
    pub fn results_in(&self) -> Option<&str> {
        let directory = self.evidence.details.get(Evidence::RESULTS_IN);
        directory.map(String::as_str)
    }

    /// Whether it is about another run than that of the trace in the results directory.
    pub fn is_of_other_run(&self) -> bool {
        self.results_in().is_some()
    }

    /// A finding that occurred once. Its id depends on line numbers until it is [identified](Self::identify).
    pub fn new(
        rule: &RuleInfo,
        message: impl Into<String>,
        stacks: Vec<Stack>,
        evidence: Evidence,
    ) -> Self {
        Self {
            id: fingerprint::exact(rule.id, &stacks),
            rule: rule.id.to_owned(),
            mistake: rule.policy.mistake,
            severity: rule.severity,
            category: rule.category,
            message: message.into(),
            count: 1,
            stacks,
            evidence,
            replay: None,
            cause: None,
            confirmed: None,
            read_by_recovery: None,
            fix: None,
        }
    }

    /// Whether a recovery was run on a crash image to find it.
    pub(crate) fn is_crash_finding(&self) -> bool {
        let first = self.stacks.first();
        let roles = [role::FAILURE_POINT, role::INTERRUPTED_RECOVERY];
        first.is_some_and(|stack| roles.contains(&stack.role.as_str()))
    }

    /// The last line that a failed recovery printed.
    pub(crate) fn last_output_line(&self) -> Option<&str> {
        let output = self.evidence.details.get(Evidence::LAST_OUTPUT)?;
        output.lines().last()
    }

    /// The frame shown as the location of the finding.
    pub fn primary_frame(&self) -> Option<&Frame> {
        self.stacks.first()?.primary_frame()
    }

    /// Gives the finding the id that depends on the text of its source lines instead of their numbers. To be called
    /// when the finding is made: later, the sources may have changed.
    pub fn identify(&mut self, sources: &Sources) {
        self.id = fingerprint::by_text(&self.rule, &self.stacks, sources);
    }

    /// A recovery has failed because of it, whatever recovery has done on the images that were tried for this finding.
    pub(crate) fn caused_failure(&mut self) {
        self.severity = Severity::Bug;
        self.evidence.details.remove(Evidence::OVERWRITTEN);
        for known in [&mut self.confirmed, &mut self.read_by_recovery] {
            *known = known.map(|_| true);
        }
    }

    /// Takes over what recovery has shown about `other`, which is counted with this finding: it is confirmed, or read by
    /// recovery, if one of them is, and harmless or unread as far as is known only if both are.
    pub(crate) fn adopt_confirmation(&mut self, other: &Self) {
        if other.confirmed == Some(true) && self.confirmed != Some(true) {
            self.severity = other.severity;
            self.replay.clone_from(&other.replay);
            let proof = other.evidence.details.clone();
            self.evidence.details.extend(proof);
        }
        if !other.is_overwritten() {
            self.evidence.details.remove(Evidence::OVERWRITTEN);
        }
        self.confirmed = either_known(self.confirmed, other.confirmed);
        self.read_by_recovery = either_known(self.read_by_recovery, other.read_by_recovery);
    }

    /// Joins what another run has shown about the same finding: the run that shows most gives the evidence, and occurrences are
    /// added up.
    pub fn add_run(&mut self, other: Self) {
        let (count, severity) = (
            self.count.saturating_add(other.count),
            self.severity.min(other.severity),
        );
        let is_stronger = other.shows_more_than(self);
        let weaker = match is_stronger {
            true => std::mem::replace(self, other),
            false => other,
        };
        self.count = count;
        self.severity = severity;
        self.adopt_confirmation(&weaker);
        self.cause = self.cause.take().or(weaker.cause);
    }

    /// Whether the run of this finding shows more than that of `other`, which is the same finding.
    pub fn shows_more_than(&self, other: &Self) -> bool {
        self.strength() > other.strength()
    }

    /// How much a run shows about a finding: that recovery fails, a worse severity, or what has happened instead of what can.
    fn strength(&self) -> (bool, Reverse<Severity>, bool) {
        let race = self.evidence.details.get(Evidence::RACE);
        let is_observed = race.is_some_and(|race| race.starts_with(Evidence::OBSERVED));
        (
            self.confirmed == Some(true),
            Reverse(self.severity),
            is_observed,
        )
    }

    /// What is known about the bytes, in a phrase.
    pub(crate) fn reads_phrase(&self) -> Option<&'static str> {
        self.read_by_recovery.map(|is_read| match is_read {
            true => "recovery reads these bytes",
            false if self.is_overwritten() => {
                "recovery overwrites these bytes before it reads them"
            }
            false => "recovery never reads these bytes",
        })
    }

    /// Whether the id depends on line numbers, because no source text is known.
    pub(crate) fn is_identified_by_numbers(&self) -> bool {
        self.id == fingerprint::exact(&self.rule, &self.stacks)
    }

    /// An id that is the same for findings that differ only in line numbers.
    pub fn lineless_id(&self) -> LinelessId {
        fingerprint::lineless(&self.rule, &self.stacks)
    }
}

/// Whether one of two facts holds, as far as is known.
pub fn either_known(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// Identifies a finding: the same rule on the same symbolised stacks and source text has the same id in every run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FindingId(pub(crate) String);

impl FindingId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// A race as a run under a schedule shows it.
    fn race(schedule: &str, severity: Severity, how: &str, count: u64) -> Finding {
        let mut finding = samples::finding();
        (finding.severity, finding.count) = (severity, count);
        finding.message = how.to_owned();
        for (name, text) in [(Evidence::RACE, how), (Evidence::SCHEDULE, schedule)] {
            let details = &mut finding.evidence.details;
            details.insert(name.to_owned(), text.to_owned());
        }
        finding
    }

    #[test]
    fn of_several_runs_the_one_that_shows_most_gives_the_evidence() {
        let inferred = race("1", Severity::Warning, "inferred", 1);
        let observed = race("2", Severity::Warning, "observed once in this run", 2);
        let bug = race("3", Severity::Bug, "observed once in this run", 4);
        let mut confirmed = race("4", Severity::Bug, "inferred", 8);
        confirmed.confirmed = Some(true);
        let by_strength = [inferred, observed, bug, confirmed];
        for stronger in 1..by_strength.len() {
            for weaker in 0..stronger {
                let (one, other) = (&by_strength[weaker], &by_strength[stronger]);
                let mut expected = other.clone();
                expected.count += one.count;
                for (first, second) in [(one, other), (other, one)] {
                    let mut joined = first.clone();
                    joined.add_run(second.clone());
                    assert_eq!(joined, expected);
                }
            }
        }
    }

    #[test]
    fn of_equal_runs_the_first_gives_the_evidence() {
        let mut joined = race("1", Severity::Bug, "inferred", 1);
        joined.add_run(race("2", Severity::Bug, "inferred", 1));
        assert_eq!(joined, race("1", Severity::Bug, "inferred", 2));
    }

    #[test]
    fn recovery_copes_with_it_only_if_it_does_in_each_run() {
        let mut passed = race("1", Severity::Warning, "inferred", 1);
        passed.confirmed = Some(false);
        let mut joined = passed.clone();
        joined.add_run(passed.clone());
        assert_eq!(joined.confirmed, Some(false));
        joined.add_run(race("2", Severity::Warning, "inferred", 1));
        assert_eq!(joined.confirmed, None);
    }
}
