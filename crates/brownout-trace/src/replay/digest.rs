//! A digest that distinguishes contents. Updating it takes time proportional to what changed.
//!
//! The digest is a sum over pages: when a page changes, its old summand is subtracted and its new one added, without
//! reading the other pages. A page of zeros adds nothing, like a page that is not stored.

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::content::{Content, PAGE};

/// The state for updating a digest.
#[derive(Debug, Default)]
pub(super) struct Digest {
    sum: u128,
    /// The summand of each page.
    parts: FxHashMap<u64, u128>,
    /// Pages that may have changed since the last digest.
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

    /// Marks all pages as changed.
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
    /// The digest of a content that differs only in `pages` from the content of the last digest.
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
