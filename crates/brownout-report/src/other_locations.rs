//! Where else a finding shows: the lines of the findings that are joined with it.

use std::collections::HashSet;

use crate::code_location::FrameLocation;
use crate::{Finding, Frame, JoinedFinding};

/// A rule and a line at which the cause of a finding shows, too.
pub(crate) struct OtherLocation<'a> {
    pub(crate) rule: &'a str,
    pub(crate) frame: &'a Frame,
}

impl Finding {
    /// The other lines, and the other rules at its own line, each once.
    pub(crate) fn other_locations(&self) -> Vec<OtherLocation<'_>> {
        let mut seen: HashSet<(&str, FrameLocation<'_>)> = HashSet::new();
        let own = self.primary_frame().map(FrameLocation::of);
        seen.extend(own.map(|location| (self.rule.as_str(), location)));
        let joined = self.evidence.joined.iter();
        let others = joined.filter_map(|other| {
            let (rule, frame) = (other.rule.as_str(), other.primary_frame()?);
            let is_new = seen.insert((rule, FrameLocation::of(frame)));
            is_new.then_some(OtherLocation { rule, frame })
        });
        others.collect()
    }

    /// The joined findings that differ from this one only in their callers.
    pub(crate) fn other_stacks(&self) -> impl Iterator<Item = &JoinedFinding> {
        let own = self.primary_frame().map(FrameLocation::of);
        let joined = self.evidence.joined.iter();
        joined.filter(move |other| {
            // Stacks are missing only where there are many of one rule and line.
            let location = other.primary_frame().map(FrameLocation::of);
            other.rule == self.rule && (location.is_none() || location == own)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{FLUSH_RULE, WARNING_RULE, finding_at};
    use crate::{Finding, JoinedFinding, RuleInfo};

    fn joined(rule: &RuleInfo, line: u32) -> JoinedFinding {
        finding_at(rule, "kv.c", line).into()
    }

    #[test]
    fn lines_and_rules_are_listed_once() {
        let mut finding: Finding = finding_at(&FLUSH_RULE, "kv.c", 7);
        finding.evidence.joined = vec![
            joined(&FLUSH_RULE, 7),
            joined(&FLUSH_RULE, 8),
            joined(&FLUSH_RULE, 8),
            joined(&WARNING_RULE, 7),
        ];
        let others = finding.other_locations();
        let others: Vec<(&str, Option<u32>)> = others
            .iter()
            .map(|other| (other.rule, other.frame.line))
            .collect();
        assert_eq!(
            others,
            [("missing-flush", Some(8)), ("transient-data", Some(7))]
        );
        assert_eq!(finding.other_stacks().count(), 1);
    }
}
