//! Random numbers for tests and benchmarks: the same seed gives the same numbers on every machine.
//!
//! Crates that are published use it in tests, examples and benchmarks only, so that it need not be published. Numbers that decide what
//! brownout itself does are drawn where they are needed.
#![forbid(unsafe_code)]

/// A generator (SplitMix64). Every seed is as good as any other.
#[derive(Clone, Debug, Default)]
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    /// An index of something with `length` elements, which is not empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `-reach..=reach`.
    pub fn around(&mut self, reach: i64) -> i64 {
        self.below(2 * reach as u64 + 1) as i64 - reach
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several, each as often as the others.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// One of several, each as often as its weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let mut at = self.below(from.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in from {
            if at < weight {
                return choice;
            }
            at -= weight;
        }
        unreachable!("the number is below the sum of the weights")
    }

    /// A value that is interesting to arithmetic.
    pub fn value(&mut self) -> u64 {
        match self.below(8) {
            0 => self.below(300),
            1 => (self.below(300) as i64).wrapping_neg() as u64,
            2 => (1 << self.below(64)) - self.below(2),
            3 => self.word() & 0xffff_ffff,
            _ => self.word(),
        }
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.word().to_le_bytes()[..chunk.len()]);
        }
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.index(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut random = SeededRandom::new(0);
        assert_eq!(random.word(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.word(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn choices_are_made_as_often_as_they_weigh() {
        let mut random = SeededRandom::new(1);
        let count = |random: &mut SeededRandom| {
            let drawn = (0..4000).filter(|_| random.weighted(&[(1, false), (3, true)]));
            drawn.count()
        };
        assert!((2800..3200).contains(&count(&mut random)));
        let numbers: Vec<i64> = (0..1000).map(|_| random.around(2)).collect();
        assert!((-2..=2).all(|wanted| numbers.contains(&wanted)));
        assert!(numbers.iter().all(|number| number.abs() <= 2));
    }

    #[test]
    fn shuffling_keeps_all_items() {
        let mut items: Vec<u32> = (0..50).collect();
        SeededRandom::new(2).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
