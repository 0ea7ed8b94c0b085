//! What a crash can leave, by brute force: every crash image at every time.
//!
//! It is written from the description of the persistency model (the documentation of `brownout-model`), and shares no code with
//! it. A line (with `msync`, a sector) has a sequence of stores, of which a crash keeps a beginning with at least those that are
//! guaranteed. A non-temporal store without a later fence of its thread is kept or lost by itself, except with `msync`. If
//! stores can be torn, some words of the first store that is lost may be kept.

use std::collections::BTreeSet;
use std::ops::Range;

const LINE: u64 = 64;
const PAGE: u64 = 4096;
const WORD: u64 = 8;

/// What an event of the target does to persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Store {
        offset: u64,
        bytes: Vec<u8>,
        non_temporal: bool,
    },
    Flush {
        offset: u64,
        /// `clflush`: it does not wait for a fence.
        is_immediate: bool,
    },
    Fence,
    Sync(Range<u64>),
}

/// The part of a store in one line.
#[derive(Clone, Debug)]
struct Part {
    /// The number of the store.
    store: usize,
    thread: u64,
    offset: u64,
    bytes: Vec<u8>,
    non_temporal: bool,
    guaranteed: bool,
}

/// Follows the target.
pub struct Machine {
    profile: &'static str,
    tears: bool,
    initial: Vec<u8>,
    stores: usize,
    parts: Vec<Part>,
    /// Flushes that wait for a fence: the thread, the line, and how many parts there were.
    flushes: Vec<(u64, u64, usize)>,
}

impl Machine {
    pub fn new(profile: &'static str, tears: bool, initial: Vec<u8>) -> Machine {
        Machine {
            profile,
            tears,
            initial,
            stores: 0,
            parts: Vec::new(),
            flushes: Vec::new(),
        }
    }

    pub fn apply(&mut self, thread: u64, effect: &Effect) {
        match effect {
            Effect::Store {
                offset,
                bytes,
                non_temporal,
            } => self.store(thread, *offset, bytes, *non_temporal),
            // A disk does not know these instructions.
            Effect::Flush { .. } | Effect::Fence if self.profile == "msync" => {}
            Effect::Flush {
                offset,
                is_immediate,
            } => {
                let line = offset / LINE;
                match is_immediate {
                    true => self.guarantee_line(line, self.parts.len()),
                    false => self.flushes.push((thread, line, self.parts.len())),
                }
            }
            Effect::Fence => {
                let flushes = std::mem::take(&mut self.flushes);
                let (done, waiting) = flushes.into_iter().partition(|flush| flush.0 == thread);
                self.flushes = waiting;
                let done: Vec<(u64, u64, usize)> = done;
                for (_, line, count) in done {
                    self.guarantee_line(line, count);
                }
                for part in &mut self.parts {
                    part.guaranteed |= part.non_temporal && part.thread == thread;
                }
            }
            Effect::Sync(range) => {
                let pages = range.start / PAGE..range.end.div_ceil(PAGE);
                for part in &mut self.parts {
                    part.guaranteed |= pages.contains(&(part.offset / PAGE));
                }
            }
        }
    }

    fn store(&mut self, thread: u64, offset: u64, bytes: &[u8], non_temporal: bool) {
        let mut at = offset;
        let end = offset + bytes.len() as u64;
        while at < end {
            let next = (at / LINE + 1) * LINE;
            let part = &bytes[(at - offset) as usize..(next.min(end) - offset) as usize];
            self.parts.push(Part {
                store: self.stores,
                thread,
                offset: at,
                bytes: part.to_vec(),
                non_temporal,
                guaranteed: matches!(self.profile, "eadr" | "gpf") && !non_temporal,
            });
            at = next;
        }
        self.stores += 1;
    }

    /// Guarantees the cached stores to a line among the first parts.
    fn guarantee_line(&mut self, line: u64, count: usize) {
        for part in &mut self.parts[..count] {
            part.guaranteed |= !part.non_temporal && part.offset / LINE == line;
        }
    }

    /// All images that a crash now can leave; `None` if they are more than `most`.
    pub fn images(&self, most: usize) -> Option<BTreeSet<Vec<u8>>> {
        let unit = if self.profile == "msync" { 512 } else { LINE };
        let units: BTreeSet<u64> = self.parts.iter().map(|part| part.offset / unit).collect();
        let mut images = BTreeSet::from([self.initial.clone()]);
        for number in units {
            let range = (number * unit) as usize..((number + 1) * unit) as usize;
            let contents = self.contents(range.clone(), most)?;
            if images.len() * contents.len() > most {
                return None;
            }
            images = images
                .iter()
                .flat_map(|image| {
                    contents.iter().map(|content| {
                        let mut image = image.clone();
                        image[range.clone()].copy_from_slice(content);
                        image
                    })
                })
                .collect();
        }
        Some(images)
    }

    /// Whether anything was stored.
    pub fn has_stores(&self) -> bool {
        !self.parts.is_empty()
    }

