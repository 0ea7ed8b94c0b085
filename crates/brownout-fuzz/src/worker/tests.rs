//! Workers with an executor that only pretends to run a target.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use brownout_recovery::{Outcome, RecordedPath, RunnerError, SymbolicInput};
use brownout_trace::replay::Content;

use crate::campaign::{CampaignOptions, Discovery, FuzzCampaign};
use crate::campaign_file::CampaignFile;
use crate::error::FuzzError;
use crate::executor::{Execution, ExecutionEnd, Executor};
use crate::feedback::Novelty;
use crate::image::StartImage;

/// Takes one of four paths, depending on the first byte. Nothing is recorded.
struct Pretended {
    /// Whether an execution is lost.
    is_lost: fn(&[u8]) -> bool,
    executions: u64,
    /// After so many executions, targets are started and not copied.
    copies: u64,
}

fn lost<T>() -> Result<T, FuzzError> {
    Err(RunnerError::ThreadDied.into())
}

impl Executor for Pretended {
    fn execute(&mut self, _: &StartImage, input: &[u8]) -> Result<Execution, FuzzError> {
        self.executions += 1;
        if (self.is_lost)(input) {
            return lost();
        }
        let is_copied = self.executions <= self.copies;
        let path = u64::from(input.first().copied().unwrap_or(0) % 4);
        let key = path + 1 + if is_copied { 0 } else { 1000 };
        Ok(Execution {
            end: ExecutionEnd::Exited(0),
            duration: Duration::ZERO,
            transitions: vec![(key, 1)],
            lost_transitions: 0,
            edges: vec![(key, 1)],
            may_use_others: false,
            may_have_used_input: true,
            is_copied,
            unpinned: Vec::new(),
        })
    }

    fn files(&mut self) -> Result<Vec<Option<Content>>, FuzzError> {
        Ok(Vec::new())
    }

    fn persistent(&mut self, _: &StartImage, _: &[u8]) -> Result<Vec<PathBuf>, FuzzError> {
        Ok(vec!["/nowhere/pool".into()])
    }

    fn record(&mut self, _: &StartImage, _: &[u8], _: &Path) -> Result<Outcome, FuzzError> {
        lost()
    }

    fn record_path(
        &mut self,
        _: &StartImage,
        _: &[u8],
        _: &[SymbolicInput],
    ) -> Result<RecordedPath, FuzzError> {
        lost()
    }

    fn diagnose(&mut self, _: &StartImage, _: &[u8]) -> Result<Outcome, FuzzError> {
        lost()
    }

    fn use_files(&mut self, _: &[PathBuf]) -> Result<(), FuzzError> {
        Ok(())
    }

    fn mode(&self) -> String {
        "pretended".to_owned()
    }
}

/// Runs a campaign for some executions. Returns it, and why it has ended before if it has.
fn campaign(
    out: &Path,
    is_lost: fn(&[u8]) -> bool,
    (copies, most): (u64, u64),
) -> (FuzzCampaign, Option<FuzzError>) {
    let options = CampaignOptions {
        out: out.to_owned(),
        seeds: vec![b"die".to_vec(), b"ok".to_vec()],
        tokens: Vec::new(),
        grammar: None,
        longest_input: 64,
        crash_rate: 0.0,
        disk_limit: u64::MAX,
        random_seed: 1,
        patterns: None,
        tests_crashes: false,
        jobs: 1,
        symbolic: None,
    };
    let file = CampaignFile::new(vec!["target".into()], out, Vec::new());
    let (campaign, discoveries) = FuzzCampaign::new(options, file).unwrap();
    let start = |_: &[PathBuf]| -> Result<Box<dyn Executor>, FuzzError> {
        Ok(Box::new(Pretended {
            is_lost,
            executions: 0,
            copies,
        }))
    };
    let started = Instant::now();
    let ended = campaign.run(&start, || {
        while campaign.executions.load(Ordering::SeqCst) < most {
            assert!(started.elapsed() < Duration::from_secs(120));
            let discovery = discoveries.recv_timeout(Duration::from_millis(5));
            if let Ok(Discovery::Failed(error)) = discovery {
                return Some(error);
            }
        }
        None
    });
    (campaign, ended)
}

#[test]
fn inputs_that_destroy_what_runs_the_target_are_skipped() {
    let out = tempfile::tempdir().unwrap();
    let dies = |input: &[u8]| input.starts_with(b"d");
    let (campaign, ended) = campaign(out.path(), dies, (u64::MAX, 2000));
    assert!(ended.is_none(), "{ended:?}");
    assert!(campaign.status().lost > 0);
    let shared = campaign.lock();
    let cases = shared.corpus.cases();
    assert!(cases.len() > 1 && cases.iter().all(|case| !dies(&case.input)));
}

#[test]
fn a_system_that_does_not_let_the_target_run_ends_the_campaign() {
    let out = tempfile::tempdir().unwrap();
    let (_, ended) = campaign(out.path(), |_| true, (u64::MAX, 2000));
    assert!(ended.is_some());
}

#[test]
fn a_target_that_cannot_be_copied_any_more_shows_nothing_new_by_that() {
    let out = tempfile::tempdir().unwrap();
    let (campaign, ended) = campaign(out.path(), |_| false, (2000, 4000));
    assert!(ended.is_none(), "{ended:?}");
    let shared = campaign.lock();
    let cases = shared.corpus.cases().iter();
    let paths = cases.filter(|case| case.novelty == Novelty::Transition);
    assert_eq!(paths.count(), 4);
}
