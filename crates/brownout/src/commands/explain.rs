//! `brownout explain`: documents the rules, and the oracles that a configuration file declares.

use std::io::Write as _;

use brownout_report::RuleInfo;

use crate::arguments::{ConfigArgs, ExplainArgs};
use crate::config::Config;
use crate::console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::rules;
use crate::suspects;

pub fn run(arguments: &ExplainArgs) -> Result<ExitCode, Failure> {
    let mut rules = rules::all();
    let is_wanted = |rule: &&RuleInfo| arguments.rule.as_deref() == Some(rule.id);
    // A faulty configuration file does not concern the rules of brownout.
    if !rules.iter().any(|rule| is_wanted(&rule)) {
        rules.extend(oracles(arguments)?);
    }
    let text = match &arguments.rule {
        None => list(&rules),
        Some(id) => match rules.iter().find(is_wanted) {
            Some(rule) => explain(rule),
            None => {
                return Err(Failure::NoSuchRule {
                    rule: id.clone(),
                    near: rules::nearest_of(id, &rules),
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

/// The rules of the oracles that the configuration file declares.
fn oracles(arguments: &ExplainArgs) -> Result<Vec<RuleInfo>, Failure> {
    let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
    let file = ConfigArgs {
        config: arguments.config.clone(),
        preset: None,
    };
    let oracles = Config::find(&file, &here)?.oracles;
    Ok(oracles.iter().map(|oracle| *oracle.rule()).collect())
}

fn list(rules: &[RuleInfo]) -> String {
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    rules
        .iter()
        .map(|rule| {
            let id = rule.id;
            let (severity, category) = (rule.severity, rule.category);
            let pedantic = if rule.pedantic { " (pedantic)" } else { "" };
            format!(
                "{id:width$}  {severity:11}  {category:11}  {}{pedantic}\n",
                rule.summary
            )
        })
        .collect()
}

fn explain(rule: &RuleInfo) -> String {
    let pedantic = if rule.pedantic {
        "\n\nThis rule is pedantic: it is off unless `--pedantic` is given or `[rules]` in brownout.toml sets it."
    } else {
        ""
    };
    let tried = match (rule.pedantic, suspects::is_tried(rule.id)) {
        (_, false) => "",
        (false, true) => {
            "\n\nWith `--recover`, crash testing tries it: a finding on whose crash image recovery fails is a confirmed bug."
        }
        (true, true) => {
            " With `--recover`, crash testing tries it nevertheless: a finding on whose crash image recovery fails is a \
             confirmed bug and is always reported, unless `[rules]` turns the rule off."
        }
    };
    format!(
        "{} ({}, {}): {}\n\n{}{pedantic}{tried}\n",
        rule.id,
        rule.severity,
        rule.category,
        rule.summary,
        rule.explanation.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_explained_in_the_same_four_sections() {
        for rule in rules::all() {
            let lines = rule.explanation.lines();
            let headings: Vec<&str> = lines.filter(|line| line.starts_with('#')).collect();
            assert_eq!(
                headings,
                [
                    "## What it does",
                    "## Why is this bad?",
                    "## Example",
                    "## Fix"
                ],
                "{}",
                rule.id
            );
        }
    }
}
