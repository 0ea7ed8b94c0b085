//! Types of persistent objects: for each store the object, its type and the field that it changes (Squint §4.4.2, step B).
//!
//! An object is named by its file and the offset of its start, so that it is the same in every mapping and process. Its type is
//! the outermost one that is known: a store to a struct inside another counts as a store to the outer one, with the path of both
//! fields ([`TypeNames::path`] gives the inner types, which C1 of §4.4.3 needs).
//!
//! | file | idea |
//! |---|---|
//! | `names` | [`TypeNames`]: the types and fields, in words |
//! | `store_types` | [`StoreTypes`]: the result, in little memory |
//! | `store_addresses` | what the code of a store, and of its callers, says about its address |
//! | `live_objects` | the objects that the files hold, by address |
//! | `allocations` | the objects that allocators have given |
//! | `fields` | from types of debug information to fields |
//! | `structural` | types without debug information |
//! | `follower` | puts these together, event by event |
//!
//! Can miss: types of stores through pointers that neither the code nor an earlier store describes. Types are heuristics for grouping;
//! nothing is reported because of them alone.

mod allocations;
mod fields;
mod follower;
mod live_objects;
mod names;
mod store_addresses;
mod store_types;
mod structural;

use std::ops::ControlFlow;
use std::path::Path;

use brownout_symbols::PointerTypes;
use brownout_trace::FileId;

use crate::error::CrashError;
use crate::progress::{ProgressObserver, must_stop};
use crate::recorded_run::RecordedRun;
use follower::Follower;

pub use allocations::heap_functions;
pub use names::{FieldStep, TypeNames};
pub use store_types::{StoreTypes, TypeSource, TypedShare};

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) u32);

/// A path of fields within an outermost type. Array indices are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub(crate) u32);

/// An object: where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    pub file: FileId,
    pub offset: u64,
}

/// What a store changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypedStore {
    /// The outermost object that is known around the bytes.
    pub object: ObjectId,
    pub ty: TypeId,
    /// The innermost field that holds all bytes of the store.
    pub field: FieldId,
    /// The array indices on the path of the field, outermost first.
    pub indices: Vec<u32>,
    /// Distinguishes objects that an allocator has placed there one after the other.
    pub generation: u32,
}

/// Determines the types of all stores of a run whose target was started in `directory`, as far as the observer allows. What debug
/// information could not be read from is among the problems of the second result.
pub fn type_stores(
    run: &RecordedRun,
    directory: &Path,
    observer: &mut dyn ProgressObserver,
) -> Result<(StoreTypes, PointerTypes), CrashError> {
    let mut follower = Follower::new(&run.selection, directory);
    run.walk(|event, definitions| {
        observer.reading(event.index);
        if must_stop(event.index, observer) {
            return ControlFlow::Break(());
        }
        follower.observe(event, definitions);
        ControlFlow::Continue(())
    })?;
    Ok(follower.finish())
}
