//! A repair of one statement, ready to be judged and applied.

use std::path::PathBuf;

use brownout_fix::{
    CalledStatement, RepairRefusal, RepairRequest, RepairScope, SourceRepair, SourceSpan,
};
use brownout_model::Profile;
use brownout_report::Frame;

use super::candidates::Candidate;
use super::program_sources::ProgramSources;
use super::repaired_statements::StatementPlace;
use super::run_survey::RunSurvey;

/// Why a call or loop is no place for a repair.
const TOO_LATE: &str = "any place after the call or loop is too late: the bytes must be durable before the fence, lock release or crash";

/// A candidate with the edits that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRepair {
    pub source: SourceRepair,
    /// The file that is edited.
    pub path: PathBuf,
    pub statement: StatementPlace,
    /// Where its function gets to the deadline: line and column, in the same file.
    pub deadlines: Vec<(u32, u32)>,
}

impl PlannedRepair {
    /// Whether it is executed after the other one whenever that is, and before the deadline of that: a later statement of the same
    /// block, with neither a jump nor the deadline in between, or the same statement.
    pub fn always_follows(&self, other: &Self) -> bool {
        if self.is_beside(other) {
            return true;
        }
        let between = other.source.span.end..self.source.span.start;
        self.comes_after(other) && !other.deadlines.iter().any(|at| between.contains(at))
    }

    /// Whether both are after the same statement.
    pub fn is_beside(&self, other: &Self) -> bool {
        self != other && self.path == other.path && self.source.span == other.source.span
    }

    fn comes_after(&self, other: &Self) -> bool {
        let (line, column) = self.source.span.start;
        let is_follower = |span: SourceSpan| span.contains(line, Some(column));
        self.path == other.path
            && self.source.block.is_some()
            && self.source.block == other.source.block
            && other.source.followers.is_some_and(is_follower)
    }

    pub fn new(
        candidate: &Candidate,
        sources: &ProgramSources,
        survey: &RunSurvey,
        model: Profile,
    ) -> Result<Self, RepairRefusal> {
        let frame = &candidate.frame;
        let source = sources.current(frame)?;
        let file = frame.file.clone().ok_or(RepairRefusal::NoSource)?;
        let mut inner = Vec::new();
        for frame in &candidate.called {
            inner.push((
                sources.current(frame)?,
                frame.line.ok_or(RepairRefusal::NoSource)?,
                frame.column,
            ));
        }
        let called: Vec<CalledStatement<'_>> = inner
            .iter()
            .map(|(source, line, column)| CalledStatement {
                source: &source.tree,
                macros: &source.macros,
                line: *line,
                column: *column,
            })
            .collect();
        let innermost = candidate.called.first().unwrap_or(frame);
        let request = RepairRequest {
            called: &called,
            only_generic: candidate.only_generic,
            source: &source.tree,
            line: frame.line.ok_or(RepairRefusal::NoSource)?,
            column: frame.column,
            scope: candidate.scope,
            operation: candidate.operation,
            one_line: survey.is_in_one_line(innermost),
            is_dense: survey.is_dense(innermost),
            has_stores: &|line| survey.has_stores(&file, line),
            syncs: model == Profile::MSYNC,
            macros: &source.macros,
            idioms: &survey.idioms,
        };
        let repair = request.repair()?;
        let is_around = candidate.includes_callees || candidate.scope == RepairScope::Loop;
        let contains = |frame: &Frame| {
            let is_in = |line| repair.span.contains(line, frame.column);
            frame.file.as_ref() == Some(&file) && frame.line.is_some_and(is_in)
        };
        if is_around && candidate.before.iter().any(contains) {
            return Err(RepairRefusal::Rule(TOO_LATE));
        }
        let statement = StatementPlace {
            span: repair.span,
            includes_callees: candidate.includes_callees,
            is_loop: candidate.scope == RepairScope::Loop,
            file: file.clone(),
            store: innermost.file.clone().zip(repair.store.clone()),
        };
        let of_file = candidate
            .before
            .iter()
            .filter(|frame| frame.file.as_ref() == Some(&file));
        let deadlines = of_file.filter_map(|frame| frame.line.zip(frame.column.or(Some(1))));
        Ok(Self {
            source: repair,
            path: sources.path(&file),
            statement,
            deadlines: deadlines.collect(),
        })
    }
}
