//! Text for people: bugs with source snippets and stacks, other findings in one line per rule and location, and a
//! summary.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;

use annotate_snippets::{
    AnnotationKind, Element, Level, Origin, Renderer, Snippet, normalize_untrusted_str,
};

mod byte_ranges;
mod evidence_text;
mod frame_lines;
mod short_name;
mod wrapping;

use super::Format;
use crate::source::{NoSource, SourceLine};
use crate::{Finding, Frame, Report, Severity, Sources, Stack, Suppressed};
use evidence_text::evidence_text;
use frame_lines::{FrameLine, frame_lines, run_text, with_short_name};
use wrapping::wrapped;

/// Frames shown per stack; recursive programs can have thousands.
const MAX_FRAMES: usize = 24;
/// Findings of one rule at one location that are shown in full; they differ only in their callers.
const MAX_STACKS: usize = 3;
/// Characters shown of a caller's statement.
const MAX_STATEMENT: usize = 60;
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
    /// The results directory as an argument in a shell, if there is one.
    pub results: Option<String>,
    pub sources: Sources,
}

impl Format for Human {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
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
        if self.suppressed && !report.suppressed().is_empty() {
            self.write_suppressed(report, out)?;
        }
        out.write_all(summary(report).as_bytes())
    }
}

impl Human {
    fn renderer(&self) -> Renderer {
        let renderer = if self.color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.term_width(self.width)
    }

    /// For the findings of one rule at one location, shows the source once and the stacks of the first few.
    fn write_all_in_full<'a>(
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

    fn write_suppressed(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
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

    fn write_line(
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
            elements.extend(self.snippets(report, &finding.stacks));
        } else if let Some(frame) = finding.primary_frame() {
            elements.push(origin(report, frame).into());
        }
        for stack in &finding.stacks {
            elements.push(
                self.note(&stack.role, self.stack_text(report, stack))
                    .into(),
            );
        }
        let evidence = evidence_text(&finding.evidence, finding.count);
        elements.push(self.note("seen", evidence).into());
        if let Some(places) = joined_text(report, finding) {
            elements.push(self.note("also", places).into());
        }
        for effect in report.explained_by(finding) {
            elements.push(note(&effect.rule, self.effect_text(report, effect)).into());
        }
        elements.push(note("id", finding.id.to_string()).into());
        // `event:N` is already shown as the first event. Tokens are long and only in the JSON lines.
        let replay = finding.replay.as_deref();
        if replay.is_some_and(|replay| !replay.starts_with("event:")) {
            elements.push(note("replay", self.replay_command(finding)).into());
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
            if let Some(frame) = stack.primary_frame().filter(|_| !stack.is_of_cause()) {
                let frame = with_short_name(report.shown_frame(frame));
                lines.push(clean(&format!("{}: {frame}", stack.role)));
            }
        }
        lines.push(format!("{}, id {}", times(effect.count), effect.id));
        let margin = effect.rule.len() + NOTE_MARGIN;
        let text = wrapped(&lines.join("\n"), self.columns(margin));
        // Commands are not wrapped, because they are to be copied.
        format!("{text}\n{}", self.replay_command(effect))
    }

    fn replay_command(&self, finding: &Finding) -> String {
        let directory = self.results.as_deref().unwrap_or("DIR");
        format!("brownout replay {directory} {}", finding.id)
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

    /// The source lines of all stacks, one snippet per file.
    fn snippets(&self, report: &Report, stacks: &[Stack]) -> Vec<Element<'static>> {
        let mut files: Vec<(&str, Vec<Marked<'_>>)> = Vec::new();
        let mut elements: Vec<Element<'static>> = Vec::new();
        let mut missing = BTreeSet::new();
        for (index, stack) in stacks.iter().enumerate() {
            let Some(frame) = stack.primary_frame() else {
                continue;
            };
            match self.source_line(frame) {
                Some(Ok(line)) => {
                    let file = frame.file.as_deref().unwrap_or_default();
                    let entry = Marked {
                        line,
                        role: &stack.role,
                        primary: index == 0,
                    };
                    match files.iter_mut().find(|(name, _)| *name == file) {
                        Some((_, lines)) => lines.push(entry),
                        None => files.push((file, vec![entry])),
                    }
                }
                Some(Err(problem)) => {
                    missing.insert(problem.to_string());
                    if index == 0 {
                        elements.push(origin(report, frame).into());
                    }
                }
                None if index == 0 => elements.push(origin(report, frame).into()),
                None => {}
            }
        }
        elements.extend(
            files
                .into_iter()
                .map(|(file, lines)| snippet(report, file, lines)),
        );
        elements.extend(
            missing
                .iter()
                .map(|problem| Element::from(Level::NOTE.message(clean(problem)))),
        );
        elements
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

    fn source_line(&self, frame: &Frame) -> Option<Result<SourceLine, NoSource>> {
        let file = frame.file.as_deref()?;
        Some(self.sources.line(file, frame.line?, frame.column))
    }

    /// One line per rule and location, regardless of the number of stacks.
    fn write_lines<'a>(
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
                    *stacks += 1 + finding.evidence.joined.len();
                }
                None => {
                    let stacks = 1 + finding.evidence.joined.len();
                    lines.push((location, finding, finding.count, stacks));
                }
            }
        }
        for (location, first, count, stacks) in lines {
            let mut text = format!("{}, {}", clean(&location), times(count));
            if stacks > 1 {
                let _ = write!(text, " on {stacks} stacks");
            }
            if first.confirmed == Some(false) {
                text.push_str("; recovery passes without it");
            }
            let text = format!("{} ({text})", clean(&first.message));
            self.write_line(first, text, out)?;
        }
        out.write_all(b"\n")
    }
}

