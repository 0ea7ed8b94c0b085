//! What each store of a trace changes, in little memory: each event has a 4-byte number, and stores to the same field of the same object
//! share what it refers to.

use brownout_trace::EventIndex;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{TypeNames, TypedStore};

/// Stands for an event without a type.
const UNTYPED: u32 = u32::MAX;

/// How the type of a store was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeSource {
    /// By debug information: of the storing code, or of code that stored to the same object or a pointer to it.
    DebugInfo,
    /// By the call that allocated the object.
    Allocation,
    /// From the instructions and offsets that access the object.
    Structural,
}

/// How many stores have a type, by how it was determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedShare {
    pub debug_info: u64,
    pub allocation: u64,
    pub structural: u64,
    /// Stores without a type.
    pub none: u64,
}

impl TypedShare {
    /// All stores.
    pub fn stores(&self) -> u64 {
        self.typed() + self.none
    }

    pub fn typed(&self) -> u64 {
        self.debug_info + self.allocation + self.structural
    }
}

/// The types of all stores of a trace to persistent files.
#[derive(Clone, Debug, Default)]
pub struct StoreTypes {
    pub names: TypeNames,
    /// For each event up to the last store the number of what it changes, or [`UNTYPED`].
    numbers: Vec<u32>,
    distinct: Vec<TypedStore>,
    known: FxHashMap<TypedStore, u32>,
    share: TypedShare,
}

impl StoreTypes {
    pub fn new(names: TypeNames) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// Adds a store. Events are added in any order, each once.
    pub fn add(&mut self, event: EventIndex, store: TypedStore, source: TypeSource) {
        let Self {
            distinct, known, ..
        } = self;
        let number = *known.entry(store).or_insert_with_key(|store| {
            let number = u32::try_from(distinct.len()).ok();
            distinct.push(store.clone());
            number
                .filter(|&number| number != UNTYPED)
                .expect("fewer than 2³² fields of objects")
        });
        let index = usize::try_from(event.0).expect("a trace that fits into the address space");
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, UNTYPED);
        }
        self.numbers[index] = number;
        match source {
            TypeSource::DebugInfo => self.share.debug_info += 1,
            TypeSource::Allocation => self.share.allocation += 1,
            TypeSource::Structural => self.share.structural += 1,
        }
    }

    /// Adds a store that was counted as one without a type.
    pub(crate) fn add_inferred(&mut self, event: EventIndex, store: TypedStore) {
        self.share.none = self.share.none.saturating_sub(1);
        self.add(event, store, TypeSource::Structural);
    }

    /// Counts a store whose type is not known.
    pub fn add_untyped(&mut self) {
        self.share.none += 1;
    }

    /// Replaces the descriptions for which `better` gives another one.
    pub(super) fn improve(
        &mut self,
        mut better: impl FnMut(&TypedStore, &mut TypeNames) -> Option<TypedStore>,
    ) {
        for store in &mut self.distinct {
            if let Some(better) = better(store, &mut self.names) {
                *store = better;
            }
        }
        // What is known by its old description must not be added to.
        self.known = FxHashMap::default();
    }

    /// Ends adding: frees what only `add` needs.
    pub fn finish(&mut self) {
        self.known = FxHashMap::default();
        self.numbers.shrink_to_fit();
        self.distinct.shrink_to_fit();
    }

    /// What the store of an event changes; `None` if its type is not known or it is no store to a persistent file.
    pub fn of(&self, event: EventIndex) -> Option<&TypedStore> {
        let number = *self.numbers.get(usize::try_from(event.0).ok()?)?;
        self.distinct.get(number as usize)
    }

    /// All stores with a type, in the order of events.
    pub fn typed(&self) -> impl Iterator<Item = (EventIndex, &TypedStore)> {
        let numbered = (0..).map(EventIndex).zip(&self.numbers);
        numbered.filter_map(|(event, &number)| Some((event, self.distinct.get(number as usize)?)))
    }

    /// How many stores have a type.
    pub fn share_typed(&self) -> TypedShare {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use brownout_trace::FileId;

    use super::super::ObjectId;
    use super::*;

    #[test]
    fn stores_to_one_field_of_one_object_share_their_description() {
        let mut names = TypeNames::default();
        let ty = names.add_type("entry", 16);
        let field = names.field(ty, &[]);
        let mut types = StoreTypes::new(names);
        let store = |offset| TypedStore {
            object: ObjectId {
                file: FileId(0),
                offset,
            },
            ty,
            field,
            indices: Vec::new(),
            generation: 0,
        };
        types.add(EventIndex(7), store(64), TypeSource::DebugInfo);
        types.add(EventIndex(3), store(64), TypeSource::Structural);
        types.add(EventIndex(9), store(128), TypeSource::Allocation);
        types.add_untyped();
        types.finish();
        assert_eq!(types.of(EventIndex(3)), Some(&store(64)));
        assert_eq!(types.of(EventIndex(7)), Some(&store(64)));
        assert_eq!(types.of(EventIndex(9)), Some(&store(128)));
        assert_eq!(
            (types.of(EventIndex(8)), types.of(EventIndex(10))),
            (None, None)
        );
        assert_eq!(types.distinct.len(), 2);
        let events: Vec<u64> = types.typed().map(|(event, _)| event.0).collect();
        assert_eq!(events, [3, 7, 9]);
        let share = types.share_typed();
        assert_eq!((share.typed(), share.stores()), (3, 4));
    }
}
