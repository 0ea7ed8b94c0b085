//! Suspects: which findings of lint crash testing tries, and what it makes of them.

use std::collections::BTreeMap;

use brownout_crash::{
    StoredBytesUse, Suspect, SuspectSite, SuspectStore, SuspectVerdict, Suspicion, Trial,
};
use brownout_lint::{RawFinding, RawSite};
use brownout_report::{Evidence, Finding, Severity, TriedLoss, primary_frame};

use crate::crash_test::ReadFindings;
use crate::rules;

/// Names of details that trying a suspect adds to its finding.
pub const PROOF_DETAILS: [&str; 5] = [
    Evidence::IMAGES_TRIED,
    Evidence::CONFIRMED,
    Evidence::OVERWRITTEN,
    Evidence::LAST_OUTPUT,
    Evidence::CRASH_STATE,
];

/// A finding that crash images can confirm.
#[derive(Clone, Debug)]
pub struct LintSuspect {
    pub suspect: Suspect,
    pub finding: Finding,
}

impl LintSuspect {
    pub fn new(finding: &Finding, suspicion: Suspicion) -> Self {
        Self {
            suspect: Suspect {
                finding: finding.id.to_string(),
                suspicion,
            },
            finding: finding.clone(),
        }
    }
}

/// What crash images can show about a finding: nothing if the rule is about something else than lost stores.
pub fn suspicion(raw: &RawFinding) -> Option<Suspicion> {
    let of_role = |role: &'static str| raw.sites.iter().filter(move |site| site.role == role);
    match raw.rule.policy.tried? {
        TriedLoss::Stores { forever } => Some(Suspicion::LostStore {
            stores: of_role("store").map(suspect_store).collect(),
            forever,
        }),
        TriedLoss::SomeOfFence => of_role("fence")
            .next()
            .map(suspect_site)
            .map(Suspicion::OpenOrder),
    }
}

/// The stores that a finding names as mistakes, which are the first guesses of what makes recovery fail.
pub fn suspected_stores(raw: &RawFinding) -> impl Iterator<Item = SuspectSite> {
    let is_mistake = raw.rule.severity != Severity::Performance;
    let sites = raw
        .sites
        .iter()
        .filter(move |site| is_mistake && site.role == "store");
    sites.map(suspect_site)
}

/// Whether crash testing tries the findings of a rule.
pub fn is_tried(rule: &str) -> bool {
    rules::policy(rule).tried.is_some()
}

fn suspect_store(site: &RawSite) -> SuspectStore {
    SuspectStore {
        site: suspect_site(site),
        event: site.event,
    }
}

fn suspect_site(site: &RawSite) -> SuspectSite {
    SuspectSite {
        process: site.process,
        pc: site.pc,
        context: site.context,
    }
}

/// What trying a suspect has shown, and the token that repeats the proof.
#[derive(Clone, Debug)]
pub struct JudgedSuspect {
    pub verdict: SuspectVerdict,
    pub token: Option<String>,
}

