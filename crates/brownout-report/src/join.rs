//! One cause, one finding: joins findings that one mistake causes.
//!
//! - Findings of a rule at one source line are one. The same line is reached on many stacks: at each depth of a recursion, and from
//!   each caller of a function. Code without line information is distinguished by its offset in the module, so that two mistakes in
//!   one library stay two.
//! - Findings of crash testing are one if their [failures](crash_failure) and the stores that cause them are the same, or if they
//!   [share a store](shared_stores).
//! - Findings about stores that [one missing flush](one_flush) leaves behind are one, whichever rules report them.
//! - Findings about flushes that [one missing fence](one_fence) leaves without order are one.
//! - Findings about stores that [one missing snapshot](missing_snapshot) leaves out of the log of a transaction are one.
//! - A confirmed fence that orders many stores belongs to the finding that [the same crash](same_crash) shows.
//!
//! The finding of the clearest rule represents the others, and among those of one rule the earliest: it keeps its id and stacks, and
//! its evidence lists the others. If crash testing has confirmed some of them, it is one at the line of these.
//!
//! Can join too much: two mistakes in one line, or two callers of a function that each forget what it leaves to them.

mod crash_failure;
mod missing_snapshot;
mod one_call;
mod one_fence;
mod one_flush;
mod same_crash;
mod separate;
mod shared_stores;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::code_location::FrameLocation;
use crate::{Finding, FindingId, Frame, JoinedFinding, Mistake, primary_frame};

/// The joined findings of a rule at one location whose stacks are kept; of the others only the ids.
const STACKS_KEPT: usize = 16;

/// Which findings have one cause: disjoint sets of their indices.
struct Causes {
    /// For each finding, another one of its set that is closer to the first, or itself.
    towards_first: Vec<usize>,
}

impl Causes {
    fn new(findings: usize) -> Self {
        Causes {
            towards_first: (0..findings).collect(),
        }
    }

    /// The first finding of the set.
    fn first_of(&mut self, finding: usize) -> usize {
        let mut at = finding;
        while self.towards_first[at] != at {
            // Shortens the way for the next time.
            self.towards_first[at] = self.towards_first[self.towards_first[at]];
            at = self.towards_first[at];
        }
        at
    }

    /// Two findings have one cause.
    fn unite(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first_of(one), self.first_of(other));
        self.towards_first[one.max(other)] = one.min(other);
    }

    /// One finding for each set, in the order of their first findings.
    fn joined(mut self, findings: Vec<Finding>) -> Vec<Finding> {
        let mut sets: Vec<Vec<Finding>> = Vec::new();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        for (index, finding) in findings.into_iter().enumerate() {
            let first = self.first_of(index);
            let number = *numbers.entry(first).or_insert(sets.len());
            match sets.get_mut(number) {
                Some(set) => set.push(finding),
                None => sets.push(vec![finding]),
            }
        }
        sets.into_iter().filter_map(joined).collect()
    }
}

/// Joins findings, keeping the order of those that remain.
pub(crate) fn join(findings: Vec<Finding>) -> Vec<Finding> {
    let mut causes = Causes::new(findings.len());
    unite_same_line(&findings, &mut causes);
    crash_failure::unite(&findings, &mut causes);
    one_flush::unite(&findings, &mut causes);
    one_fence::unite(&findings, &mut causes);
    missing_snapshot::unite(&findings, &mut causes);
    same_crash::unite(&findings, &mut causes);
    separate::unite_again(&findings, &mut causes);
    causes.joined(findings)
}

/// Joins crash findings that share a store. To be called when it is known which findings explain them.
pub(crate) fn join_crashes(findings: Vec<Finding>) -> Vec<Finding> {
    let mut causes = Causes::new(findings.len());
    shared_stores::unite(&findings, &mut causes);
    causes.joined(findings)
}

