//! Suppressions in TOML.
//!
//! ```toml
//! [[suppression]]
//! rule = "transient-data"        # `*` and `?` are wildcards, here and below
//! function = "stats_*"           # one frame of the stack must match
//! file = "src/stats.c"           #   function, file and module, as far as given
//! module = "libstats.so*"
//! reason = "statistics are rebuilt at start"
//!
//! [[suppression]]
//! rule = "redundant-flush"
//! stack = ["pmem_persist", "...", "log_append"]   # functions, innermost first; `...` is any number of frames
//! role = "flush"                 # the role of the stack; by default the first stack
//! reason = "the header is flushed on purpose"
//!
//! [[suppression]]
//! rule = "missing-flush"
//! stack = ["log_append"]
//! source = "log->end += len;"    # the text of the line, in the last function of `stack`
//! occurrence = 2                 # the second line of the file with this text; by default the first
//! reason = "the end is recomputed"
//! ```
//!
//! In place of `source`, `line` gives the number of a line, and `offset` the address in the module of code without line
//! numbers.
//!
//! `rule` and `reason` are required. A file without a slash is matched against the last component of a path, a
//! relative one against the last components.

use serde::Deserialize;
use toml::Spanned;

use super::{
    FramePattern, FunctionPattern, Scope, StackPatternPart, StatementText, Suppression, Wildcard,
};

/// Why a suppression file in TOML cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TomlError {
    #[error("line {line}: {why}")]
    Syntax { line: usize, why: String },
    #[error("line {line}: the reason is empty; state why the finding is suppressed")]
    NoReason { line: usize },
    #[error("line {line}: `stack` cannot be combined with `function`, `file` or `module`")]
    StackAndFrame { line: usize },
    #[error("line {line}: `occurrence` needs `source`, and is counted from 1")]
    Occurrence { line: usize },
    #[error("line {line}: `source`, `line` and `offset` need a function at the end of `stack`")]
    NoFunction { line: usize },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    suppression: Vec<Spanned<Table>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: String,
    reason: String,
    role: Option<String>,
    function: Option<String>,
    file: Option<String>,
    module: Option<String>,
    stack: Option<Vec<String>>,
    source: Option<String>,
    occurrence: Option<u32>,
    line: Option<u32>,
    offset: Option<u64>,
}

/// Parses suppressions; returns each with its line.
pub(super) fn parse(text: &str) -> Result<Vec<(usize, Suppression)>, TomlError> {
    let line_at = |offset: usize| 1 + text.bytes().take(offset).filter(|&b| b == b'\n').count();
    let document: Document = toml::from_str(text).map_err(|error| TomlError::Syntax {
        line: line_at(error.span().map_or(0, |span| span.start)),
        why: error.message().to_owned(),
    })?;
    document
        .suppression
        .into_iter()
        .map(|table| {
            let line = line_at(table.span().start);
            table
                .into_inner()
                .suppression(line)
                .map(|found| (line, found))
        })
        .collect()
}

impl Table {
    fn suppression(self, line: usize) -> Result<Suppression, TomlError> {
        if self.reason.trim().is_empty() {
            return Err(TomlError::NoReason { line });
        }
        let text = match (self.source, self.occurrence.unwrap_or(1)) {
            (None, _) if self.occurrence.is_some() => return Err(TomlError::Occurrence { line }),
            (_, 0) => return Err(TomlError::Occurrence { line }),
            (source, occurrence) => source.map(|source| StatementText {
                words: source.split_whitespace().collect::<Vec<_>>().join(" "),
                occurrence,
            }),
        };
        let statement = FramePattern {
            line: self.line,
            text,
            offset: self.offset,
            ..FramePattern::default()
        };
        let frame = FramePattern {
            function: self.function.map(FunctionPattern::new),
            file: self.file.map(Wildcard::new),
            module: self.module.map(Wildcard::new),
            ..FramePattern::default()
        };
        let scope = match self.stack {
            None => Scope::SomeFrame(frame.at(statement)),
            Some(_) if frame != FramePattern::default() => {
                return Err(TomlError::StackAndFrame { line });
            }
            Some(functions) => {
                let mut steps: Vec<StackPatternPart> = functions.into_iter().map(step).collect();
                match steps.last_mut() {
                    _ if statement == FramePattern::default() => {}
                    Some(StackPatternPart::Frame(last)) => *last = last.clone().at(statement),
                    _ => return Err(TomlError::NoFunction { line }),
                }
                Scope::Innermost(steps)
            }
        };
        Ok(Suppression {
            rule: Wildcard::new(self.rule),
            role: self.role.map(Wildcard::new),
            scope,
            reason: self.reason,
        })
    }
}

impl FramePattern {
    /// The pattern restricted to a statement.
    fn at(self, statement: Self) -> Self {
        Self {
            line: statement.line,
            text: statement.text,
            offset: statement.offset,
            ..self
        }
    }
}

fn step(function: String) -> StackPatternPart {
    match function.as_str() {
        "..." => StackPatternPart::Anything,
        // `*` must also match a frame without a name.
        "*" => StackPatternPart::Frame(FramePattern::default()),
        _ => StackPatternPart::Frame(FramePattern {
            function: Some(FunctionPattern::new(function)),
            ..FramePattern::default()
        }),
    }
}
