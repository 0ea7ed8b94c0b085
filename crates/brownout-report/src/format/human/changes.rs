//! What has changed between two runs: new findings like those of a run, the others in one line each.

use std::io;

use super::{Human, counted};
use crate::{FindingChanges, HiddenBy, Report};

impl Human {
    /// Shows the new findings, those that are gone, and how many there are of each.
    pub fn write_changes(
        &self,
        changes: &FindingChanges,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (new, gone) = (&changes.new, &changes.gone);
        self.write_findings(new, out)?;
        self.write_section("gone:", gone, out)?;
        for (why, report) in &changes.undecided {
            let title = format!("not found again, but inconclusive because {why}:");
            self.write_section(&title, report, out)?;
        }
        let mut notes = Vec::new();
        for (by, report) in &changes.hidden {
            let word = match by {
                HiddenBy::Suppression => "suppressed there",
                HiddenBy::Baseline => "known from the baseline there",
            };
            self.write_section(&format!("in both, {word}:"), report, out)?;
            let count = report.causes().count();
            if count > 0 {
                notes.push(format!("{count} {word}"));
            }
        }
        write!(
            out,
            "{}, {} gone, {} in both",
            counted(new.causes().count(), "new finding"),
            gone.causes().count(),
            changes.in_both()
        )?;
        if !notes.is_empty() {
            write!(out, " ({})", notes.join(", "))?;
        }
        let undecided = changes.undecided.iter();
        match undecided
            .map(|(_, report)| report.causes().count())
            .sum::<usize>()
        {
            0 => writeln!(out),
            count => writeln!(out, ", {count} undecided"),
        }
    }

    fn write_section(
        &self,
        title: &str,
        report: &Report,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        if report.findings().is_empty() {
            return Ok(());
        }
        writeln!(out, "{title}")?;
        self.write_lines(report, report.causes(), out)
    }
}
