//! What the rules see: the things that happen in a run, each with what is known when it happens.

use std::fmt;

use brownout_model::{ByteMask, LINE, LineRef, LiveStore, PmAddress, ThreadSlot};
use brownout_trace::{FenceKind, FileId, FileRange};

use crate::attribution::Origin;
use crate::follower::failed_syncs::SyncFailure;
use crate::follower::store_marks::StoreMarks;
use crate::follower::thread::{Ordered, ThreadState};
use crate::raw_finding::{RawValue, UnfencedSince};
use crate::site_keys::SiteKey;
use crate::tally::{Key, Message, Occurrence, Tally};
use crate::transactions::{Transaction, UnloggedStore};

/// What is remembered of a live store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreTag {
    /// The first bytes, as a little-endian number.
    pub(crate) value: u64,
    pub(crate) site: SiteKey,
    /// When the first of the stores was made that it depends on: those that were overwritten and not guaranteed, or it itself.
    pub(crate) live_since: u64,
    /// Head of the list of [stores it overwrote](crate::follower::overwrites).
    pub(crate) overwrote: u32,
    /// Offset in the line, and length there.
    pub(crate) start: u8,
    pub(crate) len: u8,
    /// How many events before it the last fence of its thread was; at most 255.
    pub(crate) since_fence: u8,
    /// Not reported on its own: it is to bytes that a running transaction has logged, or was already reported as
    /// not logged.
    pub(crate) exempt: bool,
    /// Its line was flushed since.
    pub(crate) flushed: bool,
    pub(crate) marks: StoreMarks,
}

impl StoreTag {
    /// Whether its bytes were unmapped before they were flushed.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.marks.contain(StoreMarks::ABANDONED)
    }

    /// Whether it was reported as not fenced in time.
    pub(crate) fn is_judged(&self) -> bool {
        self.marks.contain(StoreMarks::JUDGED)
    }

    /// How many bytes of a store are known.
    pub(crate) const KNOWN: u8 = 8;

    /// Whether both stores are known to put the same value into all of `bytes`.
    pub(crate) fn agrees(&self, other: &StoreTag, bytes: ByteMask) -> bool {
        let mut all = bytes.runs().flat_map(|(start, len)| start..start + len);
        all.all(|at| self.byte(at).is_some() && self.byte(at) == other.byte(at))
    }

    /// Whether the stores are known to put different values into some of `bytes`.
    pub(crate) fn contradicts(&self, other: &StoreTag, bytes: ByteMask) -> bool {
        let mut all = bytes.runs().flat_map(|(start, len)| start..start + len);
        all.any(|at| match (self.byte(at), other.byte(at)) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        })
    }

    /// The value at an offset in the line that the store covers, if it is known.
    fn byte(&self, at: u64) -> Option<u8> {
        let at = (at as u8).wrapping_sub(self.start);
        (at < Self::KNOWN).then(|| self.value.to_le_bytes()[usize::from(at)])
    }

    /// Since when the thread that made the store at `time` had executed no fence, as far as known.
    pub(crate) fn unfenced_since(&self, thread: ThreadSlot, time: u64) -> UnfencedSince {
        UnfencedSince {
            thread: thread.index() as u32,
            event: time - u64::from(self.since_fence),
        }
    }

    /// Whether the store is longer than what is known of it.
    pub(crate) fn is_long(&self) -> bool {
        self.len > Self::KNOWN
    }

    /// Whether each of two overlapping stores extends beyond the other at one end. A store that reaches the border of the
    /// line may continue in the next line; with `across`, that counts as extending.
    pub(crate) fn overhangs(&self, other: &StoreTag, across: bool) -> bool {
        const LINE_END: u8 = LINE as u8;
        let end = |tag: &StoreTag| tag.start + tag.len;
        let before =
            |one: u8, two: u8, border: u8| one < two || across && one == border && two == border;
        let first = |one: &StoreTag, two: &StoreTag| {
            before(one.start, two.start, 0) && before(end(one), end(two), LINE_END)
        };
        first(self, other) || first(other, self)
    }

    pub(crate) fn value(&self, name: &'static str) -> RawValue {
        let known = self.len.min(Self::KNOWN);
        RawValue {
            name,
            bytes: self.value.to_le_bytes()[..usize::from(known)].to_vec(),
            len: self.len.into(),
        }
    }
}

