//! The behaviours that are tried after representatives, in order; those of groups with a failure come first.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::schedule::Task;

/// Further representatives and members at other code.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// In order; `None` for those that are taken.
    all: Vec<Option<Task>>,
    /// Those before are taken.
    next: usize,
    left: usize,
    of_group: FxHashMap<usize, Vec<usize>>,
    /// Those of groups that have failed.
    urgent: VecDeque<usize>,
}

impl Members {
    pub(super) fn new(tasks: Vec<Task>) -> Self {
        let mut of_group: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (at, task) in tasks.iter().enumerate() {
            of_group.entry(task.group).or_default().push(at);
        }
        Self {
            left: tasks.len(),
            all: tasks.into_iter().map(Some).collect(),
            next: 0,
            of_group,
            urgent: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// A behaviour of a group has failed: its members come next.
    pub(super) fn group_fails(&mut self, group: usize) {
        self.urgent
            .extend(self.of_group.remove(&group).into_iter().flatten());
    }

    /// The next of a group that has failed.
    pub(super) fn pop_urgent(&mut self) -> Option<Task> {
        let mut next = std::iter::from_fn(|| self.urgent.pop_front());
        let task = next.find_map(|at| self.all[at].take())?;
        self.left -= 1;
        Some(task)
    }

    /// The next of all.
    pub(super) fn pop(&mut self) -> Option<Task> {
        while let Some(task) = self.all.get_mut(self.next) {
            self.next += 1;
            if let Some(task) = task.take() {
                self.left -= 1;
                return Some(task);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update_behaviour::BehaviourNumber;

    #[test]
    fn members_of_a_group_that_fails_come_next_and_once() {
        let task = |behaviour, group| Task {
            behaviour: BehaviourNumber(behaviour),
            group,
            begun: false,
        };
        let tasks = [(0, 0), (1, 1), (2, 0), (3, 2), (4, 1)];
        let tasks = tasks.map(|(behaviour, group)| task(behaviour, group));
        let mut members = Members::new(tasks.to_vec());
        let mut taken = Vec::new();
        taken.extend(members.pop());
        members.group_fails(1);
        members.group_fails(1);
        taken.extend(std::iter::from_fn(|| members.pop_urgent()));
        assert_eq!(members.len(), 2);
        taken.extend(std::iter::from_fn(|| members.pop()));
        let order: Vec<u32> = taken.iter().map(|task| task.behaviour.0).collect();
        assert_eq!(order, [0, 1, 4, 2, 3]);
        assert_eq!(members.len(), 0);
    }
}