/// Where the findings that were joined with this one are.
fn joined_text(report: &Report, finding: &Finding) -> Option<String> {
    let joined = &finding.evidence.joined;
    let first = finding.stacks.first()?;
    if joined.is_empty() {
        return None;
    }
    let stacks = if joined.len() == 1 { "stack" } else { "stacks" };
    let mut lines = vec![format!("on {} other {stacks}", joined.len())];
    let own = first.frames_of_program();
    for other in joined.iter().take(MAX_STACKS) {
        // The caller in which it differs distinguishes it from the others.
        let shared = other.frames.iter().zip(own);
        let shared = shared.take_while(|(one, other)| one.to_string() == other.to_string());
        if let Some(caller) = other.frames.get(shared.count()) {
            let caller = format!("{}{}", report.shown_frame(caller), caller.remark());
            lines.push(format!("from {}", clean(&caller)));
        }
    }
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    Some(lines.join("\n"))
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

/// A statement marked in a snippet.
struct Marked<'a> {
    line: SourceLine,
    role: &'a str,
    /// Whether it belongs to the first stack.
    primary: bool,
}

/// The part of a file from the first to the last marked line; unmarked lines in between are folded.
fn snippet(report: &Report, file: &str, lines: Vec<Marked<'_>>) -> Element<'static> {
    let first = lines.iter().min_by_key(|marked| marked.line.number);
    let (start, number) = first.map_or((0, 1), |first| (first.line.line.start, first.line.number));
    let end = lines.iter().map(|marked| marked.line.line.end).max();
    let text = lines.first().map_or("", |marked| &marked.line.text);
    let text = text[start..end.unwrap_or(start)].to_owned();
    let annotations = lines.iter().map(|marked| {
        let kind = if marked.primary {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        let statement = &marked.line.statement;
        kind.span(statement.start - start..statement.end - start)
            .label(clean(marked.role))
    });
    Snippet::source(text)
        .line_start(number as usize)
        .path(clean(report.shown_path(file)))
        .annotations(annotations)
        .into()
}

fn note(name: &str, text: String) -> annotate_snippets::Message<'static> {
    Level::NOTE.with_name(clean(name)).message(text)
}

fn origin(report: &Report, frame: &Frame) -> Origin<'static> {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            let origin = Origin::path(clean(report.shown_path(file))).line(line as usize);
            match frame.column {
                Some(column) => origin.char_column(column as usize),
                None => origin,
            }
        }
        _ => Origin::path(clean(&frame.to_string())),
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

fn summary(report: &Report) -> String {
    let performance = report.of(Severity::Performance).count();
    let mut text = if report.findings().is_empty() {
        "nothing found".to_owned()
    } else {
        counted(report.bugs().count(), "bug")
    };
    if performance > 0 {
        let _ = write!(text, ", {}", counted(performance, "performance finding"));
    }
    if !report.findings().is_empty() {
        let warnings = report.of(Severity::Warning).count();
        let _ = write!(text, ", {}", counted(warnings, "warning"));
    }
    for (count, what) in [
        (report.suppressed().len(), "suppressed"),
        (report.known().len(), "known from the baseline"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    if !report.conclusion.is_conclusive() {
        let meaning = report.conclusion.end.meaning();
        text = match report.findings() {
            // A run that examined too little has not shown that there is nothing to find.
            [] => meaning.to_owned(),
            _ => format!("{text}; {meaning}"),
        };
    }
    text.push('\n');
    for weight in report.weights() {
        let _ = writeln!(text, "{}", clean(&weight));
    }
    let rules: BTreeSet<&str> = report.findings().iter().map(|f| f.rule.as_str()).collect();
    if !rules.is_empty() {
        let rules: Vec<&str> = rules.into_iter().collect();
        let _ = writeln!(
            text,
            "`brownout explain RULE` describes a rule and how to fix its findings: {}",
            clean(&rules.join(", "))
        );
    }
    text
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests;
