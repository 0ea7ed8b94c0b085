//! Whether the recorded target did what it should: findings of a run that failed say little about one that works.

use brownout_report::{Reason, ReasonKind};
use brownout_trace::ProcessEnd;

use crate::arguments::target_end;
use crate::exit_code::ExitCode;
use crate::shortfall::Shortfall;
use crate::trace_file::TraceFile;

/// Why a target that ended so has failed, unless its end is among those that are `accepted` besides exit status 0. `continuation`
/// is the command that tests crashes nevertheless.
pub fn failure(
    end: ProcessEnd,
    accepted: &[ProcessEnd],
    continuation: Option<String>,
) -> Option<Shortfall> {
    if end == (ProcessEnd::Exited { status: 0 }) || accepted.contains(&end) {
        return None;
    }
    let how = target_end::describe(end);
    let mut reason = format!("the program {how}; the findings are those of a failed run");
    if let Some(argument) = target_end::argument(end) {
        reason.push_str(&format!(
            "; if that is how it is supposed to end, add --target-success {argument}"
        ));
    }
    if let Some(command) = continuation {
        reason.push_str(&format!("; to test crashes of this run: `{command}`"));
    }
    Some(Shortfall {
        code: ExitCode::TargetFailed,
        reason: Reason::new(ReasonKind::TargetFailed, reason),
    })
}

/// Why the target whose run is in the trace has failed, if it has.
pub fn recorded_failure(trace: &TraceFile, accepted: &[ProcessEnd]) -> Option<Shortfall> {
    let end = trace.summary()?.ending.target?;
    failure(end, accepted, None)
}

/// The ends that options name in these words. What is no end, such as one of a later version, is left out.
pub fn accepted(words: &[String]) -> Vec<ProcessEnd> {
    let ends = words.iter().map(|word| target_end::target_end(word));
    ends.flatten().collect()
}
