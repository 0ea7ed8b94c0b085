//! Crash images of single states of the persistency model.
//!
//! A line of such an image holds what was settled before, and over that the stores that the choice says are present. What
//! was settled is found by undoing the stores that a crash may lose, newest first, from the line's present content.
//! Only lines with such stores differ from the image in program order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use brownout_model::{ByteMask, CrashStates, LINE, Part, Profile, Tearing, UnitState, UnitStates};
use brownout_trace::replay::{Content, PAGE};
use brownout_trace::{Definitions, EventIndex, FileId};

use super::{CrashImage, ImageBuilder, ImageDigest};
use crate::crash_point::{Choice, ImpossibleChoice, LineChoice, OtherLines, TornStore};
use crate::persistency::{GuaranteedPart, PartId, Persistency};

/// The crash image of a choice.
#[derive(Clone, Debug)]
pub struct ChosenImage {
    pub image: CrashImage,
    pub digest: ImageDigest,
    /// The stores before the crash that are not in the image, or not as a whole, in the order of the trace.
    pub lost: Vec<LostBytes>,
    /// What the image has of stores that are torn, in the order of the trace.
    pub torn: Vec<TornBytes>,
}

/// Bytes of a store that are not in a crash image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostBytes {
    pub event: EventIndex,
    /// Number of the file.
    pub file: usize,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Bytes in a crash image of a store that is torn: other bytes of it in the same unit are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TornBytes {
    pub event: EventIndex,
    /// Number of the file.
    pub file: usize,
    pub offset: u64,
    pub len: u64,
}

/// A store of which a state has only some words in a unit, which is a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TornPart {
    pub(crate) unit: (FileId, u64),
    pub(crate) store: EventIndex,
    /// The words that are there, as a set of bits.
    pub(crate) words: u8,
}

impl TornPart {
    fn bytes(self) -> ByteMask {
        let Self { words, .. } = self;
        TornStore { store: 0, words }.bytes()
    }
}

/// What a state loses of a unit.
#[derive(Clone, Copy)]
enum Without {
    /// A store, and the later ones that cannot persist without it.
    StoreAndLater(EventIndex),
    /// The later ones alone.
    Later(EventIndex),
    /// Everything that is not guaranteed.
    All,
}

