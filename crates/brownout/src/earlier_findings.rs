//! Findings of earlier results, and what an earlier crash test has shown about them.
//!
//! A command repeats one analysis and keeps what the others have found. Crash testing also says something about findings of
//! lint: whether recovery fails because of them. That is kept while the crash test is kept, and forgotten when another one
//! begins.

use std::collections::HashMap;

use brownout_report::{Evidence, Finding, FindingId, JoinedFinding, RuleInfo, Severity};

use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::rules;
use crate::stored_results::{read_findings, read_suppressed};
use crate::suspects;

/// Whose findings are taken from earlier results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingsOf {
    CrashTesting,
    /// All analyses of the trace alone.
    TraceAnalyses,
    /// All analyses of the trace alone but the search for races.
    Lint,
    Races,
    /// All analyses but the search for races.
    OtherThanRaces,
}

impl FindingsOf {
    /// Whether these are findings of a rule.
    pub fn are_of(self, rule: &str) -> bool {
        match self {
            Self::CrashTesting => rules::is_crash_rule(rule),
            Self::TraceAnalyses => !rules::is_crash_rule(rule),
            Self::Lint => !rules::is_crash_rule(rule) && !rules::is_race_rule(rule),
            Self::Races => rules::is_race_rule(rule),
            Self::OtherThanRaces => !rules::is_race_rule(rule),
        }
    }

    fn include(self, finding: &Finding) -> bool {
        self.are_of(&finding.rule)
    }
}

/// The findings of some analyses in a directory.
pub fn earlier_findings(
    directory: &OutputDirectory,
    wanted: FindingsOf,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = all_separated(directory)?;
    findings.retain(|finding| wanted.include(finding));
    Ok(findings)
}

/// All findings in a directory, including suppressed ones and each of those that are joined: suppressions and the baseline are
/// applied again.
fn all_separated(directory: &OutputDirectory) -> Result<Vec<Finding>, Failure> {
    let found = read_findings(directory)?.into_iter();
    let suppressed = read_suppressed(directory)?.into_iter();
    let all = found.chain(suppressed.map(|suppressed| suppressed.finding));
    Ok(all.flat_map(Finding::separated).collect())
}

/// Adds what an earlier crash test has shown to `fresh` findings of lint about the same trace: its own findings, and which of
/// the others it has confirmed. A confirmed finding of a rule that is not applied any more stays, unless the rule `is_off`.
pub fn keep_crash_test(
    directory: &OutputDirectory,
    fresh: &mut [Finding],
    is_off: impl Fn(&str) -> bool,
) -> Result<Vec<Finding>, Failure> {
    let mut kept = Vec::new();
    for earlier in all_separated(directory)? {
        let is_known = |finding: &Finding| finding.id == earlier.id;
        if FindingsOf::CrashTesting.include(&earlier) {
            kept.push(earlier);
            continue;
        }
        if FindingsOf::Races.include(&earlier) || earlier.is_of_other_run() {
            continue;
        }
        for finding in fresh.iter_mut() {
            take_over(finding, &earlier);
        }
        if earlier.confirmed == Some(true) && !fresh.iter().any(is_known) && !is_off(&earlier.rule)
        {
            kept.push(earlier);
        }
    }
    Ok(kept)
}

/// Takes over what crash testing has shown about a finding, if `earlier` represents it.
fn take_over(finding: &mut Finding, earlier: &Finding) {
    let joined = earlier.evidence.joined.iter();
    let joined = joined.map(|other| (&other.id, other.confirmed));
    let own = (&earlier.id, earlier.confirmed);
    let represented: Vec<(&FindingId, Option<bool>)> = std::iter::once(own).chain(joined).collect();
    let Some((_, confirmed)) = represented.iter().find(|(id, _)| **id == finding.id) else {
        return;
    };
    finding.confirmed = *confirmed;
    finding.read_by_recovery = earlier.read_by_recovery;
    if *confirmed == Some(true) {
        finding.severity = Severity::Bug;
        finding.replay.clone_from(&earlier.replay);
    }
    if confirmed.is_some() {
        for name in suspects::PROOF_DETAILS {
            if let Some(detail) = earlier.evidence.details.get(name) {
                let details = &mut finding.evidence.details;
                details.insert(name.to_owned(), detail.clone());
            }
        }
    }
}

