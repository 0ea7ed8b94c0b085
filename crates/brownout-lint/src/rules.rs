//! The rules, one file each.
//!
//! A rule's file opens with what it can miss and what it never reports falsely, holds its documentation for
//! users as [`RuleInfo`], and is shown the [moments](crate::rule_inputs) that concern it.

mod accidental_fence;
mod delayed_persist;
mod dirty_overwrite;
mod fence_orders_many;
mod flush_covers_many;
mod flush_of_nt_store;
mod flush_volatile;
mod missing_fence;
mod missing_flush;
mod redundant_fence;
mod redundant_flush;
mod transient_data;
mod tx_redundant_add;
mod tx_unlogged_store;

use brownout_report::RuleInfo;
use brownout_trace::selection::Selection;

use crate::raw_finding::RawFinding;
use crate::rule_inputs::{FenceMoment, FlushMoment, LostStore};
use crate::site_keys::Known;
use crate::tally::Tally;

/// All rules, in the order of the documentation.
pub const RULES: &[&RuleInfo] = &[
    &missing_flush::INFO,
    &missing_fence::INFO,
    &transient_data::INFO,
    &dirty_overwrite::INFO,
    &delayed_persist::INFO,
    &redundant_flush::INFO,
    &flush_volatile::INFO,
    &flush_of_nt_store::INFO,
    &flush_covers_many::INFO,
    &redundant_fence::INFO,
    &accidental_fence::INFO,
    &fence_orders_many::INFO,
    &tx_redundant_add::INFO,
    &tx_unlogged_store::INFO,
];

/// The rule of that id.
pub fn rule(id: &str) -> Option<&'static RuleInfo> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

/// The state of all rules.
pub(crate) struct Rules {
    pub(crate) missing_flush: missing_flush::MissingFlush,
    pub(crate) missing_fence: missing_fence::MissingFence,
    pub(crate) transient_data: transient_data::TransientData,
    pub(crate) dirty_overwrite: dirty_overwrite::DirtyOverwrite,
    pub(crate) delayed_persist: delayed_persist::DelayedPersist,
    pub(crate) redundant_flush: redundant_flush::RedundantFlush,
    pub(crate) flush_volatile: flush_volatile::FlushVolatile,
    pub(crate) flush_of_nt_store: flush_of_nt_store::FlushOfNtStore,
    pub(crate) flush_covers_many: flush_covers_many::FlushCoversMany,
    pub(crate) redundant_fence: redundant_fence::RedundantFence,
    pub(crate) accidental_fence: accidental_fence::AccidentalFence,
    pub(crate) fence_orders_many: fence_orders_many::FenceOrdersMany,
    pub(crate) tx_redundant_add: tx_redundant_add::TxRedundantAdd,
    pub(crate) tx_unlogged_store: tx_unlogged_store::TxUnloggedStore,
}

impl Rules {
    pub(crate) fn new() -> Self {
        Rules {
            missing_flush: missing_flush::MissingFlush(Tally::new(&missing_flush::INFO)),
            missing_fence: missing_fence::MissingFence(Tally::new(&missing_fence::INFO)),
            transient_data: transient_data::TransientData(Tally::new(&transient_data::INFO)),
            dirty_overwrite: dirty_overwrite::DirtyOverwrite(Tally::new(&dirty_overwrite::INFO)),
            delayed_persist: delayed_persist::DelayedPersist(Tally::new(&delayed_persist::INFO)),
            redundant_flush: redundant_flush::RedundantFlush(Tally::new(&redundant_flush::INFO)),
            flush_volatile: flush_volatile::FlushVolatile(Tally::new(&flush_volatile::INFO)),
            flush_of_nt_store: flush_of_nt_store::FlushOfNtStore(Tally::new(
                &flush_of_nt_store::INFO,
            )),
            flush_covers_many: flush_covers_many::FlushCoversMany(Tally::new(
                &flush_covers_many::INFO,
            )),
            redundant_fence: redundant_fence::RedundantFence(Tally::new(&redundant_fence::INFO)),
            accidental_fence: accidental_fence::AccidentalFence(Tally::new(
                &accidental_fence::INFO,
            )),
            fence_orders_many: fence_orders_many::FenceOrdersMany(Tally::new(
                &fence_orders_many::INFO,
            )),
            tx_redundant_add: tx_redundant_add::TxRedundantAdd(Tally::new(&tx_redundant_add::INFO)),
            tx_unlogged_store: tx_unlogged_store::TxUnloggedStore(Tally::new(
                &tx_unlogged_store::INFO,
            )),
        }
    }

    /// A line of a file was flushed.
    #[inline(always)]
    pub(crate) fn flushed(&mut self, known: &Known, flush: &FlushMoment) {
        if known.is_users(flush.site) {
            self.redundant_flush.flushed(flush);
            self.flush_of_nt_store.flushed(flush);
            self.flush_covers_many.flushed(flush);
        }
    }

    /// `sfence` or `mfence` was executed.
    #[inline]
    pub(crate) fn fenced(&mut self, known: &Known, fence: &FenceMoment<'_>) {
        if known.is_users(fence.site) {
            self.redundant_fence.fenced(known, fence);
            self.fence_orders_many.fenced(fence);
        }
    }

    /// A store will not be guaranteed any more. One to bytes that its transaction has logged or allocated is void, as
    /// committing would have persisted it; one that the transaction's rules have told is known.
    pub(crate) fn lost(&mut self, known: &Known, lost: &LostStore) {
        if known.is_users(lost.tag.site) && !lost.tag.spoken_for {
            self.missing_flush.lost(lost);
            self.missing_fence.lost(known, lost);
            self.transient_data.lost(lost);
        }
    }

    pub(crate) fn into_findings(self, known: &Known, selection: &Selection) -> Vec<RawFinding> {
        let tallies = [
            self.missing_flush.0,
            self.missing_fence.0,
            self.transient_data.0,
            self.dirty_overwrite.0,
            self.delayed_persist.0,
            self.redundant_flush.0,
            self.flush_volatile.0,
            self.flush_of_nt_store.0,
            self.flush_covers_many.0,
            self.redundant_fence.0,
            self.accidental_fence.0,
            self.fence_orders_many.0,
            self.tx_redundant_add.0,
            self.tx_unlogged_store.0,
        ];
        tallies
            .into_iter()
            .flat_map(|tally| tally.into_findings(known, selection))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_says_what_it_finds_why_that_is_bad_and_what_to_do() {
        for rule in RULES {
            for part in [
                "## What it does",
                "## Why is this bad?",
                "## Example",
                "## Fix",
            ] {
                assert!(rule.explanation.contains(part), "{} lacks {part}", rule.id);
            }
            assert!(!rule.summary.ends_with('.'), "{}", rule.id);
        }
    }

    #[test]
    fn rules_are_found_by_their_ids_which_differ() {
        for info in RULES {
            assert_eq!(rule(info.id), Some(*info));
        }
        assert_eq!(rule("no-such-rule"), None);
    }
}
