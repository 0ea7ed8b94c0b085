//! What only locked instructions of a thread have ordered since its last real fence, and what relies on that.
//!
//! A later real fence of the thread makes such an order no accident, unless something that has to come after it is stored between the
//! two: then the later fence comes too late for that. Two kinds of stores are known to have to come after:
//!
//! - a pointer to the data, by whichever thread;
//! - a word that announces the data: the same store updates the same word again and again, each time after other data
//!   (a count, a tail, a sequence number). A batch of records with one fence at its end stores each word once.
//!
//! Can miss: what announces the data only once in the run, and words that other threads store.

use brownout_model::PmAddress;
use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use crate::rule_inputs::file;
use crate::site_keys::SiteKey;

/// The most lines that are kept of what one site flushes.
const MOST_LINES: usize = 16;

/// How many flushes are considered when a later store becomes guaranteed: those that were met last.
const MOST_CONSIDERED: usize = 8;

/// The most words that are remembered.
const MOST_WORDS: usize = 1024;

/// A flush or non-temporal store that only a locked instruction has ordered so far, and no real fence.
#[derive(Clone, Debug)]
pub(crate) struct AccidentallyOrdered {
    pub(crate) role: &'static str,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    pub(crate) fence: SiteKey,
    pub(crate) fence_time: u64,
    /// The lines that are flushed or stored to, each with the time of the locked instruction; at least one, and not all if there
    /// are many.
    pub(crate) lines: Vec<(PmAddress, u64)>,
    /// A store that relies on the locked instruction.
    pub(crate) relying: Option<RelyingStore>,
    pub(crate) count: u64,
}

/// A store that has to become persistent after something else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelyingStore {
    pub(crate) kind: Reliance,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
}

/// How it is known that a store relies on an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reliance {
    /// It stores a pointer to the data.
    Pointer,
    /// It updates one word each time after other data.
    Announcement,
}

/// A word that was stored after data which a locked instruction has ordered: the flush of the data, the store, the word.
type AnnouncingWord = (SiteKey, SiteKey, PmAddress);

/// The accidental orders of a thread.
#[derive(Debug, Default)]
pub(crate) struct AccidentalOrders {
    /// Those without a real fence since.
    open: Vec<AccidentallyOrdered>,
    /// Those that something has relied on, once for each site and reliance.
    relied_on: Vec<AccidentallyOrdered>,
    /// A line of the data that was flushed before a word was stored.
    words: FxHashMap<AnnouncingWord, PmAddress>,
}

impl AccidentallyOrdered {
    pub(crate) fn file(&self) -> FileId {
        file(self.lines[0].0)
    }

    /// A line that was ordered before `time` and satisfies `wanted`.
    fn line_before(&self, time: u64, wanted: impl Fn(PmAddress) -> bool) -> Option<PmAddress> {
        let mut lines = self.lines.iter().rev();
        let found = lines.find(|(line, ordered)| *ordered < time && wanted(*line));
        found.map(|(line, _)| *line)
    }
}

impl AccidentalOrders {
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.open.is_empty()
    }

    /// All that is to be reported when the thread ends.
    pub(crate) fn reported(&self) -> impl Iterator<Item = &AccidentallyOrdered> {
        self.open.iter().chain(&self.relied_on)
    }

    pub(crate) fn add(&mut self, ordered: AccidentallyOrdered) {
        let mut known = self.open.iter_mut();
        match known.find(|known| known.site == ordered.site && known.fence == ordered.fence) {
            Some(known) => {
                known.count += ordered.count;
                if known.lines.len() == MOST_LINES {
                    known.lines.remove(0);
                }
                known.lines.extend(ordered.lines);
            }
            None => self.open.push(ordered),
        }
    }

    /// A real fence has ordered all of them.
    pub(crate) fn fenced(&mut self) {
        self.open.clear();
    }

    /// A file was written back.
    pub(crate) fn written_back(&mut self, file: FileId) {
        self.open.retain(|known| known.file() != file);
    }

    /// A pointer to `line` is guaranteed: it relies on the locked instruction that has ordered the line before.
    pub(crate) fn pointed_to(&mut self, line: PmAddress, site: SiteKey, time: u64) {
        let leads = |ordered: &&AccidentallyOrdered| {
            ordered.line_before(time, |known| known == line).is_some()
        };
        let Some(ordered) = self.open.iter().find(leads) else {
            return;
        };
        let kind = Reliance::Pointer;
        let relying = RelyingStore { kind, site, time };
        rely(&mut self.relied_on, ordered, relying);
    }

    /// A store of the thread to `word`, made at `time`, is guaranteed.
    #[inline(never)]
    pub(crate) fn guaranteed(
        &mut self,
        line: PmAddress,
        word: PmAddress,
        site: SiteKey,
        time: u64,
    ) {
        for ordered in self.open.iter().rev().take(MOST_CONSIDERED) {
            // Stores to one line become persistent in their order anyway.
            let Some(data) = ordered.line_before(time, |known| known != line) else {
                continue;
            };
            if self.words.len() == MOST_WORDS {
                self.words.clear();
            }
            let known = self.words.insert((ordered.site, site, word), data);
            if known.is_some_and(|known| known != data) {
                let kind = Reliance::Announcement;
                let relying = RelyingStore { kind, site, time };
                rely(&mut self.relied_on, ordered, relying);
            }
        }
    }
}

fn rely(
    relied_on: &mut Vec<AccidentallyOrdered>,
    ordered: &AccidentallyOrdered,
    relying: RelyingStore,
) {
    let mut known = relied_on.iter_mut();
    match known.find(|known| known.site == ordered.site) {
        Some(known) => known.count += 1,
        None => relied_on.push(AccidentallyOrdered {
            relying: Some(relying),
            count: 1,
            ..ordered.clone()
        }),
    }
}
