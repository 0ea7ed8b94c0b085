//! The images with which suspects are tried.

use std::ops::ControlFlow;

use brownout_model::Profile;
use brownout_trace::EventKind;

use super::instances::{Instances, Loss};
use super::{NoImage, Suspect, SuspectImages};
use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, Occurrence, PointKind};
use crate::image::ImageBuilder;
use crate::recorded_run::{RecordedRun, Survey};
use crate::strategy::ProposedCrash;
use crate::symbols::Symbols;

/// Images of one suspect.
const MOST_IMAGES: usize = 10;
/// Stores that a crash could lose at once; if there are more, following them all takes too much memory.
const MOST_LIVE: usize = 1 << 19;

/// The losses with which a suspect is tried, or why there are none.
type Losses = Result<Vec<Loss>, NoImage>;

/// Suspects, and the crash points that try them.
#[derive(Default)]
pub(crate) struct Proposed {
    pub(crate) suspects: Vec<SuspectImages>,
    /// The first image of each suspect, each with the crash in program order at the same instant.
    pub(crate) firsts: Vec<ProposedCrash>,
    /// The other images, in the same way.
    pub(crate) others: Vec<ProposedCrash>,
}

/// Finds the images with which suspects are tried.
pub(crate) fn propose(
    suspects: &[Suspect],
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
    symbols: &mut dyn Symbols,
) -> Result<Proposed, CrashError> {
    let mut proposed = Proposed::default();
    if suspects.is_empty() {
        return Ok(proposed);
    }
    let (losses, cut) = find(suspects, run, survey, profile, symbols)?;
    let images = build(&losses, run, survey, profile)?;
    for ((suspect, losses), images) in suspects.iter().zip(&losses).zip(&images) {
        let points: Vec<CrashPoint> = images.iter().map(|crash| crash.point.clone()).collect();
        let no_image = match losses {
            Err(reason) => Some(*reason),
            Ok(_) if cut => Some(NoImage::TooManyStores),
            Ok(_) if points.is_empty() => Some(NoImage::NothingToLose),
            Ok(_) => None,
        };
        proposed.suspects.push(SuspectImages {
            suspect: suspect.finding.clone(),
            images: points,
            no_image,
        });
    }
    for mut images in images.into_iter().map(Vec::into_iter) {
        proposed
            .firsts
            .extend(images.next().map(compared).into_iter().flatten());
        proposed.others.extend(images.flat_map(compared));
    }
    Ok(proposed)
}

/// An image, and the crash in program order at the same instant.
fn compared(image: ProposedCrash) -> [ProposedCrash; 2] {
    let in_order = ProposedCrash {
        point: CrashPoint::program_order(image.point.event),
        purpose: TrialPurpose::Suspect,
        ..image.clone()
    };
    [image, in_order]
}

/// What each suspect loses, and when; and whether the end of the run is left out because there is too much to lose.
fn find(
    suspects: &[Suspect],
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
    symbols: &mut dyn Symbols,
) -> Result<(Vec<Losses>, bool), CrashError> {
    let mut points = FailurePoints::new(survey.points.scope().clone());
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    builder.note_guarantees();
    let mut instances = Instances::new(suspects, &run.selection, &profile);
    let (mut cut, mut end) = (false, None);
    run.walk(|event, definitions| {
        symbols.observe(event, definitions);
        if let Some(point) = points.observe(event, definitions, &run.selection, &mut *symbols) {
            instances.reach(point);
        }
        if let EventKind::ProcessExit { .. } = event.kind
            && points.begun()
            && symbols.wanted(None)
        {
            end = Some(FailurePoint {
                kind: PointKind::Exit,
                stack: None,
                occurrence: Occurrence {
                    event: event.index,
                    operation: points.operation(),
                },
            });
        }
        builder.apply(event, definitions);
        let guaranteed = builder.take_guarantees();
        let completed = points.operation().completed;
        instances.observe(event, definitions, completed, &guaranteed);
        cut = builder.losable_stores() > MOST_LIVE;
        if cut {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok((instances.finish(end, cut), cut))
}

/// For each suspect the crashes with its losses, as far as the model allows them.
fn build(
    losses: &[Losses],
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
) -> Result<Vec<Vec<ProposedCrash>>, CrashError> {
    let mut wanted: Vec<(usize, usize, Loss)> = Vec::new();
    for (suspect, losses) in losses.iter().enumerate() {
        let losses = losses.iter().flatten().enumerate();
        wanted.extend(losses.map(|(number, loss)| (suspect, number, loss.clone())));
    }
    wanted.sort_by_key(|(_, _, loss)| loss.point.occurrence.event);
    let mut wanted = wanted.into_iter().peekable();
    let mut found: Vec<(usize, usize, ProposedCrash)> = Vec::new();
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    run.walk(|event, definitions| {
        while let Some((suspect, number, loss)) =
            wanted.next_if(|(_, _, loss)| loss.point.occurrence.event <= event.index)
        {
            let Some(choice) = builder.choice_losing(loss.store, loss.units, definitions) else {
                continue;
            };
            let mut crash = ProposedCrash::from(loss.point);
            crash.point.choice = Some(choice);
            crash.purpose = TrialPurpose::Suspect;
            found.push((suspect, number, crash));
        }
        builder.apply(event, definitions);
        match wanted.peek() {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    })?;
    found.sort_by_key(|&(suspect, number, _)| (suspect, number));
    let mut images: Vec<Vec<ProposedCrash>> = vec![Vec::new(); losses.len()];
    for (suspect, _, crash) in found {
        let images = &mut images[suspect];
        let is_known = images.iter().any(|known| known.point == crash.point);
        if !is_known && images.len() < MOST_IMAGES {
            images.push(crash);
        }
    }
    Ok(images)
}