impl ImageBuilder<'_> {
    /// Follows the persistency model too, from the start of the trace, so that choices have images.
    pub fn with_states(mut self, profile: Profile) -> Self {
        self.persistency = Some(Persistency::new(profile));
        self
    }

    /// All states that a crash now can leave, as choices. There can be very many.
    pub fn choices(
        &self,
        tearing: Tearing,
        definitions: &Definitions,
    ) -> impl Iterator<Item = Choice> {
        let holders = self.holders(definitions);
        self.persistency.iter().flat_map(move |persistency| {
            let (states, holders) = (persistency.crash_states(tearing), holders.clone());
            let all = states.iter();
            all.map(move |state| name(persistency, tearing, &holders, &states, &state))
        })
    }

    /// The state that loses the part of a store in `range`, which holds whole units, the later stores to these units that
    /// cannot persist without it, and nothing else; without a store, everything there that can be lost. `None` if no crash
    /// now loses it.
    pub(crate) fn choice_losing(
        &self,
        store: Option<EventIndex>,
        units: (FileId, Range<u64>),
        definitions: &Definitions,
    ) -> Option<Choice> {
        let without = store.map_or(Without::All, Without::StoreAndLater);
        self.choice_without(without, units, definitions)
    }

    /// The state that has the store that [`choice_losing`](Self::choice_losing) loses, and loses the same later ones; `None` if there
    /// are no later ones.
    pub(crate) fn choice_keeping(
        &self,
        store: EventIndex,
        units: (FileId, Range<u64>),
        definitions: &Definitions,
    ) -> Option<Choice> {
        self.choice_without(Without::Later(store), units, definitions)
    }

    fn choice_without(
        &self,
        without: Without,
        (file, range): (FileId, Range<u64>),
        definitions: &Definitions,
    ) -> Option<Choice> {
        let persistency = self.persistency.as_ref()?;
        let states = persistency.crash_states_in(file, range, Tearing::Whole);
        let state: Option<Vec<UnitState>> = states
            .units()
            .iter()
            .map(|unit| {
                let store = match without {
                    Without::StoreAndLater(store) | Without::Later(store) => store,
                    Without::All => return unit.state_with(|part| unit.is_guaranteed(part)),
                };
                let is_of_store = |part: usize| {
                    persistency.part(unit.parts()[part].tag).event == store
                        && !unit.is_guaranteed(part)
                };
                let in_sequence =
                    |part: usize| !unit.is_guaranteed(part) && !unit.is_optional(part);
                let mut parts = 0..unit.parts().len();
                let first = parts.find(|&part| is_of_store(part) && in_sequence(part));
                unit.state_with(|part| {
                    let after = first.is_some_and(|first| part > first);
                    match is_of_store(part) {
                        true => matches!(without, Without::Later(_)),
                        false => !(after && in_sequence(part)),
                    }
                })
            })
            .collect();
        let holders = self.holders(definitions);
        let choice = name(persistency, Tearing::Whole, &holders, &states, &state?);
        (!choice.lines.is_empty()).then_some(choice)
    }

    /// The state that has only some words of a store in one unit, and all other stores; `None` if no crash now leaves that state.
    pub(crate) fn choice_tearing(
        &self,
        store: EventIndex,
        words: u8,
        (file, unit): (FileId, u64),
        definitions: &Definitions,
    ) -> Option<Choice> {
        let persistency = self.persistency.as_ref()?;
        let states = persistency.crash_states_in(file, unit..unit + 1, Tearing::Words);
        let torn = TornStore { store: 0, words }.bytes();
        let state: Option<Vec<UnitState>> = states
            .units()
            .iter()
            .map(|unit| {
                unit.state_of(|part| {
                    let part = &unit.parts()[part];
                    match persistency.part(part.tag).event == store {
                        true => part.bytes.and(torn),
                        false => part.bytes,
                    }
                })
            })
            .collect();
        let holders = self.holders(definitions);
        let choice = name(persistency, Tearing::Words, &holders, &states, &state?);
        choice.has_torn_stores().then_some(choice)
    }

    /// The state that has what is guaranteed and the stores that `keeps` accepts, of the given units or of all; other units have all their
    /// stores. `keeps` is asked with the unit, the event of the store, and whether a crash keeps it independently of other
    /// stores. The part that is torn is not asked for. `None` if no crash now leaves that state.
    pub(crate) fn choice_with(
        &self,
        units: Option<&BTreeSet<(FileId, u64)>>,
        torn: Option<TornPart>,
        keeps: impl Fn((FileId, u64), EventIndex, bool) -> bool,
        definitions: &Definitions,
    ) -> Option<Choice> {
        let persistency = self.persistency.as_ref()?;
        let tearing = torn.map_or(Tearing::Whole, |_| Tearing::Words);
        let of_unit = |&(file, start): &(FileId, u64)| {
            persistency.crash_states_in(file, start..start + 1, tearing)
        };
        let all: Vec<CrashStates<PartId>> = match units {
            Some(units) => units.iter().map(of_unit).collect(),
            None => vec![persistency.crash_states(tearing)],
        };
        let holders = self.holders(definitions);
        let mut chosen = Choice {
            profile: persistency.profile().name.to_owned(),
            tearing,
            others: OtherLines::Newest,
            lines: Vec::new(),
        };
        for states in all {
            let state: Option<Vec<UnitState>> = states
                .units()
                .iter()
                .map(|unit| {
                    let address = unit.address();
                    let key = (FileId(address.space.0), address.offset);
                    unit.state_of(|part| {
                        let bytes = unit.parts()[part].bytes;
                        let store = persistency.part(unit.parts()[part].tag).event;
                        let is_torn = |torn: &TornPart| (torn.unit, torn.store) == (key, store);
                        match torn.filter(is_torn) {
                            _ if unit.is_guaranteed(part) => bytes,
                            Some(torn) => bytes.and(torn.bytes()),
                            None if keeps(key, store, unit.is_optional(part)) => bytes,
                            None => ByteMask::NONE,
                        }
                    })
                })
                .collect();
            let named = name(persistency, tearing, &holders, &states, &state?);
            chosen.lines.extend(named.lines);
        }
        chosen.lines.sort();
        Some(chosen)
    }

    /// Notes from now on what becomes guaranteed.
    pub(crate) fn note_guarantees(&mut self) {
        if let Some(persistency) = &mut self.persistency {
            persistency.note_guarantees();
        }
    }

    /// What has become guaranteed since this was last asked.
    pub(crate) fn take_guarantees(&mut self) -> Vec<GuaranteedPart> {
        let persistency = self.persistency.as_mut();
        persistency.map_or_else(Vec::new, Persistency::take_guarantees)
    }

    /// How many stores a crash could lose now.
    pub(crate) fn losable_stores(&self) -> usize {
        let persistency = self.persistency.as_ref();
        persistency.map_or(0, Persistency::losable_stores)
    }

    /// Whether a crash could lose more than `most` stores of some units now.
    pub(crate) fn can_lose_more_than(
        &self,
        most: usize,
        (file, range): (FileId, Range<u64>),
    ) -> bool {
        let persistency = self.persistency.as_ref();
        let losable = persistency.map(|known| known.losable_stores_in(file, range, most + 1));
        losable.is_some_and(|losable| losable > most)
    }

    /// The image of a choice. `event` is the next event, for messages.
    pub fn chosen(
        &mut self,
        choice: &Choice,
        event: u64,
        definitions: &Definitions,
    ) -> Result<ChosenImage, ImpossibleChoice> {
        let followed = self.persistency.as_ref();
        let persistency = followed
            .filter(|persistency| persistency.profile().name == choice.profile)
            .ok_or_else(|| ImpossibleChoice::OtherProfile {
                choice: choice.profile.clone(),
                followed: followed.map_or("none".into(), |known| known.profile().name.into()),
            })?;
        let holders = self.holders(definitions);
        let units = units_of(choice, &holders, persistency);
        check(choice, event, &holders, persistency, &units)?;
        let mut image = self.image(definitions);
        let (mut lost, mut torn) = (Vec::new(), Vec::new());
        let mut changed: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for unit in &units {
            let Some(file) = number_of(&holders, unit) else {
                continue;
            };
            let present = |part: usize| {
                let known = &unit.parts()[part];
                let number = persistency.part(known.tag).number;
                match choice.line(file, known.line.offset) {
                    Some(line) => line.present(number, known.bytes),
                    None if choice.others == OtherLines::Newest => known.bytes,
                    None if unit.is_guaranteed(part) => known.bytes,
                    None => ByteMask::NONE,
                }
            };
            let state = unit.state_of(present).ok_or(ImpossibleChoice::Line {
                file,
                offset: unit.address().offset,
                event,
            })?;
            if is_complete(unit, &state) {
                continue;
            }
            let content = image.files[file].get_or_insert_with(Content::default);
            let pages = lay_over(persistency, unit, &state, content);
            changed.entry(file).or_default().extend(pages);
            lost.extend(lost_parts(persistency, unit, &state, file));
            torn.extend(torn_bytes(persistency, unit, &state, file));
        }
        lost.sort();
        torn.sort();
        let digest = self.digest_with(definitions, |file| {
            let content = image.files[file].as_ref()?;
            Some((content, changed.get(&file)?))
        });
        Ok(ChosenImage {
            image,
            digest,
            lost,
            torn,
        })
    }
}

