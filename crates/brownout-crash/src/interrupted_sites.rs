//! Where recoveries were interrupted, in source lines.

use std::collections::HashSet;

use brownout_recovery::RawFrame;
use brownout_report::{Frame, primary_frame};

use crate::findings::line_of;
use crate::recovery_run::RecoveryRun;
use crate::strategy::ProposedCrash;
use crate::symbols::Symbols;
use crate::trial::InterruptedRecovery;

/// A function and its source file.
type Function = (Option<String>, Option<String>);

fn function(frame: &Frame) -> Function {
    (frame.function.clone(), frame.file.clone())
}

/// Where the recoveries of a crash were interrupted.
pub fn interrupted_recoveries(
    crash: &ProposedCrash,
    symbols: &mut dyn Symbols,
) -> Vec<InterruptedRecovery> {
    let recoveries = crash.recoveries.iter();
    let interrupted = recoveries.zip(&crash.point.interruptions);
    interrupted
        .map(|(recovery, interruption)| {
            // It was read when the image was made.
            let Ok(site) = recovery.site(interruption.actions) else {
                return InterruptedRecovery::default();
            };
            let stack = symbols.recovery_frames(&site.frames);
            InterruptedRecovery {
                before: site.kind,
                line: line(&stack, &storing_functions(recovery, symbols)),
                stack,
            }
        })
        .collect()
}

/// The functions of a recovery that store.
fn storing_functions(recovery: &RecoveryRun, symbols: &mut dyn Symbols) -> HashSet<Function> {
    let stores = recovery.stores().unwrap_or_default();
    let stacks: HashSet<Vec<RawFrame>> = stores.into_iter().map(|store| store.frames).collect();
    let stacks = stacks.iter().map(|frames| symbols.recovery_frames(frames));
    stacks
        .filter_map(|frames| Some(function(&frames[primary_frame(&frames)?])))
        .collect()
}

/// The line of a stack that distinguishes actions. A function that flushes or fences but never stores acts for its caller.
fn line(stack: &[Frame], storing: &HashSet<Function>) -> String {
    let first = primary_frame(stack).unwrap_or(0);
    let inner = stack.iter().skip(first);
    let on_behalf = inner.take_while(|frame| !storing.contains(&function(frame)));
    match first + on_behalf.count() {
        none if none >= stack.len() => line_of(stack),
        at => line_of(&stack[at..]),
    }
}
