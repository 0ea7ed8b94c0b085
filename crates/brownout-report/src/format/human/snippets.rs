//! The source lines of a finding, with its statements marked.

use std::collections::BTreeSet;

use annotate_snippets::{AnnotationKind, Element, Level, Origin, Snippet};

use super::{Human, clean};
use crate::source::{NoSource, SourceLine};
use crate::{Finding, Frame, Report};

impl Human {
    /// The source lines of the shown stacks, one snippet per file.
    pub(super) fn snippets(&self, report: &Report, finding: &Finding) -> Vec<Element<'static>> {
        let mut files: Vec<(&str, Vec<Marked<'_>>)> = Vec::new();
        let mut elements: Vec<Element<'static>> = Vec::new();
        let mut missing = BTreeSet::new();
        for (index, stack) in finding.shown_stacks().enumerate() {
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
                        Some((_, lines)) if lines.iter().any(|known| known.is_same(&entry)) => {}
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

    fn source_line(&self, frame: &Frame) -> Option<Result<SourceLine, NoSource>> {
        let file = frame.file.as_deref()?;
        Some(self.sources.line(file, frame.line?, frame.column))
    }
}

/// A statement marked in a snippet.
struct Marked<'a> {
    line: SourceLine,
    role: &'a str,
    /// Whether it belongs to the first stack.
    primary: bool,
}

impl Marked<'_> {
    /// Whether the same statement is marked in the same way: two stores of one call of a library are.
    fn is_same(&self, other: &Self) -> bool {
        self.line.statement == other.line.statement && self.role == other.role
    }
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

pub(super) fn origin(report: &Report, frame: &Frame) -> Origin<'static> {
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
