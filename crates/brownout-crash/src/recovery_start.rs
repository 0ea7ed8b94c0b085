//! How recoveries start: what distinguishes them before they have read anything.

use serde::{Deserialize, Serialize};

use crate::operation::Operation;

/// What distinguishes the starts of recoveries, besides what they read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Start {
    /// How far the workload was, if operations are counted.
    pub operation: Option<Operation>,
    /// The size of each persistent file that exists.
    pub sizes: Vec<Option<u64>>,
}
