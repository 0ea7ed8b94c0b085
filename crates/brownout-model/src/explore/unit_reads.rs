//! Which bytes a load can see in one unit (Jaaru, Fig. 9, BuildMayReadFrom and ReadPreFailure), and the states that are left
//! once it has seen them (Fig. 10, DoRead and UpdateRanges).
//!
//! Jaaru chooses a store for each byte. Here the choice is among the bytes that the load returns as a whole: stores of equal
//! bytes need no choice, and bytes that cannot be seen together are never combined. A byte comes from the newest store that
//! is present: of the latest run, else of the run before it, and so on, else from the initial content.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::known_bytes::{WORD, Word, WordMask, copy_word};
use super::state_set::{Cube, StateSet, unite};
use super::unit_layer::Presence;

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

/// What a byte of a word can come from, newest first.
struct Origin {
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
                    seen: &mut |value, cube| {
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
            presence: layer.presence(part, read.word, first_grain),
            layer: number,
            mask: part.mask(read.word),
            values: layer.values(part, read.word),
        });
        let (mask, values) = layer.settled(read.word);
        let settled = Origin {
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
    seen: &'a mut dyn FnMut(Word, Cube),
}

impl WordReader<'_> {
    /// `missing` bytes of the word are not found yet; origins before number `at` have been looked at.
    fn read(&mut self, cube: Cube, mut missing: WordMask, mut word: Word, at: usize) {
        let mut left = Some(cube);
        for (number, origin) in self.origins.iter().enumerate().skip(at) {
            let covered = missing & origin.mask;
            let Some(cube) = left.take() else {
                return;
            };
            if missing == 0 {
                left = Some(cube);
                break;
            }
            if covered == 0 {
                left = Some(cube);
                continue;
            }
            let mut with = word;
            copy_word(&mut with, &origin.values, covered);
            let (absent, present) = match origin.presence {
                Presence::Always => {
                    (missing, word) = (missing & !covered, with);
                    left = Some(cube);
                    continue;
                }
                Presence::Optional(grain) => {
                    let (absent, present) = cube.split_grain(grain);
                    (absent, [present, None])
                }
                Presence::InSequence { step, torn: None } => {
                    let (absent, present) = cube.split(origin.layer, step + 1);
                    (absent, [present, None])
                }
                Presence::InSequence {
                    step,
                    torn: Some(grain),
                } => {
                    let (up_to, present) = cube.split(origin.layer, step + 1);
                    let (below, at) =
                        up_to.map_or((None, None), |cube| cube.split(origin.layer, step));
                    let (untorn, torn) = at.map_or((None, None), |cube| cube.split_grain(grain));
                    if let Some(cube) = untorn {
                        self.read(cube, missing, word, number + 1);
                    }
                    (below, [present, torn])
                }
            };
            for cube in present.into_iter().flatten() {
                self.read(cube, missing & !covered, with, number + 1);
            }
            left = absent;
        }
        if let Some(cube) = left {
            (self.seen)(word, cube);
        }
    }
}
