//! The crash images with which update behaviours are tried.
//!
//! An image has everything that was issued before the behaviour. Of its stores it has what a [state](super::loss_sets) says. What other
//! code has stored since is there completely or, in a second image, only as far as it is guaranteed: that shows wrong orders between
//! objects, such as a pointer without its node. All images are choices of the persistency model, so a crash can leave each of them.
//!
//! If stores can be torn, a store of several words is tried with the first half of its words in a line and with the second, beside all
//! other stores of the behaviour and beside none. Locked instructions are never torn.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use brownout_model::{LINE, OrderedStore, Profile, StoreNumber, Tearing};
use brownout_trace::{Definitions, EventIndex, FileId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::losable_stores::BehaviourTimes;
use super::loss_sets::{Chain, Kept, States, full, states};
use crate::crash_point::{Choice, CrashPoint};
use crate::error::CrashError;
use crate::failure_point::FailurePoint;
use crate::image::{ImageBuilder, TornPart};
use crate::persistent_files::PersistentFiles;
use crate::progress::{ProgressObserver, must_stop};
use crate::recorded_run::RecordedRun;
use crate::torn_words::word_halves;
use crate::update_behaviour::{BehaviourNumber, RunStores};

/// Stores that a crash could lose at once; if there are more, what other code has stored is always complete.
const MOST_LIVE: usize = 1 << 15;

/// Stores of a behaviour that are torn at one time, at most: the newest.
const MOST_TORN: usize = 16;

/// A store of more bytes can be torn in more ways than are tried.
const TWO_WORDS: u32 = 16;

/// The stores during a behaviour that are looked at to recognise an earlier state.
const LONGEST_WINDOW: usize = 1 << 16;

/// The file and the start of a unit.
type UnitKey = (FileId, u64);

/// What a crash leaves of the stores that other code has made during a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OtherStores {
    All,
    Guaranteed,
}

/// An image to build.
#[derive(Clone, Debug)]
pub(super) struct PlannedImage {
    pub(super) behaviour: BehaviourNumber,
    pub(super) point: FailurePoint,
    chains: Arc<[Chain]>,
    kept: Kept,
    others: OtherStores,
    /// The first lost store of its chain may be there in part.
    torn: Option<TornPart>,
    /// The first store of the behaviour that may be lost; what was issued before is present.
    pub(super) since: EventIndex,
    /// All its stores, in the order of issue.
    own: Arc<[EventIndex]>,
}

/// An image that a crash can leave.
pub(super) struct FoundImage {
    pub(super) planned: PlannedImage,
    pub(super) crash: CrashPoint,
}

/// The images of a behaviour.
#[derive(Debug, Default)]
pub(super) struct BehaviourPlan {
    /// Those that differ most from program order: of each code that stores, something is lost.
    pub(super) first: Vec<PlannedImage>,
    pub(super) others: Vec<PlannedImage>,
    /// Whether a crash can leave other states of the behaviour.
    pub(super) is_sample: bool,
}

/// What decides which states a crash can leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrashModel {
    pub(super) profile: Profile,
    pub(super) tearing: Tearing,
}

/// Plans the images of a behaviour with these stores, which are in the order of issue.
pub(super) fn plan(
    behaviour: BehaviourNumber,
    numbers: &[StoreNumber],
    stores: &RunStores,
    model: CrashModel,
) -> BehaviourPlan {
    let mut planned = BehaviourPlan::default();
    let Some(&first) = numbers.first() else {
        return planned;
    };
    let own = numbers.iter().map(|&store| event_of(store, stores));
    let own: Arc<[EventIndex]> = own.collect();
    let BehaviourTimes {
        times, is_sample, ..
    } = BehaviourTimes::of(numbers, stores);
    planned.is_sample = is_sample;
    let last = times.len().saturating_sub(1);
    for (number, time) in times.into_iter().enumerate() {
        let is_first_time = number == last || time.has_other_code;
        let since = match (time.is_cut, time.stores.first()) {
            (true, Some(&oldest)) => oldest,
            _ => first,
        };
        let chains: Arc<[Chain]> = chains(&time.stores, stores, &model.profile).into();
        let image = |kept, torn, others| PlannedImage {
            behaviour,
            point: time.point,
            chains: Arc::clone(&chains),
            kept,
            others,
            torn,
            since: event_of(since, stores),
            own: Arc::clone(&own),
        };
        let States { tried, is_sample } = states(&chains, u64::from(behaviour.0));
        planned.is_sample |= is_sample;
        // Twice the bits of the number of chains, and the state without any store.
        let separating = 2 * chains.len().next_power_of_two().trailing_zeros() as usize + 1;
        for (number, kept) in tried.into_iter().enumerate() {
            for others in [OtherStores::All, OtherStores::Guaranteed] {
                let is_first = is_first_time && number < separating && others == OtherStores::All;
                let image = image(kept.clone(), None, others);
                match is_first {
                    true => planned.first.push(image),
                    false => planned.others.push(image),
                }
            }
        }
        if model.tearing == Tearing::Words && model.profile.unit == LINE {
            let TornStates { tried, is_sample } = torn_states(&time.stores, &chains, stores);
            planned.is_sample |= is_sample;
            for (kept, torn) in tried {
                let image = image(kept, Some(torn), OtherStores::All);
                planned.others.push(image);
            }
        }
    }
    planned
}

