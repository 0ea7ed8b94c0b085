//! The transaction of a thread.

use brownout_libraries::TxFunction;
use brownout_model::{ByteMask, LINE, PmAddress};
use brownout_trace::{CallArguments, FileId, FileRange};
use rustc_hash::FxHashMap;

use super::ranges::ByteRanges;
use crate::site_keys::SiteKey;

/// A call of the library that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTransactionCall {
    pub(crate) function: TxFunction,
    pub(crate) args: CallArguments,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
}

/// Why bytes need no logging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SafeReason {
    /// They are in the log.
    Added,
    /// They belong to an object that the transaction has allocated.
    Allocated,
}

/// How bytes became safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Safe {
    pub(crate) reason: SafeReason,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
}

/// A store in a transaction to bytes that are not logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnloggedStore {
    pub(crate) line: PmAddress,
    pub(crate) bytes: ByteMask,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    /// The first bytes, as a little-endian number, and how many they are.
    pub(crate) value: u64,
    pub(crate) len: u8,
    /// Where the object begins that was stored to, if known; it is looked up when the transaction ends.
    pub(crate) object: Option<u64>,
}

impl UnloggedStore {
    /// The first byte.
    pub(crate) fn start(&self) -> PmAddress {
        PmAddress {
            offset: self.line.offset + u64::from(self.bytes.0.trailing_zeros()),
            ..self.line
        }
    }

    /// The offset behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.line.offset + LINE - u64::from(self.bytes.0.leading_zeros())
    }
}

/// The state of a thread's transaction.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// Calls of the library, the innermost last.
    pub(super) open: Vec<OpenTransactionCall>,
    /// How many transactions are nested.
    pub(super) levels: u32,
    /// The innermost is running: it has been neither committed nor aborted.
    pub(super) working: bool,
    /// The outermost will be aborted.
    pub(super) aborted: bool,
    pub(super) pool: u64,
    pub(super) file: Option<FileId>,
    /// Site and time of the beginning of the outermost.
    pub(super) begun: Option<(SiteKey, u64)>,
    pub(super) safe: ByteRanges<Safe>,
    /// By line. Flushing a line removes its stores: the target persists them itself.
    unlogged: FxHashMap<PmAddress, Vec<UnloggedStore>>,
    /// Words that locked instructions have stored to: locks, which are not data.
    locks: Vec<PmAddress>,
}

impl Transaction {
    /// Site and time of the beginning of a transaction that was not ended, and the file of its pool.
    pub(crate) fn not_ended(&self) -> Option<(SiteKey, u64, Option<FileId>)> {
        let (site, time) = self.begun.filter(|_| self.levels > 0)?;
        Some((site, time, self.file))
    }

    /// Whether the transaction is running user code, not a function of the library.
    #[inline]
    pub(crate) fn is_in_user_code(&self) -> bool {
        self.working && self.open.is_empty()
    }

    /// Whether all bytes of a store by user code are logged or belong to an object that the transaction has allocated.
    #[inline]
    pub(crate) fn covers(&self, range: FileRange) -> bool {
        self.is_in_user_code() && self.safe(range).is_some()
    }

    /// How the first byte of a range became safe, if all of the range is.
    pub(crate) fn safe(&self, range: FileRange) -> Option<Safe> {
        self.safe.cover(range)
    }

    /// A locked instruction has stored to a word.
    pub(super) fn add_lock(&mut self, word: PmAddress) {
        if !self.locks.contains(&word) {
            self.locks.push(word);
        }
    }

    /// Whether a word is a lock.
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

    /// A line was flushed outside of transactional calls. The flush may come from the library:
    /// `pmemobj_persist` ends with a jump to the function that flushes.
    #[inline]
    pub(crate) fn flushed(&mut self, line: PmAddress) {
        if !self.unlogged.is_empty() {
            self.unlogged.remove(&line);
        }
    }

    /// The user has written back pages of a file.
    pub(crate) fn written_back(&mut self, range: FileRange) {
        let bytes = range.offset..range.offset.saturating_add(range.len);
        self.unlogged
            .retain(|line, _| line.space.0 != range.file.0 || !bytes.contains(&line.offset));
    }

    /// The stores that are neither logged nor flushed, in the order of issue.
    pub(super) fn take_unlogged(&mut self) -> Vec<UnloggedStore> {
        let mut stores: Vec<UnloggedStore> = self.unlogged.drain().flat_map(|(_, of)| of).collect();
        stores.sort_unstable_by_key(|store| (store.time, store.line.offset));
        stores
    }

    /// The outermost transaction has ended: only open calls remain.
    pub(super) fn reset(&mut self) {
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
