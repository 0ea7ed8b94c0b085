//! What the strategy [`auto`](super::auto) tries after failure points and the first images of suspects, in order.
//!
//! First what differs most, in turn: the other images of suspects; occurrences of failure points that differ from those before, the most
//! [different](super::novelty) first; [states between stores](super::store_states), one of each kind; and images in which stores
//! persist in another order than that of the program, one of each kind of failure point and lost store. Then all others, in
//! turn: occurrences, spread over the run; states between stores; open orders at failure points; and open orders at states
//! between stores, of which there are most.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::auto::Context;
use super::occurrences::{Occurrences, in_turns};
use super::prefix::leaf_order;
use super::store_states::{StoreStates, Surroundings};
use super::{ProposedCrash, StrategyInput};
use crate::coverage::{Extent, TrialPurpose};
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints};
use crate::suspect::OrderImages;

/// What is tried as long as there is time.
pub struct Further {
    pub crashes: Vec<ProposedCrash>,
    /// The failure points around states between stores.
    pub surroundings: Surroundings,
}

impl Further {
    /// Nothing but images of suspects.
    pub fn only(suspected: Vec<ProposedCrash>) -> Self {
        Self {
            crashes: suspected,
            surroundings: Surroundings::default(),
        }
    }

    /// Finds occurrences and states, and puts them in order with the given images of suspects and open orders.
    pub fn find(
        input: StrategyInput<'_>,
        suspected: Vec<ProposedCrash>,
        orders: OrderImages,
        extent: &mut Extent,
    ) -> Result<Self, CrashError> {
        let StrategyInput {
            run,
            survey,
            symbols,
            ..
        } = input;
        let leaves = survey.points.leaves();
        let scope = survey.points.scope();
        let mut points = FailurePoints::new(scope.clone());
        let mut occurrences = Occurrences::default();
        let mut states = StoreStates::new(scope);
        run.walk(|event, definitions| {
            symbols.observe(event, definitions);
            let point = points.observe(event, definitions, &run.selection, &mut *symbols);
            if let Some(point) = &point {
                occurrences.reach(point);
            }
            occurrences.observe(event);
            if let Some(states) = &mut states {
                states.observe(event, definitions, &run.selection, &mut *symbols, point);
            }
            ControlFlow::Continue(())
        })?;
        let order: Vec<Context> = leaf_order(leaves, symbols)
            .into_iter()
            .map(|leaf| (leaves[leaf].kind, leaves[leaf].stack))
            .collect();
        let occurrences = occurrences.in_order(&order);
        let of = |points: Vec<FailurePoint>, purpose| -> VecDeque<ProposedCrash> {
            let points = points.into_iter();
            points.map(|point| proposed(point, purpose)).collect()
        };
        let mut different = vec![
            suspected.into(),
            of(occurrences.novel, TrialPurpose::Occurrence),
        ];
        let mut rest = vec![of(occurrences.rest, TrialPurpose::Occurrence)];
        let mut surroundings = Surroundings::default();
        if let Some(states) = states {
            let states = states.in_order(symbols);
            extent.stores = states.count;
            surroundings = states.surroundings;
            different.push(of(states.different, TrialPurpose::Store));
            rest.push(of(states.rest, TrialPurpose::Store));
        }
        let [first_orders, other_orders] = orders.at_points;
        different.push(first_orders.into());
        rest.push(other_orders.into());
        rest.push(orders.between_stores.concat().into());
        let mut crashes = in_turns(different);
        crashes.extend(in_turns(rest));
        Ok(Self {
            crashes,
            surroundings,
        })
    }
}

/// The crash in program order at a failure point.
pub fn proposed(point: FailurePoint, purpose: TrialPurpose) -> ProposedCrash {
    ProposedCrash {
        purpose,
        ..ProposedCrash::from(point)
    }
}
