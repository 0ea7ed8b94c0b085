//! The images with which suspects are tried, and write-backs of several pages.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;

use brownout_model::Profile;
use brownout_trace::EventKind;

use super::live_store::Loss;
use super::occurrences::{Found, SuspectOccurrences};
use super::open_orders::OrderLosses;
use super::{NoImage, Suspect, SuspectImages};
use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, Leaf, NameChanges, Occurrence, PointKind};
use crate::image::ImageBuilder;
use crate::recorded_run::{RecordedRun, Survey};
use crate::strategy::{ProposedCrash, in_turns, own_code_first, points_at_stores};
use crate::symbols::Symbols;

/// Images of one suspect.
const MOST_IMAGES: usize = 10;
/// Images of one suspect that are tried before anything else but failure points: they confirm it most often.
const FIRST_IMAGES: usize = 2;
/// Stores that a crash could lose at once; if there are more, following them all takes too much memory.
const MOST_LIVE: usize = 1 << 19;

/// Stores that an open order loses. A unit that is stored to more often without a guarantee is not meant to be persistent, and naming all
/// that a crash at each of thousands of instants loses of it takes longer than trying crashes.
const MOST_LOST: usize = 1 << 11;

/// Suspects, and the crash points that try them.
#[derive(Default)]
pub(crate) struct Proposed {
    pub(crate) suspects: Vec<SuspectImages>,
    /// The first [few](FIRST_IMAGES) images of each suspect, each with the crash in program order at the same instant: the first of
    /// each, the second, and so on.
    pub(crate) firsts: Vec<ProposedCrash>,
    /// The other images, in the same way.
    pub(crate) others: Vec<ProposedCrash>,
    /// For images that lose more than the store of the suspect, the image that loses the rest alone.
    pub(crate) keeping: HashMap<CrashPoint, ProposedCrash>,
    pub(crate) orders: OrderImages,
}

/// Images in which stores persist in another order than that of the program.
#[derive(Default)]
pub(crate) struct OrderImages {
    /// At failure points: one of each combination, and others.
    pub(crate) at_points: [Vec<ProposedCrash>; 2],
    /// At states between stores, in the same way.
    pub(crate) between_stores: [Vec<ProposedCrash>; 2],
    /// All that there are, also those that are too many to try.
    pub(crate) count: u64,
}

/// An image of a suspect and, if it loses more than the suspect's store, the one that loses the rest alone.
#[derive(Clone)]
struct Image {
    losing: ProposedCrash,
    keeping: Option<ProposedCrash>,
}

/// Finds the images with which suspects are tried, and those that try write-backs and, if `with_orders`, open orders, which
/// belong to no suspect.
pub(crate) fn propose(
    suspects: &[Suspect],
    with_orders: bool,
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
    symbols: &mut dyn Symbols,
) -> Result<Proposed, CrashError> {
    let mut proposed = Proposed::default();
    let has_write_backs = has(survey.points.leaves(), PointKind::WriteBack);
    if suspects.is_empty() && !with_orders && !has_write_backs {
        return Ok(proposed);
    }
    let (mut found, cut) = find(suspects, with_orders, run, survey, profile, symbols)?;
    let scope = survey.points.scope();
    for losses in &mut found.orders.between_stores {
        own_code_first(losses, |loss| loss.point, scope, symbols);
    }
    let orders = [&found.orders.at_points, &found.orders.between_stores];
    let no_losses = Vec::new();
    let of_suspects = found.suspects.iter();
    let of_suspects = of_suspects.map(|losses| losses.as_ref().unwrap_or(&no_losses));
    let losses: Vec<&Vec<Loss>> = of_suspects
        .chain(&found.syncs)
        .chain(orders.into_iter().flatten())
        .collect();
    let first_order = suspects.len() + found.syncs.len();
    let Images {
        mut images,
        left_out,
    } = build(&losses, first_order, run, survey, profile)?;
    let orders = images.split_off(first_order);
    proposed.orders = OrderImages::new(orders, found.orders.left_out + left_out);
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
    let queues = images.into_iter().map(|images| {
        let images = images.into_iter().map(|image| image.losing);
        images.collect::<VecDeque<ProposedCrash>>()
    });
    let mut queues: Vec<VecDeque<ProposedCrash>> = queues.collect();
    let others = queues.iter_mut().map(|queue| {
        let first = queue.len().min(FIRST_IMAGES);
        queue.split_off(first)
    });
    let others = in_turns(others.collect());
    proposed.others = others.into_iter().flat_map(compared).collect();
    let firsts = in_turns(queues);
    proposed.firsts = firsts.into_iter().flat_map(compared).collect();
    Ok(proposed)
}

impl OrderImages {
    /// Takes four lists of images. `left_out` is how many more there are.
    fn new(images: Vec<Vec<Image>>, left_out: u64) -> Self {
        let chosen = images.iter().map(Vec::len).sum::<usize>() as u64;
        // If no crash can leave any of those that were chosen, as under eADR, none can leave the others.
        let count = match chosen {
            0 => 0,
            chosen => chosen + left_out,
        };
        let mut images = images.into_iter().map(|images| {
            let images = images.into_iter().map(|image| ProposedCrash {
                purpose: TrialPurpose::OpenOrder,
                ..image.losing
            });
            images.collect()
        });
        let mut two = || [(); 2].map(|()| images.next().unwrap_or_default());
        Self {
            at_points: two(),
            between_stores: two(),
            count,
        }
    }
}

