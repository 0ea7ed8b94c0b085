//! The transaction of a thread.

use brownout_libraries::TxFunction;
use brownout_model::{ByteMask, PmAddress};
use brownout_trace::{CallArguments, FileId, FileRange};
use rustc_hash::FxHashMap;

use super::ranges::ByteRanges;
use crate::site_keys::SiteId;

/// A call of the library that has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCall {
    pub(super) function: TxFunction,
    pub(super) args: CallArguments,
    pub(super) site: SiteId,
    pub(super) time: u64,
}

/// Why bytes need not be logged any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// They are in the log.
    Added,
    /// They belong to an object that the transaction has made.
    Allocated,
}

/// How bytes came to be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Safe {
    pub(crate) reason: Reason,
    pub(crate) site: SiteId,
    pub(crate) time: u64,
}

/// A store in a transaction to bytes that are not logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnloggedStore {
    pub(crate) line: PmAddress,
    pub(crate) bytes: ByteMask,
    pub(crate) site: SiteId,
    pub(crate) time: u64,
    /// The first bytes, as a little-endian number, and how many they are.
    pub(crate) value: u64,
    pub(crate) len: u8,
}

/// The transaction that a thread is in, if any.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// Calls of the library, the innermost last.
    pub(super) open: Vec<OpenCall>,
    /// How many are nested.
    pub(super) levels: u32,
    /// The innermost is at work: it has neither been committed nor aborted.
    pub(super) working: bool,
    /// It is known that the outermost will be aborted.
    pub(super) aborted: bool,
    pub(super) pool: u64,
    pub(super) file: Option<FileId>,
    /// Where and when the outermost was begun.
    pub(super) begun: Option<(SiteId, u64)>,
    pub(super) safe: ByteRanges<Safe>,
    /// By line. What is flushed before the end leaves: the program persists it itself.
    unlogged: FxHashMap<PmAddress, Vec<UnloggedStore>>,
    /// Words that locked instructions have stored to: locks, which are no data.
    locks: Vec<PmAddress>,
}

impl Transaction {
    /// Whether the user's stores are to be looked at: not those of the library, which come in the course
    /// of a call.
    #[inline]
    pub(crate) fn is_at_work(&self) -> bool {
        self.working && self.open.is_empty()
    }

    /// Whether all of a store of the user is logged, or goes to an object that the transaction has made.
    #[inline]
    pub(crate) fn covers(&self, range: FileRange) -> bool {
        self.is_at_work() && self.safe.cover(range).is_some()
    }

    /// A locked instruction has stored to a word.
    pub(super) fn locked(&mut self, word: PmAddress) {
        if !self.locks.contains(&word) {
            self.locks.push(word);
        }
    }

    /// Whether a word is that of a lock.
    pub(super) fn is_lock(&self, word: PmAddress) -> bool {
        self.locks.contains(&word)
    }

    pub(super) fn unlogged(&mut self, store: UnloggedStore) {
        let stores = self.unlogged.entry(store.line).or_default();
        match stores.iter_mut().find(|known| known.site == store.site) {
            Some(known) => known.bytes = known.bytes.or(store.bytes),
            None => stores.push(store),
        }
    }

    /// A line was flushed, not in the course of a transactional call. The flush may come from the library:
    /// `pmemobj_persist` leaves the stack before it does what it is asked for.
    #[inline]
    pub(crate) fn flushed(&mut self, line: PmAddress) {
        if !self.unlogged.is_empty() {
            self.unlogged.remove(&line);
        }
    }

    /// The user has written pages of a file back.
    pub(crate) fn written_back(&mut self, range: FileRange) {
        let bytes = range.offset..range.offset.saturating_add(range.len);
        self.unlogged
            .retain(|line, _| line.space.0 != range.file.0 || !bytes.contains(&line.offset));
    }

    /// The stores that are neither logged nor flushed, in the order of the first of each place.
    pub(super) fn take_unlogged(&mut self) -> Vec<UnloggedStore> {
        let mut stores: Vec<UnloggedStore> = self.unlogged.drain().flat_map(|(_, of)| of).collect();
        stores.sort_unstable_by_key(|store| (store.time, store.line.offset));
        stores
    }

    /// The outermost transaction has ended.
    pub(super) fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        *self = Transaction {
            open,
            safe: std::mem::take(&mut self.safe),
            unlogged: std::mem::take(&mut self.unlogged),
            locks: std::mem::take(&mut self.locks),
            ..Transaction::default()
        };
        self.safe.clear();
        self.unlogged.clear();
        self.locks.clear();
    }
}
