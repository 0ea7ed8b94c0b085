//! The states that a crash can leave of one unit: a prefix of its store sequence within an interval, and any subset of
//! the non-temporal stores without a later fence.
//!
//! Reading narrows the states: once recovery has read a byte from one store, other bytes of the unit must be
//! consistent with it (Jaaru, Figs. 9 and 10). If stores can tear, the last store of the prefix can be present in only
//! some of its 8-byte words; the interval is therefore kept per word.

use std::ops::RangeInclusive;

use crate::address::{LINE, PmAddress, Time};
use crate::byte_mask::ByteMask;

/// Whether a crash can keep part of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tearing {
    /// The part of a store in one unit is kept or lost as a whole.
    #[default]
    Whole,
    /// Each aligned 8-byte word is kept or lost separately.
    Words,
}

impl Tearing {
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Words => "words",
        }
    }

    /// The tearing with this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = [Self::Whole, Self::Words].into_iter();
        all.find(|tearing| tearing.name() == name)
    }
}

/// A store, or the part of a store in one line, that is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// When the store was issued.
    pub time: Time,
    /// The address of the line.
    pub line: PmAddress,
    /// The bytes stored.
    pub bytes: ByteMask,
    /// What the observer keeps with the store.
    pub tag: T,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Present in every state.
    Guaranteed,
    /// The index in the sequence of stores that may be lost.
    Step(usize),
    /// A non-temporal store, with the words that are known to be present or absent.
    Optional { present: u8, absent: u8 },
}

/// When a part is present after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Always.
    Guaranteed,
    /// If all earlier stores of the sequence are present.
    InSequence,
    /// Independently of other stores.
    Optional,
}

/// The store that a byte comes from after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The settled value, older than all parts of the unit.
    Settled,
    /// The part with this index in [`UnitStates::parts`].
    Part(usize),
}

/// The bytes of a part that are present in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the part in [`UnitStates::parts`].
    pub part: usize,
    /// The bytes that are present.
    pub bytes: ByteMask,
}

/// One state that a crash can leave of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    /// The pieces to apply to the settled bytes, in this order.
    pub pieces: Vec<Piece>,
}

/// All states that a crash can leave of a unit.
#[derive(Clone, Debug)]
pub struct UnitStates<T> {
    address: PmAddress,
    tearing: Tearing,
    parts: Vec<Part<T>>,
    steps: usize,
    /// For each word of the unit, the minimum and maximum number of steps that are present.
    bounds: Vec<(usize, usize)>,
}

const WORD: u64 = 8;

