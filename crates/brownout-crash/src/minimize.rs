//! Delta debugging: the smallest subset that still makes the difference.
//!
//! `ddmin` of Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input* (IEEE TSE 28(2), 2002), with a
//! budget of tests. If the budget runs out, the result need not be minimal.

/// Searches for a small subset of `0..count` for which `holds` is true, given that it is true for the whole. The result is
/// minimal (nothing can be left out of it) unless the budget ran out.
pub fn minimize<E>(
    count: usize,
    mut budget: usize,
    mut holds: impl FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Minimum, E> {
    let mut part: Vec<usize> = (0..count).collect();
    let mut pieces = 2;
    while part.len() > 1 {
        let size = part.len().div_ceil(pieces);
        let mut smaller = None;
        // A piece alone, then everything but a piece.
        let alone = part.chunks(size).map(<[usize]>::to_vec);
        let without = part.chunks(size).enumerate().map(|(at, _)| {
            let others = part.chunks(size).enumerate();
            others
                .filter(|&(other, _)| other != at)
                .flat_map(|(_, chunk)| chunk.iter().copied())
                .collect()
        });
        // With two pieces both are the same.
        let without: Vec<Vec<usize>> = if pieces > 2 {
            without.collect()
        } else {
            Vec::new()
        };
        for candidate in alone.chain(without) {
            if candidate.len() == part.len() {
                continue;
            }
            if budget == 0 {
                return Ok(Minimum {
                    part,
                    minimal: false,
                });
            }
            budget -= 1;
            if holds(&candidate)? {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(candidate) => {
                let was_alone = candidate.len() <= size;
                pieces = if was_alone { 2 } else { (pieces - 1).max(2) };
                part = candidate;
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(part.len()),
        }
    }
    Ok(Minimum {
        part,
        minimal: true,
    })
}

/// What [`minimize`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimum {
    pub part: Vec<usize>,
    /// Nothing can be left out.
    pub minimal: bool,
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn find(count: usize, budget: usize, holds: impl Fn(&[usize]) -> bool) -> Minimum {
        minimize(count, budget, |part| Ok::<_, Infallible>(holds(part))).unwrap()
    }

    #[test]
    fn one_of_many_is_found_in_few_tests() {
        let found = find(1000, 25, |part| part.contains(&617));
        assert_eq!((found.part, found.minimal), (vec![617], true));
    }

    #[test]
    fn an_empty_budget_leaves_the_whole() {
        let found = find(4, 0, |_| true);
        assert_eq!((found.part.len(), found.minimal), (4, false));
    }

    proptest! {
        #[test]
        fn what_is_needed_together_is_found_together(
            needed in prop::collection::btree_set(0..40usize, 1..5),
        ) {
            let found = find(40, usize::MAX, |part| needed.iter().all(|n| part.contains(n)));
            prop_assert!(found.minimal);
            prop_assert_eq!(found.part, needed.into_iter().collect::<Vec<_>>());
        }
    }
}
