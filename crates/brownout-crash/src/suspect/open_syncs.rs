//! System calls that write back several pages (`msync`, `fsync`), whose order among each other is open.
//!
//! No rule of lint reports them. They are tried like the fences that `fence-orders-many` reports: at the failure point
//! before the call, one page at a time has not reached the disk, and all others have. A page is lost as a whole, whatever the
//! unit of the profile is: the kernel writes whole pages.

use brownout_trace::{Event, EventIndex, EventKind, FileId};
use rustc_hash::FxHashMap;

use super::SuspectSite;
use super::live_store::Loss;
use crate::even_sample::EvenSample;
use crate::failure_point::FailurePoint;
use crate::persistency::GuaranteedPart;

/// What the kernel writes at once.
pub(super) const PAGE: u64 = 4096;
/// Sites that are tried, occurrences of each, and pages of each occurrence.
const SITES: usize = 64;
const SAMPLED: usize = 3;
const VICTIMS: usize = 3;

/// An occurrence: the failure point before it, and pages to lose.
#[derive(Clone, Copy, Debug)]
struct OpenSync {
    point: FailurePoint,
    pages: [Option<(FileId, u64)>; VICTIMS],
}

/// Follows write-backs through a run.
#[derive(Debug, Default)]
pub(super) struct OpenSyncs {
    numbers: FxHashMap<SuspectSite, usize>,
    /// In the order in which they first occur.
    sites: Vec<EvenSample<OpenSync>>,
}

impl OpenSyncs {
    /// An event has taken effect, after the failure point `last`, and these parts of stores have become guaranteed by it.
    pub(super) fn observe(
        &mut self,
        event: &Event<'_>,
        guaranteed: &[GuaranteedPart],
        last: Option<FailurePoint>,
    ) {
        let (EventKind::Sync(_), Some(point)) = (event.kind, last) else {
            return;
        };
        let mut newest: FxHashMap<(FileId, u64), EventIndex> = FxHashMap::default();
        for part in guaranteed {
            let page = (part.file, part.offset - part.offset % PAGE);
            let newest = newest.entry(page).or_insert(part.store);
            *newest = part.store.max(*newest);
        }
        let mut pages: Vec<_> = newest.into_iter().map(|(page, at)| (at, page)).collect();
        pages.sort_unstable();
        // To lose the newest alone is much like program order a little earlier.
        pages.pop();
        let before = pages.iter().filter(|(at, _)| *at < point.occurrence.event);
        let mut victims = [None; VICTIMS];
        for (victim, &(_, page)) in victims.iter_mut().zip(before) {
            *victim = Some(page);
        }
        if victims[0].is_none() {
            return;
        }
        let known = self.numbers.len();
        let site = self.numbers.entry(SuspectSite::of(event));
        let number = *site.or_insert(known);
        if number == self.sites.len() && number < SITES {
            self.sites.push(EvenSample::new(SAMPLED));
        }
        if let Some(sample) = self.sites.get_mut(number) {
            sample.offer(OpenSync {
                point,
                pages: victims,
            });
        }
    }

    /// The losses with which each site is tried.
    pub(super) fn losses(self) -> impl Iterator<Item = Vec<Loss>> {
        self.sites.into_iter().map(|sample| {
            let syncs = sample.chosen().into_iter();
            let losses = syncs.flat_map(|sync| {
                let pages = sync.pages.into_iter().flatten();
                pages.map(move |(file, start)| Loss {
                    point: sync.point,
                    store: None,
                    present_words: 0,
                    units: (file, start..start + PAGE),
                    stack: None,
                })
            });
            losses.collect()
        })
    }
}
