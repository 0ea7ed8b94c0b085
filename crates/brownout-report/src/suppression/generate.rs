//! Generates suppressions for findings. The user copies them to a file and adds the reasons.
//!
//! A suppression is as narrow as its finding: the rule, the functions from the innermost one to that of the primary
//! location, and the statement there. Another bug in the same function is still reported.

use std::fmt::Write as _;

use toml::Value;

use super::StatementText;
use crate::{Finding, Frame, Sources, Stack};

/// One suppression per finding, in TOML. Findings that the same suppression matches share it.
pub fn suppressions_for<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    sources: &Sources,
) -> String {
    let mut text = String::new();
    let mut written = Vec::new();
    for finding in findings {
        let body = body(finding, sources);
        if written.contains(&body) {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# {}\n[[suppression]]\n{body}reason = \"not reviewed\"\n\n",
            comment(finding)
        );
        written.push(body);
    }
    text
}

/// What decides whether the suppression matches.
fn body(finding: &Finding, sources: &Sources) -> String {
    let mut text = format!("rule = {}\n", quoted(&finding.rule));
    let Some(stack) = finding.stacks.first() else {
        return text;
    };
    let Some(primary) = stack.primary_frame() else {
        return text;
    };
    let functions: Vec<String> = functions_down_to(stack, primary)
        .into_iter()
        .map(quoted)
        .collect();
    let _ = writeln!(text, "stack = [{}]", functions.join(", "));
    let statement = StatementText::of(primary, sources);
    // The names and lines of library code depend on the machine.
    let _ = match (statement, primary.line) {
        _ if primary.is_library() => Ok(()),
        (Some(StatementText { words, occurrence }), _) => {
            let mut written = writeln!(text, "source = {}", quoted(&words));
            if occurrence > 1 {
                written = writeln!(text, "occurrence = {occurrence}");
            }
            written
        }
        (None, Some(line)) => writeln!(text, "line = {line}"),
        // Code outside of files has a bare address, which differs in each run.
        (None, None) if primary.module.starts_with('[') => Ok(()),
        (None, None) => writeln!(text, "offset = {:#x}", primary.offset),
    };
    text
}

/// The functions from the innermost frame to the primary one. Library frames become `...`.
fn functions_down_to<'a>(stack: &'a Stack, primary: &'a Frame) -> Vec<&'a str> {
    let inner = stack.frames.iter().take_while(|frame| *frame != primary);
    let mut functions = Vec::new();
    for frame in inner {
        if !frame.is_library() {
            functions.push(name(frame));
        } else if functions.last() != Some(&"...") {
            functions.push("...");
        }
    }
    functions.push(name(primary));
    functions
}

fn name(frame: &Frame) -> &str {
    frame.function.as_deref().unwrap_or("*")
}

fn comment(finding: &Finding) -> String {
    let source = finding.primary_frame().and_then(|frame| frame.source());
    let text = match source {
        Some(source) => format!("{source}: {}", finding.message),
        None => finding.message.clone(),
    };
    text.replace(|c: char| c.is_control(), " ")
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
