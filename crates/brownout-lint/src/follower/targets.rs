//! What guaranteed pointers point to, and whether that is guaranteed, too.
//!
//! A pointer becomes a suspect if the thread that stored it had stored into its target before, and these stores are not
//! guaranteed when the pointer is. Whether that is a bug is decided later:
//!
//! - If the stores are lost for another reason than that nobody ever flushes them, the rules for lost stores report them.
//! - A pointer inside an object that nothing points to yet is harmless: a crash leaves both unreachable. Such an object is
//!   recognised by two signs. Other stores to the line of the pointer became guaranteed with it, as when an object is
//!   filled; and a pointer to the object, or to shortly before, becomes guaranteed only after the target.
//!
//! Where an object ends is not known: it is taken to be the bytes from the address on that were stored and are not
//! guaranteed, without a gap of a word. An update of an object that was durable before is not distinguished from a new object
//! unless it is smaller than two words.

use brownout_model::{Access, ByteMask, LINE, LineRef, LiveStore, PmAddress};
use brownout_trace::Address;

use crate::attribution::Attribution;
use crate::follower::guarantees::Guarantees;
use crate::follower::line_marks::{DIRTY, FLUSHED, NON_TEMPORAL};
use crate::follower::pointers::{Pointer, PointerKind};
use crate::follower::store_marks::StoreMarks;
use crate::follower::{Follower, pm_address};
use crate::oracle::OracleFrame;
use crate::rule_inputs::{LossReason, LostStore, StoreTag, TargetStore, UnpersistedTarget};
use crate::site_keys::SiteKey;

/// Objects may begin with bytes that are not stored: up to this many.
const UNUSED: u64 = 16;
/// A smaller part of a line that was flushed before may be an update of a durable object.
const SMALLEST_OBJECT: u64 = 16;
/// A gap of this size ends an object; padding is smaller.
const GAP: u64 = 8;
/// The largest object that is looked at.
const LARGEST_OBJECT: u64 = 4096;
/// A number is an offset only if the object there was filled at most so many events before.
const RIGHT_BEFORE: u64 = 16;
/// The most suspects at a time, and the most of one site.
const MOST_SUSPECTS: usize = 256;
const MOST_OF_A_SITE: usize = 8;

/// A pointer that was guaranteed before its target.
pub(crate) struct SuspectPointer {
    pub(crate) pointer: Pointer,
    fence: SiteKey,
    pub(crate) target: Vec<TargetStore>,
    /// Its value is the offset of the target, not its address.
    is_offset: bool,
    /// From when on a part of the target is guaranteed, too.
    late: Option<u64>,
    /// The pointer is known to be in an object that can be reached.
    reachable: bool,
}

impl SuspectPointer {
    /// Whether a pointer to `offset` may be one to the object that holds the suspect.
    fn is_inside_object_at(&self, target: PmAddress) -> bool {
        let location = self.pointer.location;
        target.space == location.space
            && target.offset <= location.offset
            && location.offset - target.offset < LARGEST_OBJECT
    }

    fn concerns(&self, line: PmAddress) -> bool {
        self.target.iter().any(|store| store.line == line)
    }
}

impl Guarantees {
    /// A store of the user's becomes guaranteed that may be a pointer, an object identifier, or a store to the target of a suspect.
    pub(crate) fn note_pointer(
        &mut self,
        line: LineRef<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
    ) {
        self.pointers.note(line, store, by);
        let marks = store.tag.marks;
        if marks.contain(StoreMarks::OBJECT_ID) {
            self.pointers.note_object_id(line, store, by);
        }
        if marks.contain(StoreMarks::TARGET) {
            let line = line.address();
            for suspect in &mut self.pointers.suspects {
                if suspect.concerns(line) {
                    suspect.late.get_or_insert(by.time.0);
                }
            }
        }
    }

    /// Reports the suspects that are decided.
    fn report_suspects(&mut self) {
        let decided = |suspect: &mut SuspectPointer| suspect.reachable && suspect.late.is_some();
        let suspects = &mut self.pointers.suspects;
        let decided: Vec<SuspectPointer> = suspects.extract_if(.., decided).collect();
        for suspect in decided {
            self.decided(suspect);
        }
    }

    /// The target of a suspect was not guaranteed in time. Whether a number is an offset is known only at the end.
    fn decided(&mut self, suspect: SuspectPointer) {
        if suspect.is_offset {
            return self.pointers.numbers.add(suspect);
        }
        let sites = suspect.target.iter().map(|store| store.site);
        self.pointers.reported.extend(sites);
        self.report_suspect(&suspect, 1, true);
    }

