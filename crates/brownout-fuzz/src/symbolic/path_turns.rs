//! The turns of a path: where it went at each choice that depends on the input.
//!
//! Paths are equal if their turns are, and the values that replay has made concrete on the way: with another value, the same turns can lead elsewhere. An input that was solved to go elsewhere at one turn must make the same turns before it and another one there; if it
//! does not, replay or the solver has missed something, and the input *diverges*.

use brownout_symex::{Constraint, ConstraintKind, ReplayedPath};
use rustc_hash::FxHashMap;

use crate::feedback::bucket;

/// Mixes a word into a hash.
pub fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_add(word)
}

/// One choice, and what was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    pub pc: u64,
    pub way: u64,
}

impl Turn {
    const NOT_TAKEN: u64 = 0;
    const TAKEN: u64 = 1;
    const UNEQUAL: u64 = 2;
    const EQUAL: u64 = 3;
    const NO_FAULT: u64 = 4;
    /// The targets of indirect branches that were not seen.
    const ELSEWHERE: u64 = 5;

    /// The turn of a constraint; `None` if it is no choice.
    fn of(constraint: &Constraint) -> Option<Self> {
        let way = match constraint.kind {
            ConstraintKind::Branch { taken: true, .. } => Self::TAKEN,
            ConstraintKind::Branch { taken: false, .. } => Self::NOT_TAKEN,
            ConstraintKind::Comparison { equal: true } => Self::EQUAL,
            ConstraintKind::Comparison { equal: false } => Self::UNEQUAL,
            ConstraintKind::NoFault => Self::NO_FAULT,
            ConstraintKind::Target { to } => to,
            ConstraintKind::Concretised(_) => return None,
        };
        let pc = constraint.pc;
        Some(Self { pc, way })
    }

    /// The turn that another input would make there.
    pub fn other(self) -> Self {
        let way = match self.way {
            Self::NOT_TAKEN => Self::TAKEN,
            Self::TAKEN => Self::NOT_TAKEN,
            Self::UNEQUAL => Self::EQUAL,
            Self::EQUAL => Self::UNEQUAL,
            _ => Self::ELSEWHERE,
        };
        Self { way, ..self }
    }
}

/// A turn of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathTurn {
    pub turn: Turn,
    /// The index of the constraint that it comes from.
    pub constraint: usize,
    /// What the path was before it, as a hash.
    pub before: u64,
    /// How often the path has made the same turn before, in buckets.
    pub bucket: u8,
    /// How often it has turned the other way before.
    pub other_bucket: u8,
}

/// The turns of a path.
pub struct PathTurns {
    turns: Vec<PathTurn>,
    hash: u64,
}

impl PathTurns {
    pub fn of(path: &ReplayedPath) -> Self {
        let mut found = Self {
            turns: Vec::new(),
            hash: 0,
        };
        let mut made: FxHashMap<Turn, u32> = FxHashMap::default();
        for (index, constraint) in path.constraints.iter().enumerate() {
            match Turn::of(constraint) {
                Some(turn) => found.add(turn, index, &mut made),
                None => found.hash = mix(found.hash, path.dag.fingerprint(constraint.holds)),
            }
        }
        found
    }

    fn add(&mut self, turn: Turn, constraint: usize, made: &mut FxHashMap<Turn, u32>) {
        let times = |turn| made.get(&turn).copied().unwrap_or(0);
        self.turns.push(PathTurn {
            turn,
            constraint,
            before: self.hash,
            bucket: bucket(times(turn) + 1),
            other_bucket: bucket(times(turn.other()) + 1),
        });
        *made.entry(turn).or_default() += 1;
        self.hash = mix(mix(self.hash, turn.pc), turn.way);
    }

    /// Equal for equal paths.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// All turns, in order.
    pub fn turns(&self) -> &[PathTurn] {
        &self.turns
    }

    /// Whether this path is the one that an input was solved for.
    pub fn follows(&self, prediction: &Prediction) -> bool {
        match self.turns.get(prediction.number) {
            Some(made) => {
                made.before == prediction.before
                    && made.turn.pc == prediction.turn.pc
                    && made.turn.way != prediction.turn.way
            }
            // A division that was solved to fault ends the path.
            None => {
                prediction.turn.way == Turn::NO_FAULT
                    && self.turns.len() == prediction.number
                    && self.hash == prediction.before
            }
        }
    }
}

/// What an input was solved for: the same turns up to one, and another one there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    pub number: usize,
    /// The turn that it was not to make.
    pub turn: Turn,
    pub before: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(ways: &[(u64, u64)]) -> PathTurns {
        let mut turns = PathTurns {
            turns: Vec::new(),
            hash: 0,
        };
        let mut made = FxHashMap::default();
        for (index, &(pc, way)) in ways.iter().enumerate() {
            turns.add(Turn { pc, way }, index, &mut made);
        }
        turns
    }

    #[test]
    fn an_input_follows_its_prediction_if_only_the_last_turn_differs() {
        let path = turns(&[(1, 0), (2, 1), (3, 0)]);
        let made = path.turns()[1];
        let prediction = Prediction {
            number: 1,
            turn: made.turn,
            before: made.before,
        };
        assert!(turns(&[(1, 0), (2, 0), (9, 9)]).follows(&prediction));
        assert!(!path.follows(&prediction));
        assert!(!turns(&[(1, 1), (2, 0)]).follows(&prediction));
        assert!(!turns(&[(1, 0)]).follows(&prediction));
    }

    #[test]
    fn turns_are_counted_for_each_way() {
        let path = turns(&[(1, 0), (1, 0), (1, 1)]);
        let buckets = path
            .turns()
            .iter()
            .map(|made| (made.bucket, made.other_bucket));
        let once = bucket(1);
        assert_eq!(
            buckets.collect::<Vec<_>>(),
            [(once, once), (bucket(2), once), (once, bucket(3))]
        );
    }

    #[test]
    fn the_order_of_turns_matters() {
        let one = turns(&[(1, 0), (1, 1)]).hash();
        assert_ne!(one, turns(&[(1, 1), (1, 0)]).hash());
        assert_ne!(one, turns(&[]).hash());
    }
}
