//! The evidence of a finding as text: how often, which bytes, which values.

use super::byte_ranges::merged;
use super::{clean, counted, times};
use crate::{Evidence, Finding};

/// Byte ranges shown; the others are only counted.
const MAX_RANGES: usize = 8;
/// Bytes shown of a value.
const MAX_VALUE: usize = 16;

pub fn evidence_text(finding: &Finding) -> String {
    let (evidence, count) = (&finding.evidence, finding.count);
    let mut facts = vec![times(count)];
    if let Some(event) = evidence.events.first() {
        let first = if count > 1 { "first at" } else { "at" };
        facts[0] = format!("{}, {first} event {event}", facts[0]);
    }
    let ranges = merged(&evidence.ranges);
    let first = ranges.iter().take(MAX_RANGES);
    facts.extend(first.map(|range| clean(&range.to_string())));
    if let Some(more) = ranges.len().checked_sub(MAX_RANGES + 1) {
        facts.push(format!("and {} more", counted(more + 1, "range")));
    }
    facts.extend(finding.reads_phrase().map(str::to_owned));
    for value in &evidence.values {
        facts.push(clean(&format!("{} {}", value.name, value.shown(MAX_VALUE))));
    }
    // What recovery does with the bytes is said above.
    let details = evidence.details.iter();
    for (name, value) in details.filter(|(name, _)| *name != Evidence::OVERWRITTEN) {
        let mut lines = value.lines();
        match (lines.next(), value.contains('\n')) {
            (Some(only), false) => facts.push(clean(&format!("{name}: {only}"))),
            _ => {
                facts.push(clean(&format!("{name}:")));
                facts.extend(value.lines().map(|line| clean(&format!("  {line}"))));
            }
        }
    }
    facts.join("\n")
}
