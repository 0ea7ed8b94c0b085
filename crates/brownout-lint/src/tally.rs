//! Counts how often a rule fires at each site, and keeps the earliest occurrence.
//!
//! Rules can fire at every other event, so counting again must be cheap: the entry that a
//! site led to last is found by indexing with the site's key.

use brownout_model::{ByteMask, PmAddress};
use brownout_report::RuleInfo;
use brownout_trace::selection::Selection;
use brownout_trace::{EventIndex, FileId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::raw_finding::{RawFinding, RawRange, RawSite, RawValue, UnfencedSince};
use crate::rule_inputs::ByteCounts;
use crate::site_keys::{KnownSites, SiteKey};

/// Two findings of a rule with the same key are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) site: SiteKey,
    /// The second site, for rules that distinguish findings by it, too.
    pub(crate) other: SiteKey,
    /// `None` if the finding is about no file.
    pub(crate) file: Option<FileId>,
}

impl Key {
    pub(crate) fn single(site: SiteKey, file: Option<FileId>) -> Self {
        Key {
            site,
            other: SiteKey::NONE,
            file,
        }
    }

    pub(crate) fn pair(site: SiteKey, other: SiteKey, file: FileId) -> Self {
        Key {
            site,
            other,
            file: Some(file),
        }
    }
}

/// What a finding says.
pub(crate) enum Message {
    Text(String),
    /// Depends on how many bytes its occurrences are about.
    OfBytes(Box<dyn Fn(ByteCounts) -> String>),
}

impl Default for Message {
    fn default() -> Self {
        Message::Text(String::new())
    }
}

impl<T: Into<String>> From<T> for Message {
    fn from(text: T) -> Self {
        Message::Text(text.into())
    }
}

