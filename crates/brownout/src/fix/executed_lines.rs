//! Which source lines of the program a run has executed, as far as its trace shows: those with a store, a flush or a fence of persistent
//! memory, or with a call that led to one.
//!
//! That a rebuilt program no longer shows a finding says something only if it has executed the repaired statement. A program that reads
//! commands from its standard input does not, because that is empty when it is run again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};

use brownout_trace::EventKind;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::program_sources::source_path;
use crate::console::Console;
use crate::failure::Failure;
use crate::stacks::StackTable;
use crate::trace_file::TraceFile;

/// The executed lines of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedLines {
    /// Lines that store, or call what does, by the path of the source.
    storing: BTreeMap<PathBuf, BTreeSet<u32>>,
    /// The same for flushes, fences and syncs.
    persisting: BTreeMap<PathBuf, BTreeSet<u32>>,
    functions: BTreeSet<String>,
}

impl ExecutedLines {
    /// Those of a trace.
    pub fn of(trace: &Path, console: &Console) -> Result<Self, Failure> {
        let mut file = TraceFile::open(trace)?;
        let directory = file.header().cwd.clone();
        let mut stacks = StackTable::new(&directory);
        let mut known = FxHashSet::default();
        let mut found = Self::default();
        let mut progress = console.progress("looking at executed lines", Some(file.events()));
        file.walk(&mut progress, |event, definitions| {
            stacks.observe(event);
            let stores = match event.kind {
                EventKind::Store { .. }
                | EventKind::KernelWrite { .. }
                | EventKind::FileWrite { .. } => true,
                EventKind::Flush { .. } | EventKind::Fence { .. } | EventKind::Sync(_) => false,
                _ => return Ok(ControlFlow::Continue(())),
            };
            if let Some(stack) = stacks.stack_of(event, definitions)
                && known.insert((stack, stores))
            {
                let frames = stacks.report_frames(stack).into_iter();
                for frame in frames.filter(|frame| !frame.is_library()) {
                    found.functions.extend(frame.function.clone());
                    if let Some((source, line)) = frame.file.zip(frame.line) {
                        let lines = match stores {
                            true => &mut found.storing,
                            false => &mut found.persisting,
                        };
                        let path = source_path(&directory, &source);
                        lines.entry(path).or_default().insert(line);
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Whether one of these lines stores.
    pub fn stores_at(&self, path: &Path, lines: RangeInclusive<u32>) -> bool {
        has(&self.storing, path, lines)
    }

    /// Whether one of these lines stores, flushes or fences.
    pub fn has(&self, path: &Path, lines: RangeInclusive<u32>) -> bool {
        self.stores_at(path, lines.clone()) || has(&self.persisting, path, lines)
    }

    /// Whether a function of that name has done any of this.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }
}

fn has(found: &BTreeMap<PathBuf, BTreeSet<u32>>, path: &Path, lines: RangeInclusive<u32>) -> bool {
    let known = found.get(path);
    known.is_some_and(|known| known.range(lines).next().is_some())
}
