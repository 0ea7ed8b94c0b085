//! The registry of rules, and the dispatch to them. A rule is a file in this folder and a line in `registry!`.
//!
//! The fields of [`Rules`] are private to this file, so the rest of the crate reaches a rule only through the
//! dispatch below. It filters what no rule may see: events of libraries for their own purposes, and stores that a
//! transaction accounts for.

use brownout_report::RuleInfo;
use brownout_trace::selection::Selection;

use crate::follower::overwrites::Overwriting;
use crate::follower::thread::ThreadState;
use crate::raw_finding::RawFinding;
use crate::rule::Rule;
use crate::rule_inputs::{
    Fence, GuaranteedStore, LineFlush, LogAdd, LostStore, TransactionEnd, UnpersistedTarget,
    VolatileFlush,
};
use crate::site_keys::{KnownSites, is_users};
use crate::tally::Tally;

/// A rule, and what it has found.
struct AppliedRule<R> {
    rule: R,
    found: Tally,
}

impl<R: Rule> AppliedRule<R> {
    fn new() -> Self {
        AppliedRule {
            rule: R::default(),
            found: Tally::new(R::INFO),
        }
    }
}

macro_rules! registry {
    ($($module:ident :: $rule:ident,)*) => {
        $(mod $module;)*

        /// All rules, in the order of the documentation.
        pub const RULES: &[&RuleInfo] = &[$($module::$rule::INFO),*];

        /// The rules of a pass.
        pub(crate) struct Rules {
            $($module: AppliedRule<$module::$rule>,)*
        }

        impl Rules {
            pub(crate) fn new() -> Self {
                Rules {
                    $($module: AppliedRule::new(),)*
                }
            }

            #[inline(always)]
            pub(crate) fn flush(&mut self, flush: &LineFlush) {
                if is_users(flush.origin) {
                    $(self.$module.rule.flush(flush, &mut self.$module.found);)*
                }
            }

            pub(crate) fn volatile_flush(&mut self, sites: &KnownSites, flush: &VolatileFlush) {
                if sites.is_users(flush.site) {
                    $(self.$module.rule.volatile_flush(flush, &mut self.$module.found);)*
                }
            }

            #[inline]
            pub(crate) fn fence(&mut self, fence: &Fence<'_>) {
                if is_users(fence.origin) {
                    $(self.$module.rule.fence(fence, &mut self.$module.found);)*
                }
            }

            /// The caller has checked that the store is the user's, which it needs to know, too.
            #[inline(always)]
            pub(crate) fn guaranteed(&mut self, store: &GuaranteedStore<'_>) {
                $(self.$module.rule.guaranteed(store, &mut self.$module.found);)*
            }

            /// Only overwritings of the user's stores by the user's are recorded in the first place.
            pub(crate) fn overwrite_guaranteed(&mut self, overwriting: &Overwriting) {
                $(self.$module.rule.overwrite_guaranteed(overwriting, &mut self.$module.found);)*
            }

            /// Only pointers and targets that the user's code stores are recorded.
            pub(crate) fn unpersisted_target(&mut self, pointer: &UnpersistedTarget<'_>) {
                $(self.$module.rule.unpersisted_target(pointer, &mut self.$module.found);)*
            }

            /// Skips stores that their transaction accounts for: committing would have persisted them, or a rule for
            /// transactions reports them.
            pub(crate) fn lost(&mut self, sites: &KnownSites, lost: &LostStore) {
                if sites.is_users(lost.tag.site) && !lost.tag.exempt {
                    $(self.$module.rule.lost(lost, &mut self.$module.found);)*
                }
            }

            pub(crate) fn log_add(&mut self, add: &LogAdd<'_>) {
                $(self.$module.rule.log_add(add, &mut self.$module.found);)*
            }

            /// Only the user's stores are recorded in a transaction.
            pub(crate) fn transaction_end(&mut self, end: &TransactionEnd) {
                $(self.$module.rule.transaction_end(end, &mut self.$module.found);)*
            }

            pub(crate) fn thread_end(&mut self, thread: &ThreadState) {
                $(self.$module.rule.thread_end(thread, &mut self.$module.found);)*
            }

            /// The findings on files that are persistent memory: by rule, then in the order in which they first
            /// occurred.
            pub(crate) fn into_findings(
                self,
                sites: &KnownSites,
                selection: &Selection,
            ) -> Vec<RawFinding> {
                let mut findings = Vec::new();
                $(findings.extend(self.$module.found.into_findings(sites, selection));)*
                findings
            }
        }
    };
}

registry! {
    missing_flush::MissingFlush,
    missing_fence::MissingFence,
    transient_data::TransientData,
    dirty_overwrite::DirtyOverwrite,
    delayed_persist::DelayedPersist,
    unpersisted_target::UnpersistedTargets,
    redundant_flush::RedundantFlush,
    flush_volatile::FlushVolatile,
    flush_of_nt_store::FlushOfNtStore,
    flush_covers_many::FlushCoversMany,
    redundant_fence::RedundantFence,
    accidental_fence::AccidentalFence,
    fence_orders_many::FenceOrdersMany,
    tx_redundant_add::TxRedundantAdd,
    tx_unlogged_store::TxUnloggedStore,
    tx_not_ended::TxNotEnded,
}

/// The rule with this name.
pub fn rule(id: &str) -> Option<&'static RuleInfo> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_documents_what_it_does_why_that_is_bad_and_the_fix() {
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
    fn rules_are_found_by_their_names_which_are_unique() {
        for info in RULES {
            assert_eq!(rule(info.id), Some(*info));
        }
        assert_eq!(rule("no-such-rule"), None);
    }

    #[test]
    fn every_file_in_the_folder_is_registered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the sources are there")
            .map(|entry| entry.expect("the sources are there").file_name())
            .map(|name| name.to_string_lossy().replace(".rs", "").replace('_', "-"))
            .collect();
        files.sort();
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        names.sort_unstable();
        assert_eq!(files, names);
    }
}
