//! What the examinations of all inputs of a campaign have come to: how much was tested, and why that is less than was asked for.

use brownout_fuzz::{CaseCrashes, CaseExamination, CrashesTested};
use brownout_report::{Reason, ReasonKind};

use crate::exit_code::ExitCode;
use crate::quantity::number_of;
use crate::results::Results;

/// Sentences of one kind that are shown; inputs may show many.
const MOST_SENTENCES: usize = 20;

/// Adds to the results what the examinations have come to. `tests_crashes` says whether crashes were to be tested.
pub fn conclude(examined: &[(u64, CaseExamination)], tests_crashes: bool, results: &mut Results) {
    results.add_tested(match examined.len() {
        1 => "1 input with a new path through persistent memory was examined".to_owned(),
        many => format!("{many} inputs with new paths through persistent memory were examined"),
    });
    results.linted |= !examined.is_empty();
    add_reasons(examined, results);
    add_gaps(examined, results);
    if tests_crashes {
        let crashes = examined.iter();
        let crashes = crashes.filter_map(|(case, done)| Some((*case, done.crashes.as_ref()?)));
        add_crashes(&crashes.collect::<Vec<_>>(), results);
    }
}

/// Each reason once, with the number of inputs that it concerns.
fn add_reasons(examined: &[(u64, CaseExamination)], results: &mut Results) {
    let mut known: Vec<(&Reason, u64, u64)> = Vec::new();
    for (case, done) in examined {
        for reason in &done.reasons.0 {
            match known.iter_mut().find(|(known, ..)| *known == reason) {
                Some((.., count)) => *count += 1,
                None => known.push((reason, *case, 1)),
            }
        }
    }
    let more = known.len().saturating_sub(MOST_SENTENCES) as u64;
    if more > 0 {
        let why = format!(
            "{} why inputs do not pass are in cases.jsonl",
            number_of(more, "further reason")
        );
        results.fall_short(ExitCode::NothingTested, Reason::other(why));
    }
    for (reason, first, count) in known.into_iter().take(MOST_SENTENCES) {
        let text = match count {
            1 => format!("input id:{first:06}: {}", reason.text),
            count => format!(
                "{}, first id:{first:06}: {}",
                number_of(count, "input"),
                reason.text
            ),
        };
        results.fall_short(ExitCode::NothingTested, Reason::new(reason.kind, text));
    }
}

