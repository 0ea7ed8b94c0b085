//! The reasons of a crash test that has not tested everything that it had to.

use brownout_report::{Reason, ReasonKind};

use crate::quantity::number_of;

/// Why a test that is not finished shows too little. `noun` is what is counted.
pub fn unfinished((tried, of): (u64, u64), noun: &str, why: &str) -> Reason {
    let of = number_of(of, noun);
    let text = format!("crashes were tested only at {tried} of {of}: {why}");
    Reason::new(ReasonKind::CoverageGap, text)
}

/// Why a test that has not explored everything shows too little.
pub fn not_explored(why: &str) -> Reason {
    let text = format!("not all behaviours of recovery were explored: {why}");
    Reason::new(ReasonKind::CutShort, text)
}

/// Why a test that has lost or reordered no stores shows too little.
pub fn not_reordered(why: &str) -> Reason {
    let text =
        format!("no crash that loses or reorders stores was tested: {why}; raise --time-limit");
    Reason::new(ReasonKind::NotReordered, text)
}

/// Why a test without any crash shows nothing.
pub fn none_tested(why: &str) -> Reason {
    Reason::new(ReasonKind::CoverageGap, format!("no crash was tested{why}"))
}
