//! Flushes that no fence has followed yet.

use brownout_model::{LineSlot, Pending, Time, Tracker};
use rustc_hash::FxHashMap;

use crate::follower::guarantees::Guarantees;
use crate::site_keys::SiteKey;

/// The pending flushes of all threads, by line.
#[derive(Default)]
pub(crate) struct UnfencedFlushes {
    by_line: FxHashMap<LineSlot, Vec<(Time, SiteKey)>>,
}

impl UnfencedFlushes {
    pub(crate) fn new(tracker: &Tracker<Guarantees>) -> Self {
        let mut flushes = UnfencedFlushes::default();
        for thread in tracker.threads() {
            for pending in tracker.pending(thread) {
                if let Pending::Flush { line, time, tag } = *pending {
                    flushes.by_line.entry(line).or_default().push((time, tag));
                }
            }
        }
        flushes
    }

    /// The first flush that covers a store issued at `time`.
    pub(crate) fn of(&self, line: LineSlot, time: Time) -> Option<(SiteKey, u64)> {
        let flushes = self.by_line.get(&line)?;
        let covering = flushes.iter().filter(|(flush, _)| time <= *flush);
        covering.min().map(|&(flush, site)| (site, flush.0))
    }
}