/// The number of the file that a unit is in; `None` if the file has lost its path.
fn number_of(holders: &[Option<FileId>], unit: &UnitStates<PartId>) -> Option<usize> {
    let file = FileId(unit.address().space.0);
    holders.iter().position(|holder| *holder == Some(file))
}

/// The units in which a choice may lose stores.
fn units_of(
    choice: &Choice,
    holders: &[Option<FileId>],
    persistency: &Persistency,
) -> Vec<UnitStates<PartId>> {
    if choice.others != OtherLines::Newest {
        return persistency.crash_states(choice.tearing).units().to_vec();
    }
    let unit = persistency.profile().unit;
    let starts: BTreeSet<(FileId, u64)> = choice
        .lines
        .iter()
        .filter_map(|line| {
            let holder = holders.get(line.file).copied().flatten()?;
            Some((holder, line.offset - line.offset % unit))
        })
        .collect();
    let of_unit =
        |(file, start)| persistency.crash_states_in(file, start..start + 1, choice.tearing);
    let states = starts.into_iter().map(of_unit);
    states.flat_map(|states| states.units().to_vec()).collect()
}

/// Whether the lines of a choice exist, and all stores that it says are absent are ones that a crash may lose.
fn check(
    choice: &Choice,
    event: u64,
    holders: &[Option<FileId>],
    persistency: &Persistency,
    units: &[UnitStates<PartId>],
) -> Result<(), ImpossibleChoice> {
    for line in &choice.lines {
        let LineChoice { file, offset, .. } = *line;
        let holder = holders.get(file).copied().flatten();
        let holder = holder.ok_or(ImpossibleChoice::File { file, event })?;
        let total = persistency.stores_to(holder, offset);
        let of_line = units
            .iter()
            .filter(|unit| unit.address().space.0 == holder.0)
            .flat_map(UnitStates::parts)
            .filter(|part| part.line.offset == offset);
        let losable: Vec<(u64, u8)> = of_line
            .map(|part| (persistency.part(part.tag).number, words(part.bytes)))
            .filter(|(number, _)| !line.has(*number))
            .collect();
        let can_be_torn = line.torn.iter().all(|torn| {
            let mut stored = losable.iter().filter(|(number, _)| *number == torn.store);
            stored
                .any(|&(_, stored)| torn.words & !stored == 0 && ![0, stored].contains(&torn.words))
        });
        let (below, above): (Vec<u64>, Vec<u64>) = line
            .exceptions
            .iter()
            .partition(|&&number| number < line.stores);
        let exists = line.stores <= total && above.iter().all(|&number| number < total);
        let absent = total.saturating_sub(line.stores + above.len() as u64) + below.len() as u64;
        if !exists || !can_be_torn || losable.len() as u64 != absent {
            return Err(ImpossibleChoice::Line {
                file,
                offset,
                event,
            });
        }
    }
    Ok(())
}

