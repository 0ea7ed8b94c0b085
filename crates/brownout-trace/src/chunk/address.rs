//! Data addresses, stored as short distances from earlier addresses. Writer and reader keep the same earlier addresses.
//!
//! Programs access a few cache lines at a time, and often flush them in the order in which they stored to them. In a loop,
//! an instruction often accesses addresses at a fixed distance from each other. Therefore an address is stored relative to
//! the nearest of four bases: the last addresses in the three cache lines that the thread accessed last, and the last
//! address of the site.

use std::hint::select_unpredictable;

use crate::varint::{unzigzag, zigzag};

/// The address is too far from every base; the full address follows.
const FAR: u64 = u64::MAX;

const BASE_BITS: u32 = 2;
const LINE: u64 = 64;

/// The last addresses of a thread, one for each of the cache lines that it accessed last.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecentAddresses([u64; 3]);

impl RecentAddresses {
    /// Passes the tokens for `addr` to `put`, and remembers the address.
    #[inline]
    pub(crate) fn encode(&mut self, site_last: &mut u64, addr: u64, mut put: impl FnMut(u64)) {
        let [first, second, third] = self.0;
        // The nearest base, of several the first, is chosen without branches, because they would be mispredicted.
        let distance = |from: u64| zigzag(addr.wrapping_sub(from) as i64);
        let nearer = |(distance, base): (u64, u64), other: (u64, u64)| {
            let is_nearer = other.0 < distance;
            let nearest = select_unpredictable(is_nearer, other.0, distance);
            (nearest, select_unpredictable(is_nearer, other.1, base))
        };
        let nearest = nearer((distance(first), 0), (distance(second), 1));
        let nearest = nearer(nearest, (distance(third), 2));
        let (distance, base) = nearer(nearest, (distance(*site_last), 3));
        let nearest = if distance < FAR >> BASE_BITS {
            distance << BASE_BITS | base
        } else {
            FAR
        };
        put(nearest);
        if nearest == FAR {
            put(addr);
        }
        self.remember(site_last, addr);
    }

    /// Decodes an address from the tokens that `take` returns.
    #[inline]
    pub(crate) fn decode<E>(
        &mut self,
        site_last: &mut u64,
        mut take: impl FnMut() -> Result<u64, E>,
    ) -> Result<u64, E> {
        let token = take()?;
        // A branch on the base would be mispredicted, and an array of the bases would have to be stored first.
        let [first, second, third] = self.0;
        let is_even = token & 1 == 0;
        let lower = select_unpredictable(is_even, first, second);
        let upper = select_unpredictable(is_even, third, *site_last);
        let base = select_unpredictable(token & 2 == 0, lower, upper);
        let addr = if token == FAR {
            take()?
        } else {
            base.wrapping_add(unzigzag(token >> BASE_BITS) as u64)
        };
        self.remember(site_last, addr);
        Ok(addr)
    }

    #[inline]
    fn remember(&mut self, site_last: &mut u64, addr: u64) {
        let [first, second, third] = self.0;
        let same_line = first / LINE == addr / LINE;
        self.0 = if same_line {
            [addr, second, third]
        } else {
            [addr, first, second]
        };
        *site_last = addr;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(addresses: &[u64]) -> Vec<u64> {
        let mut recent = RecentAddresses::default();
        let mut site_last = 0;
        let mut tokens = Vec::new();
        for &addr in addresses {
            recent.encode(&mut site_last, addr, |token| tokens.push(token));
        }
        tokens
    }

    #[test]
    fn any_sequence_round_trips() {
        let addresses = [
            0,
            u64::MAX,
            1,
            1 << 63,
            0x7f00_0000_0000,
            0x7f00_0000_0040,
            3,
            1 << 62,
        ];
        let mut tokens = tokens(&addresses).into_iter();
        let mut recent = RecentAddresses::default();
        let mut site_last = 0;
        for addr in addresses {
            let decoded = recent.decode(&mut site_last, || tokens.next().ok_or(()));
            assert_eq!(decoded, Ok(addr));
        }
        assert_eq!(tokens.next(), None);
    }

    #[test]
    fn flushing_lines_in_store_order_takes_one_byte_each() {
        let lines = [0x7f00_0000_0000, 0x7f00_1234_0000, 0x7f00_5678_0000];
        let encoded = tokens(&[lines, lines].concat());
        assert!(encoded[3..].iter().all(|&token| token < 128), "{encoded:?}");
    }
}
