//! A number that tells contents apart, kept up to date at the cost of what changed.
//!
//! The digest is a sum over pages, so that a page that changed is taken out and put in again without
//! looking at the others. A page of zeros counts nothing, as one that is not there.

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::content::{Content, PAGE};

/// What a digest is made of, from one time it is asked for to the next.
#[derive(Debug, Default)]
pub(super) struct Digest {
    sum: u128,
    /// What each page has in the sum.
    parts: FxHashMap<u64, u128>,
    /// Pages that may have changed since.
    touched: FxHashSet<u64>,
    last_touched: Option<u64>,
}

impl Digest {
    #[inline]
    pub(super) fn touch(&mut self, page: u64) {
        if self.last_touched != Some(page) {
            self.touched.insert(page);
            self.last_touched = Some(page);
        }
    }

    /// The content was changed at large.
    pub(super) fn touch_all(&mut self, content: &Content) {
        self.touched.extend(self.parts.keys());
        self.touched
            .extend(content.pages().map(|(number, _)| number));
        self.last_touched = None;
    }

    pub(super) fn of(&mut self, content: &Content) -> u128 {
        for page in self.touched.drain() {
            let old = self.parts.remove(&page).unwrap_or(0);
            self.sum = self.sum.wrapping_sub(old);
            let new = content.page(page).map_or(0, |bytes| part(page, bytes));
            if new != 0 {
                self.parts.insert(page, new);
                self.sum = self.sum.wrapping_add(new);
            }
        }
        self.last_touched = None;
        xxh3_128_with_seed(&self.sum.to_le_bytes(), content.len())
    }
}

impl Digest {
    /// The digest of a content that differs from the one asked for last in `pages` only.
    pub(super) fn of_variant(&self, variant: &Content, pages: impl Iterator<Item = u64>) -> u128 {
        let mut sum = self.sum;
        for page in pages {
            let old = self.parts.get(&page).copied().unwrap_or(0);
            let new = variant.page(page).map_or(0, |bytes| part(page, bytes));
            sum = sum.wrapping_sub(old).wrapping_add(new);
        }
        xxh3_128_with_seed(&sum.to_le_bytes(), variant.len())
    }
}

fn part(page: u64, bytes: &[u8; PAGE]) -> u128 {
    if bytes.iter().all(|&byte| byte == 0) {
        return 0;
    }
    xxh3_128_with_seed(bytes, page)
}