impl<T> UnitStates<T> {
    /// `parts` are in the order of issue; the parts of one store are adjacent.
    pub(crate) fn new(
        address: PmAddress,
        unit: u64,
        tearing: Tearing,
        parts: impl IntoIterator<Item = (Time, PmAddress, ByteMask, Presence, T)>,
    ) -> Self {
        let mut last = None;
        let mut steps = 0;
        let parts: Vec<Part<T>> = parts
            .into_iter()
            .map(|(time, line, bytes, presence, tag)| {
                let role = match presence {
                    Presence::Guaranteed => Role::Guaranteed,
                    Presence::Optional => Role::Optional {
                        present: 0,
                        absent: 0,
                    },
                    Presence::InSequence => {
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

    /// The address of the unit.
    pub fn address(&self) -> PmAddress {
        self.address
    }

    /// The stores that are not settled, in the order of issue.
    pub fn parts(&self) -> &[Part<T>] {
        &self.parts
    }

    /// The minimum and maximum number of stores of the sequence that are present. Empty if contradictory
    /// [choices](Self::choose) were made.
    pub fn interval(&self) -> RangeInclusive<usize> {
        let lower = self.bounds.iter().map(|bound| bound.0).max().unwrap_or(0);
        let upper = self.bounds.iter().map(|bound| bound.1).min().unwrap_or(0);
        match self.tearing {
            Tearing::Whole => lower..=upper,
            // A torn store is not counted.
            Tearing::Words => lower.saturating_sub(1)..=upper,
        }
    }

    /// The stores that byte number `byte` of the unit can come from, oldest first.
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

    /// Narrows the states to those in which byte number `byte` of the unit comes from `source`.
    ///
    /// ```
    /// use brownout_model::*;
    ///
    /// # struct Ignore;
    /// # impl PersistObserver for Ignore {
    /// #     type Store = ();
    /// #     type Flush = ();
    /// #     const HISTORY: bool = true;
    /// #     fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, _: &LiveStore<()>, _: Access) {}
    /// # }
    /// // `Ignore` is an observer with history. Two stores to one line: bytes 0 to 7, then bytes 8 to 15.
    /// let mut tracker = Tracker::<Ignore>::new(Profile::ADR);
    /// let thread = tracker.add_thread();
    /// let address = PmAddress { space: SpaceId(0), offset: 0 };
    /// let line = tracker.line(address);
    /// for (time, start) in [(1, 0), (2, 8)] {
    ///     let by = Access { thread, time: Time(time) };
    ///     let bytes = ByteMask::range(start, 8);
    ///     tracker.store(&mut Ignore, by, line, bytes, StoreKind::Cached, ());
    /// }
    /// let mut states = tracker.crash_states(Tearing::Whole);
    /// let unit = states.unit_mut(address).unwrap();
    /// assert_eq!(unit.sources(0), [Source::Settled, Source::Part(0)]);
    ///
    /// // Recovery reads byte 8 and finds the second store: the first one must be present too.
    /// unit.choose(8, Source::Part(1));
    /// assert_eq!(unit.sources(0), [Source::Part(0)]);
    /// assert_eq!(unit.states().len(), 1);
    /// ```
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
                    Role::Optional { present, .. } => *present |= bit,
                }
                part + 1
            }
        };
        for part in first..self.parts.len() {
            if !self.covers(part, byte) {
                continue;
            }
            match &mut self.parts[part].role {
                // It overwrites the source in every state.
                Role::Guaranteed => self.bounds[word] = (1, 0),
                Role::Step(step) => {
                    let most = *step;
                    self.bounds[word].1 = self.bounds[word].1.min(most);
                }
                Role::Optional { absent, .. } => *absent |= bit,
            }
        }
    }

    /// Whether every crash leaves this part.
    pub fn is_guaranteed(&self, part: usize) -> bool {
        self.parts[part].role == Role::Guaranteed
    }

    /// Whether a crash keeps or loses this part independently of all others.
    pub fn is_optional(&self, part: usize) -> bool {
        matches!(self.parts[part].role, Role::Optional { .. })
    }

    /// The state with exactly the parts for which `present` holds, none of them torn; `None` if a crash cannot leave it.
    pub fn state_with(&self, present: impl Fn(usize) -> bool) -> Option<UnitState> {
        self.state_of(|part| match present(part) {
            true => self.parts[part].bytes,
            false => ByteMask::NONE,
        })
    }

    /// The state with exactly these bytes of each part; `None` if a crash cannot leave it.
    pub fn state_of(&self, present: impl Fn(usize) -> ByteMask) -> Option<UnitState> {
        let present: Vec<ByteMask> = (0..self.parts.len()).map(present).collect();
        // The first store of the sequence that is not complete; it may be torn.
        let incomplete = self
            .parts
            .iter()
            .zip(&present)
            .filter_map(|(part, &bytes)| match part.role {
                Role::Step(step) if bytes != part.bytes => Some(step),
                _ => None,
            });
        let whole = incomplete.min().unwrap_or(self.steps);
        let mut torn = Vec::new();
        for (part, &bytes) in self.parts.iter().zip(&present) {
            if part.role == Role::Step(whole) {
                let words = self.words_of(part);
                let words = words.filter(|&(word, _)| !bytes.and(ByteMask::word(word)).is_empty());
                torn.extend(words.map(|(_, word)| word));
            }
        }
        let can_tear = self.tearing == Tearing::Words || torn.is_empty();
        if !can_tear || !self.agrees(whole, &torn) {
            return None;
        }
        let mut state = UnitState::default();
        for (number, (part, bytes)) in self.parts.iter().zip(present).enumerate() {
            if !self.choices(part, whole, &torn).contains(&bytes) {
                return None;
            }
            if !bytes.is_empty() {
                let part = number;
                state.pieces.push(Piece { part, bytes });
            }
        }
        Some(state)
    }

    /// All states, without duplicates.
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

    /// Whether any state remains.
    pub fn is_possible(&self) -> bool {
        let consistent = self.parts.iter().all(|part| match part.role {
            Role::Optional { present, absent } => match self.tearing {
                Tearing::Whole => present == 0 || absent == 0,
                Tearing::Words => present & absent == 0,
            },
            _ => true,
        });
        consistent && (0..=self.steps).any(|whole| self.can_be_torn_at(whole))
    }

    /// Whether the first `whole` stores can be present, with any words of the next store.
    fn can_be_torn_at(&self, whole: usize) -> bool {
        let torn = self.words_of_step(whole);
        self.bounds
            .iter()
            .enumerate()
            .all(|(word, &(least, most))| {
                let more = usize::from(torn.contains(&word));
                // Contradictory bounds can enclose both numbers of steps, and allow neither.
                least <= most && least <= whole + more && whole <= most
            })
    }

    fn covers(&self, part: usize, byte: u64) -> bool {
        let part = &self.parts[part];
        let start = part.line.offset - self.address.offset;
        byte >= start && byte - start < LINE && part.bytes.contains((byte - start) as u32)
    }

    /// The sets of words of which the store after the first `whole` ones can be present, the empty set first. The
    /// set of all its words is not included: that is one more whole store.
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

    /// The words of the unit at which a store of the sequence can be torn.
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

    /// The words that a part covers: number in the line and number in the unit.
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

    /// The bytes of a part that can be present, given the number of whole stores and the torn words.
    fn choices(&self, part: &Part<T>, whole: usize, torn: &[usize]) -> Vec<ByteMask> {
        match part.role {
            Role::Guaranteed => vec![part.bytes],
            Role::Step(step) if step < whole => vec![part.bytes],
            Role::Step(step) if step > whole => vec![ByteMask::NONE],
            Role::Step(_) => {
                let present = self.words_of(part).filter(|(_, word)| torn.contains(word));
                let words = present.map(|(word, _)| ByteMask::word(word));
                let mask = words.fold(ByteMask::NONE, ByteMask::or);
                vec![part.bytes.and(mask)]
            }
            Role::Optional { present, absent } => {
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
