//! The directions of a path: where it went at each choice that depends on the input.
//!
//! Paths are equal if their directions are, and the values that replay has made concrete on the way: with another value, the same
//! directions can lead elsewhere. An input that was solved for another direction at one choice must take the same ones before it and
//! another one there; if it does not, replay or the solver has missed something, and the input *diverges*.

use brownout_symex::{Constraint, ConstraintKind, ReplayedPath};
use rustc_hash::FxHashMap;

use crate::feedback::bucket;

/// Mixes a word into the hash of a path.
pub fn path_hash(hash: u64, word: u64) -> u64 {
    (hash ^ word)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_add(word)
}

/// One choice, and what was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direction {
    pub pc: u64,
    pub way: u64,
}

impl Direction {
    const NOT_TAKEN: u64 = 0;
    const TAKEN: u64 = 1;
    const UNEQUAL: u64 = 2;
    const EQUAL: u64 = 3;
    const NO_FAULT: u64 = 4;
    /// The targets of indirect branches that were not seen.
    const ELSEWHERE: u64 = 5;

    /// The direction of a constraint; `None` if it is no choice.
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

    /// The direction that another input would take there.
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

/// A direction of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathDirection {
    pub direction: Direction,
    /// The index of the constraint that it comes from.
    pub constraint: usize,
    /// What the path was before it, as a hash.
    pub before: u64,
    /// How often the path has taken it up to here, in buckets.
    pub bucket: u8,
    /// How often it would then have taken the other one.
    pub other_bucket: u8,
}

/// The directions of a path.
pub struct PathDirections {
    directions: Vec<PathDirection>,
    hash: u64,
}

impl PathDirections {
    pub fn of(path: &ReplayedPath) -> Self {
        let mut found = Self {
            directions: Vec::new(),
            hash: 0,
        };
        let mut made: FxHashMap<Direction, u32> = FxHashMap::default();
        for (index, constraint) in path.constraints.iter().enumerate() {
            match Direction::of(constraint) {
                Some(direction) => found.add(direction, index, &mut made),
                None => found.hash = path_hash(found.hash, path.dag.fingerprint(constraint.holds)),
            }
        }
        found
    }

    fn add(
        &mut self,
        direction: Direction,
        constraint: usize,
        made: &mut FxHashMap<Direction, u32>,
    ) {
        let times = |direction| made.get(&direction).copied().unwrap_or(0);
        self.directions.push(PathDirection {
            direction,
            constraint,
            before: self.hash,
            bucket: bucket(times(direction) + 1),
            other_bucket: bucket(times(direction.other()) + 1),
        });
        *made.entry(direction).or_default() += 1;
        self.hash = path_hash(path_hash(self.hash, direction.pc), direction.way);
    }

    /// Equal for equal paths.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// All directions, in order.
    pub fn directions(&self) -> &[PathDirection] {
        &self.directions
    }

    /// Whether this path is the one that an input was solved for.
    pub fn follows(&self, prediction: &Prediction) -> bool {
        match self.directions.get(prediction.number) {
            Some(made) => {
                made.before == prediction.before
                    && made.direction.pc == prediction.direction.pc
                    && made.direction.way != prediction.direction.way
            }
            // A division that was solved to fault ends the path.
            None => {
                prediction.direction.way == Direction::NO_FAULT
                    && self.directions.len() == prediction.number
                    && self.hash == prediction.before
            }
        }
    }
}

/// What an input was solved for: the same directions up to one, and another one there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    pub number: usize,
    /// The direction that it was not to take.
    pub direction: Direction,
    pub before: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directions(ways: &[(u64, u64)]) -> PathDirections {
        let mut directions = PathDirections {
            directions: Vec::new(),
            hash: 0,
        };
        let mut made = FxHashMap::default();
        for (index, &(pc, way)) in ways.iter().enumerate() {
            directions.add(Direction { pc, way }, index, &mut made);
        }
        directions
    }

    #[test]
    fn an_input_follows_its_prediction_if_only_the_last_turn_differs() {
        let path = directions(&[(1, 0), (2, 1), (3, 0)]);
        let made = path.directions()[1];
        let prediction = Prediction {
            number: 1,
            direction: made.direction,
            before: made.before,
        };
        assert!(directions(&[(1, 0), (2, 0), (9, 9)]).follows(&prediction));
        assert!(!path.follows(&prediction));
        assert!(!directions(&[(1, 1), (2, 0)]).follows(&prediction));
        assert!(!directions(&[(1, 0)]).follows(&prediction));
    }

    #[test]
    fn turns_are_counted_for_each_way() {
        let path = directions(&[(1, 0), (1, 0), (1, 1)]);
        let buckets = path
            .directions()
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
        let one = directions(&[(1, 0), (1, 1)]).hash();
        assert_ne!(one, directions(&[(1, 1), (1, 0)]).hash());
        assert_ne!(one, directions(&[]).hash());
    }
}
