//! An order of failure points in which every prefix covers the target as widely as possible.
//!
//! The calling contexts, from the outermost function inwards, form a tree. Its branches take turns, recursively. So the
//! first few failure points come from different parts of the target, and neighbours in the tree are far apart in the order.

use std::collections::{BTreeMap, VecDeque};

/// Deeper branches keep their order: recursion does not make failure points different.
const DEPTH: usize = 96;

/// Numbers of `paths` in the order in which to try them. Equal paths keep their order.
pub fn most_different_first<S: Ord>(paths: &[Vec<S>]) -> Vec<usize> {
    let all = (0..paths.len()).collect();
    interleave(paths, all, 0).into()
}

fn interleave<S: Ord>(paths: &[Vec<S>], members: Vec<usize>, depth: usize) -> VecDeque<usize> {
    if members.len() < 2 || depth == DEPTH {
        return members.into();
    }
    // Branches in the order of their first members.
    let mut branches: BTreeMap<Option<&S>, (usize, Vec<usize>)> = BTreeMap::new();
    for member in members {
        let step = paths[member].get(depth);
        let branch = branches.entry(step).or_insert((member, Vec::new()));
        branch.1.push(member);
    }
    let mut branches: Vec<_> = branches.into_iter().collect();
    branches.sort_by_key(|(_, (first, _))| *first);
    let mut queues: Vec<VecDeque<usize>> = branches
        .into_iter()
        .map(|(step, (_, members))| match step {
            Some(_) => interleave(paths, members, depth + 1),
            None => members.into(),
        })
        .collect();
    let mut order = VecDeque::new();
    while !queues.is_empty() {
        queues.retain_mut(|queue| {
            order.extend(queue.pop_front());
            !queue.is_empty()
        });
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(paths: &[&str]) -> Vec<String> {
        let split: Vec<Vec<char>> = paths.iter().map(|path| path.chars().collect()).collect();
        let order = most_different_first(&split);
        order.into_iter().map(|at| paths[at].to_owned()).collect()
    }

    #[test]
    fn branches_take_turns_at_each_level() {
        assert_eq!(
            order(&["aax", "aay", "abx", "bax", "bay"]),
            ["aax", "bax", "abx", "bay", "aay"]
        );
    }

    #[test]
    fn every_path_comes_once() {
        let paths = ["", "a", "a", "ab", "b", "abc", ""];
        let mut sorted = order(&paths);
        sorted.sort();
        let mut expected = paths.map(str::to_owned);
        expected.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn deep_recursion_is_handled() {
        let deep = "r".repeat(100_000);
        assert_eq!(order(&[&deep, &deep, "x"]).len(), 3);
    }
}
