//! Stores that were overwritten before they were guaranteed, kept until the store that overwrote them is.
//!
//! Each live store may head a list of the overwritings below it. A pair of sites occurs once in a list,
//! so a counter that is written a million times between two flushes costs one entry. Lists are short: when too many
//! pairs accumulate on the same bytes, later ones are dropped.

use brownout_model::{ByteMask, PmAddress, ThreadSlot};

use crate::rule_inputs::StoreTag;
use crate::site_keys::SiteKey;

/// No list.
pub(crate) const NOTHING: u32 = u32::MAX;

/// The most pairs in a list. Each store to bytes that were never persistent walks its list.
const MOST: usize = 16;

/// A store at `older` whose bytes were stored to again at `newer`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overwriting {
    pub(crate) older: SiteKey,
    pub(crate) older_time: u64,
    pub(crate) older_thread: ThreadSlot,
    pub(crate) older_value: StoreTag,
    pub(crate) newer: SiteKey,
    pub(crate) newer_time: u64,
    pub(crate) newer_value: StoreTag,
    pub(crate) line: PmAddress,
    pub(crate) bytes: ByteMask,
    pub(crate) count: u64,
}

/// All lists, in reused memory.
#[derive(Default)]
pub(crate) struct Overwrites {
    entries: Vec<(Overwriting, u32)>,
    free: Vec<u32>,
}

impl Overwrites {
    /// Adds an overwriting to a list unless it is full; returns the new head.
    pub(crate) fn push(&mut self, head: u32, overwriting: Overwriting) -> u32 {
        let (mut at, mut len) = (head, 0);
        while let Some((entry, next)) = self.entries.get_mut(at as usize) {
            if entry.older == overwriting.older && entry.newer == overwriting.newer {
                entry.count += overwriting.count;
                return head;
            }
            len += 1;
            at = *next;
        }
        if len == MOST {
            return head;
        }
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = (overwriting, head);
                index
            }
            None => {
                self.entries.push((overwriting, head));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Moves the entries of one list to another; returns its head.
    pub(crate) fn join(&mut self, head: u32, mut other: u32) -> u32 {
        if head == NOTHING {
            return other;
        }
        let mut head = head;
        while let Some(&(entry, next)) = self.entries.get(other as usize) {
            self.free.push(other);
            head = self.push(head, entry);
            other = next;
        }
        head
    }

    /// Removes what was stored at `time` or later from a list; returns its head.
    pub(crate) fn before(&mut self, mut head: u32, time: u64) -> u32 {
        let mut kept = NOTHING;
        while let Some(&(entry, next)) = self.entries.get(head as usize) {
            self.free.push(head);
            if entry.older_time < time {
                kept = self.push(kept, entry);
            }
            head = next;
        }
        kept
    }

    /// Visits and removes all entries of a list.
    pub(crate) fn take(&mut self, mut head: u32, mut each: impl FnMut(&Overwriting)) {
        while let Some((entry, next)) = self.entries.get(head as usize) {
            each(entry);
            self.free.push(head);
            head = *next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follower::store_marks::StoreMarks;

    fn overwriting(older_time: u64) -> Overwriting {
        let tag = StoreTag {
            live_since: 0,
            value: 0,
            site: SiteKey::default(),
            overwrote: NOTHING,
            start: 0,
            len: 8,
            since_fence: 0,
            exempt: false,
            flushed: false,
            marks: StoreMarks::NONE,
        };
        Overwriting {
            older: SiteKey::default(),
            older_time,
            older_thread: ThreadSlot::default(),
            older_value: tag,
            newer: SiteKey::NONE,
            newer_time: older_time + 1,
            newer_value: tag,
            line: PmAddress::default(),
            bytes: ByteMask::ALL,
            count: 1,
        }
    }

    fn list(overwrites: &mut Overwrites, head: u32) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        overwrites.take(head, |entry| found.push((entry.older_time, entry.count)));
        found
    }

    #[test]
    fn equal_pairs_are_counted_in_one_entry() {
        let mut overwrites = Overwrites::default();
        let mut head = NOTHING;
        for time in 0..1000 {
            head = overwrites.push(head, overwriting(time));
        }
        assert_eq!(overwrites.entries.len(), 1);
        assert_eq!(list(&mut overwrites, head), [(0, 1000)]);
    }

    #[test]
    fn lists_are_bounded() {
        let mut overwrites = Overwrites::default();
        let (mut one, mut other) = (NOTHING, NOTHING);
        for number in 0..100 {
            let at = |number| Overwriting {
                newer: SiteKey::numbered(number),
                ..overwriting(number.into())
            };
            one = overwrites.push(one, at(number));
            other = overwrites.push(other, at(1000 + number));
        }
        let joined = overwrites.join(one, other);
        assert_eq!(list(&mut overwrites, joined).len(), MOST);
        assert_eq!(overwrites.entries.len(), 2 * MOST);
        assert_eq!(overwrites.free.len(), 2 * MOST);
    }

    #[test]
    fn late_entries_can_be_removed_from_a_list() {
        let mut overwrites = Overwrites::default();
        let late = Overwriting {
            newer: SiteKey::default(),
            ..overwriting(5)
        };
        let head = overwrites.push(NOTHING, overwriting(1));
        let head = overwrites.push(head, late);
        let head = overwrites.before(head, 5);
        assert_eq!(list(&mut overwrites, head), [(1, 1)]);
        assert_eq!((overwrites.entries.len(), overwrites.free.len()), (2, 2));
    }

    #[test]
    fn joining_lists_takes_no_memory() {
        let mut overwrites = Overwrites::default();
        let other = Overwriting {
            newer: SiteKey::default(),
            ..overwriting(5)
        };
        let one = overwrites.push(NOTHING, overwriting(1));
        let two = overwrites.push(NOTHING, overwriting(2));
        let two = overwrites.push(two, other);
        let joined = overwrites.join(one, two);
        assert_eq!(overwrites.entries.len(), 3);
        let mut found = list(&mut overwrites, joined);
        found.sort_unstable();
        assert_eq!(found, [(1, 2), (5, 1)]);
        assert_eq!(overwrites.free.len(), 3);
    }
}
