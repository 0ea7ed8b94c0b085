//! The words of recognised locks in files. Accesses to them are no races; those to the data beside them can be.
//!
//! A word that is only counted up and down again is data: a counter looks like a lock that only readers take. So is one that a single
//! thread sets and clears by exchanges, as sequentially consistent stores of C and C++ do with a flag. When memory is allocated anew, its
//! locks are gone.
//!
//! What it can take for a lock: a flag that several threads set and clear by exchanges; and one that a single thread sets and clears,
//! if the recorder notices that the word is clear before it sees the exchange, as it does when the exchange is an event itself. What it
//! can take for data: a lock that no second thread has acquired, if it is released by an exchange; an attempt that fails is not in the
//! trace.

use brownout_model::{ByteMask, LINE, PmAddress, ThreadSlot, Time, line_parts};
use brownout_trace::{FileRange, LockMode, RecognisedLock};
use rustc_hash::FxHashMap;

/// The word of a lock within a line, as long as its memory is not allocated anew.
#[derive(Clone, Copy, Debug)]
struct LockWord {
    bytes: ByteMask,
    first: ThreadSlot,
    /// Its use shows that it is no flag.
    is_lock: bool,
    since: Time,
    until: Time,
}

/// All words, by the line that they are in.
#[derive(Default)]
pub(crate) struct LockWords {
    by_line: FxHashMap<PmAddress, Vec<LockWord>>,
}

impl LockWords {
    /// A thread has acquired a lock whose word has these bytes, and will release it as `lock` says.
    pub(crate) fn acquired(&mut self, word: FileRange, by: ThreadSlot, lock: RecognisedLock) {
        if lock.mode == LockMode::Shared {
            return;
        }
        for (offset, bytes, _) in line_parts(word.offset, word.len) {
            let words = self.by_line.entry(line(word, offset)).or_default();
            let mut current = words.iter_mut().filter(|word| word.until.0 == u64::MAX);
            if let Some(known) = current.find(|known| known.bytes == bytes) {
                known.is_lock |= !lock.exchanged || known.first != by;
                continue;
            }
            let earlier = words
                .iter()
                .filter(|word| !word.bytes.and(bytes).is_empty());
            let ended = earlier
                .map(|word| word.until)
                .filter(|until| until.0 < u64::MAX);
            let since = ended.max().unwrap_or(Time(0));
            words.push(LockWord {
                bytes,
                first: by,
                is_lock: !lock.exchanged,
                since,
                until: Time(u64::MAX),
            });
        }
    }

    /// Memory is allocated at `at`: what was there before is gone.
    pub(crate) fn allocated(&mut self, object: FileRange, at: Time) {
        if self.by_line.is_empty() {
            return;
        }
        for (offset, bytes, _) in line_parts(object.offset, object.len) {
            let words = self.by_line.get_mut(&line(object, offset));
            for word in words.into_iter().flatten() {
                if !word.bytes.and(bytes).is_empty() {
                    word.until = at.min(word.until);
                }
            }
        }
    }

    /// The bytes of an access to a line that are data.
    pub(crate) fn data(&self, line: PmAddress, bytes: ByteMask, at: Time) -> ByteMask {
        let words = self.by_line.get(&line).into_iter().flatten();
        let locks = words.filter(|word| word.is_lock && word.since <= at && at < word.until);
        locks.fold(bytes, |data, word| data.without(word.bytes))
    }
}

fn line(range: FileRange, offset: u64) -> PmAddress {
    PmAddress {
        space: brownout_model::SpaceId(range.file.0),
        offset: offset - offset % LINE,
    }
}
