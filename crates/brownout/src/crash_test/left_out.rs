//! What a crash test leaves out: failure points inside the creation of pools, and files that are not in the crash images.

use std::path::PathBuf;

use brownout_crash::PoolCreations;
use brownout_report::{Finding, LeftOut, Reason, ReasonKind, Severity};

use crate::suspects::JudgedSuspect;
use crate::trace_file::TraceFile;
use crate::trace_notes::beside;

/// What is left out of the tests of a run with these persistent files.
pub fn left_out(creations: &PoolCreations, persistent: &[PathBuf], trace: &TraceFile) -> LeftOut {
    let files = trace.notes().files_beside(persistent, trace.mapped_files());
    let unselected = trace.unselected_files().iter();
    LeftOut {
        failure_points: creations.left_out(),
        functions: creations.functions().map(str::to_owned).collect(),
        files,
        mapped: beside(persistent, unselected.map(PathBuf::as_path)),
        unopened: Vec::new(),
        tested_behaviours: 0,
    }
}

/// Notes in findings which mapped files the crash images lack. They stay bugs: the program never makes such a file durable, so recovery
/// must not rely on what it holds.
pub fn note_mapped(findings: &mut [Finding], left_out: &LeftOut) {
    let Some(sentence) = left_out.mapped_sentence() else {
        return;
    };
    for finding in findings {
        let details = &mut finding.evidence.details;
        details.insert("other files".to_owned(), sentence.clone());
    }
}

/// Makes findings warnings if crash images lack files that the target wrote: recovery may have failed because what it finds
/// there is newer than the image. Returns why the findings do not decide, if there are any.
pub fn demote(findings: &mut [Finding], left_out: &LeftOut) -> Option<Reason> {
    let sentence = left_out.files_sentence()?;
    for finding in &mut *findings {
        finding.severity = Severity::Warning;
        finding
            .message
            .push_str(" (perhaps because the crash image lacks files that the program wrote)");
        let details = &mut finding.evidence.details;
        details.insert("crash image".to_owned(), sentence.clone());
    }
    (!findings.is_empty())
        .then(|| on_incomplete_images("its findings are only warnings", &sentence))
}

/// Takes back confirmations by images that lack files: what is lost may be in one of them. Returns why, if there are any.
pub fn withdraw_confirmations(judged: &mut [JudgedSuspect], left_out: &LeftOut) -> Option<Reason> {
    let sentence = left_out.files_sentence()?;
    let mut any = false;
    for one in judged {
        any |= one.verdict.proof.take().is_some();
        one.verdict.confirmed = one.verdict.confirmed.filter(|confirmed| !confirmed);
    }
    any.then(|| on_incomplete_images("it confirms no finding", &sentence))
}

/// Why failures do not decide, with the `consequence` and the files that are missing.
fn on_incomplete_images(consequence: &str, files: &str) -> Reason {
    Reason::new(
        ReasonKind::UndecidedTrials,
        format!("recovery failed on images that are not complete, so {consequence}: {files}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_report::{Evidence, Stack};

    #[test]
    fn findings_on_incomplete_images_are_warnings() {
        let finding = Finding::new(
            &brownout_crash::rules::RECOVERY_FAILED,
            "recovery failed",
            vec![Stack {
                role: "failure point".into(),
                frames: Vec::new(),
            }],
            Evidence::default(),
        );
        let mut findings = vec![finding];
        assert_eq!(demote(&mut findings, &LeftOut::default()), None);
        assert_eq!(findings[0].severity, Severity::Bug);
        let left_out = LeftOut {
            files: vec!["/d/wal".into()],
            ..LeftOut::default()
        };
        let why = demote(&mut findings, &left_out).unwrap();
        assert!(why.text.contains("`/d/wal`"), "{}", why.text);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert_eq!(demote(&mut [], &left_out), None);
    }
}
