//! What the model reports back: a store became guaranteed, or was overwritten before it was. The rules see both.

use brownout_model::{Access, ByteMask, LineRef, LiveStore, Marks, PersistObserver, PmAddress};
use rustc_hash::FxHashMap;

use crate::follower::line_marks;
use crate::follower::overwrites::{NOTHING, Overwrites, Overwriting};
use crate::follower::pointers::Pointers;
use crate::follower::store_marks::StoreMarks;
use crate::follower::thread::ThreadState;
use crate::rule_inputs::{GuaranteedStore, LossReason, LostStore, StoreTag};
use crate::rules::Rules;
use crate::site_keys::{KnownSites, SiteKey};

/// The rules, and what is remembered to show them guarantees in context.
pub(crate) struct Guarantees {
    pub(crate) rules: Rules,
    pub(crate) sites: KnownSites,
    pub(crate) threads: Vec<ThreadState>,
    pub(crate) overwrites: Overwrites,
    pub(crate) pointers: Pointers,
    /// Stores that become guaranteed now do so because pages are written back to the file.
    pub(crate) writing_back: bool,
    /// Stores that were unmapped without a flush, then overwritten through another mapping: whether
    /// their lines are ever flushed is not known yet. One for each site and line.
    pub(crate) undecided: FxHashMap<(SiteKey, PmAddress), LiveStore<StoreTag>>,
    /// Stores that were not fenced in time.
    pub(crate) unfenced: Vec<LostStore>,
    /// How many threads have flushes that only a locked instruction has ordered so far.
    pub(crate) threads_with_accidents: usize,
}

impl Guarantees {
    pub(crate) fn new() -> Self {
        Guarantees {
            rules: Rules::new(),
            sites: KnownSites::default(),
            threads: Vec::new(),
            overwrites: Overwrites::default(),
            pointers: Pointers::new(),
            writing_back: false,
            undecided: FxHashMap::default(),
            unfenced: Vec::new(),
            threads_with_accidents: 0,
        }
    }

    /// Forgets what a store overwrote: it is not judged.
    pub(crate) fn release(&mut self, tag: &StoreTag) {
        self.overwrites.take(tag.overwrote, |_| {});
    }

    /// A store becomes guaranteed that has special marks, has overwritten others, or is written back. Returns whether the rules may
    /// see it.
    #[inline(never)]
    fn special_store_guaranteed(
        &mut self,
        line: LineRef<'_>,
        marks: Marks<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
    ) -> bool {
        let tag = &store.tag;
        if self.writing_back {
            line_marks::flush(marks);
        } else if tag.is_abandoned() {
            let lost = LostStore::new(line.address(), store, LossReason::NotFlushed);
            self.rules.lost(&self.sites, &lost);
        }
        if tag.overwrote != NOTHING {
            self.persisted_only_as_overwritten(tag);
        }
        if tag.marks.contain(StoreMarks::LIBRARY) || tag.is_judged() {
            return false;
        }
        if tag.marks.contain(StoreMarks::OTHER_NUMBER) {
            self.sites.refute_offsets(tag.site);
        }
        self.note_pointer(line, store, by);
        true
    }

    fn persisted_only_as_overwritten(&mut self, tag: &StoreTag) {
        if self.writing_back {
            return self.release(tag);
        }
        let rules = &mut self.rules;
        self.overwrites.take(tag.overwrote, |overwriting| {
            rules.overwrite_guaranteed(overwriting);
        });
    }
}

/// The most events between two pieces of a copy that the compiler has inlined.
const NEAR: u64 = 8;

impl Guarantees {
    /// Whether two stores look like one copy in overlapping pieces, as libraries and compilers generate for sizes that
    /// are not a multiple of a register: different instructions of one call, nothing flushed in
    /// between, and no known difference. Of long stores only the beginning is known, so in the
    /// user's own code their shape must be that of such a copy, too.
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
            || !self.sites.have_one_caller(one.site, other.site)
            || one.contradicts(other, bytes)
        {
            return false;
        }
        if self.sites.is_one_copy(one.site, other.site) {
            return true;
        }
        let near = newer.time.0 - older.time.0 <= NEAR;
        near && other.is_long() || (one.is_long() || other.is_long()) && one.overhangs(other, near)
    }
}

impl PersistObserver for Guarantees {
    type Store = StoreTag;
    type Flush = SiteKey;
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
        if tag.marks.are_special() || tag.overwrote != NOTHING || self.writing_back {
            if !self.special_store_guaranteed(line, marks, store, by) {
                return;
            }
        } else {
            self.pointers.pass(line, store, by);
        }
        let thread = &mut self.threads[store.thread.index()];
        self.rules.guaranteed(&GuaranteedStore {
            line,
            store,
            thread,
        });
        if by.thread == store.thread {
            thread.persisting.raise(store.time.0, tag.site);
        }
        if !thread.accidental.are_none() && !tag.exempt {
            let line = line.address();
            let word = PmAddress {
                offset: line.offset + u64::from(tag.start),
                ..line
            };
            let time = store.time.0;
            thread.accidental.guaranteed(line, word, tag.site, time);
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
        if older.tag.is_abandoned() {
            let key = (older.tag.site, line);
            self.undecided.entry(key).or_insert(*older);
        }
        let mut head = newer.tag.overwrote;
        let judged = self.sites.is_users(older.tag.site)
            && self.sites.is_users(newer.tag.site)
            && !older.tag.exempt
            && !older.tag.agrees(&newer.tag, bytes)
            && !self.are_pieces_of_one_copy(older, newer, bytes);
        if judged {
            let overwriting = Overwriting {
                older: older.tag.site,
                older_time: older.time.0,
                older_thread: older.thread,
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
        newer.tag.live_since = newer.tag.live_since.min(older.tag.live_since);
        newer.tag.marks.inherit(older.tag.marks);
    }
}
