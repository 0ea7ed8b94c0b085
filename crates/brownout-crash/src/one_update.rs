//! Whether two crashes have lost stores of one update.
//!
//! A loop, or a function that is called again and again, makes an update each time at another place. Crashes that lose it
//! lose all of its stores, or only the last ones, and the search for causes leads to others of them each time. One flush or fence at the
//! end of the update repairs all: recovery needs stores that were lost together, in one line and by one call of a function.
//!
//! Never takes crashes for one that have lost stores of several lines: stores of two objects are lost for two reasons. Can miss:
//! updates of objects that are larger than a line.

use brownout_report::primary_frame;

use crate::cause::{Cause, Culprit};
use crate::crash_point::OtherLines;
use crate::findings::{line_of, path_of};

/// Whether one crash has also lost what the other one shows to be needed, in the same update.
pub(crate) fn is_one_update(one: &Cause, other: &Cause) -> bool {
    let causes = [one, other];
    let mut stores = causes.iter().flat_map(|cause| &cause.absent);
    let call = stores.next().and_then(call_of);
    causes.iter().all(|cause| loses_one_part(cause))
        && call.is_some()
        && stores.all(|store| call_of(store) == call)
        && (has_lost(one, other) || has_lost(other, one))
}

/// Whether the crash has lost stores in one unit, that of its cause, and in no others.
fn loses_one_part(cause: &Cause) -> bool {
    let Some(choice) = &cause.cause_of.choice else {
        return false;
    };
    let (Ok(profile), [line]) = (choice.profile(), &choice.lines[..]) else {
        return false;
    };
    cause.is_loss()
        && choice.others == OtherLines::Newest
        && cause.misses_stores_in(line.offset, profile.unit)
}

/// Whether the crash of one cause has lost stores at the lines of the other.
fn has_lost(one: &Cause, other: &Cause) -> bool {
    let mut needed = other.absent.iter().map(|store| line_of(&store.stack));
    needed.all(|line| !line.is_empty() && one.lost_lines.contains(&line))
}

/// The function that made a store, and the lines of its callers.
fn call_of(store: &Culprit) -> Option<(&str, String)> {
    let primary = primary_frame(&store.stack)?;
    let (frame, callers) = store.stack.get(primary..)?.split_first()?;
    Some((frame.function.as_deref()?, path_of(callers)))
}

#[cfg(test)]
mod tests {
    use brownout_model::Tearing;
    use brownout_report::{ByteRange, Frame};

    use super::*;
    use crate::crash_point::{Choice, CrashPoint, LineChoice};

    fn frame(function: &str, line: u32) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some("a.c".into()),
            line: Some(line),
            ..Frame::default()
        }
    }

    /// A crash before this event that has lost the store of `main` at this line, in the cache line at this offset, with
    /// those at `lost`.
    fn loss(event: u64, line: u32, offset: u64, lost: &[u32]) -> Cause {
        let chosen = LineChoice {
            file: 0,
            offset,
            stores: 0,
            exceptions: Vec::new(),
            torn: Vec::new(),
        };
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Whole,
            others: OtherLines::Newest,
            lines: vec![chosen],
        };
        let store = Culprit {
            event: 1,
            stack: vec![frame("update", line), frame("main", 40)],
            ranges: vec![ByteRange {
                file: "pool".into(),
                offset: offset + 8,
                len: 8,
            }],
            persisted: Vec::new(),
        };
        Cause {
            cause_of: CrashPoint::chosen(event, Some(choice)),
            present: Vec::new(),
            absent: vec![store],
            stores: None,
            lost_lines: lost.iter().map(|line| format!("a.c:{line}")).collect(),
            tests: 1,
        }
    }

    fn are_one(one: &Cause, other: &Cause) -> bool {
        let both = [is_one_update(one, other), is_one_update(other, one)];
        assert_eq!(both[0], both[1]);
        both[0]
    }

    #[test]
    fn an_update_that_is_made_at_another_place_is_the_same() {
        let all = loss(1, 24, 0, &[24, 25, 26]);
        let last = loss(2, 26, 64, &[26]);
        assert!(are_one(&all, &last));
    }

    #[test]
    fn stores_that_were_not_lost_together_are_two() {
        let one = loss(1, 24, 0, &[24]);
        assert!(!are_one(&one, &loss(2, 26, 64, &[26])));
    }

    #[test]
    fn a_crash_that_has_lost_other_lines_too_is_not_one_update() {
        // It needs both, and one of them alone is another mistake.
        let mut all = loss(1, 24, 0, &[24, 25, 26]);
        all.absent.extend(loss(1, 26, 128, &[]).absent);
        let mut elsewhere = all.cause_of.choice.as_ref().unwrap().lines[0].clone();
        elsewhere.offset = 128;
        all.cause_of.choice.as_mut().unwrap().lines.push(elsewhere);
        assert!(!are_one(&all, &loss(2, 26, 64, &[26])));
    }

    #[test]
    fn another_function_or_caller_is_another_update() {
        let all = loss(1, 24, 0, &[24, 25, 26]);
        for (at, other) in [(0, frame("remove", 26)), (1, frame("main", 41))] {
            let mut last = loss(2, 26, 64, &[26]);
            last.absent[0].stack[at] = other;
            assert!(!are_one(&all, &last));
        }
    }

    #[test]
    fn a_store_that_is_there_too_early_is_something_else() {
        let all = loss(1, 24, 0, &[24, 25, 26]);
        let mut last = loss(2, 26, 64, &[26]);
        last.present = last.absent.clone();
        assert!(!are_one(&all, &last));
    }
}
