//! `report.html`: a self-contained page with a summary, filters, source snippets and stacks.
//!
//! The template escapes everything that comes from the target. As a second line of defence, the page's content
//! security policy forbids loading anything.

use std::collections::BTreeMap;
use std::io;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Format;
use crate::{Finding, Frame, JoinedFinding, Problem, Report, Severity, Sources, Stack};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/filter.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Lines of context above and below a source line.
const AROUND: u32 = 3;

/// A self-contained HTML page.
pub struct Html {
    pub sources: Sources,
}

impl Format for Html {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(self.page(report).into_string().as_bytes())
    }
}

impl Html {
    fn page(&self, report: &Report) -> Markup {
        let subject = report.subject.command.join(" ");
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "brownout: " (subject) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { "brownout" }
                        @if !subject.is_empty() { p { code { (subject) } } }
                        @if let Some(problem) = report.conclusion.problem() { (banner(&problem)) }
                        @for gap in &report.subject.gaps { p.gap { (gap) } }
                        @for sentence in report.conclusion.left_out.sentences() { p.gap { (sentence) } }
                        (summary(report))
                        @for weight in report.file_sentences() { p.weight { (weight) } }
                        (exploration(report))
                    }
                    @if !report.findings().is_empty() { (filters(report)) }
                    main {
                        @for finding in report.causes() { (self.finding(report, finding)) }
                        @if report.findings().is_empty() && report.conclusion.is_conclusive() { p { "No findings." } }
                    }
                    (hidden_findings(report))
                    (explanations(report))
                    footer { "brownout " (env!("CARGO_PKG_VERSION")) }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    }

    fn finding(&self, report: &Report, finding: &Finding) -> Markup {
        let location = finding
            .primary_frame()
            .map(|frame| report.shown_frame(frame));
        let open = finding.severity == Severity::Bug;
        html! {
            details.finding.(finding.severity) id=(finding.id) open[open]
                data-rule=(finding.rule) data-severity=(finding.severity)
                data-category=(finding.category) {
                summary {
                    span.severity { (finding.severity) }
                    " " span.rule { (finding.rule) }
                    " " span.message { (finding.message) }
                    @if let Some(location) = location { " " span.location { (location) } }
                    @if finding.count > 1 { " " span.count { "\u{d7}" (finding.count) } }
                }
                @for stack in finding.shown_stacks() { (self.stack(report, stack)) }
                (self.open_reads(report, finding))
                (evidence(finding))
                @for effect in report.explained_by(finding) { (self.finding(report, effect)) }
                @if report.rule(&finding.rule).is_some() {
                    p { a href={ "#rule-" (finding.rule) } { "About " (finding.rule) } }
                }
            }
        }
    }

    /// Which of several stores recovery has read: sentences, and the stacks.
    fn open_reads(&self, report: &Report, finding: &Finding) -> Markup {
        html! {
            @for sentence in finding.open_read_sentences() { p { (sentence) } }
            @if let Some(more) = finding.more_open_reads_sentence() { p { (more) } }
            @if finding.stacks_of_reads().next().is_some() {
                details {
                    summary { "Stacks of what recovery can read" }
                    @for stack in finding.stacks_of_reads() { (self.stack(report, stack)) }
                }
            }
        }
    }

    fn stack(&self, report: &Report, stack: &Stack) -> Markup {
        html! {
            section {
                h3 { (stack.role) }
                (self.snippet(stack))
                (self.frames(report, stack))
            }
        }
    }

    fn frames(&self, report: &Report, stack: &Stack) -> Markup {
        let primary = stack.primary_frame();
        html! {
            ol.stack {
                @for frame in &stack.frames {
                    li.primary[Some(frame) == primary] title=(module_offset(frame)) {
                        (report.shown_frame(frame))
                        (frame.remark())
                        @if let Some(statement) = self.sources.statement(frame) {
                            " " span.statement { (statement) }
                        }
                    }
                }
            }
        }
    }

    fn snippet(&self, stack: &Stack) -> Markup {
        let location = stack
            .primary_frame()
            .and_then(|frame| Some((frame.file.as_deref()?, frame.line?, frame.column)));
        let Some((file, line, column)) = location else {
            return html! {};
        };
        if let Err(problem) = self.sources.line(file, line, column) {
            return html! { p.gap { (problem) } };
        }
        let around = line.saturating_sub(AROUND).max(1)..=line.saturating_add(AROUND);
        html! {
            pre.snippet {
                @for number in around {
                    @if let Ok(shown) = self.sources.line(file, number, column) {
                        span.line {
                            span.number { (format!("{number:>6} ")) }
                            @if number == line {
                                (shown.text[shown.line.start..shown.statement.start])
                                mark { (shown.text[shown.statement.clone()]) }
                                (shown.text[shown.statement.end..shown.line.end])
                            } @else {
                                (shown.text[shown.line.clone()])
                            }
                            "\n"
                        }
                    }
                }
            }
        }
    }
}

