//! What the rules learn from the model: a store became guaranteed, or was overwritten before it was.

use brownout_model::{Access, ByteMask, LineRef, LiveStore, Marks, PersistObserver, PmAddress};
use rustc_hash::FxHashMap;

use crate::follower::line_marks;
use crate::follower::overwrites::{NOTHING, Overwrites, Overwriting};
use crate::follower::thread::ThreadState;
use crate::rule_inputs::{Lost, LostStore, StoreTag};
use crate::rules::Rules;
use crate::site_keys::{Known, SiteId};

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
    pub(crate) undecided: FxHashMap<(SiteId, PmAddress), LiveStore<StoreTag>>,
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
        if self.writing_back {
            return self.release(tag);
        }
        let rule = &mut self.rules.dirty_overwrite;
        self.overwrites
            .take(tag.overwrote, |overwriting| rule.persisted(overwriting));
    }
}

/// Events between two pieces of a copy that a compiler has laid out in the program itself.
const NEAR: u64 = 8;

impl Watch {
    /// Whether two stores look like one copy in pieces that overlap, as libraries and compilers make them of sizes that
    /// are no multiple of their registers': by different instructions of one call, with nothing flushed in
    /// between, and nowhere known to differ. Of the long stores among them only the beginning is known, so that in the
    /// user's own code the shape must be that of such copies, too.
    fn are_pieces_of_one_copy(
        &self,
        older: &LiveStore<StoreTag>,
        newer: &LiveStore<StoreTag>,
        bytes: ByteMask,
    ) -> bool {
        let (one, other) = (&older.tag, &newer.tag);
        if one.site == other.site
            || older.thread != newer.thread
            || one.flushed
            || !self.known.have_one_caller(one.site, other.site)
            || one.contradicts(other, bytes)
        {
            return false;
        }
        if self.known.is_one_copy(one.site, other.site) {
            return true;
        }
        let near = newer.time.0 - older.time.0 <= NEAR;
        near && other.is_long() || (one.is_long() || other.is_long()) && one.overhangs(other, near)
    }
}

impl PersistObserver for Watch {
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
            let lost = LostStore::new(line.address(), store, Lost::NotFlushed);
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
                .guaranteed(line.address(), store, by.time.0, thread);
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
        let line = line.address();
        if older.tag.abandoned {
            let key = (older.tag.site, line);
            self.undecided.entry(key).or_insert(*older);
        }
        let mut head = newer.tag.overwrote;
        let judged = self.known.is_users(older.tag.site)
            && self.known.is_users(newer.tag.site)
            && !older.tag.spoken_for
            && !older.tag.agrees(&newer.tag, bytes)
            && !self.are_pieces_of_one_copy(older, newer, bytes);
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
            // The older list is the longer one.
            head = self.overwrites.join(older.tag.overwrote, head);
        }
        newer.tag.overwrote = head;
    }
}
