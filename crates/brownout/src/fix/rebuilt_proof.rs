//! The proof by the rebuilt program: the patched sources are built in a private view of the file system, and the program is
//! recorded and checked again ([`private_check`](super::private_check)).
//!
//! Only this proof shows that the source computes the right addresses.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use brownout_report::{Finding, Report};

use super::candidates::is_on_request;
use super::patch::Patch;
use super::private_check::{CheckedAgain, NOT_PREPARED, PrivateCheck, quoted};
use crate::console::Console;
use crate::failure::Failure;
use crate::settings::Settings;

/// How the program is built and what is checked then.
pub struct Rebuild<'a> {
    pub command: &'a str,
    pub directory: Option<&'a Path>,
    pub time_limit: Duration,
    pub results: &'a Path,
    pub report: &'a Report,
    pub settings: &'a Settings,
}

impl Rebuild<'_> {
    /// Builds and checks the program from the patched sources.
    pub fn run(
        &self,
        patch: &Patch,
        trace: &Path,
        console: &Console,
    ) -> Result<CheckedAgain, Failure> {
        let work = tempfile::tempdir().map_err(Failure::FixDirectory)?;
        console.remark(format_args!(
            "building the patched sources with `{}`",
            self.command
        ));
        let check = PrivateCheck {
            results: self.results,
            report: self.report,
            settings: self.settings,
            directory: self.directory,
            time_limit: self.time_limit,
            on_timeout: "building and checking took too long; give it more time with --build-time",
            preparation: self.preparation(patch, work.path())?,
            plan: None,
        };
        check.run(trace, work.path(), console)
    }

    /// Puts the patched sources in place and builds.
    fn preparation(&self, patch: &Patch, work: &Path) -> Result<String, Failure> {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for (number, file) in patch.files.iter().enumerate() {
            let new = work.join(format!("{number}.source"));
            fs::write(&new, file.edited()).map_err(Failure::FixDirectory)?;
            let _ = writeln!(
                text,
                "cat {} > {} || exit {NOT_PREPARED}",
                quoted(&new),
                quoted(&file.path)
            );
        }
        let _ = writeln!(text, "( {} ) 1>&2 || exit {NOT_PREPARED}", self.command);
        Ok(text)
    }
}

/// Whether the rebuilt program still shows a finding: the same one, or one of its rule in its function that was not there before.
pub fn still_shown(finding: &Finding, rebuilt: &[Finding], before: &Report) -> bool {
    let (own, lineless) = (ids(finding), finding.lineless_id());
    let known: Vec<String> = before.findings().iter().flat_map(ids).collect();
    rebuilt.iter().any(|other| {
        let shown = ids(other);
        if shown.iter().any(|id| own.contains(id)) {
            return true;
        }
        // Data whose flushes are all gone is transient.
        let is_alike = (other.rule == finding.rule || is_on_request(&other.rule))
            && function(other) == function(finding);
        let is_moved = other.lineless_id() == lineless;
        (is_alike || is_moved) && !shown.iter().any(|id| known.contains(id))
    })
}

/// The ids of a finding and of those that are reported as one with it.
pub fn ids(finding: &Finding) -> Vec<String> {
    let joined = finding.evidence.joined.iter();
    let joined = joined.map(|joined| joined.id.to_string());
    std::iter::once(finding.id.to_string())
        .chain(joined)
        .collect()
}

/// The function at which a finding is shown.
pub fn function(finding: &Finding) -> Option<&str> {
    finding.primary_frame()?.function.as_deref()
}
