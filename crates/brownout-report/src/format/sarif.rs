//! SARIF 2.1.0, which code-scanning services and editors read.
//!
//! A finding is a result with its location, its stacks and, if there are several stacks, a code flow in the
//! order of events. `partialFingerprints` contains the id and the lineless id of the finding. Suppressed
//! findings have a `suppressions` property, and findings known from the baseline are `unchanged`. Paths below the
//! subject's directory are relative to `SRCROOT`.

use std::io;

use serde_json::{Map, Value, json};

use super::Format;
use crate::{Finding, Frame, Report, RuleInfo, Severity, SourceFix, Stack};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const ROOT: &str = "SRCROOT";

/// SARIF 2.1.0.
#[derive(Clone, Copy, Debug)]
pub struct Sarif;

impl Format for Sarif {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &document(report))?;
        out.write_all(b"\n")
    }
}

fn document(report: &Report) -> Value {
    let rules = Rules::of(report);
    let new = report.causes();
    let baseline = !report.known().is_empty();
    let mut results: Vec<Value> = new
        .map(|finding| {
            let mut result = result(report, &rules, finding);
            if baseline {
                result.insert("baselineState".into(), "new".into());
            }
            result.into()
        })
        .collect();
    results.extend(report.known().iter().map(|finding| {
        let mut result = result(report, &rules, finding);
        result.insert("baselineState".into(), "unchanged".into());
        Value::from(result)
    }));
    results.extend(report.suppressed().iter().map(|suppressed| {
        let mut result = result(report, &rules, &suppressed.finding);
        let suppression = json!({"kind": "external", "justification": suppressed.reason});
        result.insert("suppressions".into(), json!([suppression]));
        Value::from(result)
    }));
    let mut run = json!({
        "tool": {"driver": {
            "name": "brownout",
            "version": env!("CARGO_PKG_VERSION"),
            "informationUri": env!("CARGO_PKG_REPOSITORY"),
            "rules": rules.descriptors(),
        }},
        "columnKind": "utf16CodeUnits",
        "invocations": [invocation(report)],
        "results": results,
    });
    if let Some(directory) = &report.subject.directory {
        let uri = format!("{}/", file_uri(directory.trim_end_matches('/')));
        run["originalUriBaseIds"] = json!({ROOT: {"uri": uri}});
    }
    json!({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})
}

fn invocation(report: &Report) -> Value {
    let conclusion = &report.conclusion;
    let mut invocation = json!({"executionSuccessful": conclusion.is_conclusive()});
    if let Some(code) = conclusion.exit_code {
        invocation["exitCode"] = code.into();
        invocation["exitCodeDescription"] = conclusion.end.meaning().into();
    }
    if !report.subject.command.is_empty() {
        invocation["arguments"] = json!(report.subject.command);
    }
    let problem = conclusion.problem();
    let problem =
        problem.map(|problem| json!({"level": "error", "message": {"text": problem.text}}));
    let gaps = report.subject.gaps.iter();
    let gaps = gaps.map(|gap| json!({"level": "warning", "message": {"text": gap}}));
    let notes = report
        .file_sentences()
        .chain(conclusion.left_out.sentences());
    let notes = notes.map(|text| json!({"level": "note", "message": {"text": text}}));
    let all = problem.into_iter().chain(gaps).chain(notes);
    let notifications: Vec<Value> = unique(all.collect());
    if !notifications.is_empty() {
        invocation["toolExecutionNotifications"] = notifications.into();
    }
    invocation
}

/// The rules that were applied, and rules of findings that are not among them.
struct Rules<'a> {
    known: &'a [RuleInfo],
    others: Vec<&'a Finding>,
}

impl<'a> Rules<'a> {
    fn of(report: &'a Report) -> Self {
        let mut others: Vec<&Finding> = Vec::new();
        let suppressed = report.suppressed().iter().map(|s| &s.finding);
        for finding in report
            .findings()
            .iter()
            .chain(report.known())
            .chain(suppressed)
        {
            let known = report.rule(&finding.rule).is_some()
                || others.iter().any(|other| other.rule == finding.rule);
            if !known {
                others.push(finding);
            }
        }
        Self {
            known: &report.rules,
            others,
        }
    }

    fn index(&self, rule: &str) -> usize {
        let ids = self.known.iter().map(|rule| rule.id);
        let mut ids = ids.chain(self.others.iter().map(|finding| finding.rule.as_str()));
        ids.position(|id| id == rule)
            .expect("every finding's rule is listed")
    }

    fn descriptors(&self) -> Vec<Value> {
        let known = self.known.iter().map(|rule| {
            json!({
                "id": rule.id,
                "name": camel_case(rule.id),
                "shortDescription": {"text": rule.summary},
                "fullDescription": {"text": rule.summary},
                "help": {"text": rule.explanation, "markdown": rule.explanation},
                "defaultConfiguration": {"level": level(rule.severity)},
                "properties": {"tags": ["persistent-memory", rule.category]},
            })
        });
        let others = self
            .others
            .iter()
            .map(|finding| json!({"id": finding.rule}));
        known.chain(others).collect()
    }
}

