//! The parts of a crash test, read from their results directories and joined.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use brownout_crash::journal::{self, Entries, Head};
use brownout_crash::{
    CampaignEnd, CampaignEnding, CrashError, Extent, Journal, JournalError, Shard,
};
use brownout_race::PERSISTENCY_RACE;
use brownout_report::{Finding, LeftOut, Reason, Subject};

use crate::crash_test::{TestedTrials, check_same_test, unfinished};
use crate::earlier_findings::{FindingsOf, earlier_findings};
use crate::earlier_reasons;
use crate::failure::Failure;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::recovery_context::RecoveryContext;

/// All parts together.
pub struct Parts {
    pub subject: Subject,
    /// What the analyses of the trace have found.
    pub findings: Vec<Finding>,
    /// Whether the rules of lint were applied.
    pub linted: bool,
    /// Whether races were looked for.
    pub raced: bool,
    pub left_out: LeftOut,
    /// Why absent findings of a part do not show that the target is correct.
    pub reasons: Vec<Reason>,
    /// Why recovery may pass although it has not checked what a crash changes.
    pub doubts: Vec<String>,
    pub trace: PathBuf,
    pub results: TestedTrials,
    pub ending: CampaignEnding,
    /// That of the first part: all parts are of the same test.
    pub context: RecoveryContext,
    head: Head,
}

/// One part.
struct Part {
    subject: Subject,
    findings: Vec<Finding>,
    linted: bool,
    raced: bool,
    left_out: LeftOut,
    reasons: Vec<Reason>,
    doubts: Vec<String>,
    trace: PathBuf,
    journal: PathBuf,
    context: RecoveryContext,
    entries: Entries,
}

impl Part {
    fn read(path: &Path) -> Result<Self, Failure> {
        let (directory, subject, in_force) = OutputDirectory::open(path)?;
        let journal = directory.file(JOURNAL);
        let entries = journal::read(&journal).map_err(CrashError::from)?;
        let entries = entries.ok_or_else(|| Failure::NoJournal {
            path: path.to_owned(),
        })?;
        let conclusion = directory.run_file()?.conclusion;
        Ok(Self {
            subject,
            findings: earlier_findings(&directory, FindingsOf::TraceAnalyses)?,
            linted: in_force.linted(),
            raced: in_force.applied(PERSISTENCY_RACE.id),
            reasons: earlier_reasons::of_part(&conclusion),
            left_out: conclusion.left_out,
            doubts: conclusion.recovery_reads.unwrap_or_default().doubts,
            trace: directory.trace()?,
            journal,
            context: RecoveryContext::read(path)?,
            entries,
        })
    }

    /// How the part ended. One that was killed has tried what its journal holds.
    fn ending(&self) -> CampaignEnding {
        let Entries { head, trials, .. } = &self.entries;
        let ending = self.entries.ending.clone();
        ending.unwrap_or_else(|| CampaignEnding {
            end: CampaignEnd::Incomplete,
            proposed: head.points,
            extent: Extent::default(),
            seconds: trials.iter().map(|trial| trial.seconds).sum(),
            exploration: None,
            shared_starts: None,
        })
    }
}