/// The first time that a rule fired for a key.
#[derive(Default)]
pub(crate) struct Occurrence {
    pub(crate) message: Message,
    /// Role, site and time of each event involved; the one to look at first comes first.
    pub(crate) sites: Vec<(&'static str, SiteKey, u64)>,
    pub(crate) bytes: Vec<(PmAddress, ByteMask)>,
    pub(crate) values: Vec<RawValue>,
    /// For each site that is a store, since when its thread had executed no fence, where that helps to join findings.
    pub(crate) unfenced_since: Vec<UnfencedSince>,
}

/// What changes each time a rule fires.
struct Entry {
    key: Key,
    count: u64,
    /// The earliest event, whose details are kept: events need not be judged in their order.
    first: u64,
    /// The event counted last: a store that falls into several lines counts once, with its bytes in the first of them.
    last: u64,
    bytes: ByteCounts,
}

/// The findings of one rule.
pub(crate) struct Tally {
    rule: &'static RuleInfo,
    entries: Vec<Entry>,
    /// The time and details of the first occurrence of each entry.
    firsts: Vec<(u64, Occurrence)>,
    indices: FxHashMap<Key, u32>,
    /// For each site, the entry that it led to last.
    recent: Vec<u32>,
    /// Pairs of sites whose findings may have one cause, the smaller key first.
    related: FxHashSet<(SiteKey, SiteKey)>,
}

impl Tally {
    pub(crate) fn new(rule: &'static RuleInfo) -> Self {
        Tally {
            rule,
            entries: Vec::new(),
            firsts: Vec::new(),
            indices: FxHashMap::default(),
            recent: Vec::new(),
            related: FxHashSet::default(),
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
        self.add_sized(key, (count, ByteCounts::NONE), time, first);
    }

    /// The rule fires for some events that are about as many bytes each, the first of them at `time`.
    #[inline]
    pub(crate) fn add_sized(
        &mut self,
        key: Key,
        (count, bytes): (u64, ByteCounts),
        time: u64,
        first: impl FnOnce() -> Occurrence,
    ) {
        let recent = self.recent.get(key.site.index()).copied();
        let index = match recent.filter(|&index| self.entries[index as usize].key == key) {
            Some(index) => index,
            None => self.find(key),
        };
        let entry = &mut self.entries[index as usize];
        if time < entry.first {
            entry.first = time;
            let known = self.firsts.get_mut(index as usize);
            match known {
                Some(known) => *known = (time, first()),
                None => self.firsts.push((time, first())),
            }
        }
        if entry.last != time {
            match entry.count {
                0 => entry.bytes = bytes,
                _ => entry.bytes.include(bytes),
            }
            entry.count += count;
            entry.last = time;
        }
    }

    /// The findings at two sites may have one cause.
    pub(crate) fn relate(&mut self, one: SiteKey, other: SiteKey) {
        self.related.insert((one.min(other), one.max(other)));
    }

    /// The entry of a key, from now on the one that its site led to last. If it is new, the caller adds an
    /// occurrence.
    #[inline(never)]
    fn find(&mut self, key: Key) -> u32 {
        let entries = &mut self.entries;
        let index = *self.indices.entry(key).or_insert_with(|| {
            entries.push(Entry {
                key,
                count: 0,
                first: u64::MAX,
                last: u64::MAX,
                bytes: ByteCounts::NONE,
            });
            entries.len() as u32 - 1
        });
        if self.recent.len() <= key.site.index() {
            // A site without entries gets entry 0, whose key differs.
            self.recent.resize(key.site.index() + 1, 0);
        }
        self.recent[key.site.index()] = index;
        index
    }

    /// The findings on files that are persistent memory, in the order in which they first occurred.
    pub(crate) fn into_findings(
        self,
        sites: &KnownSites,
        selection: &Selection,
    ) -> impl Iterator<Item = RawFinding> {
        let persistent = |file: Option<FileId>| match file {
            Some(file) => selection.is_persistent(file),
            None => !selection.is_empty(),
        };
        let mut merged: Vec<RawFinding> = Vec::new();
        let mut indices: FxHashMap<(SiteKey, SiteKey), usize> = FxHashMap::default();
        let rule = self.rule;
        let mut related: FxHashMap<SiteKey, Vec<SiteKey>> = FxHashMap::default();
        for (one, other) in self.related {
            related.entry(one).or_default().push(other);
            related.entry(other).or_default().push(one);
        }
        for (entry, first) in self.entries.into_iter().zip(self.firsts) {
            if !persistent(entry.key.file) {
                continue;
            }
            // The same sites may access several files.
            let index = *indices
                .entry((entry.key.site, entry.key.other))
                .or_insert(merged.len());
            match merged.get_mut(index) {
                Some(finding) => finding.count += entry.count,
                None => {
                    let mut related = related.get(&entry.key.site).cloned().unwrap_or_default();
                    related.sort_unstable();
                    merged.push(RawFinding {
                        related,
                        ..finding(rule, sites, (entry.count, entry.bytes), first)
                    });
                }
            }
        }
        merged.into_iter()
    }
}

fn finding(
    rule: &'static RuleInfo,
    sites: &KnownSites,
    (count, sizes): (u64, ByteCounts),
    (time, first): (u64, Occurrence),
) -> RawFinding {
    let Occurrence {
        message,
        sites: involved,
        bytes,
        values,
        unfenced_since,
    } = first;
    let involved: Vec<RawSite> = involved
        .into_iter()
        .map(|(role, key, time)| {
            let site = sites.site(key);
            RawSite {
                role,
                key,
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
        message: match message {
            Message::Text(text) => text,
            Message::OfBytes(text) => text(sizes),
        },
        count,
        first: EventIndex(time),
        sites: involved,
        ranges: ranges.collect(),
        values,
        unfenced_since,
        related: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use brownout_report::{Category, RulePolicy, Severity};

    use super::*;

    static RULE: RuleInfo = RuleInfo {
        id: "rule",
        severity: Severity::Bug,
        category: Category::Durability,
        pedantic: false,
        policy: RulePolicy::NONE,
        summary: "",
        explanation: "",
    };

    #[test]
    fn the_earliest_occurrence_is_kept_whenever_it_is_judged() {
        let mut found = Tally::new(&RULE);
        let [key, other] = [1, 2].map(|site| Key::single(SiteKey::numbered(site), None));
        for (key, time) in [(key, 9), (other, 8), (key, 5), (other, 12), (key, 7)] {
            found.add(key, time, || Occurrence {
                message: format!("at {time}").into(),
                ..Occurrence::default()
            });
        }
        let firsts = found.firsts.iter();
        let firsts: Vec<_> = firsts
            .map(|(time, first)| match &first.message {
                Message::Text(text) => (*time, text.as_str()),
                Message::OfBytes(_) => unreachable!("all are texts"),
            })
            .collect();
        assert_eq!(firsts, [(5, "at 5"), (8, "at 8")]);
        let counts: Vec<u64> = found.entries.iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [3, 2]);
    }
}
