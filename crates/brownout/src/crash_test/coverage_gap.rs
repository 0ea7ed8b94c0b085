//! What is told of a crash test that has not tried all it was to try.

const BEGINNING: &str = "crashes were tried at ";

/// The sentence that says so.
pub fn unfinished(tried: u64, points: u64, why: &str) -> String {
    format!("{BEGINNING}{tried} of {points} failure points only: {why}")
}

/// Whether a gap is that sentence, which holds for one part of a test alone.
pub fn is_unfinished(gap: &str) -> bool {
    gap.starts_with(BEGINNING)
}
