//! Which bytes a load can see in one unit (Jaaru, Fig. 9, BuildMayReadFrom and ReadPreFailure), and the states that are left
//! once it has seen them (Fig. 10, DoRead and UpdateRanges).
//!
//! Jaaru chooses a store for each byte. Here the choice is among the bytes that the load returns as a whole: stores of equal
//! bytes need no choice, and bytes that cannot be seen together are never combined. A byte comes from the newest store that
//! is present: of the latest run, else of the run before it, and so on, else from the initial content.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::known_bytes::{WORD, Word, WordMask, copy_word};
use super::state_set::{Cube, StateSet, unite};
use super::unit_layer::Presence;
use crate::address::Time;

/// Bytes that a load can see in a unit, and the states that show them.
#[derive(Clone, Debug)]
pub(super) struct UnitRead {
    pub(super) bytes: Vec<u8>,
    pub(super) states: Arc<StateSet>,
}

/// What is certain about one word of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordRead {
    /// The number of the word in the unit.
    pub(super) word: usize,
    /// The bytes that the load reads.
    pub(super) wanted: WordMask,
    /// Those of them that recovery wrote itself; they are in `base`.
    pub(super) own: WordMask,
    /// What a byte is if no run stored it, and recovery's own bytes.
    pub(super) base: Word,
}

/// What bytes of a load can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadSource {
    /// Stores that were settled when their run crashed, or the initial content.
    Settled,
    /// A store that is not settled.
    Store {
        /// The number of the run that crashed: 0 is the target, the others are recoveries.
        run: usize,
        /// When the run issued the store.
        issued: Time,
    },
}

/// What a byte of a word can come from, newest first.
struct Origin {
    source: ReadSource,
    presence: Presence,
    /// The number of the layer.
    layer: usize,
    mask: WordMask,
    values: Word,
}

/// All distinct bytes that a load can see, newest stores first. Each has the states of `states` that show it; together they
/// are all of `states`.
pub(super) fn reads(states: &Arc<StateSet>, words: &[WordRead]) -> Vec<UnitRead> {
    let mut found = vec![(Vec::new(), states.cubes().to_vec())];
    for read in words {
        let origins = origins(states, read);
        let mut next: Vec<(Vec<u8>, Vec<Cube>)> = Vec::new();
        for (bytes, cubes) in found {
            let mut seen: FxHashMap<Word, usize> = FxHashMap::default();
            for cube in cubes {
                let mut reader = WordReader {
                    origins: &origins,
                    used: &mut |_| {},
                    seen: &mut |value, _, cube| {
                        let at = *seen.entry(value).or_insert_with(|| {
                            let bytes = bytes.iter().copied().chain(selected(&value, read.wanted));
                            next.push((bytes.collect(), Vec::new()));
                            next.len() - 1
                        });
                        next[at].1.push(cube);
                    },
                };
                reader.read(cube, read.wanted & !read.own, start(read), 0);
            }
        }
        next.iter_mut().for_each(|(_, cubes)| unite(cubes));
        found = next;
    }
    if let [(bytes, _)] = &mut found[..] {
        // The load distinguishes no states.
        let states = states.clone();
        let bytes = std::mem::take(bytes);
        return vec![UnitRead { bytes, states }];
    }
    let found = found.into_iter();
    found
        .map(|(bytes, cubes)| UnitRead {
            bytes,
            states: Arc::new(states.narrowed(cubes)),
        })
        .collect()
}

/// What the bytes of a load can come from.
pub(super) fn sources(states: &StateSet, words: &[WordRead]) -> BTreeSet<ReadSource> {
    let mut found = BTreeSet::new();
    for read in words {
        let origins = origins(states, read);
        let mut used = vec![false; origins.len()];
        let mut initial = false;
        for cube in states.cubes() {
            let mut reader = WordReader {
                origins: &origins,
                used: &mut |origin| used[origin] = true,
                seen: &mut |_, missing, _| initial |= missing != 0,
            };
            reader.read(cube.clone(), read.wanted & !read.own, start(read), 0);
        }
        let origins = origins.iter().zip(used).filter(|(_, used)| *used);
        found.extend(origins.map(|(origin, _)| origin.source));
        found.extend(initial.then_some(ReadSource::Settled));
    }
    found
}

