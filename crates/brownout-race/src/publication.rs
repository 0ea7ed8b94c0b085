//! Objects that only their creator knows, until a pointer to them is where other threads look.
//!
//! HawkSet §3.1.3 names this the ideal, and approximates it by the first access of a second thread. Here allocations whose place and
//! size are known are objects. An object is public once a pointer to it (its address, or its offset in the file, as in identifiers
//! of libpmemobj) is in bytes that several threads can see, or once a second thread accesses it. A pointer in a private object does
//! not publish anything until that object is public. Allocation makes memory private again, even if others have used it.
//!
//! Can miss: allocations by other functions, and pointers in other forms; for these the approximation holds.

use std::collections::BTreeMap;

use brownout_model::{ByteMask, LINE, PmAddress, SpaceId, line_parts};
use brownout_trace::FileRange;
use rustc_hash::FxHashMap;

use crate::lines::{LineNumber, Lines};

/// The size of a pointer.
const WORD: u64 = 8;

/// Private objects, and where pointers to them are.
#[derive(Default)]
pub(crate) struct Publication {
    /// Private objects by their first byte, with their length.
    private: BTreeMap<PmAddress, u64>,
    /// Words that nobody else can see and that point to private objects.
    pointers: FxHashMap<PmAddress, PmAddress>,
}

impl Publication {
    /// An object is allocated: what was there before is gone.
    pub(crate) fn allocated(&mut self, object: FileRange, lines: &mut Lines) {
        let start = PmAddress {
            space: SpaceId(object.file.0),
            offset: object.offset,
        };
        let end = PmAddress {
            offset: start.offset.saturating_add(object.len),
            ..start
        };
        let before = self.private.range(..start).next_back();
        let before = before.filter(|(known, len)| is_within(**known, **len, start));
        let inside = self.private.range(start..end);
        let gone = before.into_iter().chain(inside);
        let gone: Vec<PmAddress> = gone.map(|(known, _)| *known).collect();
        for known in gone {
            self.private.remove(&known);
        }
        for (line, bytes) in parts(start, object.len, lines) {
            lines.forget(line, bytes);
        }
        self.private.insert(start, object.len);
    }

    /// A thread stores bytes; `target` gives what a word points to.
    pub(crate) fn stored(
        &mut self,
        range: FileRange,
        bytes: &[u8],
        lines: &mut Lines,
        mut target: impl FnMut(u64) -> Option<PmAddress>,
    ) {
        if self.private.is_empty() {
            return;
        }
        let start = PmAddress {
            space: SpaceId(range.file.0),
            offset: range.offset,
        };
        let skipped = start.offset.next_multiple_of(WORD) - start.offset;
        let (words, _) = bytes
            .get(skipped as usize..)
            .unwrap_or_default()
            .as_chunks::<8>();
        for (number, word) in words.iter().enumerate() {
            let at = PmAddress {
                offset: start.offset + skipped + number as u64 * WORD,
                ..start
            };
            self.pointers.remove(&at);
            let value = u64::from_le_bytes(*word);
            let own_file = PmAddress {
                offset: value,
                ..start
            };
            let mut objects = [target(value), Some(own_file)].into_iter().flatten();
            if let Some(object) = objects.find(|object| self.private.contains_key(object)) {
                let line = lines.number(PmAddress {
                    offset: at.offset - at.offset % LINE,
                    ..at
                });
                match lines.visible(line).contains((at.offset % LINE) as u32) {
                    true => self.publish(object, lines),
                    false => {
                        self.pointers.insert(at, object);
                    }
                }
            }
        }
    }

    /// Bytes of a line have become visible to several threads.
    pub(crate) fn seen(&mut self, line: LineNumber, bytes: ByteMask, lines: &mut Lines) {
        if bytes.is_empty() || self.private.is_empty() {
            return;
        }
        let start = lines.address(line);
        for (first, _) in bytes.runs() {
            let at = PmAddress {
                offset: start.offset + first,
                ..start
            };
            if let Some((&object, &len)) = self.private.range(..=at).next_back()
                && is_within(object, len, at)
            {
                self.publish(object, lines);
            }
        }
        for object in self.pointed_to(start, bytes) {
            self.publish(object, lines);
        }
    }

    /// What pointers in bytes of a line point to; they are forgotten.
    fn pointed_to(&mut self, line: PmAddress, bytes: ByteMask) -> Vec<PmAddress> {
        let words = (0..LINE).step_by(WORD as usize);
        let words = words.filter(|&word| bytes.contains(word as u32));
        let found = words.filter_map(|word| {
            self.pointers.remove(&PmAddress {
                offset: line.offset + word,
                ..line
            })
        });
        found.collect()
    }

    /// An object is public, and so is what it points to.
    fn publish(&mut self, object: PmAddress, lines: &mut Lines) {
        let mut next = vec![object];
        while let Some(object) = next.pop() {
            let Some(len) = self.private.remove(&object) else {
                continue;
            };
            for (line, bytes) in parts(object, len, lines) {
                lines.publish(line, bytes);
                next.extend(self.pointed_to(lines.address(line), bytes));
            }
        }
    }
}

fn is_within(start: PmAddress, len: u64, at: PmAddress) -> bool {
    start.space == at.space && at.offset >= start.offset && at.offset - start.offset < len
}

/// The lines of an object, with its bytes in each.
fn parts(start: PmAddress, len: u64, lines: &mut Lines) -> Vec<(LineNumber, ByteMask)> {
    let parts = line_parts(start.offset, len);
    let parts = parts.map(|(offset, bytes, _)| {
        let line = lines.number(PmAddress { offset, ..start });
        (line, bytes)
    });
    parts.collect()
}