fn unite_same_line(findings: &[Finding], causes: &mut Causes) {
    let mut known: HashMap<(&str, FrameLocation<'_>), usize> = HashMap::new();
    for (index, finding) in findings.iter().enumerate() {
        let location = finding.stacks.first().and_then(FrameLocation::of_stack);
        if let Some(location) = location
            && !finding.is_crash_finding()
        {
            let first = *known.entry((&finding.rule, location)).or_insert(index);
            causes.unite(first, index);
        }
    }
}

/// The findings of one cause as one.
fn joined(mut findings: Vec<Finding>) -> Option<Finding> {
    findings.sort_by_key(Finding::first_event);
    let confirmed = findings.iter().filter(|one| one.confirmed == Some(true));
    let confirmed: HashSet<_> = confirmed.map(Finding::location).collect();
    let (representative, _) = findings.iter().enumerate().min_by_key(|(index, finding)| {
        let is_vague = finding.mistake == Mistake::OpenOrder;
        let is_elsewhere = !confirmed.contains(&finding.location());
        let clarity = finding.mistake.clarity();
        (is_vague, is_elsewhere, clarity, *index)
    })?;
    let mut cause = findings.remove(representative);
    let mut listed = ListedStacks::default();
    for finding in findings {
        cause.join_with(finding, &mut listed);
    }
    let mut seen: HashSet<FindingId> = HashSet::new();
    cause
        .evidence
        .joined
        .retain(|other| seen.insert(other.id.clone()));
    Some(cause)
}

/// How many stacks are listed for each rule and location.
#[derive(Default)]
struct ListedStacks {
    by_location: HashMap<(String, OwnedLocation), usize>,
}

/// File and line, or module and offset.
type OwnedLocation = Option<(String, u64)>;

impl ListedStacks {
    /// Notes the stack of a finding; returns how many were listed before for its rule and location.
    fn add(&mut self, finding: &Finding) -> usize {
        let location = finding.stacks.first().and_then(FrameLocation::of_stack);
        let location = location.map(|location| match location {
            FrameLocation::Line(file, line) => (file.to_owned(), line.into()),
            FrameLocation::Offset(module, offset) => (module.to_owned(), offset),
        });
        let listed = self.by_location.entry((finding.rule.clone(), location));
        let listed = listed.or_default();
        *listed += 1;
        *listed - 1
    }
}

impl Finding {
    fn location(&self) -> Option<FrameLocation<'_>> {
        self.primary_frame().map(FrameLocation::of)
    }

    /// Adds a finding with the same cause.
    fn join_with(&mut self, mut other: Finding, listed: &mut ListedStacks) {
        // Several rules may have counted the same store.
        if other.rule == self.rule {
            self.count = self.count.saturating_add(other.count);
        }
        let is_elsewhere = self.location() != other.location();
        let names_bytes = other.mistake != Mistake::OpenOrder;
        if names_bytes && (is_elsewhere || other.confirmed == Some(true)) {
            let own = &mut self.evidence.ranges;
            let ranges = std::mem::take(&mut other.evidence.ranges).into_iter();
            let new: Vec<_> = ranges.filter(|range| !own.contains(range)).collect();
            own.extend(new);
        }
        // A failed recovery is its own proof.
        if !self.is_crash_finding() {
            self.adopt_confirmation(&other);
        }
        // The worst comes first in the order of severities.
        self.severity = self.severity.min(other.severity);
        let mut carried = std::mem::take(&mut other.evidence.joined);
        for one in carried.iter_mut().filter(|one| !one.frames.is_empty()) {
            one.message.get_or_insert_with(|| other.message.clone());
        }
        other.exclude_counts(&carried);
        let keep_stack = listed.add(&other) < STACKS_KEPT;
        let mut joined = JoinedFinding::from(other);
        joined.message = joined.message.filter(|message| *message != self.message);
        if !keep_stack {
            joined.forget_stack();
        }
        self.evidence.joined.push(joined);
        self.evidence.joined.append(&mut carried);
    }

    /// Takes the counts of joined findings of the same rule off its own count.
    fn exclude_counts(&mut self, joined: &[JoinedFinding]) {
        let same_rule = joined.iter().filter(|other| other.rule == self.rule);
        let counts: u64 = same_rule.map(|other| other.count).sum();
        self.count = self.count.saturating_sub(counts);
    }
}

impl Finding {
    /// Whether the finding with this id is reported as this one.
    pub fn represents(&self, id: &str) -> bool {
        let mut joined = self.evidence.joined.iter();
        self.id.as_str() == id || joined.any(|other| other.id.as_str() == id)
    }

    /// Adds the findings that are joined with this one in other results of the same run.
    pub fn learn_joined(&mut self, elsewhere: &Finding) {
        let joined = &mut self.evidence.joined;
        for other in &elsewhere.evidence.joined {
            if joined.iter().all(|known| known.id != other.id) {
                joined.push(other.clone());
            }
        }
    }
}

impl From<Finding> for JoinedFinding {
    fn from(finding: Finding) -> Self {
        let first = finding.stacks.into_iter().next();
        Self {
            id: finding.id,
            rule: finding.rule,
            mistake: finding.mistake,
            severity: Some(finding.severity),
            category: Some(finding.category),
            message: Some(finding.message),
            count: finding.count,
            confirmed: finding.confirmed,
            event: finding.evidence.events.first().copied(),
            role: first.as_ref().map(|stack| stack.role.clone()),
            frames: first.map_or_else(Vec::new, |stack| stack.frames_of_program().to_vec()),
        }
    }
}

impl JoinedFinding {
    /// Leaves what identifies it.
    fn forget_stack(&mut self) {
        self.message = None;
        self.role = None;
        self.frames.clear();
    }

    /// The frame shown as its location, if its stack is kept.
    pub(crate) fn primary_frame(&self) -> Option<&Frame> {
        self.frames.get(primary_frame(&self.frames)?)
    }
}