    /// Reports `count` suspects of a site, of which `suspect` is the first.
    pub(crate) fn report_suspect(
        &mut self,
        suspect: &SuspectPointer,
        count: u64,
        is_certain: bool,
    ) {
        let pointer = &suspect.pointer;
        self.rules.unpersisted_target(&UnpersistedTarget {
            site: pointer.site,
            time: pointer.time,
            location: pointer.location,
            value: pointer.value,
            fence: (suspect.fence, pointer.by.time.0),
            target: &suspect.target,
            guaranteed: suspect.late,
            count,
            is_certain,
        });
    }

    /// Decides the suspects that are left at the end of the trace.
    pub(crate) fn end_suspects(
        &mut self,
        lost: &[LostStore],
        stack: impl FnMut(SiteKey) -> Vec<OracleFrame>,
    ) {
        for suspect in std::mem::take(&mut self.pointers.suspects) {
            let mut never_flushed = lost.iter().filter(|lost| {
                lost.tag.marks.contain(StoreMarks::TARGET)
                    && lost.reason == LossReason::NeverFlushed
            });
            if suspect.late.is_some() || never_flushed.any(|lost| suspect.concerns(lost.line)) {
                self.decided(suspect);
            }
        }
        self.end_offsets(stack);
    }
}

impl<A: Attribution> Follower<A> {
    /// A fence or system call at `site` has taken effect: judges the pointers of its thread that are guaranteed now.
    #[inline]
    pub(crate) fn judge_pointers(&mut self, by: Access, site: SiteKey) {
        if self.guarantees.pointers.guaranteed.is_empty() {
            return;
        }
        if self.guarantees.threads_with_accidents > 0 {
            self.rely_on_accidents(by);
        }
        let pointers = &mut self.guarantees.pointers;
        if self.tracker.live_stores() == 0 && pointers.suspects.is_empty() {
            // Nothing is left that a pointer could point to too early.
            return pointers.keep(|_| false);
        }
        self.judge_waiting_pointers(by, site);
    }

    #[inline(never)]
    fn judge_waiting_pointers(&mut self, by: Access, site: SiteKey) {
        let pointers = std::mem::take(&mut self.guarantees.pointers.guaranteed);
        let ready = |pointer: &&Pointer| pointer.by.thread == by.thread;
        if !self.guarantees.pointers.suspects.is_empty() {
            for pointer in pointers.iter().filter(ready) {
                let target = self.target(pointer);
                self.link(target);
            }
        }
        for pointer in pointers.iter().filter(ready) {
            self.suspect(*pointer, site);
        }
        self.guarantees.report_suspects();
        self.guarantees.pointers.guaranteed = pointers;
        let others = |pointer: &Pointer| pointer.by.thread != by.thread;
        self.guarantees.pointers.keep(others);
    }

    /// The byte that a pointer points to, if it is one.
    pub(crate) fn target(&mut self, pointer: &Pointer) -> PmAddress {
        let process = self.guarantees.threads[pointer.thread.index()].process;
        let address = match pointer.kind {
            PointerKind::Word => self.addresses.resolve(process, Address(pointer.value), 1),
            PointerKind::ObjectId => None,
        };
        match address {
            Some(range) => pm_address(range.file, range.offset),
            None => PmAddress {
                offset: pointer.value,
                ..pointer.location
            },
        }
    }

    /// A pointer to `target` is guaranteed. If a suspect is inside that object, its own target should have been
    /// guaranteed by now; if it is, nothing was wrong.
    fn link(&mut self, target: PmAddress) {
        self.guarantees.pointers.suspects.retain_mut(|suspect| {
            if suspect.reachable || !suspect.is_inside_object_at(target) {
                return true;
            }
            suspect.reachable = true;
            suspect.late.is_none()
        });
    }

    /// Adds a pointer to the suspects if its target is not guaranteed.
    fn suspect(&mut self, pointer: Pointer, fence: SiteKey) {
        let at = self.target(&pointer);
        let is_offset = pointer.kind == PointerKind::Word && at.offset == pointer.value;
        if is_offset && !self.was_ever_stored(at) {
            return self.guarantees.sites.refute_offsets(pointer.site);
        }
        let Some(target) = self.unguaranteed_target(&pointer, at, is_offset) else {
            return;
        };
        let suspects = &self.guarantees.pointers.suspects;
        let of_site = suspects
            .iter()
            .filter(|suspect| suspect.pointer.site == pointer.site);
        if of_site.count() >= MOST_OF_A_SITE {
            return;
        }
        if suspects.len() >= MOST_SUSPECTS {
            self.guarantees.pointers.not_judged += 1;
            return;
        }
        for store in &target {
            if let Some(line) = self.tracker.known_line(store.line) {
                let mut live = self.tracker.live_mut(line);
                while let Some((_, time, tag)) = live.next() {
                    if time.0 == store.time {
                        tag.marks.set(StoreMarks::TARGET);
                    }
                }
            }
        }
        self.guarantees.pointers.suspects.push(SuspectPointer {
            pointer,
            fence,
            target,
            is_offset,
            late: None,
            reachable: pointer.is_alone,
        });
    }

