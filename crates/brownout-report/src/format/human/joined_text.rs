//! Where the findings are that are joined with the one that is shown.

use std::collections::BTreeSet;

use super::clean;
use super::full::MAX_STACKS;
use crate::{Finding, Frame, Report};

/// Lines listed for each rule.
const MAX_LINES: usize = 12;

/// The other lines and rules, then the other stacks; `None` if there are none.
pub(super) fn joined_text(report: &Report, finding: &Finding) -> Option<String> {
    let mut lines = other_lines(report, finding);
    lines.extend(other_stacks(report, finding));
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// `transient-data at kv.c:7, kv.c:8`, for each rule.
fn other_lines(report: &Report, finding: &Finding) -> Vec<String> {
    let others = finding.other_locations();
    let rules: BTreeSet<&str> = others.iter().map(|other| other.rule).collect();
    let text = |rule: &str| {
        let of_rule = others.iter().filter(|other| other.rule == rule);
        let all: Vec<String> = of_rule
            .map(|other| location(&report.shown_frame(other.frame)))
            .collect();
        let shown = all.iter().take(MAX_LINES).cloned().collect::<Vec<_>>();
        let more = match all.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        clean(&format!("{rule} at {}{more}", shown.join(", ")))
    };
    rules.into_iter().map(text).collect()
}

/// The line, or what is known instead.
fn location(frame: &Frame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => frame.to_string(),
    }
}

fn other_stacks(report: &Report, finding: &Finding) -> Vec<String> {
    let count = finding.other_stacks().count();
    let Some(first) = finding.stacks.first().filter(|_| count > 0) else {
        return Vec::new();
    };
    let stacks = if count == 1 { "stack" } else { "stacks" };
    let mut lines = vec![format!("on {count} other {stacks}")];
    let own = first.frames_of_program();
    for other in finding.other_stacks().take(MAX_STACKS) {
        // The caller in which it differs distinguishes it from the others.
        let shared = other.frames.iter().zip(own);
        let shared = shared.take_while(|(one, other)| one.to_string() == other.to_string());
        if let Some(caller) = other.frames.get(shared.count()) {
            let caller = format!("{}{}", report.shown_frame(caller), caller.remark());
            lines.push(format!("from {}", clean(&caller)));
        }
    }
    lines
}
