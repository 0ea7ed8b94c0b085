//! Counts how often a rule fires where, and keeps what was so the first time.
//!
//! Rules can fire at every other event, so that counting once more must be cheap: the entry that a
//! place led to last is found by its number.

use brownout_model::{ByteMask, PmAddress};
use brownout_report::RuleInfo;
use brownout_trace::selection::Selection;
use brownout_trace::{EventIndex, FileId};
use rustc_hash::FxHashMap;

use crate::raw_finding::{RawFinding, RawPlace, RawRange, RawValue};
use crate::site_keys::{Known, SiteId};

/// What makes two findings of a rule the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) site: SiteId,
    /// The second place, for rules whose findings are told apart by it too.
    pub(crate) other: SiteId,
    /// `None` for what is about no file.
    pub(crate) file: Option<FileId>,
}

impl Key {
    pub(crate) fn single(site: SiteId, file: Option<FileId>) -> Self {
        Key {
            site,
            other: SiteId::NONE,
            file,
        }
    }

    pub(crate) fn pair(site: SiteId, other: SiteId, file: FileId) -> Self {
        Key {
            site,
            other,
            file: Some(file),
        }
    }
}

/// The first time that a rule fired for a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occurrence {
    pub(crate) message: String,
    /// What happened, where and when; the place to look at first comes first.
    pub(crate) places: Vec<(&'static str, SiteId, u64)>,
    pub(crate) bytes: Vec<(PmAddress, ByteMask)>,
    pub(crate) values: Vec<RawValue>,
}

/// What changes each time that a rule fires.
struct Entry {
    key: Key,
    count: u64,
    /// The event counted last: a store that falls into several lines counts once.
    last: u64,
}

/// The findings of one rule.
pub(crate) struct Tally {
    rule: &'static RuleInfo,
    entries: Vec<Entry>,
    /// For each entry when it was first met, and what was so then.
    firsts: Vec<(u64, Occurrence)>,
    numbers: FxHashMap<Key, u32>,
    /// For each place the entry that it led to last.
    recent: Vec<u32>,
}

impl Tally {
    pub(crate) fn new(rule: &'static RuleInfo) -> Self {
        Tally {
            rule,
            entries: Vec::new(),
            firsts: Vec::new(),
            numbers: FxHashMap::default(),
            recent: Vec::new(),
        }
    }

    /// The rule fires for the event at `time`.
    #[inline]
    pub(crate) fn add(&mut self, key: Key, time: u64, first: impl FnOnce() -> Occurrence) {
        self.add_many(key, 1, time, first);
    }

    /// The rule fires for some events, the first of them at `time`.
    #[inline]
    pub(crate) fn add_many(
        &mut self,
        key: Key,
        count: u64,
        time: u64,
        first: impl FnOnce() -> Occurrence,
    ) {
        let recent = self.recent.get(key.site.index()).copied();
        let number = match recent.filter(|&number| self.entries[number as usize].key == key) {
            Some(number) => number,
            None => {
                let number = self.find(key);
                if number as usize == self.firsts.len() {
                    self.firsts.push((time, first()));
                }
                number
            }
        };
        let entry = &mut self.entries[number as usize];
        if entry.last != time {
            entry.count += count;
            entry.last = time;
        }
    }

    /// The entry of a key, from now on the one that its place led to last. If it is new, it is the caller who knows
    /// what was so the first time.
    #[inline(never)]
    fn find(&mut self, key: Key) -> u32 {
        let entries = &mut self.entries;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            entries.push(Entry {
                key,
                count: 0,
                last: u64::MAX,
            });
            entries.len() as u32 - 1
        });
        if self.recent.len() <= key.site.index() {
            // Places that have led to no entry are not found by the key of the first.
            self.recent.resize(key.site.index() + 1, 0);
        }
        self.recent[key.site.index()] = number;
        number
    }

    /// The findings on files that are persistent memory, in the order in which they were met.
    pub(crate) fn into_findings(
        self,
        known: &Known,
        selection: &Selection,
    ) -> impl Iterator<Item = RawFinding> {
        let persistent = |file: Option<FileId>| match file {
            Some(file) => selection.is_persistent(file),
            None => !selection.is_empty(),
        };
        let mut merged: Vec<RawFinding> = Vec::new();
        let mut numbers: FxHashMap<(SiteId, SiteId), usize> = FxHashMap::default();
        let rule = self.rule;
        for (entry, first) in self.entries.into_iter().zip(self.firsts) {
            if !persistent(entry.key.file) {
                continue;
            }
            // The same places may have to do with several files.
            let number = *numbers
                .entry((entry.key.site, entry.key.other))
                .or_insert(merged.len());
            match merged.get_mut(number) {
                Some(finding) => finding.count += entry.count,
                None => merged.push(finding(rule, known, entry.count, first)),
            }
        }
        merged.into_iter()
    }
}

fn finding(
    rule: &'static RuleInfo,
    known: &Known,
    count: u64,
    (time, first): (u64, Occurrence),
) -> RawFinding {
    let Occurrence {
        message,
        places,
        bytes,
        values,
    } = first;
    let places: Vec<RawPlace> = places
        .into_iter()
        .map(|(role, number, time)| {
            let site = known.site(number);
            RawPlace {
                role,
                number: number.index(),
                process: site.process,
                pc: site.pc,
                context: site.context,
                event: EventIndex(time),
            }
        })
        .collect();
    let ranges = bytes.into_iter().flat_map(|(line, bytes)| {
        bytes.runs().map(move |(start, len)| RawRange {
            file: FileId(line.space.0),
            offset: line.offset + start,
            len,
        })
    });
    RawFinding {
        rule,
        message,
        count,
        first: EventIndex(time),
        places,
        ranges: ranges.collect(),
        values,
    }
}
