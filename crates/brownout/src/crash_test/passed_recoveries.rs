//! What it does not show that every recovery of a test has passed.

use brownout_report::ReadsSummary;

use super::hidden_status::{HiddenStatus, hidden_status};
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::preparation::Prepared;
use super::recovery_reads::{ReadFindings, accepted_alterations, unread_changes};
use crate::failure::Failure;

/// Why a test in which every recovery passes shows less than it seems to.
pub struct Doubts {
    /// What was not tested, in sentences.
    pub gaps: Vec<String>,
    /// Why recovery passes whatever it finds, in a sentence.
    pub nothing_tested: Option<String>,
}

impl Doubts {
    /// Notes them in what is known about the reads of recovery.
    pub fn note(&self, reads: &mut ReadsSummary) {
        let all = self.gaps.iter().chain(&self.nothing_tested);
        reads.doubts = all.cloned().collect();
    }
}

/// Looks for reasons why recovery passes although it has not checked what a crash can lose. `last_event` is that of the run.
pub fn doubts(
    prepared: &Prepared,
    plan: &Plan,
    read: &ReadFindings,
    last_event: u64,
    monitor: &mut CrashTestMonitor,
) -> Result<Doubts, Failure> {
    let mut doubts = Doubts {
        gaps: Vec::new(),
        nothing_tested: None,
    };
    match hidden_status(plan) {
        Some(HiddenStatus::Gap(gap)) => doubts.gaps.push(gap),
        Some(HiddenStatus::NothingTested(why)) => doubts.nothing_tested = Some(why),
        None => {}
    }
    let (run, survey) = (&prepared.run, &prepared.survey);
    let observed = &prepared.reads.observed;
    let unread = unread_changes(observed, read, run, &survey.points)?;
    let is_explained = doubts.nothing_tested.is_some() || unread.is_some();
    doubts.gaps.extend(unread);
    if !is_explained {
        let times = (last_event, prepared.time_limit);
        let accepted = accepted_alterations((run, survey), observed, times, plan, monitor)?;
        doubts.gaps.extend(accepted);
    }
    Ok(doubts)
}
