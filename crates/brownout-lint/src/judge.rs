//! The judge: decides at the end of a trace what is reported.
//!
//! Two things are known only then: which files are persistent memory, and which stores can no longer become
//! guaranteed. The judge shows the rules the lost stores and drops findings on other files. Whether a lost store changes
//! anything, or belongs to a lock, is known only after a [second pass](ContentCheck).

mod lost_stores;

use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::{Definitions, Event};

use crate::attribution::Attribution;
use crate::content_check::ContentCheck;
use crate::follower::Follower;
use crate::follower::guarantees::Guarantees;
use crate::judge::lost_stores::LostStores;
use crate::lint::{FileStores, LintOutcome};
use crate::raw_finding::RawFinding;
use crate::rule_inputs::LostStore;

/// Surveys the trace for persistent memory, then judges.
#[derive(Default)]
pub(crate) struct Judge {
    survey: Survey,
}

impl Judge {
    /// Takes the next event. `definitions` are those after it.
    #[inline]
    pub(crate) fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.survey.observe(event, definitions);
    }

    /// Whether stores, flushes and fences may still change which files are persistent memory.
    pub(crate) fn needs_every_event(&self) -> bool {
        self.survey.is_undecided()
    }

    /// Ends the pass. Where patterns are given, they alone decide which files are persistent memory.
    pub(crate) fn end<A: Attribution>(
        self,
        mut follower: Follower<A>,
        definitions: &Definitions,
        patterns: Option<&Patterns>,
    ) -> EndedPass<A> {
        let selection = self.survey.select(definitions, patterns);
        follower.end();
        let lost = LostStores::new(&mut follower).find(&selection);
        EndedPass {
            follower,
            selection,
            lost,
        }
    }
}

/// A pass that has seen the whole trace.
pub struct EndedPass<A> {
    follower: Follower<A>,
    selection: Selection,
    lost: Vec<LostStore>,
}

impl<A: Attribution> EndedPass<A> {
    /// The second pass over the trace that is needed: `None` if no store is lost.
    pub fn content_check(&self) -> Option<ContentCheck> {
        let Guarantees {
            unfenced, sites, ..
        } = &self.follower.guarantees;
        let lost = unfenced.iter().chain(&self.lost);
        let mut lost = lost
            .filter(|lost| sites.is_users(lost.tag.site) && !lost.tag.exempt)
            .filter(|lost| self.selection.is_persistent(lost.file()))
            .peekable();
        lost.peek().is_some().then(|| ContentCheck::new(lost))
    }

    /// Judges. Stores that change nothing are distinguished only if there was a second pass.
    pub fn finish(self, content: Option<&ContentCheck>) -> LintOutcome<A> {
        let EndedPass {
            mut follower,
            selection,
            mut lost,
        } = self;
        let mut unfenced = std::mem::take(&mut follower.guarantees.unfenced);
        if let Some(content) = content {
            unfenced.retain(|lost| !content.is_unchanged(lost));
            lost.retain(|lost| !content.is_unchanged(lost));
            content.mark_locks(&mut lost);
        }
        let site_keys = &mut follower.site_keys;
        follower
            .guarantees
            .end_suspects(&lost, |site| site_keys.stack(site));
        let files = file_stores(&follower, &selection, &lost);
        let relies_on_syncs = relies_on_syncs(&follower, &selection);
        let sites = follower.guarantees.sites;
        let mut rules = follower.guarantees.rules;
        for lost in unfenced.iter().chain(&lost) {
            rules.lost(&sites, lost);
        }
        let mut findings = rules.into_findings(&sites, &selection);
        // One cause, one finding: the pointer is what makes these stores late or missing.
        let targets = &follower.guarantees.pointers.reported;
        let is_implied = |finding: &mut RawFinding| {
            let first = finding.sites.first();
            finding.rule.policy.is_implied_by_pointer
                && first.is_some_and(|site| targets.contains(&site.key))
        };
        let implied_by_pointers = findings.extract_if(.., is_implied).collect();
        findings.extend(follower.oracles.into_findings(&sites, &selection));
        LintOutcome {
            findings,
            implied_by_pointers,
            pointers_not_judged: follower.guarantees.pointers.not_judged,
            files,
            relies_on_syncs,
            selection,
            attribution: follower.site_keys.into_attribution(),
        }
    }
}

/// Whether system calls alone make stores to persistent files durable.
fn relies_on_syncs<A>(follower: &Follower<A>, selection: &Selection) -> bool {
    let mut persistent = selection.candidates().filter(|file| file.reason.is_some());
    let is_synced = |file| {
        follower.written_back.has(file)
            || follower.not_waited_for.has(file)
            || follower.failed_syncs.has(file)
    };
    !follower.persists_by_instruction && persistent.any(|candidate| is_synced(candidate.file))
}

/// The stores to each persistent file.
fn file_stores<A: Attribution>(
    follower: &Follower<A>,
    selection: &Selection,
    lost: &[LostStore],
) -> Vec<FileStores> {
    let sites = &follower.guarantees.sites;
    let persistent = selection.candidates().filter(|file| file.reason.is_some());
    let counted = persistent.map(|candidate| {
        let lost = lost.iter().filter(|lost| {
            lost.file() == candidate.file && sites.is_users(lost.tag.site) && !lost.tag.exempt
        });
        FileStores {
            file: candidate.file,
            stores: follower.store_counts.of(candidate.file),
            never_guaranteed: lost.map(|lost| lost.count).sum(),
            is_written: follower.written_files.contains(&candidate.file),
        }
    });
    counted.collect()
}
