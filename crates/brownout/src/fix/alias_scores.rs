//! Which of the call sites on the way to a store is the place of its repair: the one that is given persistent memory most and volatile
//! memory least (Hippocrates, §3.4.3).
//!
//! The score of a call site is the number of pointers to persistent memory minus the number of other pointers that it passes, over all
//! its pointer arguments; that of the store itself counts the pointer through which it stores, over all calls of its function. A call
//! site without pointer arguments, and all above it, are no candidates: nothing is saved there. Ties go to the innermost.
//!
//! Hippocrates counts aliases in the program text; here calls are counted while the program runs
//! ([`pointer_counts`](mod@super::pointer_counts)). A place at which volatile memory would be flushed comes last, whatever its score: the
//! repair would add a performance finding.

use brownout_fix::PointerParameters;
use brownout_report::Frame;

use super::pointer_counts::{CallCounts, PointerCounts};
use super::program_sources::ProgramSources;

/// The places of a repair, by their numbers in the stack of the store, the best first.
pub fn ordered_levels(
    frames: &[&Frame],
    sources: &ProgramSources,
    counts: &PointerCounts,
) -> Option<Vec<usize>> {
    let parameters = |frame: &Frame| {
        let source = sources.current(frame).ok()?;
        let (line, column) = (frame.line?, frame.column);
        PointerParameters::at(&source.tree, line, column, &source.macros)
    };
    let places: Vec<(&Frame, Option<PointerParameters>)> = frames
        .iter()
        .map(|frame| (*frame, parameters(frame)))
        .collect();
    levels(&places, counts)
}

/// What is known about a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScoredLevel {
    level: usize,
    score: i64,
    flushes_volatile: bool,
}

fn levels(
    places: &[(&Frame, Option<PointerParameters>)],
    counts: &PointerCounts,
) -> Option<Vec<usize>> {
    let (innermost, parameters) = places.first()?;
    let function = innermost.function.as_deref()?;
    let all = counts.of_function(function)?;
    let parameters = parameters.as_ref()?;
    let stored = parameters.stored.map(|register| vec![register]);
    let used = stored.as_ref().unwrap_or(&parameters.registers);
    let mut found = vec![ScoredLevel {
        level: 0,
        score: score(&all, used),
        flushes_volatile: used.iter().any(|&register| all.other[register] > 0)
            && parameters.stored.is_some(),
    }];
    for (level, (frame, _)) in places.iter().enumerate().skip(1) {
        let (callee, parameters) = &places[level - 1];
        let known = callee
            .function
            .as_deref()
            .and_then(|callee| counts.at(callee, frame))
            .zip(parameters.as_ref());
        let Some((calls, parameters)) = known.filter(|(_, known)| !known.registers.is_empty())
        else {
            break;
        };
        let registers = &parameters.registers;
        let most = registers.iter().map(|&register| calls.persistent[register]);
        found.push(ScoredLevel {
            level,
            score: score(&calls, registers),
            // In some calls no pointer is to persistent memory.
            flushes_volatile: most.max().unwrap_or(0) < calls.calls,
        });
    }
    found.sort_by_key(|place| (place.flushes_volatile, -place.score, place.level));
    Some(found.into_iter().map(|place| place.level).collect())
}

/// Pointers to persistent memory minus others.
fn score(calls: &CallCounts, registers: &[usize]) -> i64 {
    let each = registers.iter().map(|&register| {
        let (persistent, other) = (calls.persistent[register], calls.other[register]);
        i64::try_from(persistent).unwrap_or(i64::MAX) - i64::try_from(other).unwrap_or(i64::MAX)
    });
    each.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> Frame {
        Frame {
            function: Some(function.into()),
            line: Some(line),
            ..Frame::default()
        }
    }

    fn calls(persistent: u64, other: u64) -> CallCounts {
        let mut counts = CallCounts {
            calls: persistent + other,
            ..CallCounts::default()
        };
        counts.persistent[0] = persistent;
        counts.other[0] = other;
        counts
    }

    fn parameters(name: &str, registers: &[usize]) -> Option<PointerParameters> {
        Some(PointerParameters {
            name: name.into(),
            registers: registers.to_vec(),
            stored: registers.first().copied(),
        })
    }

    /// Listing 3.6: `foo` calls `modify` with volatile memory at line 14 and with persistent memory at line 19.
    fn listing(volatile: u64) -> PointerCounts {
        let counts = PointerCounts::default()
            .with("update", &frame("modify", 8), calls(1, volatile))
            .with("modify", &frame("foo", 19), calls(1, 0));
        match volatile {
            0 => counts,
            _ => counts.with("modify", &frame("foo", 14), calls(0, volatile)),
        }
    }

    fn order(counts: &PointerCounts, registers: &[usize]) -> Option<Vec<usize>> {
        let frames = [frame("update", 3), frame("modify", 8), frame("foo", 19)];
        let places = [
            (&frames[0], parameters("update", registers)),
            (&frames[1], parameters("modify", registers)),
            (&frames[2], None),
        ];
        levels(&places, counts)
    }

    #[test]
    fn the_call_with_persistent_memory_alone_is_best() {
        assert_eq!(order(&listing(1), &[0]), Some(vec![2, 0, 1]));
        assert_eq!(order(&listing(1000), &[0]), Some(vec![2, 0, 1]));
    }

    #[test]
    fn a_function_without_volatile_callers_is_repaired_itself() {
        assert_eq!(order(&listing(0), &[0]), Some(vec![0, 1, 2]));
    }

    #[test]
    fn a_call_without_pointers_and_all_above_it_are_no_candidates() {
        assert_eq!(order(&listing(1), &[]), Some(vec![0]));
    }

    #[test]
    fn nothing_is_known_of_a_function_that_is_inlined() {
        assert_eq!(order(&PointerCounts::default(), &[0]), None);
    }
}