fn result(report: &Report, rules: &Rules<'_>, finding: &Finding) -> Map<String, Value> {
    let mut result = Map::new();
    let mut put = |name: &str, value: Value| result.insert(name.into(), value);
    put("ruleId", finding.rule.as_str().into());
    put("ruleIndex", rules.index(&finding.rule).into());
    put("level", level(finding.severity).into());
    let text = match finding.proof() {
        Some(proof) => format!("{}; confirmed: {proof}", finding.message),
        None => finding.message.clone(),
    };
    put("message", json!({"text": text}));
    let primary = finding
        .primary_frame()
        .map(|frame| location(report, frame, None));
    put("locations", primary.into_iter().collect());
    let mut others: Vec<Value> = finding
        .stacks
        .iter()
        .skip(1)
        .filter_map(|stack| Some(location(report, stack.primary_frame()?, Some(&stack.role))))
        .collect();
    if !others.is_empty() {
        put("codeFlows", json!([code_flow(report, finding)]));
    }
    others.extend(finding.other_locations().iter().map(|other| {
        let message = format!("also: {}", other.rule);
        location(report, other.frame, Some(&message))
    }));
    others.extend(report.explained_by(finding).filter_map(|effect| {
        let message = format!("{}: {}", effect.rule, effect.message);
        Some(location(report, effect.primary_frame()?, Some(&message)))
    }));
    if !others.is_empty() {
        put("relatedLocations", unique(others).into());
    }
    let stacks = finding
        .stacks
        .iter()
        .map(|stack| sarif_stack(report, stack));
    put("stacks", unique(stacks.collect()).into());
    put("occurrenceCount", finding.count.max(1).into());
    put(
        "partialFingerprints",
        json!({"brownoutFinding/v1": finding.id, "brownoutSite/v1": finding.lineless_id()}),
    );
    if let Some(fix) = &finding.fix {
        put("fixes", json!([sarif_fix(report, fix)]));
    }
    put(
        "properties",
        json!({"category": finding.category, "evidence": finding.evidence, "replay": finding.replay, "confirmed": finding.confirmed, "readByRecovery": finding.read_by_recovery}),
    );
    result
}

/// The edits of a repair, file by file.
fn sarif_fix(report: &Report, fix: &SourceFix) -> Value {
    let mut files: Vec<&str> = fix.edits.iter().map(|edit| edit.file.as_str()).collect();
    files.dedup();
    let changes = files.into_iter().map(|file| {
        let edits = fix.edits.iter().filter(|edit| edit.file == file);
        let replacements: Vec<Value> = edits
            .map(|edit| {
                let region = json!({
                    "startLine": edit.line,
                    "startColumn": edit.column,
                    "endLine": edit.end_line,
                    "endColumn": edit.end_column,
                });
                json!({"deletedRegion": region, "insertedContent": {"text": edit.text}})
            })
            .collect();
        json!({"artifactLocation": artifact(report, file), "replacements": replacements})
    });
    let changes: Vec<Value> = changes.collect();
    json!({"description": {"text": fix.proof.sentence()}, "artifactChanges": changes})
}

/// Removes duplicates: the standard does not allow them in these arrays, and two flushes at one location give
/// equal items.
fn unique(items: Vec<Value>) -> Vec<Value> {
    let mut unique: Vec<Value> = Vec::with_capacity(items.len());
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

/// The locations of all stacks in the order of their events, as far as known.
fn code_flow(report: &Report, finding: &Finding) -> Value {
    let mut steps: Vec<(Option<&u64>, &Stack)> = finding
        .stacks
        .iter()
        .enumerate()
        .map(|(index, stack)| (finding.evidence.events.get(index), stack))
        .collect();
    steps.sort_by_key(|(event, _)| event.copied().unwrap_or(u64::MAX));
    let locations: Vec<Value> = steps
        .into_iter()
        .filter_map(|(_, stack)| {
            let frame = stack.primary_frame()?;
            Some(json!({"location": location(report, frame, Some(&stack.role))}))
        })
        .collect();
    json!({"threadFlows": [{"locations": locations}]})
}

fn sarif_stack(report: &Report, stack: &Stack) -> Value {
    let frames: Vec<Value> = stack
        .frames
        .iter()
        .map(|frame| json!({"location": location(report, frame, None), "module": frame.module}))
        .collect();
    json!({"message": {"text": stack.role}, "frames": frames})
}

fn location(report: &Report, frame: &Frame, message: Option<&str>) -> Value {
    let mut location = json!({});
    if let Some(file) = &frame.file {
        let mut physical = json!({"artifactLocation": artifact(report, file)});
        // In DWARF, line 0 means code without a line; SARIF lines start at 1.
        if let Some(line) = frame.line.filter(|&line| line > 0) {
            let mut region = json!({"startLine": line});
            if let Some(column) = frame.column.filter(|&column| column > 0) {
                region["startColumn"] = column.into();
            }
            physical["region"] = region;
        }
        location["physicalLocation"] = physical;
    }
    let name = match &frame.function {
        Some(function) => function.clone(),
        None => frame.to_string(),
    };
    location["logicalLocations"] = json!([{"fullyQualifiedName": name, "kind": "function"}]);
    if let Some(message) = message {
        location["message"] = json!({"text": message});
    }
    location
}

fn artifact(report: &Report, file: &str) -> Value {
    let shown = report.shown_path(file);
    if shown != file {
        return json!({"uri": escaped_path(shown), "uriBaseId": ROOT});
    }
    if file.starts_with('/') {
        return json!({"uri": file_uri(file)});
    }
    json!({"uri": escaped_path(file)})
}

fn file_uri(path: &str) -> String {
    format!("file://{}", escaped_path(path))
}

/// Escapes everything except slashes and the unreserved characters of RFC 3986.
fn escaped_path(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into());
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Bug => "error",
        Severity::Performance => "note",
        Severity::Warning => "warning",
    }
}

/// SARIF rule names are in camel case, unlike the ids.
fn camel_case(id: &str) -> String {
    id.split('-')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
                .unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests;