impl Parts {
    /// Reads the parts, which must be of the same test.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut parts = paths.iter().map(|path| Part::read(path));
        let mut joined = Self::from(parts.next().ok_or(Failure::NoParts)??);
        for part in parts {
            joined.add(part?)?;
        }
        let mut seen = HashSet::new();
        let trials = &mut joined.results.trials;
        trials.retain(|trial| seen.insert(trial.point.clone()));
        trials.sort_by(|a, b| a.point.cmp(&b.point));
        Ok(joined)
    }

    fn add(&mut self, part: Part) -> Result<(), Failure> {
        let found = &part.entries.head.configuration;
        check_same_test(&part.journal, found, &self.head.configuration)?;
        self.ending = self.ending.clone().joined(part.ending());
        for shard in part.entries.head.shards {
            if !self.head.shards.contains(&shard) {
                self.head.shards.push(shard);
            }
        }
        self.left_out.merge(part.left_out);
        self.reasons.extend(part.reasons);
        self.doubts.extend(part.doubts);
        self.doubts.sort();
        self.doubts.dedup();
        self.linted |= part.linted;
        self.raced |= part.raced;
        self.results.trials.extend(part.entries.trials);
        self.results.causes.extend(part.entries.causes);
        self.results.explanations.extend(part.entries.explanations);
        self.results.reads = self.results.reads.take().or(part.entries.reads);
        // All parts have the same suspects.
        if self.results.suspects.is_empty() {
            self.results.suspects = part.entries.suspects;
        }
        // All parts are of one run, so equal findings are the same. More may be joined with one in another part.
        for finding in part.findings {
            let mut known = self.findings.iter_mut();
            match known.find(|known| known.id == finding.id) {
                Some(known) => known.learn_joined(&finding),
                None => self.findings.push(finding),
            }
        }
        for gap in part.subject.gaps {
            if !self.subject.gaps.contains(&gap) {
                self.subject.gaps.push(gap);
            }
        }
        Ok(())
    }

    /// Why the parts are not the whole test, if they are not: parts are missing, or not finished.
    pub fn gap(&self) -> Option<Reason> {
        let missing = missing(&self.head.shards);
        let why = match &missing[..] {
            [] if !self.ending.end.is_complete() => "a part is incomplete".to_owned(),
            [] => return None,
            [one] => format!("part {one} is missing"),
            several => {
                let names: Vec<String> = several.iter().map(Shard::to_string).collect();
                format!("parts {} are missing", names.join(", "))
            }
        };
        let trials = self.results.trials.iter();
        let tried = trials.filter(|trial| trial.reached_from.is_none()).count() as u64;
        let points = self.ending.proposed.max(tried);
        Some(unfinished((tried, points), "crash point", &why))
    }

    /// Writes the journal of the whole test.
    pub fn write_journal(&self, directory: &OutputDirectory) -> Result<(), Failure> {
        let path = directory.file(JOURNAL);
        let write = || -> Result<(), JournalError> {
            let mut journal = Journal::create(&path, &self.head)?;
            for trial in &self.results.trials {
                journal.trial(trial)?;
            }
            for suspect in &self.results.suspects {
                journal.suspect(suspect)?;
            }
            if let Some(reads) = &self.results.reads {
                journal.reads(reads)?;
            }
            for cause in &self.results.causes {
                journal.cause(cause)?;
            }
            for explanation in &self.results.explanations {
                journal.explanation(explanation)?;
            }
            journal.ending(&self.ending)
        };
        write().map_err(|error| CrashError::from(error).into())
    }
}

impl From<Part> for Parts {
    fn from(part: Part) -> Self {
        let ending = part.ending();
        let entries = part.entries;
        Self {
            subject: part.subject,
            findings: part.findings,
            linted: part.linted,
            raced: part.raced,
            left_out: part.left_out,
            reasons: part.reasons,
            doubts: part.doubts,
            trace: part.trace,
            context: part.context,
            ending,
            results: TestedTrials {
                configuration: entries.head.configuration.clone(),
                trials: entries.trials,
                suspects: entries.suspects,
                causes: entries.causes,
                explanations: entries.explanations,
                reads: entries.reads,
            },
            head: entries.head,
        }
    }
}

/// The parts that are missing. Parts of different divisions do not complement each other: of all divisions, the one counts that
/// lacks the fewest parts.
fn missing(present: &[Shard]) -> Vec<Shard> {
    let counts = present.iter().map(|shard| shard.count);
    let missing = counts.map(|count| -> Vec<Shard> {
        let all = (1..=count).map(|index| Shard { index, count });
        all.filter(|shard| !present.contains(shard)).collect()
    });
    missing.min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_one_division_make_the_whole() {
        let part = |index, count| Shard { index, count };
        assert_eq!(missing(&[part(1, 1)]), []);
        assert_eq!(missing(&[part(2, 2), part(1, 2)]), []);
        assert_eq!(missing(&[part(2, 3)]), [part(1, 3), part(3, 3)]);
        assert_eq!(missing(&[part(1, 2), part(2, 3)]), [part(2, 2)]);
        assert_eq!(missing(&[part(1, 3), part(1, 1)]), []);
    }
}