/// Whether the target makes its files durable by writing back pages (`msync`), and never by flushing lines.
fn only_writes_back(leaves: &[Leaf]) -> bool {
    has(leaves, PointKind::WriteBack) && !has(leaves, PointKind::Flush)
}

fn has(leaves: &[Leaf], kind: PointKind) -> bool {
    leaves.iter().any(|leaf| leaf.kind == kind)
}

/// An image, and the crash in program order at the same instant.
fn compared(image: ProposedCrash) -> [ProposedCrash; 2] {
    let in_order = ProposedCrash {
        point: CrashPoint::program_order(image.point.event),
        purpose: TrialPurpose::Suspect,
        lost: None,
        ..image.clone()
    };
    [image, in_order]
}

/// What each suspect loses, and when; and whether the end of the run is left out because there is too much to lose.
fn find(
    suspects: &[Suspect],
    with_orders: bool,
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
    symbols: &mut dyn Symbols,
) -> Result<(Found, bool), CrashError> {
    let scope = survey.points.scope();
    let mut points = FailurePoints::new(scope.clone());
    let mut states = points_at_stores(scope).filter(|_| with_orders);
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    builder.note_guarantees();
    let mut occurrences = SuspectOccurrences::new(
        suspects,
        &run.selection,
        &profile,
        only_writes_back(survey.points.leaves()),
    );
    let (mut cut, mut end) = (false, None);
    let mut names = NameChanges::default();
    run.walk(|event, definitions| {
        symbols.observe(event, definitions);
        if names.observe(definitions, &run.selection) {
            occurrences.rename(event.index);
        }
        if let Some(point) = points.observe(event, definitions, &run.selection, &mut *symbols) {
            occurrences.reach(point);
        }
        let states = states.as_mut();
        let state = states
            .and_then(|states| states.observe(event, definitions, &run.selection, &mut *symbols));
        if let Some(state) = state.filter(|state| state.kind == PointKind::Store) {
            occurrences.reach_between(state);
        }
        if let EventKind::ProcessExit { .. } = event.kind
            && points.begun()
            && symbols.wanted(None)
        {
            end = Some(FailurePoint {
                kind: PointKind::Exit,
                stack: points.stack_of_last_change(event, definitions, &mut *symbols),
                occurrence: Occurrence {
                    event: event.index,
                    operation: points.operation(),
                },
            });
        }
        builder.apply(event, definitions);
        let guaranteed = builder.take_guarantees();
        let completed = points.operation().completed;
        let is_store = with_orders && matches!(event.kind, EventKind::Store { .. });
        let stack = is_store.then(|| symbols.stack(event, definitions));
        occurrences.observe(event, stack.flatten(), definitions, completed, &guaranteed);
        cut = builder.losable_stores() > MOST_LIVE;
        if cut {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let mut found = occurrences.finish(end, cut);
    if !with_orders {
        found.orders = OrderLosses::default();
    }
    Ok((found, cut))
}

/// What [`build`] makes of lists of losses.
struct Images {
    /// For each list the crashes with them.
    images: Vec<Vec<Image>>,
    /// How many open orders lose too many stores.
    left_out: u64,
}

/// Finds the crashes with these losses, as far as the model allows them, without duplicates. The lists from `first_order` on are open
/// orders.
fn build(
    losses: &[&Vec<Loss>],
    first_order: usize,
    run: &RecordedRun,
    survey: &Survey,
    profile: Profile,
) -> Result<Images, CrashError> {
    let mut wanted: Vec<(usize, usize, Loss)> = Vec::new();
    for (suspect, losses) in losses.iter().enumerate() {
        let losses = losses.iter().enumerate();
        wanted.extend(losses.map(|(number, loss)| (suspect, number, loss.clone())));
    }
    wanted.sort_by_key(|(_, _, loss)| loss.point.occurrence.event);
    let mut wanted = wanted.into_iter().peekable();
    let mut found: Vec<(usize, usize, Image)> = Vec::new();
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    let mut left_out = 0;
    run.walk(|event, definitions| {
        while let Some((suspect, number, loss)) =
            wanted.next_if(|(_, _, loss)| loss.point.occurrence.event <= event.index)
        {
            if suspect >= first_order && builder.can_lose_more_than(MOST_LOST, loss.units.clone()) {
                left_out += 1;
                continue;
            }
            let crash = |choice| {
                let mut crash = ProposedCrash::from(loss.point);
                crash.point.choice = Some(choice);
                crash.purpose = TrialPurpose::Suspect;
                crash.lost = loss.stack;
                crash
            };
            let units = || loss.units.clone();
            let torn = loss.store.filter(|_| loss.present_words != 0);
            let losing = match torn {
                Some(store) => {
                    let unit = (loss.units.0, loss.units.1.start);
                    builder.choice_tearing(store, loss.present_words, unit, definitions)
                }
                None => builder.choice_losing(loss.store, units(), definitions),
            };
            let Some(losing) = losing else {
                continue;
            };
            let keeping = loss
                .store
                .filter(|_| torn.is_none())
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
    Ok(Images { images, left_out })
}
