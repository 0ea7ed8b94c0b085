//! Executions that destroy what runs them: a target that kills all processes that it can, for example. Such an input is skipped.

use std::sync::atomic::Ordering;

use crate::error::FuzzError;

use super::Worker;

/// After so many in a row the cause is not the input: the system does not let targets run.
const MOST_IN_A_ROW: u32 = 16;

impl Worker<'_> {
    /// What an executor has returned, if the campaign can continue: `None` if the execution was lost.
    pub(super) fn survive<T>(
        &mut self,
        done: Result<T, FuzzError>,
    ) -> Result<Option<T>, FuzzError> {
        match done {
            Ok(done) => {
                self.lost_in_a_row = 0;
                Ok(Some(done))
            }
            Err(error) if error.is_full_disk() || !error.is_about_one_execution() => Err(error),
            Err(error) => {
                self.lost_in_a_row += 1;
                if self.lost_in_a_row >= MOST_IN_A_ROW {
                    return Err(error);
                }
                self.campaign.lost.fetch_add(1, Ordering::Relaxed);
                // The executor may have had to do without copies.
                self.campaign.lock().mode = Some(self.executor.mode());
                Ok(None)
            }
        }
    }
}