fn add_gaps(examined: &[(u64, CaseExamination)], results: &mut Results) {
    let gaps = &mut results.subject.gaps;
    let mut left_out = 0;
    for gap in examined.iter().flat_map(|(_, done)| &done.gaps) {
        if gaps.contains(gap) {
            continue;
        }
        match gaps.len() < MOST_SENTENCES {
            true => gaps.push(gap.clone()),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        let sentence = number_of(left_out, "further sentence");
        gaps.push(format!(
            "{sentence} of this kind are in cases.jsonl, with the inputs that they are about"
        ));
    }
}

fn add_crashes(crashes: &[(u64, &CaseCrashes)], results: &mut Results) {
    let of = |wanted: &[CrashesTested]| -> Vec<&(u64, &CaseCrashes)> {
        let all = crashes.iter();
        all.filter(|(_, crashes)| wanted.contains(&crashes.tested()))
            .collect()
    };
    let tested = of(&[CrashesTested::Completely, CrashesTested::Partly]);
    let partial = of(&[CrashesTested::Partly, CrashesTested::Untried]);
    let refused = of(&[CrashesTested::Refused]);
    results.add_tested(format!(
        "crashes of {} were tested, of {} of them not all",
        number_of(tested.len() as u64, "input"),
        of(&[CrashesTested::Partly]).len()
    ));
    let first_reason = |cases: &[&(u64, &CaseCrashes)]| {
        let (case, crashes) = cases.first()?;
        Some((*case, crashes.reasons.0.first()?.clone()))
    };
    if let Some((case, reason)) = first_reason(&partial) {
        // A crash test can be resumed by an option that campaigns do not have.
        let text = reason.text.split("; --resume").next().unwrap_or_default();
        let why = format!(
            "not all crashes of {} were tested, the first being id:{case:06}: {text}; --crash-budget sets the time for each",
            number_of(partial.len() as u64, "input"),
        );
        let reason = Reason::new(ReasonKind::CoverageGap, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
    let is_refused = |reason: &&Reason| {
        !reason.kind.is_of_untried_crashes() && reason.kind != ReasonKind::UndecidedTrials
    };
    let Some((case, crashes)) = refused.first() else {
        return;
    };
    let Some(reason) = crashes.reasons.0.iter().find(is_refused) else {
        return;
    };
    if tested.is_empty() && partial.is_empty() {
        let code = match reason.kind {
            ReasonKind::RecoveryFailedWithoutCrash => ExitCode::TargetFailed,
            _ => ExitCode::NothingTested,
        };
        results.fall_short(code, reason.clone());
        return;
    }
    let why = format!(
        "crashes of {} could not be tested; after id:{case:06}: {}",
        number_of(refused.len() as u64, "input"),
        reason.text
    );
    let reason = Reason::new(ReasonKind::CoverageGap, why);
    results.fall_short(ExitCode::NothingTested, reason);
}

#[cfg(test)]
mod tests {
    use brownout_report::{Reasons, Subject};

    use super::*;

    fn case(reasons: &[Reason], crashes: Option<(u64, &[Reason])>) -> CaseExamination {
        CaseExamination {
            reasons: Reasons(reasons.to_vec()),
            gaps: Vec::new(),
            crashes: crashes.map(|(tried, reasons)| CaseCrashes {
                tried,
                reasons: Reasons(reasons.to_vec()),
            }),
        }
    }

    fn concluded(cases: Vec<CaseExamination>) -> Vec<(ExitCode, String)> {
        let mut results = Results::new(Subject::default(), Vec::new());
        let cases: Vec<_> = (0..).zip(cases).collect();
        conclude(&cases, true, &mut results);
        let shortfalls = results.shortfalls.into_iter();
        shortfalls
            .map(|shortfall| (shortfall.code, shortfall.reason.text))
            .collect()
    }

    #[test]
    fn a_reason_that_several_inputs_show_is_said_once() {
        let damage = Reason::other("the trace is damaged");
        let cases = vec![
            case(&[], Some((3, &[]))),
            case(std::slice::from_ref(&damage), Some((1, &[]))),
            case(std::slice::from_ref(&damage), Some((1, &[]))),
        ];
        let expected = "2 inputs, first id:000001: the trace is damaged";
        let shortfall = (ExitCode::NothingTested, expected.to_owned());
        assert_eq!(concluded(cases), [shortfall]);
    }

    #[test]
    fn crashes_that_were_not_all_tested_do_not_pass() {
        let gap = Reason::new(ReasonKind::CoverageGap, "the time limit was reached");
        let found = concluded(vec![
            case(&[], Some((0, &[gap]))),
            case(&[], Some((5, &[]))),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, ExitCode::NothingTested);
        let text = &found[0].1;
        assert!(text.starts_with("not all crashes of 1 input"), "{text}");
    }

    #[test]
    fn a_recovery_that_fails_without_a_crash_on_all_inputs_is_a_failure() {
        let kind = ReasonKind::RecoveryFailedWithoutCrash;
        let failed = [Reason::new(kind, "recovery failed")];
        let only = concluded(vec![case(&[], Some((0, &failed)))]);
        assert_eq!(
            only,
            [(ExitCode::TargetFailed, "recovery failed".to_owned())]
        );
        let one = concluded(vec![
            case(&[], Some((0, &failed))),
            case(&[], Some((9, &[]))),
        ]);
        assert_eq!(one[0].0, ExitCode::NothingTested);
    }
}
