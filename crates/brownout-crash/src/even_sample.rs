//! A small, evenly spread sample of a sequence of unknown length.

/// Takes any number of items and keeps a few: the first, the last, and some in between at about equal distances.
#[derive(Debug)]
pub struct EvenSample<T> {
    limit: usize,
    offered: u64,
    /// Of the items offered, each `stride`th is kept.
    stride: u64,
    kept: Vec<T>,
    last: Option<T>,
}

impl<T: Copy> EvenSample<T> {
    /// Keeps up to `limit` items, at least one.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            offered: 0,
            stride: 1,
            kept: Vec::new(),
            last: None,
        }
    }

    pub fn offer(&mut self, item: T) {
        if self.limit > 1 && self.offered.is_multiple_of(self.stride) || self.kept.is_empty() {
            self.kept.push(item);
        }
        self.offered += 1;
        self.last = Some(item);
        if self.kept.len() > 2 * self.limit {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// What was kept, in the order in which it was offered.
    pub fn chosen(&self) -> Vec<T> {
        let mut all = self.kept.clone();
        let newest = self.offered.saturating_sub(1);
        if self.limit > 1 && !newest.is_multiple_of(self.stride) {
            all.extend(self.last);
        }
        let count = all.len();
        if count <= self.limit {
            return all;
        }
        (0..self.limit)
            .map(|turn| all[turn * (count - 1) / (self.limit - 1).max(1)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(limit: usize, count: u32) -> Vec<u32> {
        let mut sample = EvenSample::new(limit);
        (0..count).for_each(|number| sample.offer(number));
        sample.chosen()
    }

    #[test]
    fn one_is_the_first() {
        assert_eq!(sample(1, 1), [0]);
        assert_eq!(sample(1, 1000), [0]);
    }

    #[test]
    fn few_are_all() {
        assert!(sample(4, 0).is_empty());
        assert_eq!(sample(4, 3), [0, 1, 2]);
        assert_eq!(sample(4, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn many_are_spread_from_the_first_to_the_last() {
        assert_eq!(sample(2, 1000), [0, 999]);
        for count in [5, 9, 10, 100, 1001] {
            let chosen = sample(4, count);
            assert_eq!(chosen.len(), 4, "{chosen:?}");
            assert_eq!((chosen[0], chosen[3]), (0, count - 1), "{chosen:?}");
            assert!(chosen.is_sorted(), "{chosen:?}");
        }
        let middle = sample(3, 1000)[1];
        assert!((300..700).contains(&middle), "{middle}");
    }
}
