//! What a campaign has come to: what was run, why that shows little if it does, and what is written at its end.

use std::io::Write as _;
use std::path::Path;

use brownout_fuzz::{CampaignStatus, FuzzCampaign, is_full_disk};
use brownout_report::{Reason, ReasonKind, Severity};

use super::ends::CampaignEnd;
use super::symbolic_report;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::write_file;
use crate::quantity::number_of;
use crate::results::Results;

/// The file with the operations on persistent memory that were reached.
const OPERATIONS: &str = "pm-operations.csv";

/// Says what the campaign was, and why it shows little if it does.
pub fn conclude(campaign: &FuzzCampaign, results: &mut Results, ended: Result<(), Failure>) {
    let status = campaign.status();
    results.add_tested(summary(&status));
    let is_complete = ended.is_ok();
    symbolic_report::conclude(campaign, &status, results);
    if let Err(failure) = ended {
        let why = match is_full_disk(&failure) {
            true => format!(
                "the disk is full: {}; the corpus is complete up to here, and the same command continues when there is space",
                failure.sentence()
            ),
            false => format!("the campaign ended early: {}", failure.sentence()),
        };
        results.fall_short(ExitCode::Usage, Reason::other(why));
    }
    let executions = number_of(status.executions, "execution");
    let ends = campaign.ends();
    if is_complete && campaign.files().is_empty() {
        let failures = match ends.succeeded {
            0 => "; the program has never ended with status 0",
            _ => "",
        };
        let why = format!(
            "nothing persistent was seen in {executions}: no mapped file was flushed or synced, or none matches --pm; \
             give inputs that make the program use its files, with --seeds{failures}"
        );
        let reason = Reason::new(ReasonKind::NothingPersistent, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
    let is_fuzzed = is_complete && status.symbolic.is_none();
    if is_fuzzed && !campaign.files().is_empty() && !campaign.may_have_used_input() {
        let why = format!(
            "the program has not used its input in {executions}, so that only its start was tested; write @@ where the path of the input \
             belongs, or give --server if clients send it"
        );
        results.fall_short(ExitCode::NothingTested, Reason::other(why));
    }
    let end = CampaignEnd {
        ends,
        has_paths: campaign.has_paths(),
        is_examined: results.linted,
        has_bugs: results
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Bug),
    };
    if is_complete && !campaign.files().is_empty() {
        results.shortfalls.extend(end.shortfalls());
    }
    end.left_out()
        .into_iter()
        .for_each(|sentence| results.add_tested(sentence));
    note_gaps(campaign, &status, results);
}

/// Names what was not counted, not reported or not the same.
fn note_gaps(campaign: &FuzzCampaign, status: &CampaignStatus, results: &mut Results) {
    if status.lost > 0 {
        results.subject.gaps.push(format!(
            "{} ended what runs the program and were skipped: on some inputs it kills other processes, or uses up a resource of the system",
            number_of(status.lost, "execution")
        ));
    }
    if status.incomplete > 0 {
        results.subject.gaps.push(format!(
            "{} had more different paths through persistent memory than can be counted; what is new behind them is not seen",
            number_of(status.incomplete, "execution")
        ));
    }
    if status.exceeds_disk_limit {
        results.subject.gaps.push(
            "the images that cannot be built again, such as your own files, take more than --disk-limit".to_owned(),
        );
    }
    let unstable = campaign.unstable_cases();
    if !unstable.is_empty() {
        results
            .subject
            .gaps
            .push(unstable_sentence(&unstable, &campaign.unpinned()));
    }
    if status.unconfirmed > 0 {
        results.subject.gaps.push(format!(
            "{} of the program happened under instrumentation and not without; they are not reported",
            number_of(status.unconfirmed, "failure")
        ));
    }
}

fn summary(status: &CampaignStatus) -> String {
    format!(
        "{} in {:.0} s: {} through persistent memory, {} of code, {}, {}",
        number_of(status.executions, "execution"),
        status.elapsed.as_secs_f64(),
        number_of(status.transitions as u64, "path"),
        number_of(status.edges as u64, "edge"),
        number_of(status.corpus as u64, "input"),
        number_of(status.images as u64, "image"),
    )
}

fn unstable_sentence(cases: &[u64], unpinned: &[String]) -> String {
    let shown: Vec<String> = cases
        .iter()
        .take(5)
        .map(|case| format!("id:{case:06}"))
        .collect();
    let more = match cases.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = match unpinned {
        [] => String::new(),
        all => format!("; the program uses {}", all.join(", ")),
    };
    format!(
        "{} not the same in each execution ({}{more}){why}",
        match cases.len() {
            1 => "1 input is".to_owned(),
            many => format!("{many} inputs are"),
        },
        shown.join(", ")
    )
}

/// Links the fewest inputs that show what all show into a directory of their own.
pub fn write_minimal_corpus(campaign: &FuzzCampaign, root: &Path, results: &mut Results) {
    let chosen = campaign.minimal_corpus();
    let all = campaign.status().corpus;
    let write = || -> std::io::Result<()> {
        let folder = root.join("corpus-minimal");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        for case in &chosen {
            if let Some(input) = campaign.input(*case) {
                std::fs::write(folder.join(format!("id:{case:06}")), input)?;
            }
        }
        Ok(())
    };
    match write() {
        Ok(()) => results.add_tested(format!(
            "{} of {} cover what the whole corpus covers: corpus-minimal/",
            chosen.len(),
            number_of(all as u64, "input")
        )),
        Err(error) => {
            let why = format!("cannot write the minimal corpus: {error}");
            results.fall_short(ExitCode::Usage, Reason::other(why));
        }
    }
}

/// Writes which operations on persistent memory were reached, and by which input first.
pub fn write_operations(campaign: &FuzzCampaign, root: &Path, results: &mut Results) {
    let reached = campaign.reached_operations();
    if reached.is_empty() {
        return;
    }
    let mut places: Vec<&str> = reached.iter().map(|one| one.place.as_str()).collect();
    places.dedup();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let written = write_file(&root.join(OPERATIONS), |out| {
        writeln!(out, "place,caller,operation,first_input")?;
        for one in &reached {
            let caller = one.caller.as_deref().map(quoted).unwrap_or_default();
            writeln!(
                out,
                "{},{caller},{},id:{:06}",
                quoted(&one.place),
                one.kind,
                one.first
            )?;
        }
        Ok(())
    });
    match written {
        Ok(()) => results.add_tested(format!(
            "{} on persistent memory, at {} in the code, were reached: {OPERATIONS}",
            number_of(reached.len() as u64, "operation"),
            number_of(places.len() as u64, "place"),
        )),
        Err(failure) => {
            results.fall_short(ExitCode::Usage, Reason::other(failure.sentence()));
        }
    }
}
