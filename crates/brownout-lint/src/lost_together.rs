//! Lost stores that one flush would have persisted: made by one thread without a fence in between, to one cache line or to bytes
//! that touch.
//!
//! The findings at their sites may have one cause, whether or not it shows the first time that each of them is lost.

use std::collections::VecDeque;

use brownout_model::{LINE, PmAddress, ThreadSlot};
use rustc_hash::FxHashMap;

use crate::rule_inputs::LostStore;
use crate::site_keys::SiteKey;
use crate::tally::Tally;

/// The most stores of a thread that are compared with the next one.
const MOST: usize = 32;

/// The stores that a rule has reported last, by thread.
#[derive(Default)]
pub(crate) struct LostTogether {
    recent: FxHashMap<ThreadSlot, VecDeque<Reported>>,
}

struct Reported {
    site: SiteKey,
    time: u64,
    start: PmAddress,
    end: u64,
}

impl Reported {
    fn new(lost: &LostStore) -> Self {
        let (first, last) = (lost.bytes.0.trailing_zeros(), lost.bytes.0.leading_zeros());
        Reported {
            site: lost.tag.site,
            time: lost.time,
            start: PmAddress {
                offset: lost.line.offset + u64::from(first),
                ..lost.line
            },
            // A hostile trace may have a store in the last line of all.
            end: lost.line.offset.saturating_add(LINE - u64::from(last)),
        }
    }

    /// Whether bytes of both stores are in one line, or touch.
    fn is_near(&self, other: &Reported) -> bool {
        let line = |reported: &Reported| reported.start.offset / LINE;
        self.start.space == other.start.space
            && (line(self) == line(other)
                || self.end == other.start.offset
                || other.end == self.start.offset)
    }
}

impl LostTogether {
    /// Relates a lost store to those before it. Stores are shown in the order in which they were made.
    pub(crate) fn add(&mut self, lost: &LostStore, found: &mut Tally) {
        let unfenced_since = lost.tag.unfenced_since(lost.thread, lost.time).event;
        let reported = Reported::new(lost);
        let recent = self.recent.entry(lost.thread).or_default();
        recent.retain(|earlier| earlier.time >= unfenced_since);
        for earlier in recent.iter().filter(|earlier| earlier.is_near(&reported)) {
            if earlier.site != reported.site {
                found.relate(earlier.site, reported.site);
            }
        }
        if recent.len() == MOST {
            recent.pop_front();
        }
        recent.push_back(reported);
    }
}