/// A flush of a cache line of a file.
pub(crate) struct LineFlush {
    pub(crate) time: u64,
    pub(crate) site: SiteKey,
    pub(crate) origin: Origin,
    /// The start of the line.
    pub(crate) line: PmAddress,
    pub(crate) work: FlushWork,
}

/// What a flush finds to persist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushWork {
    /// Nothing was stored since the line was last flushed, or mapped.
    Nothing,
    /// Only non-temporal stores, which need a fence and no flush; one of them.
    NonTemporal { store: SiteKey, time: u64 },
    /// Cached stores that were not overwritten: how many, and site and time of the first and the last.
    Stores {
        count: u16,
        first: (SiteKey, u64),
        last: (SiteKey, u64),
    },
    /// Something other than a store of the target; a store that another thread has flushed and not fenced; or one
    /// that was persistent immediately.
    Other,
}

/// A flush of an address outside every mapped file.
pub(crate) struct VolatileFlush {
    pub(crate) time: u64,
    pub(crate) site: SiteKey,
}

/// An `sfence` or `mfence`, before it takes effect.
pub(crate) struct Fence<'a> {
    pub(crate) time: u64,
    pub(crate) site: SiteKey,
    pub(crate) origin: Origin,
    pub(crate) kind: FenceKind,
    /// Flushes or non-temporal stores are pending, even if they persist nothing.
    pub(crate) awaited: bool,
    /// How many flushes and non-temporal stores only this fence orders, and two of them.
    pub(crate) ordered: u32,
    pub(crate) examples: &'a [Option<Ordered>; 2],
    /// The file that the thread accessed last; `None` if it never accessed persistent memory.
    pub(crate) file: Option<FileId>,
}

/// A store that is guaranteed from now on.
pub(crate) struct GuaranteedStore<'a> {
    pub(crate) line: LineRef<'a>,
    pub(crate) store: &'a LiveStore<StoreTag>,
    /// The thread that made the store.
    pub(crate) thread: &'a ThreadState,
}

/// A pointer that was guaranteed before its target.
pub(crate) struct UnpersistedTarget<'a> {
    /// The store of the pointer.
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    pub(crate) location: PmAddress,
    pub(crate) value: u64,
    /// The fence or system call that guaranteed it.
    pub(crate) fence: (SiteKey, u64),
    /// The stores to what it points to, in the order of issue; at least one.
    pub(crate) target: &'a [TargetStore],
    /// From when on a part of the target is guaranteed, if it ever is.
    pub(crate) guaranteed: Option<u64>,
    /// How often this site stored such a pointer; the others describe the first time.
    pub(crate) count: u64,
    /// It is a pointer. Otherwise it is a number that may be the offset of an object.
    pub(crate) is_certain: bool,
}

/// A store to what a pointer points to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetStore {
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    /// The start of the line.
    pub(crate) line: PmAddress,
    pub(crate) bytes: ByteMask,
    pub(crate) unfenced_since: UnfencedSince,
}

/// A store that can no longer become guaranteed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostStore {
    /// The start of the line.
    pub(crate) line: PmAddress,
    pub(crate) bytes: ByteMask,
    pub(crate) time: u64,
    pub(crate) thread: ThreadSlot,
    pub(crate) tag: StoreTag,
    /// How many such stores were lost at this site.
    pub(crate) count: u64,
    pub(crate) reason: LossReason,
    /// It takes or releases a lock, as far as that is known.
    pub(crate) is_of_lock: bool,
    /// Stores become persistent with their page (`msync`), not with their cache line.
    pub(crate) by_page: bool,
    /// `msync` with `MS_ASYNC` was called for its page.
    pub(crate) not_waited_for: bool,
    /// A call that should have made it durable failed.
    pub(crate) failed_sync: Option<SyncFailure>,
}

/// The words for what makes a store persistent.
pub(crate) struct PersistenceWords {
    pub(crate) unit: &'static str,
    /// Follows "never".
    pub(crate) persisted: &'static str,
}

/// Why a store is not guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// It was not flushed, but its line is at some other time.
    NotFlushed,
    /// Its line is never flushed.
    NeverFlushed,
    /// The user's flush of its line was not fenced.
    FlushNotFenced { flush: SiteKey, time: u64 },
    /// It is non-temporal and was not fenced.
    NotFenced,
}

