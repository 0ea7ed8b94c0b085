//! What a crash can leave of one unit: an interval of its store sequence, and any of the non-temporal
//! stores that no fence has followed.
//!
//! Reading narrows: once recovery has seen which store a byte comes from, later bytes of the unit
//! must agree with it (Jaaru, Figs. 9 and 10). Where stores may tear, one store of the sequence, the
//! last that is there, can be there in some of its 8-byte words only; bounds are therefore kept for each word.

use std::ops::RangeInclusive;

use crate::address::{LINE, PmAddress, Time};
use crate::byte_mask::ByteMask;

/// Whether a store inside a unit can be left in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tearing {
    /// A store inside a unit is there or not.
    #[default]
    Whole,
    /// Aligned words of 8 bytes are there or not.
    Words,
}

/// A store, or the part of one in one line, that a crash may leave or lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    pub time: Time,
    /// The start of its line.
    pub line: PmAddress,
    pub bytes: ByteMask,
    pub tag: T,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// There in any case.
    Guaranteed,
    /// Number in the sequence of stores that may be lost.
    Step(usize),
    /// A non-temporal store, with the words that are known to be there or not.
    Loose { present: u8, absent: u8 },
}

/// How a part takes part in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Guaranteed,
    Sequence,
    Loose,
}

/// Where a byte can come from after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// What was settled before any part of the unit.
    Settled,
    /// The part of that number.
    Part(usize),
}

/// Bytes of a part that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub part: usize,
    pub bytes: ByteMask,
}

/// One thing that a crash can leave of a unit: what to lay over the settled bytes, in that order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    pub pieces: Vec<Piece>,
}

/// All that a crash can leave of a unit.
#[derive(Clone, Debug)]
pub struct UnitStates<T> {
    address: PmAddress,
    tearing: Tearing,
    parts: Vec<Part<T>>,
    steps: usize,
    /// For each word of the unit how many steps it has at least, and at most.
    bounds: Vec<(usize, usize)>,
}

const WORD: u64 = 8;

impl<T> UnitStates<T> {
    /// `parts` in the order of issue, those of one store together.
    pub(crate) fn new(
        address: PmAddress,
        unit: u64,
        tearing: Tearing,
        parts: impl IntoIterator<Item = (Time, PmAddress, ByteMask, Standing, T)>,
    ) -> Self {
        let mut last = None;
        let mut steps = 0;
        let parts: Vec<Part<T>> = parts
            .into_iter()
            .map(|(time, line, bytes, standing, tag)| {
                let role = match standing {
                    Standing::Guaranteed => Role::Guaranteed,
                    Standing::Loose => Role::Loose {
                        present: 0,
                        absent: 0,
                    },
                    Standing::Sequence => {
                        steps += usize::from(last != Some(time));
                        last = Some(time);
                        Role::Step(steps - 1)
                    }
                };
                Part {
                    time,
                    line,
                    bytes,
                    tag,
                    role,
                }
            })
            .collect();
        UnitStates {
            address,
            tearing,
            parts,
            steps,
            bounds: vec![(0, steps); (unit / WORD) as usize],
        }
    }

    /// The start of the unit.
    pub fn address(&self) -> PmAddress {
        self.address
    }

    /// The stores that are not settled, in the order of issue.
    pub fn parts(&self) -> &[Part<T>] {
        &self.parts
    }

    /// How many stores of the sequence are there at least, and at most. Empty when what was
    /// [chosen](Self::choose) contradicts itself.
    pub fn interval(&self) -> RangeInclusive<usize> {
        let lower = self.bounds.iter().map(|bound| bound.0).max().unwrap_or(0);
        let upper = self.bounds.iter().map(|bound| bound.1).min().unwrap_or(0);
        match self.tearing {
            Tearing::Whole => lower..=upper,
            // The store that is torn is not counted.
            Tearing::Words => lower.saturating_sub(1)..=upper,
        }
    }

    /// Where the byte `byte` of the unit can come from, the oldest first.
    pub fn sources(&self, byte: u64) -> Vec<Source>
    where
        T: Clone,
    {
        let parts = (0..self.parts.len()).filter(|&part| self.covers(part, byte));
        std::iter::once(Source::Settled)
            .chain(parts.map(Source::Part))
            .filter(|&source| {
                let mut narrowed = self.clone();
                narrowed.choose(byte, source);
                narrowed.is_possible()
            })
            .collect()
    }

    /// Keeps only the states in which the byte `byte` of the unit comes from `source`.
    pub fn choose(&mut self, byte: u64, source: Source) {
        let word = (byte / WORD) as usize;
        let bit = 1 << (byte % LINE / WORD);
        let first = match source {
            Source::Settled => 0,
            Source::Part(part) => {
                match &mut self.parts[part].role {
                    Role::Guaranteed => {}
                    Role::Step(step) => {
                        let least = *step + 1;
                        self.bounds[word].0 = self.bounds[word].0.max(least);
                    }
                    Role::Loose { present, .. } => *present |= bit,
                }
                part + 1
            }
        };
        for part in first..self.parts.len() {
            if !self.covers(part, byte) {
                continue;
            }
            match &mut self.parts[part].role {
                // It hides the source in every state.
                Role::Guaranteed => self.bounds[word] = (1, 0),
                Role::Step(step) => {
                    let most = *step;
                    self.bounds[word].1 = self.bounds[word].1.min(most);
                }
                Role::Loose { absent, .. } => *absent |= bit,
            }
        }
    }