struct TornStates {
    tried: Vec<(Kept, TornPart)>,
    /// A crash can leave others.
    is_sample: bool,
}

/// States in which a store is there in part.
fn torn_states(losable: &[StoreNumber], chains: &[Chain], stores: &RunStores) -> TornStates {
    let chain_of = |unit: UnitKey, event: EventIndex| {
        let mut chains = chains.iter().enumerate();
        chains.find_map(|(number, chain)| {
            let at = (chain.unit == unit).then(|| chain.stores.binary_search(&event));
            Some((number, at?.ok()?))
        })
    };
    let halves = |number: StoreNumber| {
        let stored = stores.stored(number);
        word_halves(
            stored.offset,
            stored.offset + u64::from(stored.len.max(1)) - 1,
        )
    };
    let wide = losable
        .iter()
        .rev()
        .copied()
        .filter(|&number| !stores.stored(number).is_locked && halves(number).next().is_some());
    let wide: Vec<StoreNumber> = wide.collect();
    let has_more_words = |&number: &StoreNumber| stores.stored(number).len > TWO_WORDS;
    let is_sample = wide.len() > MOST_TORN || wide.iter().any(has_more_words);
    let mut tried = Vec::new();
    for number in wide.into_iter().take(MOST_TORN) {
        let stored = stores.stored(number);
        let event = event_of(number, stores);
        for (line, words) in halves(number) {
            let unit = (stored.file, line);
            let Some((chain, at)) = chain_of(unit, event) else {
                continue;
            };
            let torn = TornPart {
                unit,
                store: event,
                words,
            };
            for mut kept in [full(chains), vec![0; chains.len()]] {
                kept[chain] = u16::try_from(at).unwrap_or(u16::MAX);
                tried.push((kept, torn));
            }
        }
    }
    TornStates { tried, is_sample }
}

fn event_of(store: StoreNumber, stores: &RunStores) -> EventIndex {
    EventIndex(stores.order.store(store).issued.0)
}

/// Stores of a behaviour, by the units that they change.
fn chains(losable: &[StoreNumber], stores: &RunStores, profile: &Profile) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut by_unit: FxHashMap<UnitKey, usize> = FxHashMap::default();
    for &number in losable {
        let order = stores.order.store(number);
        let event = event_of(number, stores);
        let stored = stores.stored(number);
        let start = stored.offset - stored.offset % profile.unit;
        let end = stored.offset + u64::from(stored.len.max(1));
        let is_in_one_unit = end <= start + profile.unit;
        if order.unit().is_none() && is_in_one_unit {
            // A non-temporal store is independent of all others.
            chains.push(Chain {
                unit: (stored.file, start),
                in_sequence: false,
                stores: vec![event],
            });
            continue;
        }
        for unit in (start..end).step_by(profile.unit as usize) {
            let key = (stored.file, unit);
            let chain = *by_unit.entry(key).or_insert_with(|| {
                chains.push(Chain {
                    unit: key,
                    in_sequence: true,
                    stores: Vec::new(),
                });
                chains.len() - 1
            });
            chains[chain].stores.push(event);
        }
    }
    chains
}

/// The images of several behaviours.
#[derive(Default)]
pub(super) struct Built {
    pub(super) images: Vec<FoundImage>,
    /// The behaviours of which images are missing because a crash could lose too many stores of other code.
    pub(super) incomplete: Vec<BehaviourNumber>,
}