/// Marks the findings that were tried. Those that recovery confirms are bugs, and shown even if their rule is not.
pub fn apply(judged: &[JudgedSuspect], suspects: &[LintSuspect], findings: &mut Vec<Finding>) {
    // Of earlier results, findings without a stack are still joined with another one.
    let joined = findings.iter().flat_map(|finding| {
        let others = finding.evidence.joined.iter();
        others.map(|other| (other.id.to_string(), finding.id.to_string()))
    });
    let joined: BTreeMap<String, String> = joined.collect();
    // Several suspects are one finding if their stacks look alike: two stores of one line, code of two processes.
    let mut by_finding: BTreeMap<&str, Vec<&JudgedSuspect>> = BTreeMap::new();
    for one in judged {
        let id = &one.verdict.suspect;
        let id = joined.get(id).unwrap_or(id);
        by_finding.entry(id).or_default().push(one);
    }
    for (id, judged) in by_finding {
        let proof = judged.iter().find(|one| one.verdict.proof.is_some());
        let all_harmless = || {
            let mut verdicts = judged.iter().map(|one| one.verdict.confirmed);
            verdicts.all(|confirmed| confirmed == Some(false))
        };
        let confirmed = match proof {
            Some(_) => true,
            None if all_harmless() => false,
            None => continue,
        };
        let is_it = |finding: &Finding| finding.id.as_str() == id;
        if confirmed && !findings.iter().any(is_it) {
            let hidden = suspects.iter().find(|known| known.suspect.finding == id);
            findings.extend(hidden.map(|hidden| hidden.finding.clone()));
        }
        let tried: usize = judged.iter().map(|one| one.verdict.tried).sum();
        for finding in findings.iter_mut().filter(|finding| is_it(finding)) {
            finding.confirmed = Some(confirmed);
            note_joined(finding, &judged);
            let details = &mut finding.evidence.details;
            details.insert(Evidence::IMAGES_TRIED.to_owned(), tried.to_string());
            if let Some(JudgedSuspect { verdict, token }) = proof
                && let Some(trial) = &verdict.proof
            {
                finding.replay.clone_from(token);
                confirm(finding, trial);
            }
        }
    }
}

/// Notes what crash images have shown about the findings that are joined with this one.
fn note_joined(finding: &mut Finding, judged: &[&JudgedSuspect]) {
    for other in &mut finding.evidence.joined {
        let verdicts = judged.iter().map(|one| &one.verdict);
        let own = verdicts.filter(|verdict| verdict.suspect == other.id.as_str());
        let own = own.map(|verdict| verdict.confirmed);
        // One that fails outweighs those that are not known, and these outweigh those that pass.
        other.confirmed = own
            .max_by_key(|confirmed| match confirmed {
                Some(true) => 2,
                None => 1,
                Some(false) => 0,
            })
            .flatten();
    }
}

/// Notes what recovery does with the bytes that findings, and those joined with them, are about. To be called when it is known
/// which findings are confirmed.
pub fn mark_read(read: &ReadFindings, findings: &mut [Finding]) {
    for finding in findings {
        let joined = finding.evidence.joined.iter().map(|other| &other.id);
        let ids = std::iter::once(&finding.id).chain(joined);
        let known = ids.filter_map(|id| read.get(id.as_str()).copied());
        if let Some(used) = known.reduce(StoredBytesUse::of_both) {
            finding.read_by_recovery = used.map(|used| used == StoredBytesUse::Read);
            if used == Some(StoredBytesUse::Overwritten) && finding.confirmed == Some(false) {
                let why = "recovery overwrites these bytes before it reads them";
                let details = &mut finding.evidence.details;
                details.insert(Evidence::OVERWRITTEN.to_owned(), why.to_owned());
            }
        }
    }
}

/// A finding that recovery confirms is a bug, with the crash that shows it.
fn confirm(finding: &mut Finding, proof: &Trial) {
    finding.severity = Severity::Bug;
    let lost = match rules::policy(&finding.rule).tried {
        Some(TriedLoss::SomeOfFence) => "keeps only some of what this fence orders",
        _ => "loses what is stored here",
    };
    let failure = proof.failure.as_ref();
    let frame = failure.and_then(|failure| {
        let primary = primary_frame(&failure.stack)?;
        failure.stack.get(primary)
    });
    let at = frame.map_or_else(String::new, |frame| format!(" ({frame})"));
    let how = format!(
        "recovery {} on the image of a crash that {lost}, before {}{at}",
        proof.verdict,
        proof.kind.noun(),
    );
    let details = &mut finding.evidence.details;
    details.insert(Evidence::CONFIRMED.to_owned(), how);
    if let Some(failure) = failure.filter(|failure| !failure.output.is_empty()) {
        details.insert(Evidence::LAST_OUTPUT.to_owned(), failure.output.join("\n"));
    }
    if let Some(choice) = &proof.point.choice {
        details.insert(Evidence::CRASH_STATE.to_owned(), choice.describe());
    }
}