impl LostStore {
    pub(crate) fn new(line: PmAddress, store: &LiveStore<StoreTag>, reason: LossReason) -> Self {
        LostStore {
            line,
            bytes: store.bytes,
            time: store.time.0,
            thread: store.thread,
            tag: store.tag,
            count: 1,
            reason,
            is_of_lock: false,
            by_page: false,
            not_waited_for: false,
            failed_sync: None,
        }
    }

    /// Where the first of its bytes is.
    pub(crate) fn first_byte(&self) -> PmAddress {
        PmAddress {
            offset: self.line.offset + u64::from(self.bytes.0.trailing_zeros()),
            ..self.line
        }
    }

    pub(crate) fn words(&self) -> PersistenceWords {
        if self.by_page {
            PersistenceWords {
                unit: "page",
                persisted: "synced",
            }
        } else {
            PersistenceWords {
                unit: "cache line",
                persisted: "flushed",
            }
        }
    }

    /// Adds a finding about the store to those of a rule; its message is needed only the first time.
    pub(crate) fn report(
        &self,
        found: &mut Tally,
        message: impl Fn(ByteCounts) -> String + 'static,
    ) {
        let key = Key::single(self.tag.site, Some(self.file()));
        let bytes = ByteCounts::of(self.bytes);
        found.add_sized(key, (self.count, bytes), self.time, || Occurrence {
            message: Message::OfBytes(Box::new(message)),
            sites: self.sites(),
            bytes: vec![(self.line, self.bytes)],
            values: vec![self.tag.value("stored")],
            unfenced_since: vec![self.tag.unfenced_since(self.thread, self.time)],
        });
    }

    fn sites(&self) -> Vec<(&'static str, SiteKey, u64)> {
        let call = self.failed_sync;
        let call = call.map(|call| ("failed call", call.site, call.time));
        let store = ("store", self.tag.site, self.time);
        [store].into_iter().chain(call).collect()
    }

    /// What a message adds about an `msync` that does not help.
    pub(crate) fn remark(&self) -> String {
        match (self.failed_sync, self.not_waited_for) {
            (Some(SyncFailure { failed, .. }), _) => {
                let (name, error) = (failed.name(), failed.error_text());
                format!("; {name}, which is called for it, fails with {error}")
            }
            (None, true) => {
                "; msync with MS_ASYNC, which is called for it, does not wait for the storage"
                    .to_owned()
            }
            (None, false) => String::new(),
        }
    }

    pub(crate) fn file(&self) -> FileId {
        file(self.line)
    }
}

/// A call that adds bytes to the log of a running transaction, before it takes effect.
pub(crate) struct LogAdd<'a> {
    pub(crate) time: u64,
    pub(crate) site: SiteKey,
    /// The bytes; several ranges if they are in several mappings.
    pub(crate) ranges: &'a [FileRange],
    pub(crate) transaction: &'a Transaction,
}

/// The end of an outermost transaction, by commit or abort.
#[derive(Debug)]
pub(crate) struct TransactionEnd {
    /// Site and time of its beginning.
    pub(crate) begun: Option<(SiteKey, u64)>,
    /// The user's stores that were neither logged nor flushed, in the order of issue.
    pub(crate) unlogged: Vec<UnloggedStore>,
}

pub(crate) fn file(place: PmAddress) -> FileId {
    FileId(place.space.0)
}

/// How many bytes each occurrence of a finding is about: from the fewest to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteCounts {
    fewest: u32,
    most: u32,
}

impl ByteCounts {
    /// Of findings that are about no bytes.
    pub(crate) const NONE: ByteCounts = ByteCounts { fewest: 0, most: 0 };

    pub(crate) fn of(bytes: ByteMask) -> Self {
        let count = bytes.0.count_ones();
        ByteCounts {
            fewest: count,
            most: count,
        }
    }

    /// Includes another occurrence.
    #[inline]
    pub(crate) fn include(&mut self, other: ByteCounts) {
        self.fewest = self.fewest.min(other.fewest);
        self.most = self.most.max(other.most);
    }

    /// The verb after them.
    pub(crate) fn be(self) -> &'static str {
        match self.most {
            1 => "is",
            _ => "are",
        }
    }
}

/// `8 bytes`, `1 byte`, `8 to 64 bytes`.
impl fmt::Display for ByteCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fewest, self.most) {
            (1, 1) => write!(f, "1 byte"),
            (fewest, most) if fewest == most => write!(f, "{most} bytes"),
            (fewest, most) => write!(f, "{fewest} to {most} bytes"),
        }
    }
}
