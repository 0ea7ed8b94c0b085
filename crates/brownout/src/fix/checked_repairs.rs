//! What a program that was checked again shows about repairs: which findings are gone, and which are new.

use std::path::Path;

use brownout_engine::PatchPlan;
use brownout_fix::RepairOperation;
use brownout_model::Profile;
use brownout_report::{Finding, Report, Severity};

use super::candidates::is_repaired;
use super::executed_lines::ExecutedLines;
use super::patch::Patch;
use super::patch_plan::patch_plan;
use super::private_check::{CheckedAgain, CheckedRun};
use super::program_sources::ProgramSources;
use super::rebuilt_proof::{Rebuild, function, ids, still_shown};
use super::removals::removes_log_entry;
use super::running_proof::{RunningProgram, RunningProof};
use super::{FindingRepair, Proof, Repairs, is_log_entry};
use crate::console::Console;
use crate::failure::Failure;

/// So many times a patch is checked: after each, what has not cured its finding is left out.
const ROUNDS: usize = 3;

/// Runs the program with the operations of the repairs, and notes what that has shown.
pub fn prove_by_running(
    repairs: &mut Repairs,
    proof: &RunningProof<'_>,
    trace: &Path,
    console: &Console,
) -> Result<(), Failure> {
    let syncs = proof.settings.model == Profile::MSYNC;
    for _ in 0..ROUNDS {
        if repairs.planned.is_empty() {
            return Ok(());
        }
        let planned: Vec<_> = repairs.planned.iter().collect();
        let plan: PatchPlan = patch_plan(trace, &planned, syncs)?;
        let (findings, counts) = match proof.run(&plan, trace, console)? {
            RunningProgram::Checked(findings, counts) => (findings, counts),
            RunningProgram::NotRun(why) => {
                for repair in shown_by_trace(&mut repairs.findings) {
                    repair.doubt = Some(format!("the program was not run with it: {why}"));
                }
                return Ok(());
            }
        };
        let Repairs {
            findings: all,
            planned,
            ..
        } = &mut *repairs;
        let mut is_refused = false;
        for repair in shown_by_trace(all) {
            let own = planned.iter().enumerate();
            let mut own = own.filter(|(_, planned)| repair.uses(planned));
            let is_missing =
                own.any(|(patch, _)| counts.performed.get(patch).is_none_or(|&done| done == 0));
            if is_missing {
                repair.doubt = Some(
                    "when the program was run again, it did not come to this statement; its input may be gone".to_owned(),
                );
            } else if still_shown(&repair.finding, &findings, proof.report) {
                repair.refusal = Some(
                    "the running program still shows it although these flushes and fences are executed; repair it by hand".to_owned(),
                );
                is_refused = true;
            } else {
                repair.proof = Proof::Running;
            }
        }
        repairs.added = new_findings(&findings, proof.report);
        repairs.added_shown_by = Proof::Running;
        if !is_refused || !repairs.drop_refused(trace, proof.settings)? {
            return Ok(());
        }
        shown_again(repairs);
    }
    not_shown(repairs);
    Ok(())
}

fn shown_by_trace(findings: &mut [FindingRepair]) -> impl Iterator<Item = &mut FindingRepair> {
    let findings = findings.iter_mut();
    findings.filter(|repair| repair.is_repaired() && repair.proof == Proof::Trace)
}

/// Builds and checks the combined patch, and notes what that has shown.
pub fn prove_by_building(
    repairs: &mut Repairs,
    rebuild: &Rebuild<'_>,
    trace: &Path,
    console: &Console,
) -> Result<(), Failure> {
    for _ in 0..ROUNDS {
        if repairs.combined.is_empty() {
            return Ok(());
        }
        let (why, output) = match rebuild.run(&repairs.combined, trace, console)? {
            CheckedAgain::Checked(findings, CheckedRun::Rebuilt(executed)) => {
                let is_refused = note_rebuilt(repairs, rebuild.report, &findings, &executed);
                if !is_refused || !repairs.drop_refused(trace, rebuild.settings)? {
                    return Ok(());
                }
                shown_again(repairs);
                continue;
            }
            CheckedAgain::Checked(_, CheckedRun::Patched(_)) => {
                let why = "it is not known what the rebuilt program has executed".to_owned();
                (why, String::new())
            }
            CheckedAgain::Failed(why, output) => (why, output),
            CheckedAgain::TargetFailed(output) => ("the rebuilt program failed".to_owned(), output),
        };
        console.error(format_args!("{why}\n{output}"));
        for repair in repaired(repairs) {
            repair.refusal = Some(format!("not proven: {why}"));
        }
        return Ok(());
    }
    not_shown(repairs);
    Ok(())
}