/// Gives the lines of a unit the content that they have in `state`. Returns the pages that may have changed.
fn lay_over(
    persistency: &Persistency,
    unit: &UnitStates<PartId>,
    state: &UnitState,
    content: &mut Content,
) -> BTreeSet<u64> {
    let mut lines: BTreeMap<u64, [u8; LINE as usize]> = BTreeMap::new();
    for part in unit.parts().iter().rev() {
        let line = lines.entry(part.line.offset).or_insert_with(|| {
            let mut bytes = [0; LINE as usize];
            content.read(part.line.offset, &mut bytes);
            bytes
        });
        let before = &persistency.part(part.tag).before;
        for (start, len) in part.bytes.runs() {
            let range = start as usize..(start + len) as usize;
            line[range.clone()].copy_from_slice(&before[range]);
        }
    }
    for piece in &state.pieces {
        let part = &unit.parts()[piece.part];
        let Some(line) = lines.get_mut(&part.line.offset) else {
            continue;
        };
        let after = &persistency.part(part.tag).after;
        for (start, len) in piece.bytes.runs() {
            let range = start as usize..(start + len) as usize;
            line[range.clone()].copy_from_slice(&after[range]);
        }
    }
    // Only bytes that were stored to: the rest of a line may lie past the end of the file.
    for part in unit.parts() {
        let line = &lines[&part.line.offset];
        for (start, len) in part.bytes.runs() {
            let range = start as usize..(start + len) as usize;
            content.write(part.line.offset + start, &line[range]);
        }
    }
    lines.keys().map(|offset| offset / PAGE as u64).collect()
}

