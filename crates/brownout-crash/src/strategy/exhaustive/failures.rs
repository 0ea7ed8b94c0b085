//! At which crashes a known failure is confirmed natively, and so reported.

use std::sync::Arc;

use brownout_model::PossibleMemory;

use super::Exhaustive;
use super::behaviours::NodeId;
use super::crash_times::Context;
use super::explorer::Explorer;
use crate::recovery_run::ActionSite;

/// Crashes of one recovery after which it is determined whether the recovery fails without the crash, too, at most.
const MOST_COMPARED: usize = 8;

/// Where power is lost if recovery fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FailureSite {
    Target(Context),
    /// In recoveries.
    Inside(Vec<ActionSite>),
}

/// Where the recoveries are interrupted that lead to a situation.
pub fn site_inside(explorer: &Explorer, situation: u32) -> FailureSite {
    let interruptions = explorer.situations().interruptions(situation).into_iter();
    FailureSite::Inside(
        interruptions
            .map(|known| known.crash.site.clone())
            .collect(),
    )
}

impl Exhaustive {
    /// A known failure is reported at each failure point that leads to it, once it is confirmed there. One that needs a crash inside
    /// recovery is reported once for each action of recovery that is interrupted.
    pub fn confirm(&mut self, explorer: &mut Explorer, end: NodeId) {
        if self.hanging.contains(&end) {
            // To wait for the same hang at each failure point would take all the time there is.
            return;
        }
        let times = Arc::clone(explorer.behaviours.times(end));
        let of_target = explorer.situations().of_target();
        let mut needs_interruption = true;
        for time in times.parts(0..of_target).flatten() {
            needs_interruption = false;
            let site = FailureSite::Target(explorer.situations().context(time));
            if self.failures.insert((end, site)) {
                let memory = explorer.memory_at(end, time);
                self.want_confirmation(explorer, time, &memory);
            }
        }
        if !needs_interruption {
            return;
        }
        let interrupted = explorer.situations().interrupted().iter();
        let numbers: Vec<_> = interrupted.map(|known| known.numbers.clone()).collect();
        for numbers in numbers {
            for time in times.parts(numbers).flatten().take(MOST_COMPARED) {
                let site = (end, site_inside(explorer, time));
                if self.failures.contains(&site) {
                    break;
                }
                let memory = explorer.memory_at(end, time);
                if !explorer.fails_anyway(time, &memory) {
                    self.failures.insert(site);
                    self.want_confirmation(explorer, time, &memory);
                    break;
                }
            }
        }
    }

    fn want_confirmation(&mut self, explorer: &mut Explorer, time: u32, memory: &PossibleMemory) {
        let point = self.crash_point(explorer, time, memory);
        if !self.proposed.contains(&point) && self.confirmations.insert(point.clone()) {
            self.want(explorer, (point, time), memory);
        }
    }
}
