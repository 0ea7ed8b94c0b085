//! A test case that is kept: an input, the image that it starts on, and what it has shown.

use serde::{Deserialize, Serialize};

use crate::examination::CaseExamination;
use crate::executor::Counts;
use crate::feedback::Novelty;
use crate::image::ImageId;

/// A test case.
#[derive(Clone, Debug)]
pub struct TestCase {
    pub number: u64,
    pub input: Vec<u8>,
    pub image: ImageId,
    /// What it has shown first.
    pub novelty: Novelty,
    /// The test case that it was made from.
    pub parent: Option<u64>,
    pub transitions: Counts,
    pub edges: Counts,
    /// Whether a second execution did the same.
    pub is_stable: bool,
    /// How often it was mutated.
    pub times_chosen: u64,
}

/// A test case as it is listed on disk. Its input is a file of the corpus.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedCase {
    pub number: u64,
    pub input: String,
    pub image: ImageId,
    pub novelty: Novelty,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Seconds since the campaign began.
    pub found_after: f64,
    /// Whether executions on it are the same.
    #[serde(default = "is_taken_for_stable")]
    pub is_stable: bool,
    /// What the examination of its recording has come to, once it was examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examination: Option<CaseExamination>,
}

/// Lists of earlier versions do not say.
fn is_taken_for_stable() -> bool {
    true
}

impl ListedCase {
    /// Whether its recording, or crashes of it if they are to be tested, were not examined yet.
    pub fn is_open(&self, tests_crashes: bool) -> bool {
        let is_examined = |done: &CaseExamination| !tests_crashes || done.crashes.is_some();
        self.novelty == Novelty::Transition && !self.examination.as_ref().is_some_and(is_examined)
    }
}

impl TestCase {
    /// How much more often it is chosen than others, before it is known how often it was.
    fn priority(&self) -> f64 {
        match self.novelty {
            Novelty::Transition => 16.0,
            Novelty::Count => 4.0,
            Novelty::Code | Novelty::Nothing => 1.0,
        }
    }

    /// How likely it is to be mutated next, in comparison with others. Long inputs and those that were mutated often are less likely.
    pub fn weight(&self) -> f64 {
        let length = 1.0 + self.input.len() as f64 / 512.0;
        self.priority() / (1.0 + self.times_chosen as f64) / length.min(8.0)
    }
}
