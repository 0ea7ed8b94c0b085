//! The states of one unit that are still possible: what a crash can leave, narrowed by what was read.
//!
//! A state says of each run on the stack how many stores of its sequence are present, and of each
//! [grain](super::unit_layer::Grain) whether it is. A set of states is a list of [cubes](Cube), which are products: for each
//! run a set of numbers, and for some grains the answer. Reading splits cubes; those that show the same bytes are united and
//! become products again where that is possible, so that a read that distinguishes no states leaves the list as it was.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::step_set::StepSet;
use super::unit_layer::{Grain, UnitLayer};

/// A product of sets: all combinations of the numbers of stores of each layer with the grains that are not fixed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cube {
    /// By layer, how many stores of its sequence are present.
    steps: Vec<StepSet>,
    /// The grains that are present or absent, ordered by number.
    fixed: Vec<(Grain, bool)>,
}

impl Cube {
    /// Splits by the number of stores of a layer: below `number`, and from `number` on.
    pub(super) fn split(mut self, layer: usize, number: u32) -> (Option<Cube>, Option<Cube>) {
        let steps = std::mem::replace(&mut self.steps[layer], StepSet::only(0));
        let (below, from) = steps.split(number);
        let mut other = self.clone();
        self.steps[layer] = below;
        other.steps[layer] = from;
        let some = |cube: Cube| (!cube.steps[layer].is_empty()).then_some(cube);
        (some(self), some(other))
    }

    /// Splits by a grain: absent, and present.
    pub(super) fn split_grain(mut self, grain: Grain) -> (Option<Cube>, Option<Cube>) {
        match self.fixed_as(grain) {
            Some(true) => (None, Some(self)),
            Some(false) => (Some(self), None),
            None => {
                let at = self.fixed.partition_point(|fixed| fixed.0 < grain);
                let mut present = self.clone();
                self.fixed.insert(at, (grain, false));
                present.fixed.insert(at, (grain, true));
                (Some(self), Some(present))
            }
        }
    }

    /// Whether a grain is present, if it is fixed.
    fn fixed_as(&self, grain: Grain) -> Option<bool> {
        let at = self.fixed.binary_search_by_key(&grain, |fixed| fixed.0);
        at.ok().map(|at| self.fixed[at].1)
    }

    /// The cube without a fixed grain.
    fn without(&self, at: usize) -> Cube {
        let mut rest = self.clone();
        rest.fixed.remove(at);
        rest
    }
}

/// The states of a unit that are still possible. There is at least one.
#[derive(Clone, Debug)]
pub(super) struct StateSet {
    /// By run on the stack that changed the unit, the oldest first.
    layers: Arc<[Arc<UnitLayer>]>,
    cubes: Vec<Cube>,
}

impl StateSet {
    /// All states that the crashes at the end of these runs can leave.
    pub(super) fn new(layers: impl IntoIterator<Item = UnitLayer>) -> Self {
        let layers: Arc<[_]> = layers.into_iter().map(Arc::new).collect();
        let steps = layers.iter().map(|layer| StepSet::up_to(layer.steps));
        let all = Cube {
            steps: steps.collect(),
            fixed: Vec::new(),
        };
        StateSet {
            layers,
            cubes: vec![all],
        }
    }

    /// These states, each with all that the crash at the end of one more run can leave.
    pub(super) fn with_layer(&self, layer: UnitLayer) -> Self {
        let mut cubes = self.cubes.clone();
        for cube in &mut cubes {
            cube.steps.push(StepSet::up_to(layer.steps));
        }
        let layers = self.layers.iter().cloned();
        StateSet {
            layers: layers.chain([Arc::new(layer)]).collect(),
            cubes,
        }
    }

    /// Those states of the set that are in `cubes`.
    pub(super) fn narrowed(&self, mut cubes: Vec<Cube>) -> Self {
        unite(&mut cubes);
        StateSet {
            layers: self.layers.clone(),
            cubes,
        }
    }

    /// Whether there is more than one state.
    pub(super) fn is_open(&self) -> bool {
        let grains: u32 = self.layers.iter().map(|layer| layer.grains).sum();
        let cube = &self.cubes[0];
        let is_one = cube.steps.iter().all(StepSet::is_one) && cube.fixed.len() == grains as usize;
        self.cubes.len() > 1 || !is_one
    }

    pub(super) fn cubes(&self) -> &[Cube] {
        &self.cubes
    }

    /// The layers, newest first: number, number of its first grain.
    pub(super) fn layers(&self) -> impl Iterator<Item = (usize, Grain, &UnitLayer)> {
        let mut end: Grain = self.layers.iter().map(|layer| layer.grains).sum();
        let layers = self.layers.iter().enumerate().rev();
        layers.map(move |(number, layer)| {
            end -= layer.grains;
            (number, end, &**layer)
        })
    }

    /// How many stores of a layer's sequence are present, in a set of one state.
    pub(super) fn steps(&self, layer: usize) -> u32 {
        self.cubes[0].steps[layer]
            .last()
            .expect("a cube is not empty")
    }

    /// Whether a grain is present, in a set of one state.
    pub(super) fn has(&self, grain: Grain) -> bool {
        self.cubes[0].fixed_as(grain) == Some(true)
    }

