//! Suppressions in Valgrind's format.
//!
//! ```text
//! {
//!    the reason for the suppression
//!    Brownout:redundant-flush
//!    fun:pmem_persist
//!    ...
//!    obj:*/libkv.so*
//!    src:kv.c:12
//! }
//! ```
//!
//! The first line is the reason, the second the tool and the rule. Suppressions for other tools are ignored. The
//! following lines describe the stack, innermost frame first, as in Valgrind: `fun:` a function, `obj:` a program or
//! library, `src:` a source file and optionally a line, `...` any number of frames. `*` and `?` are wildcards. The
//! names of C++ and Rust functions are not mangled.

use super::{FramePattern, FunctionPattern, Scope, StackPatternPart, Suppression, Wildcard};

/// The tool name of brownout's suppressions; case does not matter.
const TOOL: &str = "brownout";

/// Why a `.supp` file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {flaw}")]
pub struct ValgrindError {
    pub line: usize,
    pub flaw: ValgrindFlaw,
}

/// The kind of error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValgrindFlaw {
    #[error("expected `{{` at the start of a suppression")]
    NoOpening,
    #[error("missing `}}` at the end of the suppression")]
    NoClosing,
    #[error("the suppression has no name; the name states the reason")]
    NoName,
    #[error("expected `Tool:Kind`, such as `Brownout:missing-flush`")]
    NoKind,
    #[error("expected `fun:`, `obj:`, `src:`, `...` or `}}`")]
    NoFrame,
    #[error("expected a pattern after `{0}`")]
    NothingAfter(&'static str),
}

/// Parses the suppressions for brownout; returns each with its line.
pub(super) fn parse(text: &str) -> Result<Vec<(usize, Suppression)>, ValgrindError> {
    let mut lines = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut found = Vec::new();
    while let Some((line, opening)) = lines.next() {
        if opening != "{" {
            return Err(ValgrindFlaw::NoOpening.at(line));
        }
        let mut block = Vec::new();
        loop {
            match lines.next() {
                Some((_, "}")) => break,
                Some(inner) => block.push(inner),
                None => return Err(ValgrindFlaw::NoClosing.at(line)),
            }
        }
        found.extend(suppression(line, &block)?.map(|suppression| (line, suppression)));
    }
    Ok(found)
}

/// Parses one suppression; `None` if it is for other tools.
fn suppression(
    opening: usize,
    block: &[(usize, &str)],
) -> Result<Option<Suppression>, ValgrindError> {
    let &(_, name) = block.first().ok_or(ValgrindFlaw::NoName.at(opening))?;
    let &(line, kind) = block.get(1).ok_or(ValgrindFlaw::NoKind.at(opening))?;
    let (tools, rule) = kind.split_once(':').ok_or(ValgrindFlaw::NoKind.at(line))?;
    let is_ours = |tool: &str| tool.trim().eq_ignore_ascii_case(TOOL);
    if !tools.split(',').any(is_ours) {
        return Ok(None);
    }
    let steps = block[2..]
        .iter()
        .map(|&(line, text)| step(text).map_err(|flaw| flaw.at(line)))
        .collect::<Result<_, _>>()?;
    Ok(Some(Suppression {
        rule: Wildcard::new(rule.trim()),
        role: None,
        scope: Scope::Innermost(steps),
        reason: name.to_owned(),
    }))
}

fn step(text: &str) -> Result<StackPatternPart, ValgrindFlaw> {
    if text == "..." {
        return Ok(StackPatternPart::Anything);
    }
    let mut frame = FramePattern::default();
    if let Some(function) = text.strip_prefix("fun:") {
        // `*` must also match a frame without a name.
        let function = given("fun:", function)?;
        frame.function = (function != "*").then(|| FunctionPattern::new(function));
    } else if let Some(module) = text.strip_prefix("obj:") {
        frame.module = Some(Wildcard::new(given("obj:", module)?));
    } else if let Some(source) = text.strip_prefix("src:") {
        let line = source
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let (file, line) = line.map_or((source, None), |(file, line)| (file, Some(line)));
        frame.file = Some(Wildcard::new(given("src:", file)?));
        frame.line = line;
    } else {
        return Err(ValgrindFlaw::NoFrame);
    }
    Ok(StackPatternPart::Frame(frame))
}

fn given<'p>(keyword: &'static str, pattern: &'p str) -> Result<&'p str, ValgrindFlaw> {
    if pattern.is_empty() {
        return Err(ValgrindFlaw::NothingAfter(keyword));
    }
    Ok(pattern)
}

impl ValgrindFlaw {
    fn at(self, line: usize) -> ValgrindError {
        ValgrindError { line, flaw: self }
    }
}
