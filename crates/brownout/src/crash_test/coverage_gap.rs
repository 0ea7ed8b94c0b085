//! The sentence about a crash test that has not tested everything that it had to.

use super::monitor::counted;

/// The sentence. `noun` is what is counted.
pub fn unfinished((tried, of): (u64, u64), noun: &str, why: &str) -> String {
    let of = counted(of, noun);
    format!("crashes were tested only at {tried} of {of}: {why}")
}
