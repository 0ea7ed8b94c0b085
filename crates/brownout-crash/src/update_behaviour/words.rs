//! What goes wrong in an update behaviour, in words: which field can be persisted before which.

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Culprit};

/// An update of a crash that tries an update behaviour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedUpdate {
    /// The event of the store.
    pub event: u64,
    /// The field that it updates, such as `entry.valid`.
    pub field: String,
    /// Whether the crash loses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_lost: bool,
}

/// The order that the program does not enforce, such as "`entry.valid` can be persisted before `entry.key`". If narrowing has named
/// stores, they are the ones that count. `None` if it is not clear which stores matter, or no later one is persisted.
pub(crate) fn open_order(updates: &[TriedUpdate], cause: Option<&Cause>) -> Option<String> {
    let (absent, present) = cause.map_or((&[][..], &[][..]), |cause| {
        (&cause.absent[..], &cause.present[..])
    });
    let is_lost = |update: &&TriedUpdate| update.is_lost;
    let lost = decisive(updates.iter().filter(is_lost), absent)?;
    let is_later = |update: &&TriedUpdate| {
        !update.is_lost && update.event > lost.event && update.field != lost.field
    };
    let later = updates.iter().filter(is_later);
    later.clone().next()?;
    Some(match decisive(later, present) {
        Some(kept) => format!("`{}` can be persisted before `{}`", kept.field, lost.field),
        None => format!(
            "`{}` can be lost while later stores are persisted",
            lost.field
        ),
    })
}

/// The first update that is among the culprits; if there are none, the only field that is updated.
fn decisive<'u>(
    mut updates: impl Iterator<Item = &'u TriedUpdate>,
    culprits: &[Culprit],
) -> Option<&'u TriedUpdate> {
    if !culprits.is_empty() {
        return updates.find(|update| {
            let mut events = culprits.iter().map(|culprit| culprit.event);
            events.any(|event| event == update.event)
        });
    }
    let first = updates.next()?;
    updates
        .all(|update| update.field == first.field)
        .then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_point::CrashPoint;

    fn update(event: u64, field: &str, is_lost: bool) -> TriedUpdate {
        TriedUpdate {
            event,
            field: field.to_owned(),
            is_lost,
        }
    }

    #[test]
    fn a_later_update_is_persisted_before_the_one_that_is_lost() {
        let updates = [
            update(1, "entry.key", true),
            update(2, "entry.value", false),
            update(3, "entry.valid", false),
        ];
        let text = |cause| open_order(&updates, cause);
        assert_eq!(
            text(None).unwrap(),
            "`entry.key` can be lost while later stores are persisted"
        );
        let culprit = Culprit {
            event: 3,
            stack: Vec::new(),
            ranges: Vec::new(),
            persisted: Vec::new(),
        };
        let cause = Cause {
            cause_of: CrashPoint::program_order(4),
            present: vec![culprit],
            absent: Vec::new(),
            stores: None,
            lost_lines: Vec::new(),
            tests: 0,
        };
        assert_eq!(
            text(Some(&cause)).unwrap(),
            "`entry.valid` can be persisted before `entry.key`"
        );
    }

    #[test]
    fn what_nothing_later_shows_is_not_said() {
        let updates = [
            update(1, "node.key", false),
            update(2, "node.next", true),
            update(3, "node.size", true),
        ];
        assert_eq!(open_order(&updates, None), None, "two are lost");
        assert_eq!(open_order(&updates[..2], None), None, "nothing is later");
        assert_eq!(open_order(&updates[..1], None), None, "nothing is lost");
    }
}
