//! Findings in one line each: those that are no bugs, those that recovery tolerates, and suppressed ones.

use std::fmt::Write as _;
use std::io;

use super::frame_lines::with_short_name;
use super::wrapping::wrapped;
use super::{Human, clean, level, times};
use crate::{Evidence, Finding, Report, Suppressed};

impl Human {
    pub(super) fn write_suppressed(
        &self,
        report: &Report,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        for Suppressed { finding, reason } in report.suppressed() {
            let frame = finding
                .primary_frame()
                .map(|frame| report.shown_frame(frame));
            let location = frame.map_or_else(String::new, |frame| format!(" ({frame})"));
            let text = format!(
                "{}{}, suppressed: {}",
                clean(&finding.message),
                clean(&location),
                clean(reason)
            );
            self.write_line(finding, text, out)?;
        }
        out.write_all(b"\n")
    }

    pub(super) fn write_line(
        &self,
        finding: &Finding,
        text: String,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let margin = finding.rule.len() + "performance[]: ".len();
        let text = wrapped(&text, self.columns(margin));
        let title = level(finding.severity)
            .primary_title(text)
            .id(clean(&finding.rule));
        let group = annotate_snippets::Group::with_title(title);
        writeln!(out, "{}", self.renderer().render(&[group]))
    }

    /// One line per rule and location, regardless of the number of stacks.
    pub(super) fn write_lines<'a>(
        &self,
        report: &Report,
        findings: impl Iterator<Item = &'a Finding>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let mut lines: Vec<(String, &Finding, u64, usize)> = Vec::new();
        for finding in findings {
            let frame = finding
                .primary_frame()
                .map(|frame| with_short_name(report.shown_frame(frame)));
            let location =
                frame.map_or_else(|| "unknown location".to_owned(), |frame| frame.to_string());
            match lines
                .iter_mut()
                .find(|(known, first, ..)| *known == location && first.rule == finding.rule)
            {
                Some((_, _, count, stacks)) => {
                    *count = count.saturating_add(finding.count);
                    *stacks += 1 + finding.other_stacks().count();
                }
                None => {
                    let stacks = 1 + finding.other_stacks().count();
                    lines.push((location, finding, finding.count, stacks));
                }
            }
        }
        for (location, first, count, stacks) in lines {
            let mut text = format!("{}, {}", clean(&location), times(count));
            if stacks > 1 {
                let _ = write!(text, " on {stacks} stacks");
            }
            match first.other_locations().len() {
                0 => {}
                1 => text.push_str(", and at 1 other line"),
                others => {
                    let _ = write!(text, ", and at {others} other lines");
                }
            }
            if first.confirmed == Some(false) {
                text.push_str("; ");
                text.push_str(&harmless_text(first));
            }
            if let Some(phrase) = first.reads_phrase() {
                let _ = write!(text, "; {phrase}");
            }
            let text = format!("{} ({text})", clean(&first.message));
            self.write_line(first, text, out)?;
        }
        out.write_all(b"\n")
    }
}

/// What crash testing has shown about a finding that recovery does not confirm.
fn harmless_text(finding: &Finding) -> String {
    let tried = finding.evidence.details.get(Evidence::IMAGES_TRIED);
    match tried.map(String::as_str) {
        Some("1") => "recovery passed on the one crash image that was tried for it".to_owned(),
        Some(count) => {
            format!("recovery passed on all {count} crash images that were tried for it")
        }
        None => "recovery passed on all crash images that were tried for it".to_owned(),
    }
}
