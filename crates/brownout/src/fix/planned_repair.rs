//! A repair of one statement, ready to be judged and applied.

use std::path::PathBuf;

use brownout_fix::{Refusal, RepairRequest, Scope, SourceRepair};
use brownout_model::Profile;

use super::candidates::Candidate;
use super::program_sources::ProgramSources;
use super::repaired_statements::StatementLines;
use super::run_survey::RunSurvey;

/// A candidate with the edits that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRepair {
    pub source: SourceRepair,
    /// The file that is edited.
    pub path: PathBuf,
    pub statement: StatementLines,
}

impl PlannedRepair {
    pub fn new(
        candidate: &Candidate,
        sources: &ProgramSources,
        survey: &RunSurvey,
        model: Profile,
    ) -> Result<Self, Refusal> {
        let frame = &candidate.frame;
        let source = sources.current(frame)?;
        let file = frame.file.clone().ok_or(Refusal::NoSource)?;
        let request = RepairRequest {
            source: &source.tree,
            line: frame.line.ok_or(Refusal::NoSource)?,
            column: frame.column,
            scope: candidate.scope,
            operation: candidate.operation,
            one_line: survey.is_in_one_line(frame),
            syncs: model == Profile::MSYNC,
            macros: &source.macros,
            idioms: &survey.idioms,
        };
        let repair = request.repair()?;
        let statement = StatementLines {
            lines: repair.lines.clone(),
            includes_callees: candidate.includes_callees,
            is_loop: candidate.scope == Scope::Loop,
            file: file.clone(),
        };
        Ok(Self {
            source: repair,
            path: sources.path(&file),
            statement,
        })
    }
}
