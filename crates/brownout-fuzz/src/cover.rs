//! Corpus minimisation: few test cases that show together what all show, by greedy set cover.

use rustc_hash::FxHashSet;

use crate::feedback::bucket;
use crate::test_case::TestCase;

/// What a test case shows: transitions and code, each in a bucket.
fn shown(case: &TestCase) -> impl Iterator<Item = (bool, u64, u8)> {
    let transitions = case.transitions.iter();
    let transitions = transitions.map(|&(key, count)| (true, key, bucket(count)));
    let edges = case.edges.iter();
    transitions.chain(edges.map(|&(key, count)| (false, key, bucket(count))))
}

/// The numbers of test cases that show together what all of them show. Of those that add equally much, the shortest is taken.
pub fn cover(cases: &[TestCase]) -> Vec<u64> {
    let mut open: FxHashSet<_> = cases.iter().flat_map(shown).collect();
    let mut left: Vec<&TestCase> = cases.iter().collect();
    let mut chosen = Vec::new();
    while !open.is_empty() {
        let adds = |case: &TestCase| shown(case).filter(|one| open.contains(one)).count();
        let counted = left.iter().enumerate().map(|(at, case)| (adds(case), at));
        let shortest = |at: usize| std::cmp::Reverse(left[at].input.len());
        let best = counted.max_by_key(|&(count, at)| (count, shortest(at)));
        let Some((_, at)) = best.filter(|&(count, _)| count > 0) else {
            break;
        };
        let case = left.swap_remove(at);
        for one in shown(case) {
            open.remove(&one);
        }
        chosen.push(case.number);
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::Novelty;
    use crate::image::ImageId;

    fn case(number: u64, input: &str, transitions: &[(u64, u32)]) -> TestCase {
        TestCase {
            number,
            input: input.into(),
            image: ImageId(0),
            novelty: Novelty::Transition,
            parent: None,
            transitions: transitions.to_vec(),
            edges: vec![(100, 1)],
            is_stable: true,
            times_chosen: 0,
        }
    }

    #[test]
    fn few_test_cases_cover_everything() {
        let cases = [
            case(0, "a", &[(1, 1)]),
            case(1, "ab", &[(1, 1), (2, 1)]),
            case(2, "abc", &[(1, 1), (2, 1), (3, 1)]),
            case(3, "d", &[(1, 9)]),
        ];
        assert_eq!(cover(&cases), [2, 3]);
        assert_eq!(cover(&[]), [0; 0]);
    }

    #[test]
    fn of_equal_test_cases_the_shortest_is_kept() {
        let cases = [case(0, "long input", &[(1, 1)]), case(1, "s", &[(1, 1)])];
        assert_eq!(cover(&cases), [1]);
    }
}
