//! Oracles that need no code: a demand on the stores to some region of memory.
//!
//! Three demands cover the protocols of most data structures: which functions may write the data
//! ([`Demand::OnlyInside`]), what must be persistent before it is published ([`Demand::PersistedBefore`]), and
//! what is final once a mark is set ([`Demand::NeverAfter`]).

use std::ops::{Range, RangeInclusive};
use std::path::Path;

use brownout_names::FunctionPattern;
use brownout_report::RuleInfo;
use brownout_trace::FileId;
use brownout_trace::selection::Patterns;
use rustc_hash::FxHashSet;

use super::{Action, Memory, Oracle, OracleFrame, OracleStep, Unpersisted, Violation};

fn any_inside(functions: &[FunctionPattern], stack: &[OracleFrame]) -> bool {
    let mut frames = stack.iter();
    frames.any(|frame| {
        let name = frame.function.as_deref();
        name.is_some_and(|name| functions.iter().any(|function| function.matches(name)))
    })
}

/// A set of stores: those that meet every given condition.
#[derive(Clone, Debug)]
pub struct Region {
    /// The files stored to; `None` for all.
    pub files: Option<Patterns>,
    /// The bytes of the file; a store must touch at least one.
    pub offset: Range<u64>,
    /// Functions of which at least one is on the stack; empty for any.
    pub functions: Vec<FunctionPattern>,
    /// Source lines, one of which a frame of the stack must be at: the end of the file's path, and lines.
    pub source: Option<(String, RangeInclusive<u32>)>,
    /// The content of the bytes of `offset` after the store, as a little-endian number.
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

    fn holds_stack(&self, stack: &[OracleFrame]) -> bool {
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

    /// Whether a store belongs to the region if its value is ignored.
    fn holds_ignoring_value(&self, step: &OracleStep<'_>) -> bool {
        let Action::Store { range, path, .. } = step.action else {
            return false;
        };
        let end = range.offset.saturating_add(range.len);
        range.offset < self.offset.end
            && self.offset.start < end
            && self.holds_file(path)
            && self.holds_stack(step.stack)
    }

    fn holds(&self, step: &OracleStep<'_>) -> bool {
        self.holds_ignoring_value(step) && self.value.is_none_or(|value| self.stores(step, value))
    }

    /// Whether a store leaves `value` in the bytes of the region.
    fn stores(&self, step: &OracleStep<'_>, value: u64) -> bool {
        let Action::Store { range, bytes, .. } = step.action else {
            return false;
        };
        let wanted = value.to_le_bytes();
        let len = (self.offset.end - self.offset.start).min(8) as usize;
        // Bytes that this store does not touch are assumed to match.
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
            .filter(|store| self.holds_stack(memory.stack(store.site)))
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
    /// Once `mark` was stored, no store to `stores` follows until the mark gets a value other than the one
    /// in `mark`.
    NeverAfter { stores: Region, mark: Region },
}

/// A demand with a name.
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

    fn observe(&mut self, step: &OracleStep<'_>, memory: &Memory<'_>) -> Option<Violation> {
        let Action::Store { range, .. } = step.action else {
            return None;
        };
        let summary = self.rule.summary;
        match &self.demand {
            Demand::OnlyInside { stores, functions } => {
                let outside = stores.holds(step) && !any_inside(functions, step.stack);
                outside.then(|| {
                    let message =
                        format!("{summary}: stored outside the functions of `only-inside`");
                    Violation::new(message)
                })
            }
            Demand::PersistedBefore { first, then } => {
                let early = then.holds(step).then(|| first.unpersisted(memory))??;
                let message = format!("{summary}: stored while an earlier store can still be lost");
                Some(Violation::new(message).with("unpersisted", early))
            }
            Demand::NeverAfter { stores, mark } => {
                if mark.holds_ignoring_value(step) {
                    if mark.holds(step) {
                        self.marked.insert(range.file);
                    } else {
                        self.marked.remove(&range.file);
                    }
                    return None;
                }
                let late = stores.holds(step) && self.marked.contains(&range.file);
                late.then(|| {
                    let message = format!(
                        "{summary}: stored while the bytes of `never-after` have the given value"
                    );
                    Violation::new(message)
                })
            }
        }
    }
}