fn module_offset(frame: &Frame) -> String {
    format!("{}+{:#x}", frame.module, frame.offset)
}

fn evidence(finding: &Finding) -> Markup {
    let evidence = &finding.evidence;
    html! {
        table.evidence {
            @for range in &evidence.ranges { tr { th { "bytes" } td { (range) } } }
            @for value in &evidence.values { tr { th { (value.name) } td { code { (value.shown(usize::MAX)) } } } }
            @for event in &evidence.events { tr { th { "event" } td { (event) } } }
            @if let Some(phrase) = finding.reads_phrase() { tr { th { "reads" } td { (phrase) } } }
            @for (name, value) in &evidence.details { tr { th { (name) } td { (value) } } }
            @for other in &evidence.joined { tr { th { "also" } td { (joined(other)) } } }
            tr { th { "seen" } td { (finding.count) } }
            tr { th { "id" } td { code { (finding.id) } } }
            @if let Some(fix) = &finding.fix {
                tr { th { "repair" } td { (fix.proof.sentence()) pre { code { (fix.diff) } } } }
            }
            @if let Some(replay) = &finding.replay { tr { th { "replay" } td { code { (replay) } } } }
        }
    }
}

/// The stack of a finding that was joined with another one.
fn joined(other: &JoinedFinding) -> String {
    let frames: Vec<String> = other.frames.iter().map(Frame::to_string).collect();
    match &frames[..] {
        [] => format!("{} {}", other.rule, other.id),
        _ => format!("{}: {}", other.rule, frames.join(" \u{2190} ")),
    }
}

/// Why the page does not show that the target is correct.
fn banner(problem: &Problem) -> Markup {
    html! {
        div.inconclusive role="alert" {
            p { b { "Not a pass: " (problem.end.meaning()) "." } }
            pre { (problem.text) }
        }
    }
}

/// What an exploration has run and saved.
fn exploration(report: &Report) -> Markup {
    let crash = report.conclusion.crash.as_ref();
    let explored = crash.and_then(|crash| crash.exploration.as_ref());
    html! {
        @if let Some(explored) = explored {
            table.exploration {
                caption { "Exploration" }
                @for (what, count) in explored.counts() {
                    tr { td { (what) } td.number { (count) } }
                }
            }
            @if !explored.points.is_empty() {
                details {
                    summary { "Failure points" }
                    table.exploration {
                        @for point in &explored.points {
                            tr { td { (point.failure_point) } td { (point.status()) } }
                        }
                    }
                }
            }
        }
    }
}

fn summary(report: &Report) -> Markup {
    html! {
        ul.summary {
            (counted(report.bugs().count(), "bug", "bugs"))
            (counted(report.of(Severity::Performance).count(), "performance finding", "performance findings"))
            (counted(report.of(Severity::Warning).count(), "warning", "warnings"))
            @if !report.suppressed().is_empty() { li { b { (report.suppressed().len()) } " suppressed" } }
            @if report.known_count() > 0 { li { b { (report.known_count()) } " known from the baseline" } }
        }
    }
}

fn counted(count: usize, one: &str, many: &str) -> Markup {
    html! { li { b { (count) } " " (if count == 1 { one } else { many }) } }
}

fn filters(report: &Report) -> Markup {
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    let mut severities: BTreeMap<Severity, usize> = BTreeMap::new();
    for finding in report.findings() {
        *rules.entry(&finding.rule).or_default() += 1;
        *severities.entry(finding.severity).or_default() += 1;
    }
    html! {
        form #filters {
            fieldset {
                legend { "severity" }
                @for (severity, count) in severities {
                    (checkbox("severity", severity.as_str(), count))
                }
            }
            fieldset {
                legend { "rule" }
                @for (rule, count) in rules { (checkbox("rule", rule, count)) }
            }
            label { "text " input #search type="search" placeholder="function, file, message"; }
        }
    }
}

fn checkbox(kind: &str, value: &str, count: usize) -> Markup {
    html! {
        label {
            input type="checkbox" name=(kind) value=(value) checked;
            " " (value) " (" (count) ")"
        }
    }
}

/// The explanations of all rules that have findings.
fn explanations(report: &Report) -> Markup {
    let found = report.rules_with_findings();
    html! {
        @for rule in report.rules.iter().filter(|rule| found.contains(rule.id)) {
            section.explanation id={ "rule-" (rule.id) } {
                h2 { (rule.id) ": " (rule.summary) }
                pre { (rule.explanation) }
            }
        }
    }
}

