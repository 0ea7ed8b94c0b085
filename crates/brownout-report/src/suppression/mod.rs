//! Suppressions: findings that the user does not want to see, and why.
//!
//! There are two formats: TOML (see [`toml_format`]), and Valgrind's (see [`valgrind`]) for programs that already
//! have such files. Files whose names end in `.supp` are in Valgrind's format.

mod generate;
mod toml_format;
mod valgrind;

use std::path::{Path, PathBuf};

use crate::{Finding, Frame, Sources, Stack};
use brownout_names::{FunctionPattern, Wildcard};

pub use generate::suppressions_for;
pub use toml_format::TomlError;
pub use valgrind::ValgrindError;

/// All suppressions, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    list: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    suppression: Suppression,
    origin: SuppressionOrigin,
    used: u64,
}

/// The position of a suppression in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressionOrigin {
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
}

/// A suppression that matched no finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedSuppression<'a> {
    pub origin: &'a SuppressionOrigin,
    pub reason: &'a str,
}

/// Which findings are suppressed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Suppression {
    rule: Wildcard,
    /// The role of the stack to match; by default the first stack.
    role: Option<Wildcard>,
    scope: Scope,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// Some frame of the stack matches.
    SomeFrame(FramePattern),
    /// The innermost frames of the stack match.
    Innermost(Vec<StackPatternPart>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StackPatternPart {
    Frame(FramePattern),
    /// Any number of frames.
    Anything,
}

/// A pattern for a frame; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FramePattern {
    function: Option<FunctionPattern>,
    file: Option<Wildcard>,
    line: Option<u32>,
    text: Option<StatementText>,
    module: Option<Wildcard>,
    offset: Option<u64>,
}

/// The text of a source line, which stays the same if other lines are edited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StatementText {
    /// Words separated by single spaces.
    words: String,
    /// Which of the lines of the file with these words, counted from 1.
    occurrence: u32,
}

/// Why a suppression file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuppressionError {
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error(transparent)]
    Valgrind(#[from] ValgrindError),
}

impl Suppressions {
    /// Adds the suppressions in `text`, the content of `file`.
    pub fn add(&mut self, file: &Path, text: &str) -> Result<(), SuppressionError> {
        let found = if file
            .extension()
            .is_some_and(|extension| extension == "supp")
        {
            valgrind::parse(text)?
        } else {
            toml_format::parse(text)?
        };
        self.list
            .extend(found.into_iter().map(|(line, suppression)| Entry {
                suppression,
                origin: SuppressionOrigin {
                    file: file.to_owned(),
                    line,
                },
                used: 0,
            }));
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The reason of the first suppression that matches a finding.
    pub fn reason_for(&mut self, finding: &Finding, sources: &Sources) -> Option<String> {
        let entry = self
            .list
            .iter_mut()
            .find(|entry| entry.suppression.matches(finding, sources))?;
        entry.used += 1;
        Some(entry.suppression.reason.clone())
    }

    /// The first suppression that cannot match a finding of any of these rules, and the rule that it names.
    pub fn without_rule(&self, known: &[&str]) -> Option<(&SuppressionOrigin, &str)> {
        let unknown = self.list.iter().find(|entry| {
            let rule = &entry.suppression.rule;
            !known.iter().any(|id| rule.matches(id))
        })?;
        Some((&unknown.origin, unknown.suppression.rule.pattern()))
    }

    /// The suppressions that have matched no finding so far.
    pub fn unused(&self) -> impl Iterator<Item = UnusedSuppression<'_>> {
        let unused = self.list.iter().filter(|entry| entry.used == 0);
        unused.map(|entry| UnusedSuppression {
            origin: &entry.origin,
            reason: &entry.suppression.reason,
        })
    }
}

impl Suppression {
    fn matches(&self, finding: &Finding, sources: &Sources) -> bool {
        self.rule.matches(&finding.rule)
            && match &self.role {
                Some(role) => finding
                    .stacks
                    .iter()
                    .filter(|stack| role.matches(&stack.role))
                    .any(|stack| self.scope.matches(stack, sources)),
                None => match finding.stacks.first() {
                    Some(first) => self.scope.matches(first, sources),
                    None => self.scope.is_everything(),
                },
            }
    }
}

impl Scope {
    fn is_everything(&self) -> bool {
        match self {
            Self::SomeFrame(pattern) => *pattern == FramePattern::default(),
            Self::Innermost(steps) => steps.iter().all(|step| *step == StackPatternPart::Anything),
        }
    }

    fn matches(&self, stack: &Stack, sources: &Sources) -> bool {
        let frames = &stack.frames;
        self.is_everything()
            || match self {
                Self::SomeFrame(pattern) => {
                    frames.iter().any(|frame| pattern.matches(frame, sources))
                }
                Self::Innermost(steps) => begins_with(frames, steps, sources),
            }
    }
}

/// As with the `*` of a [`Wildcard`], only the last gap has to be retried.
fn begins_with(frames: &[Frame], steps: &[StackPatternPart], sources: &Sources) -> bool {
    let (mut s, mut f) = (0, 0);
    let mut retry = None;
    loop {
        match steps.get(s) {
            // The outer frames do not matter.
            None => return true,
            Some(StackPatternPart::Anything) => {
                s += 1;
                retry = Some((s, f));
            }
            Some(StackPatternPart::Frame(pattern)) => match frames.get(f) {
                None => return false,
                Some(frame) if pattern.matches(frame, sources) => {
                    s += 1;
                    f += 1;
                }
                Some(_) => {
                    let Some((after_gap, from)) = retry else {
                        return false;
                    };
                    retry = Some((after_gap, from + 1));
                    (s, f) = (after_gap, from + 1);
                }
            },
        }
    }
}

impl FramePattern {
    fn matches(&self, frame: &Frame, sources: &Sources) -> bool {
        let function = |pattern: &FunctionPattern| {
            frame
                .function
                .as_deref()
                .is_some_and(|function| pattern.matches(function))
        };
        let file = |pattern: &Wildcard| {
            frame
                .file
                .as_deref()
                .is_some_and(|file| pattern.matches_path(file))
        };
        self.function.as_ref().is_none_or(function)
            && self.file.as_ref().is_none_or(file)
            && self.line.is_none_or(|line| frame.line == Some(line))
            && self.offset.is_none_or(|offset| frame.offset == offset)
            && self
                .text
                .as_ref()
                .is_none_or(|text| StatementText::of(frame, sources).as_ref() == Some(text))
            && self
                .module
                .as_ref()
                .is_none_or(|module| module.matches_path(&frame.module))
    }
}

impl StatementText {
    /// The text of a frame's line, if its source file can be read.
    fn of(frame: &Frame, sources: &Sources) -> Option<Self> {
        let text = sources.line_text(frame.file.as_deref()?, frame.line?)?;
        Some(Self {
            words: text.words.to_string(),
            occurrence: text.earlier + 1,
        })
    }
}

#[cfg(test)]
mod tests;
