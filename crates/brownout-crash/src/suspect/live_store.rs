//! A store of a suspect that a crash can lose, and the instants at which losing it is tried.
//!
//! There are up to four of them while the store is not guaranteed: when something stored later is guaranteed; at the last
//! failure point before it is guaranteed, or of the run, when most depends on it; when something else was stored since; and when its
//! operation has ended.
//! A store to several units is lost as a whole, and in its first or its last unit alone; it is guaranteed when all of it is.

use std::ops::Range;

use brownout_trace::{EventIndex, FileId};

use crate::failure_point::{FailurePoint, StackId};

/// A unit of the model: a line, or a page.
pub(super) type UnitKey = (FileId, u64);

/// Which store is lost in an image, in which units, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) point: FailurePoint,
    /// `None` if everything in these units is lost that can be.
    pub(super) store: Option<EventIndex>,
    pub(super) units: (FileId, Range<u64>),
    /// The words of the store that are there nevertheless, if it is torn in one unit; 0 if it is lost as a whole.
    pub(super) present_words: u8,
    /// The calling context of the last store in these units; `None` if a suspect or a write-back says what is lost.
    pub(super) stack: Option<StackId>,
}

/// The newest of some stores, and the newest of those to another unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    unit: Option<UnitKey>,
    event: u64,
    elsewhere: u64,
}

impl Newest {
    pub(super) fn add(&mut self, unit: UnitKey, event: u64) {
        if self.unit != Some(unit) {
            if event < self.event {
                self.elsewhere = self.elsewhere.max(event);
                return;
            }
            self.elsewhere = self.event;
            self.unit = Some(unit);
        }
        self.event = self.event.max(event);
    }

    /// Whether one of them is newer than `event` and in another unit.
    pub(super) fn is_past(&self, unit: UnitKey, event: u64) -> bool {
        let newest = if self.unit == Some(unit) {
            self.elsewhere
        } else {
            self.event
        };
        newest > event
    }
}

/// A store of a suspect, as long as it is not guaranteed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveStore {
    pub(super) store: EventIndex,
    /// The first unit, and where the last one starts.
    pub(super) unit: UnitKey,
    pub(super) last_unit: u64,
    /// Lines with a part that is not guaranteed.
    pub(super) lines: u64,
    /// Operations that were complete.
    pub(super) completed: u64,
    /// Whether it is guaranteed.
    pub(super) is_over: bool,
    /// Something else was stored since.
    pub(super) followed: Option<FailurePoint>,
    /// Something stored later is guaranteed.
    pub(super) overtaken: Option<FailurePoint>,
    /// Its operation has ended.
    pub(super) ended: Option<FailurePoint>,
    pub(super) last: Option<FailurePoint>,
}

impl LiveStore {
    /// What to lose of it, and when. Another `turn` begins with another part of a store to several units.
    pub(super) fn losses(&self, unit: u64, turn: usize) -> Vec<Loss> {
        let (file, first) = self.unit;
        let last = self.last_unit;
        let whole = first..last + unit;
        let mut parts = vec![whole];
        if first != last {
            parts.extend([first..first + unit, last..last + unit]);
            parts.rotate_left(turn % 3);
        }
        let instants = [self.overtaken, self.last, self.followed, self.ended];
        let points = instants.into_iter().flatten();
        let losses = points.flat_map(|point| {
            let store = Some(self.store);
            parts.iter().map(move |part| Loss {
                point,
                store,
                present_words: 0,
                units: (file, part.clone()),
                stack: None,
            })
        });
        losses.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_newer_in_another_unit_is_known_without_keeping_all() {
        let (a, b, c) = ((FileId(0), 0), (FileId(0), 64), (FileId(0), 128));
        let mut newest = Newest::default();
        newest.add(a, 5);
        assert!(!newest.is_past(a, 3), "only the same unit");
        assert!(newest.is_past(b, 3));
        newest.add(b, 7);
        newest.add(b, 9);
        assert!(newest.is_past(a, 6) && newest.is_past(b, 4));
        assert!(!newest.is_past(b, 6));
        newest.add(c, 8);
        assert!(newest.is_past(b, 7), "an older one elsewhere counts");
        assert!(!newest.is_past(c, 9));
    }
}
