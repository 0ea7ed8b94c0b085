//! What a campaign that is continued does first: it runs the test cases of earlier processes again, so that what they show is known.

use crate::campaign::{Discovery, recording};
use crate::error::FuzzError;
use crate::image::StartImage;
use crate::test_case::{ListedCase, TestCase};

use super::Worker;

impl Worker<'_> {
    /// Runs a test case of an earlier process, so that what it shows is known.
    pub(super) fn run_again(&mut self, listed: &ListedCase, input: &[u8]) -> Result<(), FuzzError> {
        let content = self.image(listed.image)?;
        let execution = match &content {
            Some(content) => self.execute(content, input)?,
            None => None,
        };
        let operations = self.executor.new_operations();
        let mut shared = self.campaign.lock();
        shared.coverage.add(operations, listed.number);
        if let Some(execution) = &execution {
            shared.feedback.learn(execution);
            if !listed.is_stable {
                shared.note_unpinned(execution);
            }
        }
        let (transitions, edges) = execution
            .map(|execution| (execution.transitions, execution.edges))
            .unwrap_or_default();
        let case = TestCase {
            number: listed.number,
            input: input.to_vec(),
            image: listed.image,
            novelty: listed.novelty,
            parent: listed.parent,
            transitions,
            edges,
            is_stable: listed.is_stable,
            times_chosen: 0,
        };
        shared.corpus.keep_listed(case);
        drop(shared);
        match content {
            Some(content) if listed.is_open(self.campaign.options.tests_crashes) => {
                self.report_again(listed, &content, input)
            }
            _ => Ok(()),
        }
    }

    /// Lets a test case be examined that no earlier process has examined. It is recorded again if its recording is gone.
    fn report_again(
        &mut self,
        listed: &ListedCase,
        content: &StartImage,
        input: &[u8],
    ) -> Result<(), FuzzError> {
        let trace = recording(&self.campaign.options.out, listed.number);
        if !trace.exists() && !self.record_to(content, input, &trace)? {
            return Ok(());
        }
        self.campaign.report(Discovery::Path {
            case: listed.number,
            image: listed.image,
            content: content.clone(),
            input: input.to_vec(),
            trace,
        });
        Ok(())
    }
}
