//! Test cases that show something new: they are run again, shortened, kept, and recorded (PMFuzz §4.5).

use std::fs;
use std::path::Path;

use crate::campaign::{Discovery, recording};
use crate::crash_images::RecordedCase;
use crate::error::FuzzError;
use crate::executor::{Execution, ExecutionEnd};
use crate::feedback::Novelty;
use crate::image::{ImageId, ImageOrigin, StartImage};
use crate::input_to_state::{compared_strings, matching_inputs};
use crate::minimization::minimize;
use crate::test_case::TestCase;

use super::{UntriedCase, Worker};

/// Executions to shorten an input.
const SHORTENING: usize = 40;

impl Worker<'_> {
    pub(super) fn is_new(&self, execution: &Execution) -> bool {
        self.campaign.lock().feedback.judge(execution) > Novelty::Nothing
    }

    /// Runs the corpus again if executions are counted by other means than before, because the target cannot be copied any more, or can be.
    /// Otherwise everything would be new.
    pub(super) fn learn_corpus_anew(&mut self, execution: &Execution) -> Result<(), FuzzError> {
        let cases: Vec<(ImageId, Vec<u8>)> = {
            let mut shared = self.campaign.lock();
            if !shared.feedback.is_first(execution) {
                return Ok(());
            }
            let cases = shared.corpus.cases().iter();
            cases.map(|case| (case.image, case.input.clone())).collect()
        };
        for (image, input) in cases {
            if self.campaign.is_over() {
                break;
            }
            let Some(content) = self.image(image)? else {
                continue;
            };
            if let Some(again) = self.execute(&content, &input)? {
                self.campaign.lock().feedback.learn(&again);
            }
        }
        Ok(())
    }

    /// Keeps a test case if it shows something new. Returns what is new, and crash images of it, to be tried.
    pub(super) fn judge(
        &mut self,
        trial: UntriedCase,
        execution: Execution,
    ) -> Result<(Novelty, Vec<UntriedCase>), FuzzError> {
        let (novelty, unseen) = {
            let mut shared = self.campaign.lock();
            let novelty = shared.feedback.judge(&execution);
            if novelty == Novelty::Nothing {
                return Ok((novelty, Vec::new()));
            }
            let unseen = shared.feedback.unseen(&execution);
            if novelty == Novelty::Transition {
                shared.feedback.reserve(&execution);
                shared.last_new_path = Some(self.campaign.elapsed());
            } else {
                shared.feedback.learn(&execution);
            }
            (novelty, unseen)
        };
        let again = self.execute(&trial.content, &trial.input)?;
        let is_stable = again.is_some_and(|again| again.transitions == execution.transitions);
        let mut trial = trial;
        let mut execution = execution;
        let mut next = Vec::new();
        if novelty == Novelty::Transition {
            if is_stable {
                let input = self.shortened(&trial, &unseen)?;
                if input != trial.input {
                    // What the shorter input does not show is still new, and the longer one is kept for that.
                    next.push(trial.clone());
                    trial.input = input;
                }
                if let Some(last) = self.execute(&trial.content, &trial.input)? {
                    execution = last;
                }
            }
            self.campaign.lock().feedback.learn(&execution);
        }
        let case = self.keep(&trial, &execution, novelty, is_stable)?;
        next.extend(self.with_equal_comparisons(&trial, case)?);
        if novelty == Novelty::Transition {
            next.extend(self.record(&trial, case)?);
        }
        Ok((novelty, next))
    }

    /// Inputs that make comparisons of a test case equal, to be tried.
    fn with_equal_comparisons(
        &mut self,
        trial: &UntriedCase,
        case: u64,
    ) -> Result<Vec<UntriedCase>, FuzzError> {
        let compared = self.executor.comparisons(&trial.content, &trial.input);
        let comparisons = self.survive(compared)?.unwrap_or_default();
        self.mutations.learn_tokens(&compared_strings(&comparisons));
        let image = self.image_of(case).unwrap_or(trial.image);
        let longest = self.campaign.options.longest_input;
        let inputs = matching_inputs(&trial.input, &comparisons).into_iter();
        let trials = inputs
            .filter(|input| input.len() <= longest)
            .map(|input| UntriedCase {
                input,
                image,
                content: trial.content.clone(),
                parent: Some(case),
                how: "comparison",
                proposed: None,
            });
        Ok(trials.collect())
    }

    fn image_of(&self, case: u64) -> Option<ImageId> {
        Some(self.campaign.lock().corpus.case(case)?.image)
    }

    /// The shortest input found that still takes the transitions which were new.
    fn shortened(&mut self, trial: &UntriedCase, unseen: &[u64]) -> Result<Vec<u8>, FuzzError> {
        minimize(&trial.input, SHORTENING, |input| {
            if self.campaign.is_over() {
                return Ok(false);
            }
            let Some(execution) = self.execute(&trial.content, input)? else {
                return Ok(false);
            };
            let taken = |key: &u64| {
                let found = execution
                    .transitions
                    .binary_search_by_key(key, |&(key, _)| key);
                found.is_ok()
            };
            Ok(unseen.iter().all(taken))
        })
    }

    /// Adds a test case, and the image that it leaves if that is worth starting on.
    pub(super) fn keep(
        &mut self,
        trial: &UntriedCase,
        execution: &Execution,
        novelty: Novelty,
        is_stable: bool,
    ) -> Result<u64, FuzzError> {
        let elapsed = self.campaign.elapsed();
        let leaves = novelty >= Novelty::Count && matches!(execution.end, ExecutionEnd::Exited(_));
        let left = match leaves {
            true => Some(StartImage::new(self.executor.files()?)),
            false => None,
        };
        let operations = self.executor.new_operations();
        let mut shared = self.campaign.lock();
        let mut image = trial.image;
        if let Some(origin) = &trial.proposed {
            (image, _) = shared.images.add(origin.clone(), &trial.content)?;
        }
        let number = shared.corpus.next_number();
        shared.coverage.add(operations, number);
        let case = TestCase {
            number,
            input: trial.input.clone(),
            image,
            novelty,
            parent: trial.parent,
            transitions: execution.transitions.clone(),
            edges: execution.edges.clone(),
            is_stable,
            times_chosen: 0,
        };
        shared.corpus.add(case, trial.how, elapsed)?;
        if !is_stable {
            shared.note_unpinned(execution);
        }
        if let Some(left) = left {
            let origin = ImageOrigin::Left {
                parent: image,
                case: number,
            };
            shared.images.add(origin, &left)?;
        }
        Ok(number)
    }

    /// Records a run to a file, which is there completely or not at all. False if there is no recording, because the run has destroyed what
    /// recorded it.
    pub(super) fn record_to(
        &mut self,
        image: &StartImage,
        input: &[u8],
        trace: &Path,
    ) -> Result<bool, FuzzError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| FuzzError::Write { path, source }
        };
        let folder = trace.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let part = trace.with_extension("part");
        let recorded = self.executor.record(image, input, &part);
        let is_recorded = self.survive(recorded)?.is_some();
        if is_recorded {
            fs::rename(&part, trace).map_err(failed(trace))?;
        }
        Ok(is_recorded)
    }

    /// Records a test case for examination, and proposes its crash images as images to start on.
    fn record(&mut self, trial: &UntriedCase, case: u64) -> Result<Vec<UntriedCase>, FuzzError> {
        let trace = recording(&self.campaign.options.out, case);
        if !self.record_to(&trial.content, &trial.input, &trace)? {
            return Ok(Vec::new());
        }
        let rate = self.campaign.options.crash_rate;
        let recorded = RecordedCase {
            trace: &trace,
            files: &self.files,
            patterns: self.campaign.options.patterns.as_ref(),
        };
        let crashes = recorded.crash_images(rate, self.mutations.rand());
        let crashes = self.survive(crashes)?.unwrap_or_default();
        let image = self.image_of(case).unwrap_or(trial.image);
        self.campaign.report(Discovery::Path {
            case,
            image,
            content: trial.content.clone(),
            input: trial.input.clone(),
            trace,
        });
        let known = self.campaign.lock().images.ids().to_vec();
        let trials = crashes.into_iter().filter_map(|crash| {
            let origin = ImageOrigin::Crash {
                parent: image,
                case,
                event: crash.event,
            };
            let id = crash.image.id();
            (!known.contains(&id)).then(|| UntriedCase {
                input: trial.input.clone(),
                image: id,
                content: crash.image,
                parent: Some(case),
                how: "crash",
                proposed: Some(origin),
            })
        });
        Ok(trials.collect())
    }

    pub(super) fn keep_anyway(&mut self, input: &[u8], image: ImageId) -> Result<(), FuzzError> {
        let elapsed = self.campaign.elapsed();
        let mut shared = self.campaign.lock();
        let case = TestCase {
            number: shared.corpus.next_number(),
            input: input.to_vec(),
            image,
            novelty: Novelty::Nothing,
            parent: None,
            transitions: Vec::new(),
            edges: Vec::new(),
            is_stable: true,
            times_chosen: 0,
        };
        shared.corpus.add(case, "seed", elapsed)
    }
}