    /// A state of the set in which as much as possible is present, as a set of that state alone.
    pub(super) fn newest(&self) -> Self {
        let cube = &self.cubes[0];
        let steps = cube.steps.iter();
        let grains = 0..self.layers.iter().map(|layer| layer.grains).sum();
        let newest = Cube {
            steps: steps
                .map(|steps| StepSet::only(steps.last().expect("a cube is not empty")))
                .collect(),
            fixed: grains
                .map(|grain| (grain, cube.fixed_as(grain).unwrap_or(true)))
                .collect(),
        };
        StateSet {
            layers: self.layers.clone(),
            cubes: vec![newest],
        }
    }

    /// The same state as [`newest`](Self::newest), without what run number `run` and later ones have stored.
    pub(super) fn newest_before(&self, run: usize) -> Self {
        let kept = self.layers.iter().take_while(|layer| layer.run < run);
        let layers: Arc<[_]> = kept.cloned().collect();
        let grains: u32 = layers.iter().map(|layer| layer.grains).sum();
        let mut newest = self.newest();
        for cube in &mut newest.cubes {
            cube.steps.truncate(layers.len());
            cube.fixed.retain(|&(grain, _)| grain < grains);
        }
        newest.layers = layers;
        newest
    }

    /// Of all states that the crashes can leave, the newest one with so many stores of a layer's sequence, and without some grains, as
    /// a set of that state alone.
    pub(super) fn newest_without(&self, layer: usize, steps: u32, absent: &[Grain]) -> Self {
        let mut newest = self.newest();
        let cube = &mut newest.cubes[0];
        cube.steps[layer] = StepSet::only(steps);
        for (grain, is_present) in &mut cube.fixed {
            *is_present = !absent.contains(grain);
        }
        newest
    }
}

/// Replaces cubes by fewer ones with the same states, as far as two of them differ in one dimension only.
pub(super) fn unite(cubes: &mut Vec<Cube>) {
    loop {
        let before = cubes.len();
        if before < 2 {
            return;
        }
        for layer in 0..cubes[0].steps.len() {
            unite_steps(cubes, layer);
        }
        unite_grains(cubes);
        if cubes.len() == before {
            return;
        }
    }
}

/// Unites cubes that differ only in the number of stores of one layer.
fn unite_steps(cubes: &mut Vec<Cube>, layer: usize) {
    let mut groups: FxHashMap<Cube, usize> = FxHashMap::default();
    // The first cube of each group, and the numbers of all its cubes.
    let mut kept: Vec<(Cube, Vec<StepSet>)> = Vec::new();
    for mut cube in cubes.drain(..) {
        let steps = std::mem::replace(&mut cube.steps[layer], StepSet::only(0));
        match groups.get(&cube) {
            Some(&group) => kept[group].1.push(steps),
            None => {
                groups.insert(cube.clone(), kept.len());
                kept.push((cube, vec![steps]));
            }
        }
    }
    cubes.extend(kept.into_iter().map(|(mut cube, steps)| {
        cube.steps[layer] = StepSet::union(steps);
        cube
    }));
}

/// Unites pairs of cubes that differ only in whether one grain is present.
fn unite_grains(cubes: &mut Vec<Cube>) {
    let mut partners: FxHashMap<(Grain, Cube), usize> = FxHashMap::default();
    // With each cube, whether it was united: once in a pass.
    let mut kept: Vec<(Cube, bool)> = Vec::new();
    for cube in cubes.drain(..) {
        let keys = || (0..cube.fixed.len()).map(|at| (cube.fixed[at].0, cube.without(at)));
        let pair = keys().find_map(|key| {
            let other = *partners.get(&key)?;
            (!kept[other].1).then_some((other, key.1))
        });
        if let Some((other, both)) = pair {
            kept[other] = (both, true);
        } else {
            partners.extend(keys().map(|key| (key, kept.len())));
            kept.push((cube, false));
        }
    }
    cubes.extend(kept.into_iter().map(|(cube, _)| cube));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(steps: u32, fixed: &[(Grain, bool)]) -> Cube {
        Cube {
            steps: vec![StepSet::only(steps)],
            fixed: fixed.to_vec(),
        }
    }

    #[test]
    fn what_a_split_separates_is_united_again() {
        let all = Cube {
            steps: vec![StepSet::up_to(3)],
            fixed: Vec::new(),
        };
        let (below, from) = all.clone().split(0, 2);
        let (absent, present) = from.expect("2 and 3").split_grain(7);
        let (without, with) = present.expect("present").split_grain(4);
        let mut cubes: Vec<Cube> = [with, below, absent, without]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(cubes.len(), 4);
        unite(&mut cubes);
        assert_eq!(cubes, [all]);
    }

    #[test]
    fn cubes_that_differ_in_two_dimensions_stay_apart() {
        let mut cubes = vec![cube(0, &[(1, true)]), cube(1, &[(1, false)])];
        unite(&mut cubes);
        assert_eq!(cubes.len(), 2);
        let mut cubes = vec![
            cube(0, &[(1, true), (2, false)]),
            cube(0, &[(1, false), (2, true)]),
        ];
        unite(&mut cubes);
        assert_eq!(cubes.len(), 2);
    }

    #[test]
    fn every_state_of_a_product_is_united_to_the_product() {
        let states = (0..32_u32).map(|state| {
            let fixed: Vec<(Grain, bool)> = (0..4)
                .map(|grain| (grain, state >> grain & 1 != 0))
                .collect();
            cube(state >> 4, &fixed)
        });
        let mut cubes: Vec<Cube> = states.collect();
        unite(&mut cubes);
        assert_eq!(
            cubes,
            [Cube {
                steps: vec![StepSet::up_to(1)],
                fixed: Vec::new()
            }]
        );
    }
}
