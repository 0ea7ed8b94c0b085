//! Text for people: bugs with source snippets and stacks, other findings in one line per rule and location, and a
//! summary.

use std::io;

use annotate_snippets::{Level, Renderer, normalize_untrusted_str};

mod byte_ranges;
mod changes;
mod evidence_text;
mod frame_lines;
mod full;
mod joined_text;
mod lines;
mod short_name;
mod snippets;
mod summary;
mod wrapping;

use super::Format;
use crate::quantity::number_of;
use crate::{Finding, Report, Severity, Sources};
use summary::summary;
use wrapping::wrapped;

/// Findings shown unless all are wanted.
const MAX_FINDINGS: usize = 20;
/// Columns before the text of a note, besides its name.
const NOTE_MARGIN: usize = 10;

/// Text for people.
pub struct Human {
    pub color: bool,
    /// The width of the output in columns.
    pub width: usize,
    /// Break lines of text that are wider. Off a terminal, a message is one line.
    pub wrap: bool,
    /// Show every finding like a bug instead of one line per rule and location.
    pub verbose: bool,
    /// Also show suppressed findings, one line each, with the reason.
    pub suppressed: bool,
    /// Show every finding, however many there are.
    pub all: bool,
    /// The results directory as an argument in a shell. Without one, no finding can be replayed.
    pub results: Option<String>,
    pub sources: Sources,
}

impl Format for Human {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_findings(report, out)?;
        if self.suppressed && !report.suppressed().is_empty() {
            self.write_suppressed(report, out)?;
        }
        out.write_all(summary(report).as_bytes())
    }
}

impl Human {
    fn write_findings(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        let most = if self.all { usize::MAX } else { MAX_FINDINGS };
        let bugs: Vec<&Finding> = report.bugs().take(most).collect();
        let lesser = report.lesser().take(most - bugs.len());
        let lesser: Vec<&Finding> = lesser.collect();
        let more = report.causes().count() - bugs.len() - lesser.len();
        let (brief, full): (Vec<&Finding>, Vec<&Finding>) = bugs
            .into_iter()
            .partition(|bug| !self.verbose && is_brief(report, bug));
        self.write_all_in_full(report, full.into_iter(), out)?;
        if self.verbose {
            self.write_all_in_full(report, lesser.into_iter(), out)?;
        } else if !brief.is_empty() || !lesser.is_empty() {
            self.write_lines(report, brief.into_iter().chain(lesser), out)?;
        }
        if more > 0 {
            writeln!(
                out,
                "{} not shown here; --all shows all, and so do the files with the results\n",
                counted(more, "more finding")
            )?;
        }
        Ok(())
    }

    fn renderer(&self) -> Renderer {
        let renderer = if self.color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.term_width(self.width)
    }

    fn replay_command(&self, finding: &Finding) -> Option<String> {
        let directory = self.results.as_deref()?;
        finding.crash_token()?;
        // A part of a shell word may be quoted.
        let inside = finding.results_in().map(|inside| format!("/{inside}"));
        let inside = inside.unwrap_or_default();
        Some(format!(
            "brownout replay {directory}{inside} {}",
            finding.id
        ))
    }

    /// The columns for text behind a margin.
    fn columns(&self, margin: usize) -> usize {
        if self.wrap {
            self.width.saturating_sub(margin)
        } else {
            usize::MAX
        }
    }

    /// A note whose lines fit the terminal.
    fn note(&self, name: &str, text: String) -> annotate_snippets::Message<'static> {
        let margin = name.chars().count() + NOTE_MARGIN;
        note(name, wrapped(&text, self.columns(margin)))
    }
}

/// Whether a bug is shown in one line: recovery passed on every image that was tried for it, and no crash finding belongs to
/// it.
fn is_brief(report: &Report, bug: &Finding) -> bool {
    bug.confirmed == Some(false) && report.explained_by(bug).next().is_none()
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Bug => Level::ERROR.with_name("bug"),
        Severity::Performance => Level::INFO.with_name("performance"),
        Severity::Warning => Level::WARNING,
    }
}

fn note(name: &str, text: String) -> annotate_snippets::Message<'static> {
    Level::NOTE.with_name(clean(name)).message(text)
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

/// Escapes control characters: names come from the target and can contain anything.
fn clean(text: &str) -> String {
    normalize_untrusted_str(&text.replace(['\n', '\r'], " "))
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        0 => format!("no {noun}s"),
        _ => number_of(count as u64, noun),
    }
}

#[cfg(test)]
mod tests;
