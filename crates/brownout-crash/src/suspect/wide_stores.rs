//! Stores that a crash may tear: hardware only promises that an aligned word of 8 bytes persists as a whole.
//!
//! The part of such a store in a line is torn in two ways, until the next instant at which a crash is tried: its first words are there and
//! the others are not, and the other way round. Locked instructions are left out: the processor does not write back the line between
//! their words.
//!
//! Can miss: other combinations of words, which `exhaustive` has with `--tearing words`; lines of a store between its first and its last
//! one; stores that were not among the last [`MOST`] before an instant.

use std::collections::VecDeque;

use brownout_trace::EventIndex;

use super::SuspectSite;
use super::live_store::UnitKey;
use super::open_orders::LostPart;
use crate::failure_point::StackId;
use crate::torn_words::word_halves;

/// Stores that are torn at one instant.
const MOST: usize = 16;

/// Stores that can be torn, since the last instant at which a crash is tried.
#[derive(Debug, Default)]
pub(super) struct WideStores(VecDeque<LostPart>);

impl WideStores {
    /// Bytes up to `last` were stored to.
    pub(super) fn store(
        &mut self,
        (file, first): UnitKey,
        last: u64,
        event: EventIndex,
        (site, stack): (SuspectSite, Option<StackId>),
    ) {
        for (line, there) in word_halves(first, last) {
            if self.0.len() == 2 * MOST {
                self.0.pop_front();
            }
            self.0.push_back(LostPart {
                unit: (file, line),
                torn: Some((event, there)),
                site,
                stack,
            });
        }
    }

    /// What can be lost of them at this instant.
    pub(super) fn take(&mut self) -> impl Iterator<Item = LostPart> {
        self.0.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use brownout_trace::{AppPc, ContextId, FileId, ProcessId};

    use super::*;

    /// The line and the words that are there, for each way to tear a store of bytes `first` to `last`.
    fn torn(first: u64, last: u64) -> Vec<(u64, u8)> {
        let site = SuspectSite {
            process: ProcessId(1),
            pc: AppPc(1),
            context: ContextId::ROOT,
        };
        let mut stores = WideStores::default();
        stores.store((FileId(0), first), last, EventIndex(1), (site, None));
        let parts = stores.take();
        let parts = parts.map(|part| (part.unit.1, part.torn.map_or(0, |(_, words)| words)));
        parts.collect()
    }

    #[test]
    fn a_word_is_whole() {
        assert_eq!(torn(0, 7), []);
        assert_eq!(torn(12, 15), []);
        assert_eq!(torn(60, 67), [], "each part is within a word");
    }

    #[test]
    fn several_words_are_torn_in_two_ways() {
        assert_eq!(torn(16, 31), [(0, 0b0100), (0, 0b1000)]);
        assert_eq!(torn(4, 11), [(0, 0b01), (0, 0b10)], "not aligned");
        assert_eq!(torn(64, 127), [(64, 0x0f), (64, 0xf0)]);
        assert_eq!(torn(64, 87), [(64, 0b011), (64, 0b100)]);
    }

    #[test]
    fn of_many_lines_the_first_and_the_last_are_torn() {
        let parts = torn(48, 64 * 9 + 15);
        let lines: Vec<u64> = parts.iter().map(|&(line, _)| line).collect();
        assert_eq!(lines, [0, 0, 576, 576]);
    }
}
