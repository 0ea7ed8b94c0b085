//! Which of the states between stores are considered: of a store that is executed very often, ever fewer occurrences.

use rustc_hash::FxHashMap;

use crate::failure_point::StackId;

/// Of a store that was executed so often, each second occurrence is considered, after twice as often each fourth, and so on.
const ALL_CONSIDERED: u64 = 512;

/// How often the store after each state was reached.
#[derive(Debug, Default)]
pub(crate) struct Thinning(FxHashMap<Option<StackId>, u64>);

impl Thinning {
    /// Whether the state before this store is considered. Asked once for each state.
    pub(crate) fn considers(&mut self, store: Option<StackId>) -> bool {
        let reached = self.0.entry(store).or_default();
        *reached += 1;
        let stride = (*reached / ALL_CONSIDERED + 1).next_power_of_two();
        reached.is_multiple_of(stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_states_ever_fewer_are_considered() {
        let mut thinning = Thinning::default();
        let mut of_next = |count: u64| {
            let considered = (0..count).filter(|_| thinning.considers(None));
            considered.count() as u64
        };
        assert_eq!(of_next(ALL_CONSIDERED - 1), ALL_CONSIDERED - 1);
        assert_eq!(of_next(ALL_CONSIDERED), ALL_CONSIDERED / 2);
        assert!(of_next(64 * ALL_CONSIDERED) < 8 * ALL_CONSIDERED);
    }
}
