//! What the trials of a test, or of all its parts, show: findings, and the suspects that they confirm.

use brownout_crash::{
    Cause, CrashPoint, Explanation, ObservedReads, Operation, SuspectImages, TestConfiguration,
    Token, Trial, findings, group, judge, without_suspects,
};
use brownout_recovery::Expectation;
use brownout_report::{Finding, LeftOut, Reason, Sources, distinguish_lost_stores};

use super::flaky::undecided;
use super::left_out::{demote, note_mapped, withdraw_confirmations};
use super::recovery_reads::{reads_summary, withdraw_acquittals};
use crate::suspects::JudgedSuspect;

/// The trials of a test and what is known about them.
pub struct TestedTrials {
    pub configuration: TestConfiguration,
    pub trials: Vec<Trial>,
    pub suspects: Vec<SuspectImages>,
    pub causes: Vec<Cause>,
    pub explanations: Vec<Explanation>,
    /// What recovery opens and reads; `None` if it was not observed.
    pub reads: Option<ObservedReads>,
}

/// What trials show.
pub struct Shown {
    pub findings: Vec<Finding>,
    pub judged: Vec<JudgedSuspect>,
    /// Why trials do not decide.
    pub shortfalls: Vec<Reason>,
}

impl TestedTrials {
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
        let mut findings = findings(groups, &self.causes, &self.explanations, |trial| {
            self.token_of(trial)
        });
        let sources = Sources::on_disk();
        for finding in &mut findings {
            finding.identify(&sources);
        }
        distinguish_lost_stores(&mut findings, &sources);
        let mut judged = self.judged();
        let nothing_read = self.nothing_read();
        if nothing_read.is_some() {
            withdraw_acquittals(&mut judged);
        }
        note_mapped(&mut findings, left_out);
        let undecided = [
            nothing_read,
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

    /// Why the trials show nothing, if recovery does not read the files. One that fails after some crashes depends on them
    /// nevertheless: it looks for their names.
    fn nothing_read(&self) -> Option<Reason> {
        let reads = self.reads.as_ref().map(reads_summary)?;
        let finds_names = reads.files.iter().any(|file| file.opened);
        reads
            .tested_nothing()
            .filter(|_| !finds_names || self.failed() == 0)
    }

    /// The number of crash points at which recovery failed.
    pub fn failed(&self) -> u64 {
        let failed = self.trials.iter().filter(|trial| trial.is_failure());
        failed.count() as u64
    }

    fn judged(&self) -> Vec<JudgedSuspect> {
        let verdicts = judge(&self.suspects, &self.trials).into_iter();
        let judged = verdicts.map(|verdict| JudgedSuspect {
            token: (verdict.proof.as_ref()).map(|proof| self.token_of(proof).to_string()),
            verdict,
        });
        judged.collect()
    }

    fn token_of(&self, trial: &Trial) -> Token {
        self.token(&trial.point, trial.operation)
    }

    /// What repeats a crash of this test.
    pub fn token(&self, point: &CrashPoint, operation: Option<Operation>) -> Token {
        let configuration = &self.configuration;
        Token {
            point: point.clone(),
            recovery: configuration.recovery.clone(),
            operation,
            patterns: configuration.patterns.clone(),
            time_limit: configuration.time_limit,
            expected: Some(configuration.expected.clone())
                .filter(|digest| *digest != Expectation::Anything.digest()),
            trace: configuration.trace,
        }
    }
}