/// Gives findings that were joined in earlier results the stacks and evidence that lint finds for them now: results keep only the
/// first stack of those that another one represents.
pub fn complete<'f>(findings: &mut [Finding], fresh: impl Iterator<Item = &'f Finding>) {
    let fresh: HashMap<&FindingId, &Finding> =
        fresh.map(|finding| (&finding.id, finding)).collect();
    for finding in findings {
        let was_joined = finding.evidence.joined_before.is_some();
        if let Some(fresh) = fresh.get(&finding.id).filter(|_| was_joined) {
            finding.stacks.clone_from(&fresh.stacks);
            let mut details = fresh.evidence.details.clone();
            details.append(&mut finding.evidence.details);
            finding.evidence = Evidence {
                details,
                joined: std::mem::take(&mut finding.evidence.joined),
                joined_before: finding.evidence.joined_before.take(),
                ..fresh.evidence.clone()
            };
        }
    }
}

/// Removes what an earlier crash test of the trace has shown about findings of lint. They are again as in `fresh`, or, if they are
/// not there, as the rules that were `applied` report them. A finding of another rule was there only because it was confirmed.
pub fn forget_crash_test(findings: &mut Vec<Finding>, applied: &[RuleInfo], fresh: &[Finding]) {
    let severity_of = |rule: &str| {
        let applied = applied.iter().find(|known| known.id == rule);
        applied.map(|rule| rule.severity)
    };
    findings.retain_mut(|finding| {
        if finding.is_of_other_run() {
            return true;
        }
        finding.read_by_recovery = None;
        finding.evidence.joined.retain_mut(|other| {
            let stays = other.confirmed != Some(true) || severity_of(&other.rule).is_some();
            forget_joined(other, severity_of(&other.rule));
            stays
        });
        for name in suspects::PROOF_DETAILS {
            finding.evidence.details.remove(name);
        }
        let Some(confirmed) = finding.confirmed.take() else {
            return true;
        };
        let mut fresh = fresh.iter();
        if let Some(fresh) = fresh.find(|fresh| fresh.id == finding.id) {
            finding.severity = fresh.severity;
            finding.replay.clone_from(&fresh.replay);
            return true;
        }
        let Some(severity) = severity_of(&finding.rule) else {
            return !confirmed;
        };
        finding.severity = severity;
        let first = finding.evidence.events.first();
        finding.replay = first.map(|event| format!("event:{event}"));
        true
    });
}

fn forget_joined(other: &mut JoinedFinding, severity: Option<Severity>) {
    if other.confirmed.take() == Some(true) {
        other.severity = severity.or(other.severity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmed(rule: &str) -> Finding {
        let rule = *rules::all().iter().find(|known| known.id == rule).unwrap();
        let mut finding = Finding::new(&rule, "lost", Vec::new(), Evidence::default());
        finding.evidence.events = vec![7];
        finding.confirmed = Some(true);
        finding.severity = Severity::Bug;
        finding.replay = Some("crash".to_owned());
        let details = &mut finding.evidence.details;
        details.insert(Evidence::CONFIRMED.to_owned(), "recovery fails".to_owned());
        finding
    }

    #[test]
    fn what_another_recovery_has_confirmed_is_forgotten() {
        let mut findings = vec![confirmed("transient-data"), confirmed("dirty-overwrite")];
        let mut applied = rules::all();
        applied.retain(|rule| !rule.pedantic);
        forget_crash_test(&mut findings, &applied, &[]);
        // The rule of the other one is not applied.
        assert_eq!(findings.len(), 1);
        let left = &findings[0];
        assert_eq!(left.rule, "transient-data");
        assert_eq!((left.confirmed, left.severity), (None, Severity::Warning));
        assert_eq!(left.replay.as_deref(), Some("event:7"));
        assert_eq!(left.proof(), None);
    }

    #[test]
    fn what_the_same_recovery_has_confirmed_is_taken_over() {
        let earlier = confirmed("transient-data");
        let mut fresh = earlier.clone();
        fresh.confirmed = None;
        fresh.severity = Severity::Warning;
        fresh.replay = None;
        fresh.evidence.details.clear();
        let mut other = fresh.clone();
        take_over(&mut fresh, &earlier);
        assert_eq!(fresh, earlier);
        other.id = confirmed("missing-flush").id;
        take_over(&mut other, &earlier);
        assert_eq!(other.confirmed, None);
    }
}