/// Suppressed and known findings.
fn hidden_findings(report: &Report) -> Markup {
    let location = |finding: &Finding| {
        finding
            .primary_frame()
            .map(|frame| report.shown_frame(frame))
    };
    html! {
        @if !report.suppressed().is_empty() {
            details.hidden-findings {
                summary { "Suppressed (" (report.suppressed().len()) ")" }
                ul { @for suppressed in report.suppressed() {
                    li {
                        span.rule { (suppressed.finding.rule) } " "
                        @if let Some(frame) = location(&suppressed.finding) { (frame) ": " }
                        (suppressed.reason)
                    }
                } }
            }
        }
        @if !report.known().is_empty() {
            details.hidden-findings {
                summary { "Known from the baseline (" (report.known().len()) ")" }
                ul { @for finding in report.known() {
                    li {
                        span.rule { (finding.rule) } " "
                        @if let Some(frame) = location(finding) { (frame) ": " }
                        (finding.message)
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FLUSH_RULE, WARNING_RULE, finding, finding_at};
    use crate::{Covered, CrashCoverage, ExplorationCoverage, ExploredPoint, Subject};

    fn page(findings: Vec<Finding>) -> String {
        let sources = Sources::from_fn(|_| Ok("a < b;\n".repeat(20)));
        let subject = Subject {
            command: vec!["<script>alert(1)</script>".into()],
            ..Subject::default()
        };
        Html { sources }.to_text(&Report::new(subject, vec![FLUSH_RULE], findings))
    }

    #[test]
    fn the_page_is_self_contained() {
        let text = page(vec![finding()]);
        for outside in ["src=", "url(", "@import", "http:", "https:"] {
            assert!(!text.contains(outside), "{outside}");
        }
        let links = text.matches("href=").count();
        assert_eq!(
            links,
            text.matches("href=\"#rule-").count(),
            "only within the page"
        );
    }

    #[test]
    fn what_an_exploration_has_run_is_a_table() {
        let html = Html {
            sources: Sources::from_fn(|_| Ok(String::new())),
        };
        let mut report = Report::new(Subject::default(), Vec::new(), Vec::new());
        let without = html.to_text(&report);
        assert!(!without.contains("<caption>Exploration"));
        report.conclusion.crash = Some(CrashCoverage {
            exploration: Some(ExplorationCoverage {
                executions: 14,
                points: vec![ExploredPoint {
                    failure_point: "flush at a.c:1".to_owned(),
                    crash_times: Covered::new(1, 2),
                    ..ExploredPoint::default()
                }],
                ..ExplorationCoverage::default()
            }),
            ..CrashCoverage::default()
        });
        let with = html.to_text(&report);
        let point = "<td>flush at a.c:1</td><td>1 of 2 crash times finished; 0 states tried</td>";
        assert!(with.contains(point), "{with}");
        let row = r#"<tr><td>recoveries run</td><td class="number">14</td></tr>"#;
        assert!(with.contains("<caption>Exploration</caption>") && with.contains(row));
    }

    #[test]
    fn findings_have_snippets_and_stacks() {
        let text = page(vec![finding(), finding_at(&WARNING_RULE, "x.c", 1)]);
        assert_eq!(text.matches("<details class=\"finding").count(), 2);
        assert!(text.contains("<mark>a &lt; b</mark>;"), "{text}");
        assert!(text.contains("main at /home/u/kv/kv.c:90"));
        assert!(
            text.contains("value=\"transient-data\""),
            "a filter for each rule"
        );
        let explained = text.matches("Finds stores that are never flushed.").count();
        assert_eq!(explained, 1, "each rule is explained once");
    }

    #[test]
    fn hostile_names_are_escaped() {
        let hostile = "\"><script>alert('x')</script><img onerror=x>";
        let mut bug = finding_at(&FLUSH_RULE, hostile, 7);
        bug.rule = hostile.into();
        bug.message = hostile.into();
        bug.stacks[0].role = hostile.into();
        bug.stacks[0].frames[0].function = Some(hostile.into());
        bug.evidence.details.insert(hostile.into(), hostile.into());
        bug.replay = Some(hostile.into());
        let text = page(vec![bug]);
        assert_eq!(
            text.matches("<script>").count(),
            1,
            "only the script of the page"
        );
        assert!(!text.contains("<img"));
    }

    #[test]
    fn a_missing_source_file_is_explained() {
        let html = Html {
            sources: Sources::from_fn(|_| Err(io::ErrorKind::NotFound.into())),
        };
        let text = html.to_text(&Report::new(Subject::default(), vec![], vec![finding()]));
        assert!(text.contains("cannot read source file /home/u/kv/kv.c"));
    }
}
