//! What the rules learn from the model: a store became guaranteed, or was overwritten before it was.

use brownout_model::{Access, ByteMask, LineRef, LiveStore, Marks, Place, Watcher};
use rustc_hash::FxHashMap;

use crate::line_marks;
use crate::moments::{Lost, LostStore, StoreTag};
use crate::overwrites::{NOTHING, Overwrites, Overwriting};
use crate::rules::Rules;
use crate::sites::{Known, SiteId};
use crate::thread::ThreadState;

/// The rules, and what they are told of besides events.
pub(crate) struct Watch {
    pub(crate) rules: Rules,
    pub(crate) known: Known,
    pub(crate) threads: Vec<ThreadState>,
    pub(crate) overwrites: Overwrites,
    /// What becomes guaranteed now does so by being written back to the file.
    pub(crate) writing_back: bool,
    /// Stores that were unmapped as they were, then overwritten through another mapping: whether
    /// their lines are ever flushed is not known yet. One for each place and line.
    pub(crate) undecided: FxHashMap<(SiteId, Place), LiveStore<StoreTag>>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch {
            rules: Rules::new(),
            known: Known::default(),
            threads: Vec::new(),
            overwrites: Overwrites::default(),
            writing_back: false,
            undecided: FxHashMap::default(),
        }
    }

    /// Forgets what a store overwrote, as it will not be judged.
    pub(crate) fn release(&mut self, tag: &StoreTag) {
        self.overwrites.take(tag.overwrote, |_| {});
    }

    #[inline(never)]
    fn persisted_only_as_overwritten(&mut self, tag: &StoreTag) {
        let rule = &mut self.rules.dirty_overwrite;
        self.overwrites
            .take(tag.overwrote, |overwriting| rule.persisted(overwriting));
    }
}

impl Watcher for Watch {
    type Store = StoreTag;
    type Flush = SiteId;
    const HISTORY: bool = false;

    #[inline(always)]
    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        marks: Marks<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
    ) {
        let tag = &store.tag;
        if self.writing_back {
            line_marks::flush(marks);
        } else if tag.abandoned {
            let lost = LostStore::new(line.place(), store, Lost::NotFlushed);
            self.rules.lost(&self.known, &lost);
        }
        if tag.overwrote != NOTHING {
            self.persisted_only_as_overwritten(tag);
        }
        if !self.known.is_users(tag.site) {
            return;
        }
        let thread = &mut self.threads[store.thread.index()];
        if store.time.0 < thread.persisted.time && !tag.spoken_for {
            self.rules
                .delayed_persist
                .guaranteed(line.place(), store, by.time.0, thread);
        }
        if by.thread == store.thread {
            thread.persisting.raise(store.time.0, tag.site);
        }
    }

    fn overwritten(
        &mut self,
        line: LineRef<'_>,
        older: &LiveStore<StoreTag>,
        newer: &mut LiveStore<StoreTag>,
        bytes: ByteMask,
    ) {
        let line = line.place();
        if older.tag.abandoned {
            let key = (older.tag.site, line);
            self.undecided.entry(key).or_insert(*older);
        }
        let mut head = newer.tag.overwrote;
        let judged = self.known.is_users(older.tag.site)
            && self.known.is_users(newer.tag.site)
            && !older.tag.spoken_for
            && !older.tag.agrees(&newer.tag, bytes);
        if judged {
            let overwriting = Overwriting {
                older: older.tag.site,
                older_time: older.time.0,
                older_value: older.tag,
                newer: newer.tag.site,
                newer_time: newer.time.0,
                newer_value: newer.tag,
                line,
                bytes,
                count: 1,
            };
            head = self.overwrites.push(head, overwriting);
        }
        if older.bytes.without(bytes).is_empty() {
            head = self.overwrites.join(head, older.tag.overwrote);
        }
        newer.tag.overwrote = head;
    }
}
