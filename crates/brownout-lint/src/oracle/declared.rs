//! Oracles that need no code: a demand on the stores to some region of memory.
//!
//! Three demands cover the protocols that most data structures follow: who may write a thing
//! ([`Demand::OnlyInside`]), what must be safe before it is pointed to ([`Demand::PersistedBefore`]), and
//! what is final once a mark is set ([`Demand::NeverAfter`]).

use std::ops::{Range, RangeInclusive};
use std::path::Path;

use brownout_report::RuleInfo;
use brownout_trace::FileId;
use brownout_trace::selection::Patterns;
use globset::{Glob, GlobMatcher};
use rustc_hash::FxHashSet;

use super::{Action, Frame, Memory, Moment, Oracle, Unpersisted, Violation};

/// A pattern for names of functions, with `*` and `?`.
#[derive(Clone, Debug)]
pub struct FunctionPattern(GlobMatcher);

/// Why a pattern for functions cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the pattern {pattern} for functions cannot be understood")]
#[non_exhaustive]
pub struct PatternError {
    pub pattern: String,
    #[source]
    pub source: globset::Error,
}

impl FunctionPattern {
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let glob = Glob::new(pattern).map_err(|source| PatternError {
            pattern: pattern.to_owned(),
            source,
        })?;
        Ok(FunctionPattern(glob.compile_matcher()))
    }

    fn matches(&self, frame: &Frame) -> bool {
        let function = frame.function.as_deref();
        function.is_some_and(|name| self.0.is_match(name))
    }
}

fn any_inside(functions: &[FunctionPattern], stack: &[Frame]) -> bool {
    let mut frames = stack.iter();
    frames.any(|frame| functions.iter().any(|function| function.matches(frame)))
}

/// Some stores: all that every given part holds for.
#[derive(Clone, Debug)]
pub struct Region {
    /// The files stored to; `None` for all.
    pub files: Option<Patterns>,
    /// The bytes of the file, of which a store touches at least one.
    pub offset: Range<u64>,
    /// Functions of which at least one is on the stack; none for any.
    pub functions: Vec<FunctionPattern>,
    /// The source lines that a frame of the stack must be at: the end of the file's path, and lines.
    pub source: Option<(String, RangeInclusive<u32>)>,
    /// What the bytes of `offset` hold after the store, as a little-endian number.
    pub value: Option<u64>,
}

impl Default for Region {
    fn default() -> Self {
        Region {
            files: None,
            offset: 0..u64::MAX,
            functions: Vec::new(),
            source: None,
            value: None,
        }
    }
}

impl Region {
    fn holds_file(&self, path: &Path) -> bool {
        self.files.as_ref().is_none_or(|files| files.matches(path))
    }

    fn holds_stack(&self, stack: &[Frame]) -> bool {
        let at = |(file, lines): &(String, RangeInclusive<u32>)| {
            stack.iter().any(|frame| {
                let source = frame.source.as_ref();
                source.is_some_and(|(path, line)| {
                    lines.contains(line) && Path::new(path).ends_with(file)
                })
            })
        };
        (self.functions.is_empty() || any_inside(&self.functions, stack))
            && self.source.as_ref().is_none_or(at)
    }

    /// Whether a store belongs to the region but for its value.
    fn holds_place(&self, moment: &Moment<'_>) -> bool {
        let Action::Store { range, path, .. } = moment.action else {
            return false;
        };
        let end = range.offset.saturating_add(range.len);
        range.offset < self.offset.end
            && self.offset.start < end
            && self.holds_file(path)
            && self.holds_stack(moment.stack)
    }

    fn holds(&self, moment: &Moment<'_>) -> bool {
        self.holds_place(moment) && self.value.is_none_or(|value| self.stores(moment, value))
    }

    /// Whether a store leaves `value` in the bytes of the region.
    fn stores(&self, moment: &Moment<'_>, value: u64) -> bool {
        let Action::Store { range, bytes, .. } = moment.action else {
            return false;
        };
        let wanted = value.to_le_bytes();
        let len = (self.offset.end - self.offset.start).min(8) as usize;
        // Bytes that this store leaves alone are taken to be as they should.
        (0..len).all(|at| {
            let offset = self.offset.start + at as u64;
            let stored = offset.checked_sub(range.offset);
            let stored = stored.and_then(|at| bytes.get(usize::try_from(at).ok()?));
            stored.is_none_or(|&byte| byte == wanted[at])
        })
    }

    /// The first store of the region that a crash could lose.
    fn unpersisted(&self, memory: &Memory<'_>) -> Option<Unpersisted> {
        let files = memory.files().filter(|(_, path)| self.holds_file(path));
        let stores = files.flat_map(|(file, _)| memory.unpersisted(file, self.offset.clone()));
        stores
            .filter(|store| self.holds_stack(memory.stack(store.place)))
            .min_by_key(|store| store.event)
    }
}

/// What is demanded.
#[derive(Clone, Debug)]
pub enum Demand {
    /// `stores` happen only while one of `functions` runs.
    OnlyInside {
        stores: Region,
        functions: Vec<FunctionPattern>,
    },
    /// When `then` is stored, all earlier stores to `first` are persistent.
    PersistedBefore { first: Region, then: Region },
    /// Once `mark` was stored, no store to `stores` follows, until the mark gets another value than the one
    /// that `mark` names.
    NeverAfter { stores: Region, mark: Region },
}

/// A demand under a name.
pub struct Declared {
    rule: &'static RuleInfo,
    demand: Demand,
    /// Files whose mark is set.
    marked: FxHashSet<FileId>,
}

impl Declared {
    pub fn new(rule: &'static RuleInfo, demand: Demand) -> Self {
        Declared {
            rule,
            demand,
            marked: FxHashSet::default(),
        }
    }
}

impl Oracle for Declared {
    fn rule(&self) -> &'static RuleInfo {
        self.rule
    }

    fn observe(&mut self, moment: &Moment<'_>, memory: &Memory<'_>) -> Option<Violation> {
        let Action::Store { range, .. } = moment.action else {
            return None;
        };
        let summary = self.rule.summary;
        match &self.demand {
            Demand::OnlyInside { stores, functions } => {
                let outside = stores.holds(moment) && !any_inside(functions, moment.stack);
                outside.then(|| Violation::new(format!("{summary}: stored outside")))
            }
            Demand::PersistedBefore { first, then } => {
                let early = then.holds(moment).then(|| first.unpersisted(memory))??;
                let message = format!("{summary}: stored while an earlier store can still be lost");
                Some(Violation::new(message).with("unpersisted", early))
            }
            Demand::NeverAfter { stores, mark } => {
                if mark.holds_place(moment) {
                    if mark.holds(moment) {
                        self.marked.insert(range.file);
                    } else {
                        self.marked.remove(&range.file);
                    }
                    return None;
                }
                let late = stores.holds(moment) && self.marked.contains(&range.file);
                late.then(|| Violation::new(format!("{summary}: stored after the mark was set")))
            }
        }
    }
}
