//! The sentence about a crash test that has not tested all crash points.

use super::monitor::counted;

const BEGINNING: &str = "crashes were tested only at ";

/// The sentence.
pub fn unfinished(tried: u64, points: u64, why: &str) -> String {
    let points = counted(points, "crash point");
    format!("{BEGINNING}{tried} of {points}: {why}")
}

/// Whether a gap is that sentence, which is only true for one part of a test.
pub fn is_unfinished(gap: &str) -> bool {
    gap.starts_with(BEGINNING)
}
