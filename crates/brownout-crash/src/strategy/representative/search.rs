//! The representatives of a run. They are looked for when the first of them can be tried, because that takes several passes over the run.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::schedule::{Schedule, ScheduleInput};
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::object_types::TypedShare;
use crate::progress::ProgressObserver;
use crate::strategy::{ProposedCrash, StrategyInput};
use crate::symbols::Symbols;
use crate::tested_behaviours::TestedBehaviour;
use crate::trial::Trial;

/// How many passes over the run the search and the first images take; some of them cost more than the first one did.
const PASSES: u32 = 8;

/// Proposes crashes that try representatives.
pub(in crate::strategy) struct Representatives {
    state: State,
    /// How long a pass over the run takes.
    pass: Duration,
    /// Whether others try crashes in program order.
    is_beside_others: bool,
    /// What others have tried before the search.
    tried_by_others: HashSet<CrashPoint>,
}

enum State {
    /// With the trials of an earlier, interrupted test.
    Unknown(Box<ScheduleInput>, Vec<Trial>),
    Known(Box<Schedule>),
}

impl Representatives {
    /// All of them.
    pub(in crate::strategy) fn all(input: &StrategyInput<'_>) -> Self {
        Self {
            state: State::Unknown(Box::new(ScheduleInput::of(input)), Vec::new()),
            pass: input.survey.duration,
            is_beside_others: false,
            tried_by_others: HashSet::new(),
        }
    }

    /// Those with stores that are lost, beside others that try crashes in program order; and only if time is left for the search.
    pub(in crate::strategy) fn beside_others(input: &StrategyInput<'_>) -> Self {
        Self {
            is_beside_others: true,
            ..Self::all(input)
        }
    }

    /// Looks for representatives, and builds the next images if none are left. A search for which there is no time is not begun.
    pub(in crate::strategy) fn prepare(
        &mut self,
        symbols: &mut dyn Symbols,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, CrashError> {
        if let State::Unknown(input, trials) = &self.state {
            let needed = self.pass * PASSES;
            if self.is_beside_others && observer.time_left().is_some_and(|left| left < needed) {
                return Ok(ControlFlow::Continue(()));
            }
            let Some(mut schedule) = Schedule::find(input, symbols, observer)? else {
                return Ok(ControlFlow::Break(()));
            };
            if self.is_beside_others {
                schedule.leave_out_earlier_states();
            }
            let tried = self.tried_by_others.drain();
            tried.for_each(|point| schedule.leave_out(point));
            trials.iter().for_each(|trial| schedule.learn(trial));
            self.state = State::Known(Box::new(schedule));
        }
        match &mut self.state {
            State::Known(schedule) => schedule.prepare(observer),
            State::Unknown(..) => Ok(ControlFlow::Continue(())),
        }
    }

    /// The next crashes to try.
    pub(in crate::strategy) fn next(&mut self, wave: usize) -> Vec<ProposedCrash> {
        match &mut self.state {
            State::Known(schedule) => schedule.next(wave),
            State::Unknown(..) => Vec::new(),
        }
    }

    pub(in crate::strategy) fn learn(&mut self, trial: &Trial) {
        match &mut self.state {
            State::Known(schedule) => schedule.learn(trial),
            State::Unknown(_, trials) => {
                trials.extend(trial.behaviour.is_some().then(|| trial.clone()));
            }
        }
    }

    /// A crash is tried by others.
    pub(in crate::strategy) fn leave_out(&mut self, point: CrashPoint) {
        match &mut self.state {
            State::Known(schedule) => schedule.leave_out(point),
            State::Unknown(..) => {
                self.tried_by_others.insert(point);
            }
        }
    }

    /// How many crashes are proposed or wait, as far as that is known.
    pub(in crate::strategy) fn planned(&self) -> u64 {
        match &self.state {
            State::Known(schedule) => schedule.planned(),
            State::Unknown(..) => 0,
        }
    }

    /// How many update behaviours are tried; `None` if they were not looked for.
    pub(in crate::strategy) fn behaviours(&self) -> Option<u64> {
        match &self.state {
            State::Known(schedule) => Some(schedule.behaviours()),
            State::Unknown(..) => None,
        }
    }

    /// How many of them are tried in some of their states only.
    pub(in crate::strategy) fn sampled(&self) -> u64 {
        match &self.state {
            State::Known(schedule) => schedule.sampled(),
            State::Unknown(..) => 0,
        }
    }

    /// How the types of the objects were determined.
    pub(in crate::strategy) fn typed(&self) -> TypedShare {
        match &self.state {
            State::Known(schedule) => schedule.typed(),
            State::Unknown(..) => TypedShare::default(),
        }
    }

    /// How many behaviours are left out because an earlier run has tested them.
    pub(in crate::strategy) fn remembered(&self) -> u64 {
        match &self.state {
            State::Known(schedule) => schedule.remembered(),
            State::Unknown(..) => 0,
        }
    }

    /// The behaviours that trials have decided.
    pub(in crate::strategy) fn tested_behaviours(&self, trials: &[Trial]) -> Vec<TestedBehaviour> {
        match &self.state {
            State::Known(schedule) => schedule.tested_behaviours(trials),
            State::Unknown(..) => Vec::new(),
        }
    }
}