    /// All states, each once.
    pub fn states(&self) -> Vec<UnitState> {
        let mut states = Vec::new();
        for whole in 0..=self.steps {
            for torn in self.torn_words(whole) {
                if self.agrees(whole, &torn) {
                    self.add_states(whole, &torn, &mut states);
                }
            }
        }
        states
    }

    /// Whether any state is left.
    pub fn is_possible(&self) -> bool {
        let loose = self.parts.iter().all(|part| match part.role {
            Role::Loose { present, absent } => match self.tearing {
                Tearing::Whole => present == 0 || absent == 0,
                Tearing::Words => present & absent == 0,
            },
            _ => true,
        });
        loose && (0..=self.steps).any(|whole| self.can_be_torn_at(whole))
    }

    /// Whether the first `whole` stores can be there, and of the next one all, some or none of its words.
    fn can_be_torn_at(&self, whole: usize) -> bool {
        let torn = self.words_of_step(whole);
        self.bounds
            .iter()
            .enumerate()
            .all(|(word, &(least, most))| {
                let more = usize::from(torn.contains(&word));
                least <= whole + more && whole <= most
            })
    }

    fn covers(&self, part: usize, byte: u64) -> bool {
        let part = &self.parts[part];
        let start = part.line.offset - self.address.offset;
        byte >= start && byte - start < LINE && part.bytes.contains((byte - start) as u32)
    }

    /// The ways in which the store after the first `whole` ones can be there in part: sets of words of the
    /// unit, the empty one first. All of its words would be one whole store more.
    fn torn_words(&self, whole: usize) -> Vec<Vec<usize>> {
        let touched = self.words_of_step(whole);
        let sets = 1_u64.checked_shl(touched.len() as u32);
        let sets = sets.unwrap_or(u64::MAX).saturating_sub(1).max(1);
        (0..sets)
            .map(|set| {
                let chosen = touched.iter().enumerate();
                chosen
                    .filter(|(bit, _)| set >> bit & 1 != 0)
                    .map(|(_, &word)| word)
                    .collect()
            })
            .collect()
    }

    /// The words of the unit in which a store of the sequence can be torn.
    fn words_of_step(&self, step: usize) -> Vec<usize> {
        if self.tearing == Tearing::Whole {
            return Vec::new();
        }
        let parts = self.parts.iter();
        parts
            .filter(|part| part.role == Role::Step(step))
            .flat_map(|part| self.words_of(part).map(|(_, word)| word))
            .collect()
    }

    /// The words of its line that a part touches: number in the line and number in the unit.
    fn words_of(&self, part: &Part<T>) -> impl Iterator<Item = (u32, usize)> + use<T> {
        let start = ((part.line.offset - self.address.offset) / WORD) as usize;
        let bytes = part.bytes;
        (0..8)
            .filter(move |&word| !bytes.and(ByteMask::word(word)).is_empty())
            .map(move |word| (word, start + word as usize))
    }

    fn agrees(&self, whole: usize, torn: &[usize]) -> bool {
        self.bounds
            .iter()
            .enumerate()
            .all(|(word, &(least, most))| {
                let steps = whole + usize::from(torn.contains(&word));
                least <= steps && steps <= most
            })
    }

    fn add_states(&self, whole: usize, torn: &[usize], states: &mut Vec<UnitState>) {
        let mut partial = vec![UnitState::default()];
        for (number, part) in self.parts.iter().enumerate() {
            let choices = self.choices(part, whole, torn);
            partial = partial
                .into_iter()
                .flat_map(|state| {
                    choices.iter().map(move |&bytes| {
                        let mut state = state.clone();
                        if !bytes.is_empty() {
                            let part = number;
                            state.pieces.push(Piece { part, bytes });
                        }
                        state
                    })
                })
                .collect();
        }
        states.append(&mut partial);
    }

    /// What can be there of a part when so much of the sequence is.
    fn choices(&self, part: &Part<T>, whole: usize, torn: &[usize]) -> Vec<ByteMask> {
        match part.role {
            Role::Guaranteed => vec![part.bytes],
            Role::Step(step) if step < whole => vec![part.bytes],
            Role::Step(step) if step > whole => vec![ByteMask::NONE],
            Role::Step(_) => {
                let there = self.words_of(part).filter(|(_, word)| torn.contains(word));
                let words = there.map(|(word, _)| ByteMask::word(word));
                let mask = words.fold(ByteMask::NONE, ByteMask::or);
                vec![part.bytes.and(mask)]
            }
            Role::Loose { present, absent } => {
                let grains: Vec<(u8, ByteMask)> = match self.tearing {
                    Tearing::Whole => vec![(u8::MAX, part.bytes)],
                    Tearing::Words => self
                        .words_of(part)
                        .map(|(word, _)| (1 << word, part.bytes.and(ByteMask::word(word))))
                        .collect(),
                };
                let mut choices = vec![ByteMask::NONE];
                for (bits, bytes) in grains {
                    let (must, cannot) = (present & bits != 0, absent & bits != 0);
                    let with = choices.iter().map(|mask| mask.or(bytes));
                    choices = match (must, cannot) {
                        (true, true) => Vec::new(),
                        (true, false) => with.collect(),
                        (false, true) => choices,
                        (false, false) => choices.iter().copied().chain(with).collect(),
                    };
                }
                choices
            }
        }
    }
}
