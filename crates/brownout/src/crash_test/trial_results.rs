//! What the trials of a test, or of all its parts, show: findings, and the suspects that they confirm.

use brownout_crash::{
    Cause, ObservedReads, SuspectImages, TestConfiguration, Token, Trial, findings, group, judge,
    without_suspects,
};
use brownout_recovery::Expectation;
use brownout_report::{Finding, LeftOut, Sources, distinguish_lost_stores};

use super::flaky::{NOT_DETERMINISTIC, undecided};
use super::left_out::{INCOMPLETE_IMAGES, demote, withdraw_confirmations};
use super::recovery_reads::{reads_summary, withdraw_acquittals};
use crate::suspects::JudgedSuspect;

/// The trials of a test and what is known about them.
pub struct TrialResults {
    pub configuration: TestConfiguration,
    pub trials: Vec<Trial>,
    pub suspects: Vec<SuspectImages>,
    pub causes: Vec<Cause>,
    /// What recovery opens and reads; `None` if it was not observed.
    pub reads: Option<ObservedReads>,
}

/// What trials show.
pub struct Shown {
    pub findings: Vec<Finding>,
    pub judged: Vec<JudgedSuspect>,
    /// Why trials do not decide, in sentences.
    pub shortfalls: Vec<String>,
}

/// Whether a sentence says why trials do not decide.
pub fn is_about_trials(sentence: &str) -> bool {
    [NOT_DETERMINISTIC, INCOMPLETE_IMAGES]
        .iter()
        .any(|start| sentence.starts_with(start))
}

impl TrialResults {
    /// What the trials show if the crash images lack what was left out. Trials that confirm a suspect are no findings of
    /// their own if `is_reported` says that the finding of the suspect is reported.
    pub fn shown(&self, left_out: &LeftOut, is_reported: impl Fn(&SuspectImages) -> bool) -> Shown {
        let reported: Vec<SuspectImages> = self
            .suspects
            .iter()
            .filter(|suspect| is_reported(suspect))
            .cloned()
            .collect();
        let groups = group(&without_suspects(&reported, &self.trials));
        let mut findings = findings(groups, &self.causes, |trial| self.token(trial));
        let sources = Sources::on_disk();
        for finding in &mut findings {
            finding.identify(&sources);
        }
        distinguish_lost_stores(&mut findings, &sources);
        let mut judged = self.judged();
        let opens_nothing = self.reads.as_ref().map(reads_summary);
        let opens_nothing = opens_nothing.and_then(|reads| reads.opens_nothing());
        if opens_nothing.is_some() {
            withdraw_acquittals(&mut judged);
        }
        let undecided = [
            opens_nothing,
            demote(&mut findings, left_out),
            withdraw_confirmations(&mut judged, left_out),
            undecided(&self.trials),
        ];
        Shown {
            findings,
            judged,
            shortfalls: undecided.into_iter().flatten().collect(),
        }
    }

    /// The number of crash points at which recovery failed.
    pub fn failed(&self) -> u64 {
        let failed = self.trials.iter().filter(|trial| !trial.verdict.passed());
        failed.count() as u64
    }

    fn judged(&self) -> Vec<JudgedSuspect> {
        let verdicts = judge(&self.suspects, &self.trials).into_iter();
        let judged = verdicts.map(|verdict| JudgedSuspect {
            token: (verdict.proof.as_ref()).map(|proof| self.token(proof).to_string()),
            verdict,
        });
        judged.collect()
    }

    fn token(&self, trial: &Trial) -> Token {
        let configuration = &self.configuration;
        Token {
            point: trial.point.clone(),
            recovery: configuration.recovery.clone(),
            operation: trial.operation,
            patterns: configuration.patterns.clone(),
            time_limit: configuration.time_limit,
            expected: Some(configuration.expected.clone())
                .filter(|digest| *digest != Expectation::Anything.digest()),
            trace: configuration.trace,
        }
    }
}
