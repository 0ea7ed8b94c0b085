//! The sentences about a crash test that has not tested everything that it had to.

use crate::quantity::number_of;

const TESTED_ONLY: &str = "crashes were tested only at ";
const NONE_TESTED: &str = "no crash was tested";

/// The sentence about a test that is not finished. `noun` is what is counted.
pub fn unfinished((tried, of): (u64, u64), noun: &str, why: &str) -> String {
    let of = number_of(of, noun);
    format!("{TESTED_ONLY}{tried} of {of}: {why}")
}

/// The sentence about a test without any crash.
pub fn none_tested(why: &str) -> String {
    format!("{NONE_TESTED}{why}")
}

/// Whether a sentence says that a test has not tested everything that it had to.
pub fn is_coverage_gap(sentence: &str) -> bool {
    [TESTED_ONLY, NONE_TESTED]
        .iter()
        .any(|start| sentence.starts_with(start))
}