/// The word before any store is looked at. Bytes that are not wanted are zero, so that they do not distinguish values.
fn start(read: &WordRead) -> Word {
    let mut word = Word::default();
    copy_word(&mut word, &read.base, read.wanted);
    word
}

fn selected(word: &Word, mask: WordMask) -> impl Iterator<Item = u8> {
    let word = *word;
    (0..WORD)
        .filter(move |byte| mask >> byte & 1 != 0)
        .map(move |byte| word[byte])
}

/// What the bytes of a word can come from, up to the first origin below which nothing shows.
fn origins(states: &StateSet, read: &WordRead) -> Vec<Origin> {
    let mut open = read.wanted & !read.own;
    let mut found = Vec::new();
    for (number, first_grain, layer) in states.layers() {
        let parts = layer.parts_of(read.word).map(|part| Origin {
            source: ReadSource::Store {
                run: layer.run,
                issued: part.issued(),
            },
            presence: layer.presence(part, read.word, first_grain),
            layer: number,
            mask: part.mask(read.word),
            values: layer.values(part, read.word),
        });
        let (mask, values) = layer.settled(read.word);
        let settled = Origin {
            source: ReadSource::Settled,
            presence: Presence::Always,
            layer: number,
            mask,
            values: values.try_into().expect("a word has eight bytes"),
        };
        for origin in parts.chain([settled]) {
            if open & origin.mask == 0 {
                continue;
            }
            if origin.presence == Presence::Always {
                open &= !origin.mask;
            }
            found.push(origin);
        }
    }
    found
}

/// Splits a cube by what a word shows in its states.
struct WordReader<'a> {
    origins: &'a [Origin],
    /// Is called with the number of an origin that shows in some state.
    used: &'a mut dyn FnMut(usize),
    /// Is called with each value of the word, its bytes that come from no origin, and states that show it.
    seen: &'a mut dyn FnMut(Word, WordMask, Cube),
}

impl WordReader<'_> {
    /// `missing` bytes of the word are not found yet; origins before number `at` have been looked at.
    fn read(&mut self, mut cube: Cube, missing: WordMask, word: Word, mut at: usize) {
        while let Some(number) = self.next(missing, at) {
            let origin = &self.origins[number];
            at = number + 1;
            let found = missing & origin.mask;
            let mut with = word;
            copy_word(&mut with, &origin.values, found);
            let split = origin.split(cube);
            for cube in split.present.into_iter().flatten() {
                (self.used)(number);
                self.read(cube, missing & !found, with, at);
            }
            if let Some(cube) = split.torn_away {
                self.read(cube, missing, word, at);
            }
            let Some(absent) = split.absent else {
                return;
            };
            cube = absent;
        }
        (self.seen)(word, missing, cube);
    }

    /// The first origin from number `at` on that has one of the `missing` bytes.
    fn next(&self, missing: WordMask, at: usize) -> Option<usize> {
        if missing == 0 {
            return None;
        }
        let mut origins = self.origins[at..].iter();
        let next = origins.position(|origin| origin.mask & missing != 0)?;
        Some(at + next)
    }
}

/// The states of a cube by whether an origin is present.
#[derive(Default)]
struct Split {
    present: [Option<Cube>; 2],
    absent: Option<Cube>,
    /// The store is present in part, without this word.
    torn_away: Option<Cube>,
}

impl Origin {
    fn split(&self, cube: Cube) -> Split {
        match self.presence {
            Presence::Always => Split {
                present: [Some(cube), None],
                ..Split::default()
            },
            Presence::Optional(grain) => {
                let (absent, present) = cube.split_grain(grain);
                Split {
                    present: [present, None],
                    absent,
                    torn_away: None,
                }
            }
            Presence::InSequence { step, torn } => {
                let (up_to, more) = cube.split(self.layer, step + 1);
                let Some(grain) = torn else {
                    return Split {
                        present: [more, None],
                        absent: up_to,
                        torn_away: None,
                    };
                };
                let (fewer, exactly) =
                    up_to.map_or((None, None), |cube| cube.split(self.layer, step));
                let (without, with) = exactly.map_or((None, None), |cube| cube.split_grain(grain));
                Split {
                    present: [more, with],
                    absent: fewer,
                    torn_away: without,
                }
            }
        }
    }
}
