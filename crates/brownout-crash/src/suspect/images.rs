//! The images with which suspects are tried, and write-backs of several pages.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use brownout_model::Profile;
use brownout_trace::EventKind;

use super::live_store::Loss;
use super::occurrences::{Found, SuspectOccurrences};
use super::{NoImage, Suspect, SuspectImages};
use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, Leaf, Occurrence, PointKind};
use crate::image::ImageBuilder;
use crate::recorded_run::{RecordedRun, Survey};
use crate::strategy::ProposedCrash;
use crate::symbols::Symbols;

/// Images of one suspect.
const MOST_IMAGES: usize = 10;
/// Stores that a crash could lose at once; if there are more, following them all takes too much memory.
const MOST_LIVE: usize = 1 << 19;

/// Suspects, and the crash points that try them.
#[derive(Default)]
pub(crate) struct Proposed {
    pub(crate) suspects: Vec<SuspectImages>,
    /// The first image of each suspect, each with the crash in program order at the same instant.
    pub(crate) firsts: Vec<ProposedCrash>,
    /// The other images, in the same way.
    pub(crate) others: Vec<ProposedCrash>,
    /// For images that lose more than the store of the suspect, the image that loses the rest alone.
    pub(crate) keeping: HashMap<CrashPoint, ProposedCrash>,
    /// Images in which stores persist in another order: one of each combination, and others.
    pub(crate) orders: [Vec<ProposedCrash>; 2],
}

/// An image of a suspect and, if it loses more than the suspect's store, the one that loses the rest alone.
#[derive(Clone)]
struct Image {
    losing: ProposedCrash,
    keeping: Option<ProposedCrash>,
}

/// Finds the images with which suspects are tried, and those that try write-backs and open orders, which belong to no suspect.
pub(crate) fn propose(
    suspects: &[Suspect],
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
    symbols: &mut dyn Symbols,
) -> Result<Proposed, CrashError> {
    let mut proposed = Proposed::default();
    let (found, cut) = find(suspects, run, survey, profile, symbols)?;
    let no_losses = Vec::new();
    let of_suspects = found.suspects.iter();
    let of_suspects = of_suspects.map(|losses| losses.as_ref().unwrap_or(&no_losses));
    let losses: Vec<&Vec<Loss>> = of_suspects
        .chain(&found.syncs)
        .chain(&found.orders)
        .collect();
    let mut images = build(&losses, run, survey, profile)?;
    let orders = images.split_off(images.len() - found.orders.len());
    for images in &mut images {
        images.truncate(MOST_IMAGES);
    }
    for ((suspect, losses), images) in suspects.iter().zip(&found.suspects).zip(&images) {
        let points: Vec<CrashPoint> = images
            .iter()
            .map(|image| image.losing.point.clone())
            .collect();
        let no_image = match losses {
            Err(reason) => Some(*reason),
            Ok(_) if cut => Some(NoImage::TooManyStores),
            Ok(_) if points.is_empty() => Some(NoImage::NothingToLose),
            Ok(_) => None,
        };
        proposed.suspects.push(SuspectImages {
            suspect: suspect.finding.clone(),
            images: points,
            keeping: images
                .iter()
                .map(|image| Some(image.keeping.as_ref()?.point.clone()))
                .collect(),
            no_image,
        });
    }
    for image in images.iter().flatten() {
        let keeping = image.keeping.clone();
        let keeping = keeping.map(|keeping| (image.losing.point.clone(), keeping));
        proposed.keeping.extend(keeping);
    }
    for images in images {
        let mut images = images.into_iter().map(|image| image.losing);
        proposed
            .firsts
            .extend(images.next().map(compared).into_iter().flatten());
        proposed.others.extend(images.flat_map(compared));
    }
    for (orders, images) in proposed.orders.iter_mut().zip(orders) {
        orders.extend(images.into_iter().map(|image| ProposedCrash {
            purpose: TrialPurpose::OpenOrder,
            ..image.losing
        }));
    }
    Ok(proposed)
}

/// Whether the target makes its files durable by writing back pages (`msync`), and never by flushing lines.
fn only_writes_back(leaves: &[Leaf]) -> bool {
    let has = |kind| leaves.iter().any(|leaf| leaf.kind == kind);
    has(PointKind::WriteBack) && !has(PointKind::Flush)
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
) -> Result<(Found, bool), CrashError> {
    let mut points = FailurePoints::new(survey.points.scope().clone());
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    builder.note_guarantees();
    let mut occurrences = SuspectOccurrences::new(
        suspects,
        &run.selection,
        &profile,
        only_writes_back(survey.points.leaves()),
    );
    let (mut cut, mut end) = (false, None);
    run.walk(|event, definitions| {
        symbols.observe(event, definitions);
        if let Some(point) = points.observe(event, definitions, &run.selection, &mut *symbols) {
            occurrences.reach(point);
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
        occurrences.observe(event, definitions, completed, &guaranteed);
        cut = builder.losable_stores() > MOST_LIVE;
        if cut {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok((occurrences.finish(end, cut), cut))
}

/// For each list of losses the crashes with them, as far as the model allows them, without duplicates.
fn build(
    losses: &[&Vec<Loss>],
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
) -> Result<Vec<Vec<Image>>, CrashError> {
    let mut wanted: Vec<(usize, usize, Loss)> = Vec::new();
    for (suspect, losses) in losses.iter().enumerate() {
        let losses = losses.iter().enumerate();
        wanted.extend(losses.map(|(number, loss)| (suspect, number, loss.clone())));
    }
    wanted.sort_by_key(|(_, _, loss)| loss.point.occurrence.event);
    let mut wanted = wanted.into_iter().peekable();
    let mut found: Vec<(usize, usize, Image)> = Vec::new();
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    run.walk(|event, definitions| {
        while let Some((suspect, number, loss)) =
            wanted.next_if(|(_, _, loss)| loss.point.occurrence.event <= event.index)
        {
            let crash = |choice| {
                let mut crash = ProposedCrash::from(loss.point);
                crash.point.choice = Some(choice);
                crash.purpose = TrialPurpose::Suspect;
                crash
            };
            let units = || loss.units.clone();
            let Some(losing) = builder.choice_losing(loss.store, units(), definitions) else {
                continue;
            };
            let keeping = loss
                .store
                .and_then(|store| builder.choice_keeping(store, units(), definitions));
            let image = Image {
                losing: crash(losing),
                keeping: keeping.map(crash),
            };
            found.push((suspect, number, image));
        }
        builder.apply(event, definitions);
        match wanted.peek() {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    })?;
    found.sort_by_key(|&(suspect, number, _)| (suspect, number));
    let mut images: Vec<Vec<Image>> = vec![Vec::new(); losses.len()];
    let mut known: HashSet<(usize, CrashPoint)> = HashSet::new();
    for (list, _, image) in found {
        if known.insert((list, image.losing.point.clone())) {
            images[list].push(image);
        }
    }
    Ok(images)
}
