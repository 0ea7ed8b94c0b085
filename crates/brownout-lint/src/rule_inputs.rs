//! What the rules are shown: moments of a run, with what is known then.

use brownout_model::{ByteMask, LINE, LiveStore, PmAddress};
use brownout_trace::{FenceKind, FileId};

use crate::follower::thread::Ordered;
use crate::raw_finding::RawValue;
use crate::site_keys::SiteId;

/// What is remembered of a live store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreTag {
    /// The first bytes, as a little-endian number.
    pub(crate) value: u64,
    pub(crate) site: SiteId,
    /// Head of the list of [what it overwrote](crate::follower::overwrites).
    pub(crate) overwrote: u32,
    /// Where in the line it began, and its length there.
    pub(crate) start: u8,
    pub(crate) len: u8,
    /// Not judged by itself: to bytes that a running transaction has logged, or told already as not logged.
    pub(crate) spoken_for: bool,
    /// Its line was flushed since.
    pub(crate) flushed: bool,
    /// Its bytes were unmapped before anything was done to make it persistent.
    pub(crate) abandoned: bool,
}

impl StoreTag {
    /// Bytes of a store that are known.
    pub(crate) const KNOWN: u8 = 8;

    /// Whether two stores put the same into `bytes`, which must be known of both.
    pub(crate) fn agrees(&self, other: &StoreTag, bytes: ByteMask) -> bool {
        let mut all = bytes.runs().flat_map(|(start, len)| start..start + len);
        all.all(|at| self.byte(at).is_some() && self.byte(at) == other.byte(at))
    }

    /// Whether two stores put different values into some of `bytes`, as far as is known.
    pub(crate) fn contradicts(&self, other: &StoreTag, bytes: ByteMask) -> bool {
        let mut all = bytes.runs().flat_map(|(start, len)| start..start + len);
        all.any(|at| match (self.byte(at), other.byte(at)) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        })
    }

    /// The value at a place of the line that the store covers, if it is known.
    fn byte(&self, at: u64) -> Option<u8> {
        let at = (at as u8).wrapping_sub(self.start);
        (at < Self::KNOWN).then(|| self.value.to_le_bytes()[usize::from(at)])
    }

    /// Whether more was stored than is known.
    pub(crate) fn is_long(&self) -> bool {
        self.len > Self::KNOWN
    }

    /// Whether each of two stores that overlap goes beyond the other at one end. One that ends with the line may go on
    /// in the next, which `across` lets count.
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
        let len = self.len.min(Self::KNOWN);
        let bytes = self.value.to_le_bytes()[..usize::from(len)].to_vec();
        RawValue { name, bytes }
    }
}

/// A flush of a line.
pub(crate) struct FlushMoment {
    pub(crate) time: u64,
    pub(crate) site: SiteId,
    /// The start of the line.
    pub(crate) line: PmAddress,
    pub(crate) work: Work,
}

/// What a flush finds to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nothing was stored since the line was flushed or mapped.
    Nothing,
    /// Non-temporal stores only, which wait for a fence and not for a flush; one of them.
    NonTemporal { store: SiteId, time: u64 },
    /// Cached stores that were not overwritten: how many, and place and time of the first and last of
    /// them.
    Stores {
        count: u16,
        first: (SiteId, u64),
        last: (SiteId, u64),
    },
    /// Something that is not a store of the program, or that another thread has flushed and not
    /// fenced, or that was persistent as soon as it was stored.
    Other,
}

/// An `sfence` or `mfence`.
pub(crate) struct FenceMoment<'a> {
    pub(crate) time: u64,
    pub(crate) site: SiteId,
    pub(crate) kind: FenceKind,
    /// Anything waited for it, be it in vain.
    pub(crate) awaited: bool,
    /// How many flushes and non-temporal stores only this fence orders, and two of them.
    pub(crate) ordered: u32,
    pub(crate) examples: &'a [Option<Ordered>; 2],
    /// What the thread had to do with last; `None` if it never touched persistent memory.
    pub(crate) file: Option<FileId>,
}

/// A store that will not be guaranteed any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostStore {
    /// The start of the line.
    pub(crate) line: PmAddress,
    pub(crate) bytes: ByteMask,
    pub(crate) time: u64,
    pub(crate) tag: StoreTag,
    /// How many stores of its kind were lost there.
    pub(crate) count: u64,
    pub(crate) why: Lost,
}

/// Why a store is not guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was not flushed, but its line is at some time.
    NotFlushed,
    /// Its line never is.
    NeverFlushed,
    /// The flush of its line was not fenced.
    FlushNotFenced { flush: SiteId, time: u64 },
    /// It is non-temporal and was not fenced.
    NotFenced,
}

impl LostStore {
    pub(crate) fn new(line: PmAddress, store: &LiveStore<StoreTag>, why: Lost) -> Self {
        LostStore {
            line,
            bytes: store.bytes,
            time: store.time.0,
            tag: store.tag,
            count: 1,
            why,
        }
    }

    pub(crate) fn file(&self) -> FileId {
        file(self.line)
    }
}

pub(crate) fn file(place: PmAddress) -> FileId {
    FileId(place.space.0)
}

/// `8 bytes`, `1 byte`.
pub(crate) fn bytes_text(bytes: ByteMask) -> String {
    match bytes.0.count_ones() {
        1 => "1 byte".to_owned(),
        count => format!("{count} bytes"),
    }
}

/// `is` or `are`, after [`bytes_text`].
pub(crate) fn be(bytes: ByteMask) -> &'static str {
    match bytes.0.count_ones() {
        1 => "is",
        _ => "are",
    }
}
