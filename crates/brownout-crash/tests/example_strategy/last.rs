//! Crash images in program order, at the last occurrence of each failure point.
//!
//! Can miss: bugs that only show at earlier occurrences. Every image that it tries can be left by a crash.

use crate::{Candidate, FailurePoint, Strategy, StrategyInfo, Trial};

pub static LAST: StrategyInfo = StrategyInfo {
    name: "last",
    version: 1,
    summary: "Program order, at the last occurrence of each failure point",
    start: |input| {
        let leaves = input.survey.points.leaves().iter();
        let last = leaves.filter_map(|leaf| {
            Some(FailurePoint {
                kind: leaf.kind,
                stack: leaf.stack,
                occurrence: *leaf.chosen().last()?,
            })
        });
        let waiting: Vec<Candidate> = last.map(Candidate::from).collect();
        let planned = waiting.len() as u64;
        Box::new(Last { waiting, planned })
    },
};

struct Last {
    waiting: Vec<Candidate>,
    planned: u64,
}

impl Strategy for Last {
    fn propose(&mut self) -> Vec<Candidate> {
        std::mem::take(&mut self.waiting)
    }

    fn learn(&mut self, _: &Trial) {}

    fn planned(&self) -> u64 {
        self.planned
    }
}
