//! The turns of a path: where it went at each choice that depends on the input.
//!
//! Paths are equal if their turns are. An input that was solved to go elsewhere at one turn must make the same turns before it and another one there; if it
//! does not, replay or the solver has missed something, and the input *diverges*.

use brownout_symex::{Constraint, ConstraintKind};

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
    /// The turn of a constraint; `None` if it is no choice.
    fn of(constraint: &Constraint) -> Option<Self> {
        let way = match constraint.kind {
            ConstraintKind::Branch { taken, .. } => u64::from(taken),
            ConstraintKind::Comparison { equal } => 2 + u64::from(equal),
            ConstraintKind::NoFault => 4,
            ConstraintKind::Target { to } => to,
            ConstraintKind::Concretised(_) => return None,
        };
        let pc = constraint.pc;
        Some(Self { pc, way })
    }
}

/// The turns of a path, each with the constraint that it comes from and the hash of all before it.
pub struct PathTurns {
    turns: Vec<(Turn, usize, u64)>,
    hash: u64,
}

impl PathTurns {
    pub fn of(constraints: &[Constraint]) -> Self {
        let mut hash = 0;
        let turns = constraints.iter().enumerate();
        let turns = turns.filter_map(|(index, constraint)| {
            let turn = Turn::of(constraint)?;
            let before = hash;
            hash = mix(mix(hash, turn.pc), turn.way);
            Some((turn, index, before))
        });
        let turns = turns.collect();
        Self { turns, hash }
    }

    /// Equal for equal paths.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The turns from a number on: the number, the turn, the index of its constraint, and the hash of all turns before it.
    pub fn from(&self, bound: usize) -> impl Iterator<Item = (usize, Turn, usize, u64)> + '_ {
        let turns = self.turns.iter().enumerate().skip(bound);
        turns.map(|(number, &(turn, index, before))| (number, turn, index, before))
    }

    /// Whether this path is the one that an input was solved for.
    pub fn follows(&self, prediction: &Prediction) -> bool {
        match self.turns.get(prediction.number) {
            Some((turn, _, before)) => {
                *before == prediction.before
                    && turn.pc == prediction.turn.pc
                    && turn.way != prediction.turn.way
            }
            // A division that was solved to fault ends the path.
            None => {
                prediction.turn.way == 4
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
        let mut hash = 0;
        let turns = ways.iter().enumerate().map(|(index, &(pc, way))| {
            let before = hash;
            hash = mix(mix(hash, pc), way);
            (Turn { pc, way }, index, before)
        });
        let turns = turns.collect();
        PathTurns { turns, hash }
    }

    #[test]
    fn an_input_follows_its_prediction_if_only_the_last_turn_differs() {
        let path = turns(&[(1, 0), (2, 1), (3, 0)]);
        let (number, turn, _, before) = path.from(1).next().unwrap();
        let prediction = Prediction {
            number,
            turn,
            before,
        };
        assert!(turns(&[(1, 0), (2, 0), (9, 9)]).follows(&prediction));
        assert!(!path.follows(&prediction));
        assert!(!turns(&[(1, 1), (2, 0)]).follows(&prediction));
        assert!(!turns(&[(1, 0)]).follows(&prediction));
    }

    #[test]
    fn the_order_of_turns_matters() {
        let one = turns(&[(1, 0), (1, 1)]).hash();
        assert_ne!(one, turns(&[(1, 1), (1, 0)]).hash());
        assert_ne!(one, turns(&[]).hash());
    }
}
