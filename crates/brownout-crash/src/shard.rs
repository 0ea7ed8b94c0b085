//! Parts of a crash test that run on different machines.

use serde::{Deserialize, Serialize};

/// A part of the work: number `index` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub index: u32,
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 1, count: 1 }
    }
}

/// `2/8`, as on the command line.
impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// Whether an image belongs to this part. Equal images always go to the same.
    pub fn takes(self, digest: u128) -> bool {
        digest % u128::from(self.count) == u128::from(self.index - 1)
    }
}
