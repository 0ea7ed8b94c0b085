//! Findings in full: the source lines, the stacks, the evidence and the commands that repeat them.

use std::collections::HashMap;
use std::io;

use super::evidence_text::evidence_text;
use super::frame_lines::{FrameLine, frame_lines, run_text, with_short_name};
use super::joined_text::joined_text;
use super::snippets::origin;
use super::wrapping::wrapped;
use super::{Human, NOTE_MARGIN, clean, level, note, times};
use crate::{Finding, Frame, Report, Stack};

/// Frames shown per stack; recursive programs can have thousands.
const MAX_FRAMES: usize = 24;
/// Findings of one rule at one location that are shown in full; they differ only in their callers.
pub(super) const MAX_STACKS: usize = 3;
/// Characters shown of a caller's statement.
const MAX_STATEMENT: usize = 60;

impl Human {
    /// For the findings of one rule at one location, shows the source once and the stacks of the first few.
    pub(super) fn write_all_in_full<'a>(
        &self,
        report: &Report,
        findings: impl Iterator<Item = &'a Finding>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let mut locations: HashMap<(&str, String), usize> = HashMap::new();
        let mut folded: Vec<(&Finding, usize)> = Vec::new();
        for finding in findings {
            let location = finding.primary_frame().map(location_of).unwrap_or_default();
            let stacks = locations.entry((&finding.rule, location)).or_default();
            *stacks += 1;
            match *stacks {
                1..=MAX_STACKS => self.write_in_full(report, finding, *stacks == 1, out)?,
                number if number == MAX_STACKS + 1 => folded.push((finding, number)),
                _ => {}
            }
        }
        for (finding, stacks) in &mut folded {
            let location = finding.primary_frame().map(location_of).unwrap_or_default();
            *stacks = locations[&(finding.rule.as_str(), location)] - MAX_STACKS;
        }
        self.write_folded(report, &folded, out)
    }

    /// One line per location that has more stacks than were shown.
    fn write_folded(
        &self,
        report: &Report,
        folded: &[(&Finding, usize)],
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        for (finding, stacks) in folded {
            let frame = finding
                .primary_frame()
                .map(|frame| report.shown_frame(frame));
            let location = frame.map_or_else(String::new, |frame| format!("{frame}, "));
            let text = format!(
                "{} ({}{stacks} more {} not shown)",
                clean(&finding.message),
                clean(&location),
                if *stacks == 1 { "stack" } else { "stacks" }
            );
            self.write_line(finding, text, out)?;
        }
        if !folded.is_empty() {
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// `first`: no finding of this rule at this location was shown before.
    fn write_in_full(
        &self,
        report: &Report,
        finding: &Finding,
        first: bool,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let mut elements = Vec::new();
        if first {
            elements.extend(self.snippets(report, finding));
        } else if let Some(frame) = finding.primary_frame() {
            elements.push(origin(report, frame).into());
        }
        let of_reads = finding.stacks_of_reads().filter(|_| self.verbose);
        for stack in finding.shown_stacks().chain(of_reads) {
            elements.push(
                self.note(&stack.role, self.stack_text(report, stack))
                    .into(),
            );
        }
        let reads = finding.open_read_sentences();
        for sentence in reads.chain(finding.more_open_reads_sentence()) {
            elements.push(self.note("reads", clean(&sentence)).into());
        }
        let evidence = evidence_text(finding);
        elements.push(self.note("seen", evidence).into());
        if let Some(places) = joined_text(report, finding) {
            elements.push(self.note("also", places).into());
        }
        for effect in report.explained_by(finding) {
            elements.push(note(&effect.rule, self.effect_text(report, effect)).into());
        }
        elements.push(note("id", finding.id.to_string()).into());
        if let Some(command) = self.replay_command(finding) {
            elements.push(note("replay", command).into());
        }
        // `bug[missing-flush]: ` and the message.
        let margin = finding.rule.len() + NOTE_MARGIN;
        let message = wrapped(&clean(&finding.message), self.columns(margin));
        let title = level(finding.severity)
            .primary_title(message)
            .id(clean(&finding.rule));
        let text = self.renderer().render(&[title.elements(elements)]);
        writeln!(out, "{text}\n")
    }

    /// A crash finding in a few lines, below the finding that explains it.
    fn effect_text(&self, report: &Report, effect: &Finding) -> String {
        let mut lines = vec![clean(&effect.message)];
        for stack in &effect.stacks {
            let is_brief = !stack.is_of_cause() && !stack.is_of_open_read();
            if let Some(frame) = stack.primary_frame().filter(|_| is_brief) {
                let frame = with_short_name(report.shown_frame(frame));
                lines.push(clean(&format!("{}: {frame}", stack.role)));
            }
        }
        lines.extend(
            effect
                .open_read_sentences()
                .map(|sentence| clean(&sentence)),
        );
        lines.push(format!("{}, id {}", times(effect.count), effect.id));
        let margin = effect.rule.len() + NOTE_MARGIN;
        let text = wrapped(&lines.join("\n"), self.columns(margin));
        // Commands are not wrapped, because they are to be copied.
        match self.replay_command(effect) {
            Some(command) => format!("{text}\n{command}"),
            None => text,
        }
    }

    /// A stack with the statement of each caller, to distinguish calls through one function. The statement of the
    /// primary frame is in the snippet.
    fn stack_text(&self, report: &Report, stack: &Stack) -> String {
        let frames = stack.frames_of_program();
        if frames.is_empty() {
            return "unknown location".to_owned();
        }
        let primary = stack.primary_frame();
        let all_lines = frame_lines(frames, !self.verbose);
        let mut lines: Vec<String> = all_lines
            .iter()
            .take(MAX_FRAMES)
            .map(|line| {
                let frame = match line {
                    FrameLine::Frame(frame) => *frame,
                    FrameLine::Run(run) => return clean(&run_text(run)),
                };
                let shown_frame = with_short_name(report.shown_frame(frame));
                let location = format!("{shown_frame}{}", frame.remark());
                let shown = frame.is_library() || Some(frame) == primary;
                let statement = self.sources.statement(frame).filter(|_| !shown);
                clean(&match statement {
                    Some(statement) => format!("{location}: {}", shortened(&statement)),
                    None => location,
                })
            })
            .collect();
        if all_lines.len() > MAX_FRAMES {
            lines.push(format!("and {} more", all_lines.len() - MAX_FRAMES));
        }
        lines.join("\n")
    }
}

/// Distinguishes locations: the source line, or else the function or address.
fn location_of(frame: &Frame) -> String {
    frame.source().unwrap_or_else(|| frame.to_string())
}

fn shortened(statement: &str) -> String {
    match statement.char_indices().nth(MAX_STATEMENT) {
        Some((end, _)) => format!("{}…", &statement[..end]),
        None => statement.to_owned(),
    }
}
