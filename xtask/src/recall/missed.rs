//! Why `representative` misses a bug, as far as the journals of both strategies show it.
//!
//! Both test recordings of the same program, whose events have the same numbers. The images on which recovery fails with `exhaustive` lose
//! stores at some event; either `representative` tries nothing there, or images of some update behaviours that lose something else.

use std::collections::BTreeSet;

use serde_json::Value;

/// A crash that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalTrial {
    event: u64,
    /// Which stores were there.
    choice: Value,
    behaviour: Option<u64>,
    /// The line of the last store that is lost, if recovery failed.
    lost: Option<u64>,
    has_failed: bool,
}

/// The crashes in a journal.
pub fn trials(journal: &str) -> Vec<JournalTrial> {
    journal.lines().filter_map(trial).collect()
}

fn trial(line: &str) -> Option<JournalTrial> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("verdict")?;
    let failure = line.get("failure");
    let lost = failure.and_then(|failure| failure["lost"].as_str());
    Some(JournalTrial {
        event: line["event"].as_u64()?,
        choice: line["choice"].clone(),
        behaviour: line["behaviour"].as_u64(),
        lost: lost.and_then(line_number),
        has_failed: failure.is_some(),
    })
}

/// The number at the end of `program.c:12`.
fn line_number(place: &str) -> Option<u64> {
    let (_, number) = place.rsplit_once(':')?;
    number.parse().ok()
}

/// Why the bug at a line was missed.
pub fn explain(line: u64, exhaustive: &[JournalTrial], representative: &[JournalTrial]) -> String {
    let needed = exhaustive
        .iter()
        .filter(|trial| trial.has_failed && trial.lost == Some(line));
    let needed: Vec<&JournalTrial> = needed.collect();
    let Some(first) = needed.first() else {
        return format!("line {line}: no image of `exhaustive` loses this store last");
    };
    let events: BTreeSet<u64> = needed.iter().map(|trial| trial.event).collect();
    let there = representative
        .iter()
        .filter(|trial| events.contains(&trial.event));
    let there: Vec<&JournalTrial> = there.collect();
    let image = format!("before event {}, {}", first.event, first.choice);
    if there.is_empty() {
        let events: Vec<String> = events.iter().map(u64::to_string).collect();
        let events = events.join(", ");
        return format!("line {line}: no crash is tried before event {events}; needed: {image}");
    }
    let is_same = |trial: &&&JournalTrial| needed.iter().any(|known| known.choice == trial.choice);
    if let Some(same) = there.iter().find(is_same) {
        let why = match (same.has_failed, same.lost) {
            (false, _) => "recovery passes on it",
            (true, Some(_)) => "its failure is reported with another store",
            (true, None) => "its failure is reported without a store",
        };
        return format!("line {line}: the image is tried, and {why}: {image}");
    }
    let behaviours: BTreeSet<u64> = there.iter().filter_map(|trial| trial.behaviour).collect();
    format!(
        "line {line}: {} images of the update behaviours {behaviours:?} are tried there, and all lose something else; needed: {image}",
        there.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXHAUSTIVE: &str = r#"{"version":1}
{"event":9,"choice":{"lines":[1]},"kind":"flush","verdict":{"failed":1},"failure":{"lost":"program.c:5"}}
{"event":9,"kind":"flush","verdict":"passed"}"#;

    fn explained(representative: &str) -> String {
        explain(5, &trials(EXHAUSTIVE), &trials(representative))
    }

    #[test]
    fn a_miss_is_explained_by_what_was_tried_at_its_instant() {
        let elsewhere = r#"{"event":7,"behaviour":3,"verdict":"passed"}"#;
        assert!(explained(elsewhere).contains("no crash is tried before event 9"));
        let other = r#"{"event":9,"choice":{"lines":[2]},"behaviour":3,"verdict":"passed"}"#;
        let said = explained(other);
        assert!(
            said.contains("1 images of the update behaviours {3}"),
            "{said}"
        );
        let same = r#"{"event":9,"choice":{"lines":[1]},"behaviour":3,"verdict":{"failed":1},"failure":{"lost":"program.c:6"}}"#;
        assert!(explained(same).contains("reported with another store"));
        let nothing = explain(8, &trials(EXHAUSTIVE), &[]);
        assert!(nothing.contains("no image of `exhaustive`"), "{nothing}");
    }
}
