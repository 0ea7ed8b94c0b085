//! What a program that was checked again shows about repairs: which findings are gone, and which are new.

use std::path::Path;

use brownout_engine::PatchPlan;
use brownout_model::Profile;
use brownout_report::{Finding, Report, Severity};

use super::candidates::is_repaired;
use super::patch_plan::patch_plan;
use super::private_check::CheckedAgain;
use super::rebuilt_proof::{Rebuild, function, ids, still_shown};
use super::running_proof::{RunningProgram, RunningProof};
use super::{FindingRepair, Proof, Repairs};
use crate::console::Console;
use crate::failure::Failure;

/// Runs the program with the operations of the repairs, and notes what that has shown.
pub fn prove_by_running(
    repairs: &mut Repairs,
    proof: &RunningProof<'_>,
    trace: &Path,
    console: &Console,
) -> Result<(), Failure> {
    if repairs.planned.is_empty() {
        return Ok(());
    }
    let syncs = proof.settings.model == Profile::MSYNC;
    let planned: Vec<_> = repairs.planned.iter().collect();
    let plan: PatchPlan = patch_plan(trace, &planned, syncs)?;
    let (findings, counts) = match proof.run(&plan, trace, console)? {
        RunningProgram::Checked(findings, counts) => (findings, counts),
        RunningProgram::NotRun(why) => {
            for repair in shown_by_trace(repairs) {
                repair.doubt = Some(format!("the program was not run with it: {why}"));
            }
            return Ok(());
        }
    };
    for repair in shown_by_trace(repairs) {
        let is_missing = |&patch: &usize| counts.performed.get(patch).is_none_or(|&done| done == 0);
        if repair.patches.iter().any(is_missing) {
            repair.doubt = Some(
                "when the program was run again, it did not come to this statement; its input may be gone".to_owned(),
            );
        } else if still_shown(&repair.finding, &findings, proof.report) {
            repair.refusal = Some(
                "the running program still shows it although these flushes and fences are executed; repair it by hand".to_owned(),
            );
        } else {
            repair.proof = Proof::Running;
        }
    }
    repairs.added = new_findings(&findings, proof.report);
    repairs.added_shown_by = Proof::Running;
    Ok(())
}

fn shown_by_trace(repairs: &mut Repairs) -> impl Iterator<Item = &mut FindingRepair> {
    let findings = repairs.findings.iter_mut();
    findings.filter(|repair| repair.is_repaired() && repair.proof == Proof::Trace)
}

/// Builds and checks the combined patch, and notes what that has shown.
pub fn prove_by_building(
    repairs: &mut Repairs,
    rebuild: &Rebuild<'_>,
    trace: &Path,
    console: &Console,
) -> Result<(), Failure> {
    if repairs.combined.is_empty() {
        return Ok(());
    }
    let (why, output) = match rebuild.run(&repairs.combined, trace, console)? {
        CheckedAgain::Checked(findings, _) => {
            for repair in repaired(repairs) {
                match still_shown(&repair.finding, &findings, rebuild.report) {
                    true => {
                        repair.refusal =
                            Some("the rebuilt program still shows it; repair it by hand".to_owned())
                    }
                    false => repair.proof = Proof::Rebuilt,
                }
            }
            repairs.added = new_findings(&findings, rebuild.report);
            repairs.added_shown_by = Proof::Rebuilt;
            return Ok(());
        }
        CheckedAgain::Failed(why, output) => (why, output),
        CheckedAgain::TargetFailed(output) => ("the rebuilt program failed".to_owned(), output),
    };
    console.error(format_args!("{why}\n{output}"));
    for repair in repaired(repairs) {
        repair.refusal = Some(format!("not proven: {why}"));
    }
    Ok(())
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
