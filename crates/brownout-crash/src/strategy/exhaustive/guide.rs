//! Follows a recovery that is under way in the tree of behaviours, so that processes wait where others will go on.

use std::sync::{Arc, Mutex};

use brownout_recovery::{FirstRead, ReadGuide};

use super::crash_times::Start;
use super::explorer::{Cursor, Explorer};
use super::lock;

/// A run that is under way.
pub struct Guide {
    explorer: Arc<Mutex<Explorer>>,
    cursor: Cursor,
}

impl Guide {
    pub fn new(explorer: Arc<Mutex<Explorer>>, start: &Start) -> Self {
        let cursor = lock(&explorer).begin(start);
        Self { explorer, cursor }
    }
}

impl ReadGuide for Guide {
    fn read(&mut self, read: FirstRead, bytes: &[u8]) -> bool {
        lock(&self.explorer).read(&mut self.cursor, read, bytes)
    }
}