/// Notes what the rebuilt program has shown. Returns whether it still shows a finding.
fn note_rebuilt(
    repairs: &mut Repairs,
    report: &Report,
    findings: &[Finding],
    executed: &ExecutedLines,
) -> bool {
    let Repairs {
        findings: all,
        combined,
        sources,
        ..
    } = &mut *repairs;
    let mut is_refused = false;
    for repair in all.iter_mut().filter(|repair| repair.is_repaired()) {
        if still_shown(&repair.finding, findings, report) {
            let why = "the rebuilt program still shows it; repair it by hand";
            repair.refusal = Some(why.to_owned());
            is_refused = true;
        } else if is_executed(repair, combined, sources, executed) {
            repair.proof = Proof::Rebuilt;
        } else {
            repair.doubt = Some(
                "the rebuilt program did not come to this statement, so that shows nothing: it runs without the standard input of the \
                 recorded run; let it read its input from a file, such as with `sh -c`, or build it with debug information if it has none"
                    .to_owned(),
            );
        }
    }
    repairs.added = new_findings(findings, report);
    repairs.added_shown_by = Proof::Rebuilt;
    is_refused
}

/// Whether the rebuilt program has executed what was repaired, or what another repair covers.
fn is_executed(
    repair: &FindingRepair,
    combined: &Patch,
    sources: &ProgramSources,
    executed: &ExecutedLines,
) -> bool {
    let has = |path: &Path, lines: (u32, u32), stores: bool| {
        let (first, last) = combined.edited_lines(path, lines);
        match stores {
            true => executed.stores_at(path, first..=last),
            false => executed.has(path, first..=last),
        }
    };
    if repair.planned.is_empty() || repair.is_about_removal() {
        let Some(frame) = repair.finding.primary_frame() else {
            return false;
        };
        // What was removed is not executed, but its function is.
        let is_in_function = || {
            let function = frame.function.as_deref();
            function.is_some_and(|function| executed.has_function(function))
        };
        let place = frame.file.as_ref().zip(frame.line);
        return match place {
            Some((file, line)) if !repair.is_about_removal() => {
                has(&sources.path(file), (line, line), false)
            }
            _ => is_in_function(),
        };
    }
    repair.planned.iter().all(|planned| {
        let span = planned.source.span;
        let stores = planned.source.operation != RepairOperation::Fence;
        has(&planned.path, (span.start.0, span.end.0), stores)
    })
}

/// What a patch has shown that is left out in part says nothing about the rest.
fn shown_again(repairs: &mut Repairs) {
    for repair in repaired(repairs) {
        let is_log_entry = repair.planned.iter().any(is_log_entry);
        repair.doubt = None;
        repair.proof = match is_log_entry || removes_log_entry(&repair.finding.rule) {
            true => Proof::None,
            false => Proof::Trace,
        };
    }
}

/// The patch was changed after the last check.
fn not_shown(repairs: &mut Repairs) {
    for repair in repaired(repairs) {
        repair.doubt = Some(
            "the patch was not checked again after other repairs had been left out of it; name this finding to check it alone"
                .to_owned(),
        );
    }
}

fn repaired(repairs: &mut Repairs) -> impl Iterator<Item = &mut FindingRepair> {
    let findings = repairs.findings.iter_mut();
    findings.filter(|repair| repair.is_repaired())
}

/// Findings that the recorded program does not have, of a kind that a repair must not add. A flush or fence that does nothing is known if
/// its function had another one: what repairs have moved is not new. A bug is known only if it is the same one.
fn new_findings(findings: &[Finding], before: &Report) -> Vec<Finding> {
    let suppressed = before.suppressed().iter();
    let suppressed = suppressed.map(|suppressed| &suppressed.finding);
    let known: Vec<&Finding> = before.findings().iter().chain(suppressed).collect();
    let is_known = |finding: &Finding| {
        let shown = ids(finding);
        known.iter().any(|known| {
            let is_same = ids(known).iter().any(|id| shown.contains(id));
            let is_alike = finding.severity != Severity::Bug
                && known.rule == finding.rule
                && function(known) == function(finding);
            is_same || is_alike
        })
    };
    let matters =
        |finding: &Finding| finding.severity != Severity::Warning || is_repaired(&finding.rule);
    let is_new = |finding: &&Finding| matters(finding) && !is_known(finding);
    findings.iter().filter(is_new).cloned().collect()
}
