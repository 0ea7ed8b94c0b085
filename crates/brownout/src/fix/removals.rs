//! Removals of flushes, fences and log entries that do nothing: suggested, because what one run does not need another may.
//!
//! Each is judged like a repair: the events of the statement are left out of the trace with the repairs, which must then show no other
//! finding. It becomes a part of the patch only if the program is rebuilt and checked. An entry in a log does not show in a trace.
//!
//! Can miss: a statement that is needed only on paths which the run did not take; the tests of the program have to show that
//! (`--build 'make && make check'`).

use std::path::Path;

use brownout_fix::{AddedCounts, RepairRefusal, SourceRepair, remove_statement};
use brownout_report::{Finding, Frame, RuleRepair, Severity};

use super::candidates::{is_on_request, is_repaired, repair_of};
use super::patch::Patch;
use super::planned_repair::PlannedRepair;
use super::program_sources::ProgramSources;
use super::repaired_statements::StatementPlace;
use super::trace_proof::{PatchedFindings, TraceProof, key};
use super::{FindingRepair, Proof};
use crate::failure::Failure;

/// Which removals are tried first, if findings of the rule are repaired by a removal: what an earlier statement has done goes before what
/// other memory does not need, so that the later of two flushes of a line is removed, not the earlier.
pub fn rank(rule: &str) -> Option<u8> {
    match repair_of(rule) {
        RuleRepair::Removal { rank, .. } => Some(rank),
        _ => None,
    }
}

/// Whether findings of the rule are about entries in a log.
pub fn removes_log_entry(rule: &str) -> bool {
    let repair = repair_of(rule);
    matches!(
        repair,
        RuleRepair::Removal {
            of_log_entry: true,
            ..
        }
    )
}

const NEEDED: RepairRefusal = RepairRefusal::Rule(
    "the statement is needed: without it, the trace shows another finding, or this one elsewhere",
);
const STORES: RepairRefusal =
    RepairRefusal::Rule("the statement also stores; take the flush or fence out by hand");
const IN_ANOTHER_REPAIR: RepairRefusal =
    RepairRefusal::Rule("a repair of another finding changes the same statement; apply that first");
const NOT_TRIED: RepairRefusal =
    RepairRefusal::Rule("the trace is too long to try this removal; name the finding alone");
/// Why a removal is not a part of the patch.
const SUGGESTED: &str = "another run may need what is removed, so this is a part of the patch only if the rebuilt program shows that it is \
                         not; give the build command, with the tests of the program, with --build (such as `make && make check`)";

/// The removals for findings, one after the other: each beside the repairs, and the removals before it.
pub struct Removals<'a> {
    pub sources: &'a ProgramSources,
    /// Whether the program will be rebuilt.
    pub builds: bool,
    /// The repairs, and the removals so far.
    done: Vec<PlannedRepair>,
    /// How many of these are repairs.
    repairs: usize,
    /// What the patched trace has more and less than the recorded one.
    counts: AddedCounts,
}

impl<'a> Removals<'a> {
    /// Beside these repairs.
    pub fn new(
        sources: &'a ProgramSources,
        builds: bool,
        (repairs, counts): (Vec<PlannedRepair>, AddedCounts),
    ) -> Self {
        Self {
            counts,
            repairs: repairs.len(),
            sources,
            builds,
            done: repairs,
        }
    }

    /// All repairs and removals that make up the patch, and what they do in the trace.
    pub fn into_done(mut self) -> (Vec<PlannedRepair>, AddedCounts) {
        if !self.builds {
            self.done.truncate(self.repairs);
        }
        (self.done, self.counts)
    }

    /// Tries the removal for a finding. `recorded` is what the trace shows under its id.
    pub fn try_removal(
        &mut self,
        finding: Finding,
        recorded: &[&Finding],
        proof: &mut TraceProof<'_>,
    ) -> Result<FindingRepair, Failure> {
        let planned = match self.plan(&finding) {
            Ok(planned) => planned,
            Err(refusal) => return Ok(FindingRepair::refused(finding, refusal.to_string())),
        };
        let is_log_entry = matches!(
            repair_of(&finding.rule),
            RuleRepair::Removal {
                of_log_entry: true,
                ..
            }
        );
        if !self.done.contains(&planned) {
            if !is_log_entry && let Some(refusal) = self.judge(&planned, recorded, proof)? {
                return Ok(FindingRepair::refused(finding, refusal.to_string()));
            }
            self.done.push(planned.clone());
        }
        let text = |path: &Path| self.sources.text(path);
        let patch = Patch::new(&[&planned], &text).unwrap_or_default();
        Ok(FindingRepair {
            patch,
            is_in_patch: self.builds,
            planned: vec![planned],
            refusal: (!self.builds).then(|| SUGGESTED.to_owned()),
            is_suggestion: !self.builds,
            proof: match is_log_entry {
                true => Proof::None,
                false => Proof::Trace,
            },
            code: Vec::new(),
            ..FindingRepair::refused(finding, String::new())
        })
    }

    fn plan(&self, finding: &Finding) -> Result<PlannedRepair, RepairRefusal> {
        let frame = finding.primary_frame().ok_or(RepairRefusal::NoSource)?;
        let (file, line) = place(frame).ok_or(RepairRefusal::NoSource)?;
        let source = self.sources.current(frame)?;
        let repair: SourceRepair = remove_statement(&source.tree, line, frame.column)?;
        let planned = PlannedRepair {
            statement: StatementPlace {
                file: file.clone(),
                span: repair.span,
                includes_callees: true,
                is_loop: false,
                store: None,
            },
            source: repair,
            path: self.sources.path(&file),
            deadlines: Vec::new(),
        };
        let mut all: Vec<&PlannedRepair> = self.done.iter().collect();
        all.push(&planned);
        match Patch::new(&all, &|path| self.sources.text(path)) {
            Ok(_) => Ok(planned),
            Err(_) => Err(IN_ANOTHER_REPAIR),
        }
    }

    /// Why the statement must stay, if it must.
    fn judge(
        &mut self,
        planned: &PlannedRepair,
        recorded: &[&Finding],
        proof: &mut TraceProof<'_>,
    ) -> Result<Option<RepairRefusal>, Failure> {
        if !proof.may_try_more() {
            return Ok(Some(NOT_TRIED));
        }
        let before: Vec<&PlannedRepair> = self.done.iter().collect();
        let mut with = before.clone();
        with.push(planned);
        let (before, after) = (proof.judge(&before)?, proof.judge(&with)?);
        if after.counts.stores_in_removed > before.counts.stores_in_removed {
            return Ok(Some(STORES));
        }
        let is_shown = |finding: &&Finding| is_shown(finding, &after);
        // Without its flush, data is also lost where that is only a warning.
        let loses = |rule: &str| is_repaired(rule) || is_on_request(rule);
        let mut shown = after.keys.difference(&before.keys);
        let is_new_bug = |added: &Finding| {
            added.severity == Severity::Bug
                && !before.added.iter().any(|known| known.id == added.id)
        };
        let does_harm = shown.any(|(rule, _)| loses(rule)) || after.added.iter().any(is_new_bug);
        if does_harm || recorded.iter().any(is_shown) {
            return Ok(Some(NEEDED));
        }
        if self.builds {
            self.counts = after.counts;
        }
        Ok(None)
    }
}

fn place(frame: &Frame) -> Option<(String, u32)> {
    frame.file.clone().zip(frame.line)
}

fn is_shown(finding: &Finding, shown: &PatchedFindings) -> bool {
    let stack = finding.stacks.first();
    stack.is_some_and(|stack| shown.keys.contains(&key(&finding.rule, stack)))
}