    /// Whether anything was stored into the line of a byte in this run.
    fn was_ever_stored(&mut self, byte: PmAddress) -> bool {
        let line = PmAddress {
            offset: byte.offset - byte.offset % LINE,
            ..byte
        };
        self.tracker.find_line(line).is_some_and(|line| {
            let has_mark = |mark| self.tracker.has_mark(line, mark);
            has_mark(FLUSHED) || has_mark(DIRTY) || has_mark(NON_TEMPORAL)
        })
    }

    /// The stores to the target of a pointer that were made before it and are not guaranteed; `None` if there are none,
    /// or if the value is probably no pointer.
    fn unguaranteed_target(
        &mut self,
        pointer: &Pointer,
        target: PmAddress,
        is_offset: bool,
    ) -> Option<Vec<TargetStore>> {
        let start = target.offset;
        if target.space != pointer.location.space {
            return None;
        }
        // No file reaches that far.
        start.checked_add(2 * LARGEST_OBJECT)?;
        let mut stores: Vec<TargetStore> = Vec::new();
        // From the first byte that was stored to the end of the object.
        let mut first: Option<u64> = None;
        let mut end = start + UNUSED;
        let mut flushed = false;
        let mut line = start - start % LINE;
        while line < end && line - start.min(line) < LARGEST_OBJECT {
            let address = PmAddress {
                offset: line,
                ..target
            };
            let Some(slot) = self.tracker.find_line(address) else {
                break;
            };
            flushed |= self.tracker.has_mark(slot, FLUSHED);
            let live: Vec<LiveStore<StoreTag>> = self.tracker.live(slot).copied().collect();
            let before = live
                .into_iter()
                .filter(|store| self.was_stored_before(store, pointer));
            let mut before: Vec<LiveStore<StoreTag>> = before.collect();
            let all = before
                .iter()
                .fold(ByteMask::NONE, |all, store| all.or(store.bytes));
            let mut object = ByteMask::NONE;
            for (from, len) in all.runs() {
                let (from, to) = (line + from, line + from + len);
                if to <= start {
                    // The bytes before an offset that is meant as a pointer belong to something else.
                    continue;
                }
                if from >= end {
                    break;
                }
                if is_offset && from != start && first.is_none() {
                    return None;
                }
                first.get_or_insert(from.max(start));
                end = to + GAP;
                object = object.or(ByteMask::range(from - line, to - from));
            }
            before.retain(|store| !store.bytes.and(object).is_empty());
            stores.extend(before.iter().map(|store| TargetStore {
                site: store.tag.site,
                time: store.time.0,
                line: address,
                bytes: store.bytes,
                unfenced_since: store.tag.unfenced_since(store.thread, store.time.0),
            }));
            line += LINE;
        }
        let first = first?;
        let len = end - GAP - first;
        // An object that points into itself. Its next line may have become guaranteed with the pointer.
        let own = match pointer.is_alone {
            true => end,
            false => end.next_multiple_of(LINE) + LINE,
        };
        if (start..own).contains(&pointer.location.offset) {
            return None;
        }
        let is_whole = first == start && len >= SMALLEST_OBJECT;
        stores.sort_unstable_by_key(|store| (store.time, store.line));
        let last = stores.last()?.time;
        let is_likely = if is_offset {
            is_whole && pointer.is_alone && pointer.time - last <= RIGHT_BEFORE
        } else {
            is_whole || !flushed
        };
        is_likely.then_some(stores)
    }

    /// Whether the thread that stored the pointer had made this store before, and nothing else accounts for it.
    fn was_stored_before(&self, store: &LiveStore<StoreTag>, pointer: &Pointer) -> bool {
        let tag = &store.tag;
        store.thread == pointer.thread
            && store.time.0 < pointer.time
            && !tag.exempt
            && !tag.is_judged()
            && !tag.is_abandoned()
            && self.guarantees.sites.is_users(tag.site)
    }
}
