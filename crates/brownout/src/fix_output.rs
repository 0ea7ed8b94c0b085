//! Prints what `fix` has found: for people, with the diff beside each finding, and for programs.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use crate::fix::{FindingRepair, Proof, Repairs};
use crate::quantity::number_of;

/// Prints each finding with its repair or the reason why there is none, and the patch for all at the end.
pub fn print_human(repairs: &Repairs, here: &Path, out: &mut impl Write) -> io::Result<()> {
    if repairs.findings.is_empty() {
        return writeln!(out, "nothing to repair");
    }
    let repaired = repairs
        .findings
        .iter()
        .filter(|repair| repair.is_repaired());
    let repaired: Vec<&FindingRepair> = repaired.collect();
    // The patch of the only repair is the one at the end.
    let shows_each = repaired.len() > 1;
    for repair in &repairs.findings {
        let finding = &repair.finding;
        let place = finding
            .primary_frame()
            .map_or_else(|| "unknown code".to_owned(), ToString::to_string);
        writeln!(
            out,
            "{}[{}] {}: {place}",
            finding.severity, finding.rule, finding.id
        )?;
        writeln!(out, "    {}", status(repair))?;
        if repair.refusal.is_some() && repair.patch.is_empty() {
            continue;
        }
        if shows_each || repair.refusal.is_some() {
            for line in repair.patch.diff(here).lines() {
                writeln!(out, "    {line}")?;
            }
        }
    }
    writeln!(out)?;
    for sentence in summary(repairs, repaired.len()) {
        writeln!(out, "{sentence}")?;
    }
    if !repairs.combined.is_empty() {
        writeln!(out)?;
        write!(out, "{}", repairs.combined.diff(here))?;
    }
    Ok(())
}

fn status(repair: &FindingRepair) -> String {
    if let Some(why) = repair.refusal.as_ref().filter(|_| repair.is_suggestion) {
        return format!("suggested: {why}");
    }
    if let Some(why) = &repair.refusal {
        return format!("not repaired: {why}");
    }
    let how = match repair.proof {
        Proof::Rebuilt => "proven: the rebuilt program does not show it",
        Proof::Running => {
            "repaired: the running program does not show it with these flushes and fences; the edited source was not built"
        }
        Proof::Trace => "repaired, as far as the trace shows; the edited source was not built",
        Proof::None => "not shown to be repaired",
    };
    let by_other = match repair.is_covered {
        true => " (by the repair of another finding)",
        false => "",
    };
    match &repair.doubt {
        Some(doubt) => format!("{how}{by_other}; {doubt}"),
        None => format!("{how}{by_other}"),
    }
}

fn summary(repairs: &Repairs, repaired: usize) -> Vec<String> {
    let all = repairs.findings.len() as u64;
    let mut sentences = vec![format!(
        "{repaired} of {} repaired",
        number_of(all, "finding")
    )];
    let counts = &repairs.counts;
    if repaired > 0 {
        let mut added = vec![
            operations(counts.flushes, "flush"),
            operations(counts.fences, "fence"),
        ];
        if counts.syncs > 0 {
            added = vec![number_of(counts.syncs, "sync")];
        }
        let removed = [
            (counts.removed_flushes, "flush"),
            (counts.removed_fences, "fence"),
            (counts.removed_syncs, "sync"),
        ];
        let removed = removed.into_iter().filter(|(count, _)| *count > 0);
        let removed: Vec<String> = removed
            .map(|(count, noun)| operations(count, noun))
            .collect();
        let removes = match removed.is_empty() {
            true => String::new(),
            false => format!(", and removes {}", removed.join(" and ")),
        };
        sentences.push(format!(
            "in the recorded run, the patch adds {}{removes}",
            added.join(" and ")
        ));
        if !repairs.is_minimal {
            sentences.push(
                "the trace does not show that each of them is needed: it is too long to try all, or they are for an order or a log entry \
                 that it does not show"
                    .to_owned(),
            );
        }
    }
    let by = match repairs.added_shown_by {
        Proof::Rebuilt => "the rebuilt program shows",
        Proof::Running => "with these flushes and fences, the running program shows",
        Proof::Trace | Proof::None => "with the patch, the trace shows",
    };
    for finding in &repairs.added {
        let place = finding
            .primary_frame()
            .map_or_else(String::new, |frame| format!(" ({frame})"));
        sentences.push(format!(
            "{by} a new finding: {}[{}]: {}{place}",
            finding.severity, finding.rule, finding.message
        ));
    }
    sentences
}

fn operations(count: u64, noun: &str) -> String {
    number_of(count, noun).replace("flushs", "flushes")
}

/// Prints one JSON object for each finding, and one for the patch of all.
pub fn print_json(repairs: &Repairs, here: &Path, out: &mut impl Write) -> io::Result<()> {
    for repair in &repairs.findings {
        let diff = repair.patch.diff(here);
        let value = json!({
            "id": repair.finding.id,
            "rule": repair.finding.rule,
            "repaired": repair.is_repaired(),
            "proof": proof_name(repair),
            "reason": repair.refusal,
            "suggested": repair.is_suggestion,
            "doubt": repair.doubt,
            "covered": repair.is_covered,
            "code": repair.code,
            "diff": diff,
        });
        writeln!(out, "{value}")?;
    }
    let files: Vec<String> = repairs
        .combined
        .files
        .iter()
        .map(|file| file.path.to_string_lossy().into_owned())
        .collect();
    let added: Vec<_> = repairs.added.iter().map(|finding| json!({"rule": finding.rule, "severity": finding.severity, "message": finding.message})).collect();
    let counts = &repairs.counts;
    let value = json!({
        "patch": repairs.combined.diff(here),
        "files": files,
        "flushes_added": counts.flushes,
        "fences_added": counts.fences,
        "syncs_added": counts.syncs,
        "flushes_removed": counts.removed_flushes,
        "fences_removed": counts.removed_fences,
        "syncs_removed": counts.removed_syncs,
        "minimal": repairs.is_minimal,
        "new_findings": added,
    });
    writeln!(out, "{value}")
}

fn proof_name(repair: &FindingRepair) -> Option<&'static str> {
    match (repair.is_repaired(), repair.proof) {
        (true, Proof::Trace) => Some("trace"),
        (true, Proof::Running) => Some("running"),
        (true, Proof::Rebuilt) => Some("rebuilt"),
        _ => None,
    }
}
