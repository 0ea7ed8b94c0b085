//! Which pages are observed if behaviours of other recordings are to be used, or to be remembered for others.
//!
//! A remembered run decides an image of this recording only if each page that can differ from the run's images was observed in it: those
//! that differ between the crashes of this recording, and those that are certain in both and not the same. If there are such runs, the
//! pages that were observed in them are observed here, too; of several possibilities that which saves most runs. Otherwise these are the
//! pages that this recording needs, together with those of all that is remembered, so that runs of this one serve all of these recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brownout_recovery::ByteRanges;
use brownout_trace::replay::{Content, PAGE};

use super::crash_times::RecordedStores;
use crate::explored_behaviours::{ExploredBehaviours, ExploredPages, ExploredRun, FilePages};

/// Pages that are observed beyond those that this recording needs, at most: each makes recoveries slower.
const MOST_MORE: usize = 4096;

/// The observed pages of each file, and the remembered runs that were observed so.
pub struct ObservedPages<'m> {
    pub files: Vec<FilePages>,
    pub runs: Vec<&'m ExploredRun>,
}

impl<'m> ObservedPages<'m> {
    /// The pages that can be observed, with the remembered runs for which they are; at least one possibility, unless it is not known what
    /// is the same after all crashes.
    pub fn possibilities(known: &'m ExploredBehaviours, stores: &RecordedStores) -> Vec<Self> {
        let Some(own) = own_pages(stores) else {
            return Vec::new();
        };
        let same_files = |pages: &&ExploredPages| {
            let paths = pages.files.iter().map(|file| &file.path);
            paths.eq(own.iter().map(|file| &file.path))
        };
        let known: Vec<&ExploredPages> = known.pages().iter().filter(same_files).collect();
        let needed = |pages: &ExploredPages| -> Vec<BTreeSet<u64>> {
            let files = own.iter().zip(&pages.files);
            files.map(|(own, other)| own.needed_with(other)).collect()
        };
        let fits = |pages: &&&ExploredPages| {
            let needed = needed(pages);
            let mut files = needed.iter().zip(&pages.files);
            files.all(|(needed, file)| needed.is_subset(&file.observed))
        };
        let fitting = known.iter().filter(fits).map(|pages| Self {
            files: pages.files.clone(),
            runs: pages.runs.iter().collect(),
        });
        let fitting: Vec<Self> = fitting.collect();
        if !fitting.is_empty() {
            return fitting;
        }
        let mut all: Vec<BTreeSet<u64>> = own.iter().map(|file| file.observed.clone()).collect();
        for pages in &known {
            for ((all, needed), file) in all.iter_mut().zip(needed(pages)).zip(&pages.files) {
                all.extend(needed);
                all.extend(&file.observed);
            }
        }
        let count = |sets: &[BTreeSet<u64>]| sets.iter().map(BTreeSet::len).sum::<usize>();
        let few: usize = own.iter().map(|file| file.observed.len()).sum();
        let files = match count(&all) <= few + MOST_MORE {
            true => own
                .into_iter()
                .zip(all)
                .map(|(file, observed)| file.with(observed))
                .collect(),
            false => own,
        };
        vec![Self {
            files,
            runs: Vec::new(),
        }]
    }

    /// The observed bytes of each file.
    pub fn bytes(&self) -> Arc<[ByteRanges]> {
        let bytes = |file: &FilePages| {
            let mut bytes = ByteRanges::exact();
            for page in &file.observed {
                bytes.insert(page * PAGE as u64..(page + 1) * PAGE as u64);
            }
            bytes
        };
        self.files.iter().map(bytes).collect()
    }
}

impl FilePages {
    /// The pages that have to be observed so that runs of a recording with these pages decide images of one with `other` pages.
    fn needed_with(&self, other: &Self) -> BTreeSet<u64> {
        let certain = self.certain.keys().chain(other.certain.keys());
        let differing = certain.filter(|&page| {
            let is_observed = self.observed.contains(page) || other.observed.contains(page);
            !is_observed && self.certain.get(page) != other.certain.get(page)
        });
        self.observed.iter().chain(differing).copied().collect()
    }

    /// With these pages observed.
    fn with(mut self, observed: BTreeSet<u64>) -> Self {
        self.certain.retain(|page, _| !observed.contains(page));
        self.observed = observed;
        self
    }
}

/// The pages that differ between the crashes of a recording, and the digests of the others.
fn own_pages(stores: &RecordedStores) -> Option<Vec<FilePages>> {
    let mut exists = vec![false; stores.paths.len()];
    for time in &stores.times {
        for (exists, size) in exists.iter_mut().zip(&time.start.sizes) {
            *exists |= size.is_some();
        }
    }
    let files = stores.paths.iter().zip(&stores.first_contents).zip(exists);
    let files = files.zip(stores.differing.iter());
    files
        .map(|(((path, content), exists), differing)| {
            if exists && content.is_none() {
                return None;
            }
            let ranges = differing.ranges().filter(|range| !range.is_empty());
            let pages =
                ranges.flat_map(|range| range.start / PAGE as u64..range.end.div_ceil(PAGE as u64));
            let file = FilePages {
                path: path.clone(),
                observed: BTreeSet::new(),
                certain: content.as_ref().map(digests).unwrap_or_default(),
            };
            Some(file.with(pages.collect()))
        })
        .collect()
}

/// The digests of the pages that are not zero.
fn digests(content: &Content) -> BTreeMap<u64, u64> {
    let pages = content.pages();
    let pages = pages.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0));
    pages
        .map(|(number, bytes)| (number, xxhash_rust::xxh3::xxh3_64(bytes)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(observed: &[u64], certain: &[(u64, u64)]) -> FilePages {
        FilePages {
            path: "/pool".into(),
            observed: observed.iter().copied().collect(),
            certain: certain.iter().copied().collect(),
        }
    }

    #[test]
    fn pages_that_are_certain_and_not_the_same_have_to_be_observed() {
        let other = file(&[0, 5], &[(1, 7), (2, 8)]);
        let needed = |own: FilePages| -> Vec<u64> {
            let needed = own.needed_with(&other);
            needed.into_iter().collect()
        };
        assert_eq!(needed(file(&[0], &[(1, 7), (2, 8)])), [0]);
        assert_eq!(needed(file(&[0], &[(1, 7), (2, 9)])), [0, 2]);
        assert_eq!(needed(file(&[0], &[(1, 7)])), [0, 2], "one is zero");
        assert_eq!(needed(file(&[0], &[(1, 7), (2, 8), (3, 1)])), [0, 3]);
        // It was observed, so runs say what they have read of it.
        let same = file(&[], &[(1, 7), (2, 8), (5, 1)]);
        assert_eq!(needed(same), Vec::<u64>::new());
        assert_eq!(needed(file(&[1], &[(2, 8)])), [1], "it differs here");
    }
}
