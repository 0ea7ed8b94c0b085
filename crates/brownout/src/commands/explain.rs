//! `brownout explain`: documents the rules.

use std::io::Write as _;

use brownout_report::RuleInfo;

use crate::arguments::ExplainArgs;
use crate::console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::rules;

pub fn run(arguments: &ExplainArgs) -> Result<ExitCode, Failure> {
    let rules = rules::all();
    let text = match &arguments.rule {
        None => list(&rules),
        Some(id) => match rules.iter().find(|rule| rule.id == id) {
            Some(rule) => explain(rule),
            None => {
                return Err(Failure::NoSuchRule {
                    rule: id.clone(),
                    near: nearest(id, &rules),
                });
            }
        },
    };
    let mut out = console::results();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Failure::Output)?;
    Ok(ExitCode::Success)
}

fn list(rules: &[RuleInfo]) -> String {
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    rules
        .iter()
        .map(|rule| {
            let id = rule.id;
            let (severity, category) = (rule.severity, rule.category);
            format!(
                "{id:width$}  {severity:7}  {category:11}  {}\n",
                rule.summary
            )
        })
        .collect()
}

fn explain(rule: &RuleInfo) -> String {
    format!(
        "{} ({}, {}): {}\n\n{}\n",
        rule.id,
        rule.severity,
        rule.category,
        rule.summary,
        rule.explanation.trim()
    )
}

/// The rule whose name is most similar to the given one.
fn nearest(given: &str, rules: &[RuleInfo]) -> &'static str {
    let likeness = |rule: &&RuleInfo| {
        let words = given.split(['-', '_', ' ']);
        let shared = words.filter(|word| rule.id.contains(word)).count();
        let start = rule.id.bytes().zip(given.bytes());
        (shared, start.take_while(|(a, b)| a == b).count())
    };
    rules
        .iter()
        .rev()
        .max_by_key(likeness)
        .map_or("", |rule| rule.id)
}