/// Builds images in one pass over the run, as far as the observer allows; without those that no crash can leave.
pub(super) fn build(
    mut planned: Vec<PlannedImage>,
    run: &RecordedRun,
    files: &PersistentFiles,
    profile: Profile,
    observer: &mut dyn ProgressObserver,
) -> Result<Built, CrashError> {
    planned.sort_by_key(|image| image.point.occurrence.event);
    let mut planned = planned.into_iter().peekable();
    let mut found = Built::default();
    let mut builder = ImageBuilder::new(files, &run.selection).with_states(profile);
    run.walk(|event, definitions| {
        if must_stop(event.index, observer) {
            return ControlFlow::Break(());
        }
        while let Some(image) = planned.next_if(|image| image.point.occurrence.event <= event.index)
        {
            if image.others == OtherStores::Guaranteed && builder.losable_stores() > MOST_LIVE {
                found.incomplete.push(image.behaviour);
            } else if let Some(choice) = image.choice(&builder, definitions) {
                // Without anything that is lost, it is program order.
                let choice = Some(choice).filter(|choice| !choice.lines.is_empty());
                let crash = CrashPoint::chosen(image.point.occurrence.event.0, choice);
                found.images.push(FoundImage {
                    planned: image,
                    crash,
                });
            }
        }
        builder.apply(event, definitions);
        match planned.peek() {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    })?;
    Ok(found)
}

impl PlannedImage {
    /// Whether the behaviour's store at `event` is not, or not completely, in the image.
    pub(super) fn loses(&self, event: EventIndex) -> bool {
        let mut chains = self.chains.iter().zip(&self.kept);
        chains.any(|(chain, &kept)| chain.lost(kept).binary_search(&event).is_ok())
    }

    /// Whether the image is one that a crash in program order leaves a little earlier: no store is present that was issued after one
    /// that is lost. It may not be noticed if the behaviour lasts very long.
    pub(super) fn is_earlier_state(&self, stores: &RunStores) -> bool {
        if self.torn.is_some() {
            return false;
        }
        let crash = self.point.occurrence.event;
        let all = stores.order.stores();
        let issued_before = |event: EventIndex| {
            let is_before = |store: &OrderedStore| store.issued.0 < event.0;
            all.partition_point(is_before)
        };
        let chains = self.chains.iter().zip(&self.kept);
        let lost: FxHashSet<EventIndex> = chains
            .flat_map(|(chain, &kept)| chain.lost(kept).iter().copied())
            .collect();
        let is_lost = |store: &OrderedStore| {
            let event = EventIndex(store.issued.0);
            let is_guaranteed = store.guaranteed().is_some_and(|time| time.0 < crash.0);
            let is_other = || self.own.binary_search(&event).is_err();
            !is_guaranteed
                && (lost.contains(&event) || self.others == OtherStores::Guaranteed && is_other())
        };
        let first_lost = lost.iter().min().copied();
        let from = match (self.others, first_lost) {
            (OtherStores::All, None) => return true,
            (OtherStores::All, Some(first)) => first,
            (OtherStores::Guaranteed, _) => self.since,
        };
        let window = &all[issued_before(from)..issued_before(crash)];
        if self.others == OtherStores::Guaranteed && window.len() > LONGEST_WINDOW {
            return false;
        }
        let mut window = window.iter();
        !window.any(is_lost) || window.all(is_lost)
    }

    /// The last store of the behaviour that is lost.
    pub(super) fn last_lost(&self) -> Option<EventIndex> {
        let chains = self.chains.iter().zip(&self.kept);
        let lost = chains.filter_map(|(chain, &kept)| chain.lost(kept).last());
        lost.max().copied()
    }

    /// The choice of the model for this image; `None` if no crash can leave it.
    fn choice(&self, builder: &ImageBuilder<'_>, definitions: &Definitions) -> Option<Choice> {
        let mut kept_parts: FxHashMap<(UnitKey, EventIndex), bool> = FxHashMap::default();
        let mut first_lost: FxHashMap<UnitKey, EventIndex> = FxHashMap::default();
        let mut last_kept: FxHashMap<UnitKey, EventIndex> = FxHashMap::default();
        let mut lossy: BTreeSet<UnitKey> = BTreeSet::new();
        for (chain, &kept) in self.chains.iter().zip(&self.kept) {
            let kept = usize::from(kept);
            let parts = chain.stores.iter().enumerate();
            kept_parts.extend(parts.map(|(at, &store)| ((chain.unit, store), at < kept)));
            lossy.extend((kept < chain.stores.len()).then_some(chain.unit));
            if chain.in_sequence {
                let lost = chain.stores.get(kept).map(|&store| (chain.unit, store));
                first_lost.extend(lost);
                let last = chain.stores[..kept].last();
                last_kept.extend(last.map(|&store| (chain.unit, store)));
            }
        }
        let all = self.others == OtherStores::All;
        let keeps = |unit: UnitKey, store: EventIndex, is_optional: bool| {
            let own = kept_parts.get(&(unit, store)).copied();
            match is_optional {
                _ if store < self.since => true,
                true => own.unwrap_or(all),
                false if all => first_lost.get(&unit).is_none_or(|lost| store < *lost),
                false => last_kept.get(&unit).is_some_and(|kept| store <= *kept),
            }
        };
        let lossy = Some(&lossy).filter(|_| all);
        let choice = builder.choice_with(lossy, self.torn, keeps, definitions)?;
        // Nothing is torn if the part is guaranteed, or has a single word there.
        (choice.has_torn_stores() || self.torn.is_none()).then_some(choice)
    }
}
