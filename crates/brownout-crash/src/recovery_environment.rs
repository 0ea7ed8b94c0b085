//! What recovery learns about the crash: its environment variables.
//!
//! Recovery learns the event and, if operations are counted, how far the workload was. It does not learn which stores
//! have reached persistent memory (the [choice](crate::Choice)): a real recovery cannot know that either, and an oracle
//! that did could accept a state that it would otherwise reject.

use std::time::Duration;

use brownout_recovery::RecoveryTask;

use crate::operation::Operation;

/// What recovery learns about a crash, and its time limit.
#[derive(Clone, Debug)]
pub struct CrashSituation {
    /// The crash is before this event.
    pub event: u64,
    /// How far the workload was; `None` if operations are not counted.
    pub operation: Option<Operation>,
    pub time_limit: Duration,
}

impl CrashSituation {
    /// The environment variables of recovery, and how many operations may have taken effect.
    pub fn task(&self) -> RecoveryTask {
        let mut environment = vec![("BROWNOUT_EVENT".to_owned(), self.event.to_string())];
        let mut operations = 0..=0;
        if let Some(Operation { completed, active }) = self.operation {
            let active = u8::from(active);
            environment.push(("BROWNOUT_OP".to_owned(), completed.to_string()));
            environment.push(("BROWNOUT_OP_ACTIVE".to_owned(), active.to_string()));
            operations = completed..=completed.saturating_add(active.into());
        }
        RecoveryTask {
            environment,
            operations,
            time_limit: self.time_limit,
        }
    }
}