    /// All contents of a unit.
    fn contents(&self, unit: Range<usize>, most: usize) -> Option<BTreeSet<Vec<u8>>> {
        let parts: Vec<&Part> = self
            .parts
            .iter()
            .filter(|part| unit.contains(&(part.offset as usize)))
            .collect();
        let is_in_sequence = |part: &Part| !part.non_temporal || self.profile == "msync";
        let mut sequence: Vec<usize> = parts
            .iter()
            .filter(|part| is_in_sequence(part))
            .map(|part| part.store)
            .collect();
        sequence.dedup();
        let guaranteed = parts
            .iter()
            .rfind(|part| is_in_sequence(part) && part.guaranteed);
        let least = guaranteed.map_or(0, |part| {
            sequence
                .iter()
                .take_while(|&&store| store <= part.store)
                .count()
        });
        // What is kept or lost by itself: a non-temporal store, or a word of it.
        let alone: Vec<Piece> = parts
            .iter()
            .filter(|part| !is_in_sequence(part) && !part.guaranteed)
            .flat_map(|part| self.pieces(part))
            .collect();
        let mut contents = BTreeSet::new();
        for kept in least..=sequence.len() {
            let first_lost = sequence.get(kept).copied();
            let torn: Vec<Piece> = parts
                .iter()
                .filter(|part| self.tears && is_in_sequence(part) && Some(part.store) == first_lost)
                .flat_map(|part| self.pieces(part))
                .collect();
            let open = [&alone[..], &torn].concat();
            if open.len() > 12 || contents.len() > most {
                return None;
            }
            for choice in 0..1_u32 << open.len() {
                let has = |part: &Part, at: u64| {
                    let is_kept = match is_in_sequence(part) {
                        true => sequence[..kept].contains(&part.store),
                        false => part.guaranteed,
                    };
                    let mut chosen = open.iter().enumerate();
                    is_kept
                        || chosen.any(|(number, piece)| {
                            choice >> number & 1 != 0
                                && piece.store == part.store
                                && piece.bytes.contains(&at)
                        })
                };
                let mut content = self.initial[unit.clone()].to_vec();
                for part in &parts {
                    for (at, byte) in (part.offset..).zip(&part.bytes) {
                        if has(part, at) {
                            content[at as usize - unit.start] = *byte;
                        }
                    }
                }
                contents.insert(content);
            }
        }
        Some(contents)
    }

    /// What a part consists of that a crash keeps or loses as a whole.
    fn pieces(&self, part: &Part) -> Vec<Piece> {
        let end = part.offset + part.bytes.len() as u64;
        let mut pieces = Vec::new();
        let mut at = part.offset;
        while at < end {
            let next = match self.tears {
                true => (at / WORD + 1) * WORD,
                false => end,
            };
            let store = part.store;
            pieces.push(Piece {
                store,
                bytes: at..next.min(end),
            });
            at = next;
        }
        pieces
    }
}

/// Bytes of a store.
#[derive(Clone, Debug)]
struct Piece {
    store: usize,
    bytes: Range<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(offset: u64, value: u8, width: usize) -> Effect {
        Effect::Store {
            offset,
            bytes: vec![value; width],
            non_temporal: false,
        }
    }

    fn flush(offset: u64) -> Effect {
        Effect::Flush {
            offset,
            is_immediate: false,
        }
    }

    /// The values of some bytes in all images after these effects of one thread.
    fn outcomes<const N: usize>(
        machine: (&'static str, bool),
        effects: &[Effect],
        shown: [usize; N],
    ) -> BTreeSet<[u8; N]> {
        let mut machine = Machine::new(machine.0, machine.1, vec![0; 8192]);
        for effect in effects {
            machine.apply(1, effect);
        }
        let images = machine.images(1000).unwrap();
        images
            .iter()
            .map(|image| shown.map(|at| image[at]))
            .collect()
    }

    #[test]
    fn a_line_keeps_the_beginning_of_its_stores() {
        let effects = [store(0, 1, 1), store(8, 1, 1), store(64, 1, 1)];
        let all = outcomes(("adr", false), &effects, [0, 8, 64]);
        assert_eq!(all.len(), 6);
        assert!(!all.contains(&[0, 1, 0]));
        let sector = outcomes(("msync", false), &effects, [0, 8, 64]);
        assert_eq!(sector, [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]].into());
    }

    #[test]
    fn a_flush_and_a_fence_of_one_thread_guarantee_what_was_stored_before_the_flush() {
        let effects = [store(0, 1, 1), flush(0), store(8, 1, 1), Effect::Fence];
        assert_eq!(
            outcomes(("adr", false), &effects, [0, 8]),
            [[1, 0], [1, 1]].into()
        );
        assert_eq!(outcomes(("msync", false), &effects, [0, 8]).len(), 3);
        let synced = [&effects[..], &[Effect::Sync(0..1)]].concat();
        assert_eq!(outcomes(("msync", false), &synced, [0, 8]), [[1, 1]].into());
        let mut machine = Machine::new("adr", false, vec![0; 64]);
        machine.apply(1, &store(0, 1, 1));
        machine.apply(1, &flush(0));
        machine.apply(2, &Effect::Fence);
        assert_eq!(
            machine.images(9).unwrap().len(),
            2,
            "another thread's fence"
        );
    }

    #[test]
    fn words_of_the_first_lost_store_may_be_kept() {
        let effects = [store(4, 1, 8), store(4, 2, 8)];
        let torn = outcomes(("adr", true), &effects, [4, 8]);
        let all = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 1], [2, 2]];
        assert_eq!(torn, all.into());
        let whole = outcomes(("adr", false), &effects, [4, 8]);
        assert_eq!(whole, [[0, 0], [1, 1], [2, 2]].into());
    }

    #[test]
    fn too_many_images_are_not_enumerated() {
        let mut machine = Machine::new("adr", false, vec![0; 4096]);
        for line in 0..10 {
            machine.apply(1, &store(line * 64, 1, 1));
        }
        assert!(machine.images(1023).is_none());
        assert_eq!(machine.images(1024).unwrap().len(), 1024);
    }
}
