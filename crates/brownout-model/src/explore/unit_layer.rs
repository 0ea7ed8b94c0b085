//! What one run contributes to a unit when it ends in a crash: settled bytes, and stores that may be present.

use std::sync::Arc;

use super::crash_time::unit_states_log10;
use super::known_bytes::{KnownBytes, WORD, Word, WordMask, mask_of_word};
use super::store_history::{RecordKind, StoreHistory, StoreRecord};
use crate::address::{LINE, PmAddress, Time};
use crate::byte_mask::ByteMask;
use crate::unit_states::Tearing;

pub(super) const WORDS_IN_LINE: usize = LINE as usize / WORD;

/// A yes-or-no question about a unit, by number: whether a store, or one word of it, is present.
pub(super) type Grain = u32;

/// When a part is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Always,
    /// If more than `step` stores of the sequence are present. If exactly `step` are, the store may be torn: each of its words
    /// is then present if its grain says so.
    InSequence {
        step: u32,
        torn: Option<Grain>,
    },
    /// If its grain says so.
    Optional(Grain),
}

/// The part of a store in one line.
#[derive(Clone, Debug)]
pub(super) struct LayerPart {
    record: StoreRecord,
    /// The bytes of the line that were not replaced since.
    bytes: ByteMask,
    step: Option<u32>,
    /// The first of its grains.
    grain: Option<Grain>,
}

impl LayerPart {
    /// The number of the line in the unit.
    pub(super) fn line(&self) -> usize {
        self.record.line()
    }

    /// When the store was issued.
    pub(super) fn issued(&self) -> Time {
        self.record.issued
    }

    /// Whether a crash can lose it.
    pub(super) fn is_losable(&self) -> bool {
        self.step.is_some() || self.grain.is_some()
    }

    /// The bytes of the part in a word of the unit.
    pub(super) fn mask(&self, word: usize) -> WordMask {
        if word / WORDS_IN_LINE != self.record.line() {
            return 0;
        }
        mask_of_word(self.bytes, word)
    }

    /// The words of the unit with bytes of the part.
    pub(super) fn words(&self) -> impl Iterator<Item = usize> + '_ {
        let first = self.record.line() * WORDS_IN_LINE;
        (first..first + WORDS_IN_LINE).filter(|&word| self.mask(word) != 0)
    }
}

/// The stores of one run to one unit, as far as a crash can show them.
#[derive(Clone, Debug)]
pub(super) struct UnitLayer {
    /// The number of the run on the stack.
    pub(super) run: usize,
    history: Arc<StoreHistory>,
    settled: KnownBytes,
    /// Stores that are not settled, oldest first.
    parts: Vec<LayerPart>,
    /// How many stores of the sequence may be lost.
    pub(super) steps: u32,
    /// How many grains there are.
    pub(super) grains: u32,
}

impl UnitLayer {
    /// What a crash of run number `run` immediately before `time` can leave of a unit; `None` if the run did not change it.
    pub(super) fn new(
        run: usize,
        history: &Arc<StoreHistory>,
        unit: PmAddress,
        time: Time,
    ) -> Option<Self> {
        let (mut settled, records) = history.before(unit, time);
        let removed = history.has_removed(unit, time);
        if records.is_empty() && !removed {
            return None;
        }
        let mut parts: Vec<LayerPart> = Vec::new();
        for &record in records {
            let is_replacement = record.kind == RecordKind::Replacement;
            if is_replacement {
                for part in parts
                    .iter_mut()
                    .filter(|part| part.record.line() == record.line())
                {
                    part.bytes = part.bytes.without(record.mask());
                }
            }
            if is_replacement || record.settled < time {
                settled.set(usize::from(record.start), history.bytes(&record));
            } else {
                parts.push(LayerPart {
                    record,
                    bytes: record.mask(),
                    step: None,
                    grain: None,
                });
            }
        }
        parts.retain(|part| !part.bytes.is_empty());
        if removed {
            history.zero_removed(unit, time, &mut settled);
        }
        let mut layer = UnitLayer {
            run,
            history: history.clone(),
            settled,
            parts,
            steps: 0,
            grains: 0,
        };
        layer.number(time);
        Some(layer)
    }

    /// Numbers the steps and the grains.
    fn number(&mut self, time: Time) {
        let tearing = self.history.tearing;
        let mut last = None;
        for part in &mut self.parts {
            let words = match tearing {
                Tearing::Whole => 1,
                Tearing::Words => part.words().count() as u32,
            };
            if part.record.guaranteed < time {
                continue;
            }
            if part.record.kind == RecordKind::InSequence {
                self.steps += u32::from(last != Some(part.record.issued));
                last = Some(part.record.issued);
                part.step = Some(self.steps - 1);
                if tearing == Tearing::Whole {
                    continue;
                }
            }
            part.grain = Some(self.grains);
            self.grains += words;
        }
    }

    /// The decimal logarithm of the number of states that the crash can leave.
    pub(super) fn states_log10(&self) -> f64 {
        let mut parts_of_step = vec![0; self.steps as usize];
        let mut optional = 0;
        for part in &self.parts {
            let words = match self.history.tearing {
                Tearing::Whole => 1,
                Tearing::Words => part.words().count() as u32,
            };
            match (part.step, part.grain) {
                (Some(step), Some(_)) => parts_of_step[step as usize] += words,
                // It is whole, in all lines of the unit.
                (Some(step), None) => parts_of_step[step as usize] = 1,
                (None, Some(_)) => optional += words,
                (None, None) => {}
            }
        }
        unit_states_log10(parts_of_step.into_iter().map(|parts| (parts, 1)), optional)
    }

    /// Whether this is what a run contributes.
    pub(super) fn is_of(&self, run: &Arc<StoreHistory>) -> bool {
        Arc::ptr_eq(&self.history, run)
    }

    /// The stores that are not settled, oldest first.
    pub(super) fn parts(&self) -> &[LayerPart] {
        &self.parts
    }

    /// The settled bytes of a word.
    pub(super) fn settled(&self, word: usize) -> (WordMask, &[u8]) {
        self.settled.word(word)
    }

    /// The parts with bytes in a word, newest first.
    pub(super) fn parts_of(&self, word: usize) -> impl Iterator<Item = &LayerPart> {
        let parts = self.parts.iter().rev();
        parts.filter(move |part| part.mask(word) != 0)
    }

    /// When the bytes of a part in a word are present. `first` is the number of the first grain of the layer.
    pub(super) fn presence(&self, part: &LayerPart, word: usize, first: Grain) -> Presence {
        let tearing = self.history.tearing;
        let grain = part.grain.map(|grain| {
            let in_part = match tearing {
                Tearing::Whole => 0,
                Tearing::Words => part.words().take_while(|&other| other < word).count() as u32,
            };
            first + grain + in_part
        });
        match (part.step, grain) {
            (Some(step), torn) => Presence::InSequence { step, torn },
            (None, Some(grain)) => Presence::Optional(grain),
            (None, None) => Presence::Always,
        }
    }

    /// The values of a part in a word; only those of its [mask](LayerPart::mask) count.
    pub(super) fn values(&self, part: &LayerPart, word: usize) -> Word {
        let (start, bytes) = (
            usize::from(part.record.start),
            self.history.bytes(&part.record),
        );
        std::array::from_fn(|byte| {
            let at = (word * WORD + byte).checked_sub(start);
            at.and_then(|at| bytes.get(at)).copied().unwrap_or(0)
        })
    }
}
