//! Suspects: which findings of lint crash testing tries, and what it makes of them.

use brownout_crash::{Instruction, Suspect, SuspectVerdict, Suspicion, Trial};
use brownout_lint::{RawFinding, RawSite};
use brownout_report::{Finding, Severity};

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
    let sites = |role: &str| -> Vec<Instruction> {
        let of_role = raw.sites.iter().filter(|site| site.role == role);
        of_role.map(instruction).collect()
    };
    match raw.rule.id {
        "missing-flush" | "missing-fence" | "transient-data" | "delayed-persist"
        | "dirty-overwrite" | "unpersisted-target" => Some(Suspicion::LostStore(sites("store"))),
        "fence-orders-many" => {
            let fence = sites("fence").into_iter().next()?;
            Some(Suspicion::OpenOrder(fence))
        }
        _ => None,
    }
}

fn instruction(site: &RawSite) -> Instruction {
    Instruction {
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
    for JudgedSuspect { verdict, token } in judged {
        let Some(confirmed) = verdict.confirmed else {
            continue;
        };
        let is_it = |finding: &Finding| finding.id.as_str() == verdict.suspect;
        if confirmed && !findings.iter().any(is_it) {
            let hidden = suspects
                .iter()
                .find(|suspect| suspect.suspect.finding == verdict.suspect);
            findings.extend(hidden.map(|hidden| hidden.finding.clone()));
        }
        for finding in findings.iter_mut().filter(|finding| is_it(finding)) {
            finding.confirmed = Some(confirmed);
            let images = verdict.tried.to_string();
            let details = &mut finding.evidence.details;
            details.insert("images tried".to_owned(), images);
            if let Some(proof) = &verdict.proof {
                finding.replay.clone_from(token);
                confirm(finding, proof);
            }
        }
    }
}

/// A finding that recovery confirms is a bug, with the crash that shows it.
fn confirm(finding: &mut Finding, proof: &Trial) {
    finding.severity = Severity::Bug;
    let details = &mut finding.evidence.details;
    let how = format!(
        "recovery {} without it, after power is lost before {} (event {})",
        proof.verdict,
        proof.kind.describe(),
        proof.point.event
    );
    details.insert("confirmed".to_owned(), how);
    let failure = proof.failure.as_ref();
    if let Some(failure) = failure.filter(|failure| !failure.output.is_empty()) {
        details.insert("last output".to_owned(), failure.output.join("\n"));
    }
    if let Some(choice) = &proof.point.choice {
        details.insert("crash state".to_owned(), choice.describe());
    }
}