/// For each part of a unit, the bytes that a state has.
fn present_bytes(unit: &UnitStates<PartId>, state: &UnitState) -> Vec<ByteMask> {
    let mut present = vec![ByteMask::NONE; unit.parts().len()];
    for piece in &state.pieces {
        present[piece.part] = piece.bytes;
    }
    present
}

/// Whether a state has all stores.
fn is_complete(unit: &UnitStates<PartId>, state: &UnitState) -> bool {
    let present = present_bytes(unit, state);
    let mut parts = unit.parts().iter().zip(present);
    parts.all(|(part, bytes)| bytes == part.bytes)
}

/// The words of a line with bytes of a set.
fn words(bytes: ByteMask) -> u8 {
    let words = (0..8).filter(|&word| !bytes.and(ByteMask::word(word)).is_empty());
    words.fold(0, |words, word| words | 1 << word)
}

fn lost_parts(
    persistency: &Persistency,
    unit: &UnitStates<PartId>,
    state: &UnitState,
    file: usize,
) -> Vec<LostBytes> {
    let parts = unit.parts().iter().zip(present_bytes(unit, state));
    parts
        .flat_map(|(part, present)| {
            let known = persistency.part(part.tag);
            let lost = part.bytes.without(present);
            lost.runs().map(move |(start, len)| LostBytes {
                event: known.event,
                file,
                offset: part.line.offset + start,
                bytes: known.after[start as usize..(start + len) as usize].to_vec(),
            })
        })
        .collect()
}

/// What a state has of stores of which it lacks other bytes.
fn torn_bytes(
    persistency: &Persistency,
    unit: &UnitStates<PartId>,
    state: &UnitState,
    file: usize,
) -> Vec<TornBytes> {
    let parts = || unit.parts().iter().zip(present_bytes(unit, state));
    let event = |part: &Part<PartId>| persistency.part(part.tag).event;
    let incomplete: BTreeSet<EventIndex> = parts()
        .filter(|(part, present)| *present != part.bytes)
        .map(|(part, _)| event(part))
        .collect();
    parts()
        .filter(|(part, _)| incomplete.contains(&event(part)))
        .flat_map(|(part, present)| {
            present.runs().map(move |(start, len)| TornBytes {
                event: event(part),
                file,
                offset: part.line.offset + start,
                len,
            })
        })
        .collect()
}

/// The choice that leads to a state.
fn name(
    persistency: &Persistency,
    tearing: Tearing,
    holders: &[Option<FileId>],
    states: &CrashStates<PartId>,
    state: &[UnitState],
) -> Choice {
    let mut lines = Vec::new();
    for (unit, state) in states.units().iter().zip(state) {
        let Some(file) = number_of(holders, unit) else {
            continue;
        };
        // For each line with stores that may be lost, the numbers of those that are, and what is left of them.
        let mut incomplete: BTreeMap<u64, (Vec<u64>, Vec<TornStore>)> = BTreeMap::new();
        let parts = unit.parts().iter().zip(present_bytes(unit, state));
        for (part, present) in parts.filter(|(part, present)| *present != part.bytes) {
            let (absent, torn) = incomplete.entry(part.line.offset).or_default();
            let store = persistency.part(part.tag).number;
            absent.push(store);
            if !present.is_empty() {
                let words = words(present);
                torn.push(TornStore { store, words });
            }
        }
        let holder = FileId(unit.address().space.0);
        lines.extend(incomplete.into_iter().map(|(offset, (absent, torn))| {
            let total = persistency.stores_to(holder, offset);
            LineChoice::without((file, offset), total, absent, torn)
        }));
    }
    lines.sort();
    Choice {
        profile: persistency.profile().name.to_owned(),
        tearing,
        others: OtherLines::Newest,
        lines,
    }
}
