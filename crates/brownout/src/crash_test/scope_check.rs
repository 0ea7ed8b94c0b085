//! Checks the options that say where crashes are tested against the recorded run.

use std::ops::ControlFlow;

use brownout_crash::{FailurePoints, RecordedRun, Scope};

use super::missing_function::{RecordedBy, why_never_called};
use crate::failure::Failure;
use crate::quantity::number_of;

/// Functions that options name must have been called in the run, and failure points must follow.
pub fn check_scope(
    points: &FailurePoints,
    scope: &Scope,
    run: &RecordedRun,
    recorded_by: RecordedBy,
) -> Result<(), Failure> {
    let missing = points.missing_operations().next();
    let missing = missing.map(|operation| ("--op", operation));
    let after = scope.after.as_ref();
    let not_begun = after.filter(|_| !points.begun());
    let not_begun = not_begun.map(|after| ("--after", after));
    if let Some((option, function)) = missing.or(not_begun) {
        let name = function.text().to_owned();
        if missing.is_none() && points.waits_for_return() {
            return Err(Failure::NeverReturned { function: name });
        }
        let read = run.walk(|_, _| ControlFlow::Continue(()))?;
        return Err(Failure::NeverCalled {
            option,
            function: name,
            why: why_never_called(
                function,
                read.definitions(),
                &read.header().cwd,
                recorded_by,
            ),
        });
    }
    match after {
        Some(after) if points.is_empty_from_there() => Err(Failure::NoPointAfter {
            function: after.text().to_owned(),
            before: number_of(points.too_early(), "failure point"),
        }),
        _ => Ok(()),
    }
}
