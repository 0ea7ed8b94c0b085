//! A trace named on the command line: opens it, reads its events, and reports missing events.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use brownout_crash::TraceIdentity;
use brownout_report::Reason;
use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::{
    Address, Damage, Definitions, EarlyStop, Event, EventIndex, EventKind, EventPosition,
    FenceKind, FlushKind, Header, MappedFile, ReadError, StoreFlavor, Summary, ThreadRun,
    TraceReader, Visitor,
};

use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::progress::Progress;
use crate::shortfall::Shortfall;
use crate::trace_notes::TraceNotes;

/// An open trace.
pub struct TraceFile {
    path: PathBuf,
    reader: TraceReader<File>,
    /// The damage at which the current pass over the events stopped.
    damage: Option<Damage>,
    /// The damage at which an earlier pass stopped.
    earlier_damage: Option<Damage>,
    /// The notes of the part that was read.
    notes: TraceNotes,
    /// Device and inode numbers of the files that were mapped, once [`select`](Self::select) has read the trace.
    mapped: Vec<(u64, u64)>,
    /// The persistent files, known likewise.
    persistent: Vec<MappedFile>,
    /// Other files that the target stores to, known likewise.
    unselected: Vec<PathBuf>,
}

impl TraceFile {
    /// Opens the trace at `path`, or the one of a results directory.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let path = if path.is_dir() {
            OutputDirectory::open(path)?.0.trace()?
        } else {
            path.to_owned()
        };
        let reader = TraceReader::open(&path).map_err(|error| Failure::trace(&path, error))?;
        Ok(Self {
            path,
            reader,
            damage: None,
            earlier_damage: None,
            notes: TraceNotes::default(),
            mapped: Vec::new(),
            persistent: Vec::new(),
            unselected: Vec::new(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    pub fn summary(&self) -> Option<&Summary> {
        self.reader.summary()
    }

    /// The definitions at the current position.
    pub fn definitions(&self) -> &Definitions {
        self.reader.definitions()
    }

    /// The number of events in the trace, according to the trace.
    pub fn events(&self) -> u64 {
        self.reader.events()
    }

    pub fn identity(&self) -> TraceIdentity {
        let started = self.header().started.duration_since(UNIX_EPOCH);
        TraceIdentity {
            // Enough for the next five centuries.
            started: started.map_or(0, |time| time.as_nanos() as u64),
            bytes: self.byte_len(),
        }
    }

    pub fn byte_len(&self) -> u64 {
        self.reader.byte_len()
    }

    /// Makes `event` the next one.
    pub fn seek(&mut self, event: EventIndex) -> Result<(), Failure> {
        match self.reader.seek(event) {
            Err(ReadError::Damaged(damage)) => {
                self.damage = Some(damage);
                Ok(())
            }
            other => other.map_err(|error| Failure::trace(&self.path, error)),
        }
    }

    /// Passes the following events to `visit`, until it breaks, the trace ends, or the trace is damaged.
    /// [`report_missing`](Self::report_missing) reports the damage.
    pub fn walk(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(&Event<'_>, &Definitions) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        if self.damage.is_some() {
            return Ok(());
        }
        let notes = &mut self.notes;
        let walked = self.reader.for_each(|event, definitions| {
            progress.step(event.index.0);
            if let EventKind::Note { text } = event.kind {
                notes.add(text);
            }
            match visit(event, definitions) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
                Err(failure) => ControlFlow::Break(Err(failure)),
            }
        });
        match walked {
            Ok(ended) => ended.unwrap_or(Ok(())),
            Err(ReadError::Damaged(damage)) => {
                self.damage = Some(damage);
                Ok(())
            }
            Err(error) => Err(Failure::trace(&self.path, error)),
        }
    }

    /// Passes the following events to a visitor, until the trace ends or is damaged.
    pub fn visit(
        &mut self,
        progress: &mut Progress,
        visitor: &mut impl Visitor<Break = Infallible>,
    ) -> Result<(), Failure> {
        if self.damage.is_some() {
            return Ok(());
        }
        let notes = &mut self.notes;
        let mut visitor = Watchful {
            progress,
            notes,
            visitor,
        };
        match self.reader.visit(&mut visitor) {
            Ok(_) => Ok(()),
            Err(ReadError::Damaged(damage)) => {
                self.damage = Some(damage);
                Ok(())
            }
            Err(error) => Err(Failure::trace(&self.path, error)),
        }
    }

    /// Reads the whole trace to determine which files are persistent, and returns to its start.
    pub fn select(&mut self, given: &[OsString], console: &Console) -> Result<Selection, Failure> {
        let patterns = self.patterns(given)?;
        let mut survey = Survey::default();
        let mut progress = console.progress("looking for persistent files", Some(self.events()));
        self.walk(&mut progress, |event, definitions| {
            survey.observe(event, definitions);
            Ok(ControlFlow::Continue(()))
        })?;
        let selection = survey.select(self.definitions(), patterns.as_ref());
        let files = self.definitions().files();
        let identities = files.map(|file| (file.identity.dev, file.identity.ino));
        self.mapped = identities.collect();
        let files = self.definitions().files();
        let persistent = files.filter(|file| selection.is_persistent(file.id));
        self.persistent = persistent.cloned().collect();
        let others = selection.unselected();
        let others = others.filter_map(|file| self.definitions().file(file));
        self.unselected = others.map(|file| file.path.clone()).collect();
        self.rewind()?;
        Ok(selection)
    }

    /// Returns to the start, for another pass. The damage at which this one stopped is remembered.
    pub fn rewind(&mut self) -> Result<(), Failure> {
        self.earlier_damage = self.damage.take();
        self.seek(EventIndex(0))
    }

    /// The patterns in `given`, or if there are none, those given when the trace was recorded. Relative patterns start at the
    /// working directory in which they were given.
    pub fn patterns(&self, given: &[OsString]) -> Result<Option<Patterns>, Failure> {
        let header = self.header();
        Ok(if given.is_empty() {
            Patterns::new(&header.pm, &header.cwd)?
        } else {
            let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
            Patterns::new(given, &here)?
        })
    }

    /// The notes in the part of the trace that was read.
    pub fn notes(&self) -> &TraceNotes {
        &self.notes
    }

    /// Device and inode numbers of the files that were mapped. Empty before [`select`](Self::select).
    pub fn mapped_files(&self) -> &[(u64, u64)] {
        &self.mapped
    }

    /// The persistent files, as they were named at the end. Empty before [`select`](Self::select).
    pub fn persistent_files(&self) -> &[MappedFile] {
        &self.persistent
    }

    /// The mapped files that the target stores to and that are not persistent. Empty before [`select`](Self::select).
    pub fn unselected_files(&self) -> &[PathBuf] {
        &self.unselected
    }

    /// Why the rest of the trace could not be read, if it could not.
    pub fn damage(&self) -> Option<Failure> {
        let damage = self.damage.as_ref().or(self.earlier_damage.as_ref());
        let damage = damage.or(self.reader.damaged_end())?;
        Some(Failure::Incomplete {
            path: self.path.clone(),
            source: damage.clone(),
        })
    }

    /// Reports why events are missing, if they are. Returns the exit code of a command that has nothing else to report.
    pub fn report_missing(&self, console: &Console) -> ExitCode {
        if let Some(damage) = self.damage() {
            console.error(damage.sentence());
            return damage.exit_code();
        }
        if let Some(reason) = self.incomplete_reason() {
            console.warn(format_args!("{}: {reason}", self.path.display()));
        }
        if self.summary().is_none() {
            ExitCode::NothingTested
        } else {
            ExitCode::Success
        }
    }

    /// Why no analysis of the trace can show that the target is correct, if that is so.
    pub fn shortfall(&self) -> Option<Shortfall> {
        if let Some(damage) = self.damage() {
            let (code, reason) = (damage.exit_code(), damage.sentence());
            let reason = Reason::other(reason);
            return Some(Shortfall { code, reason });
        }
        // Interrupting a server is the usual way to end it.
        let stopped = self.summary().map(|summary| &summary.ending.stopped);
        if matches!(stopped, Some(Some(EarlyStop::Interrupted))) {
            return None;
        }
        self.incomplete_reason().map(|reason| Shortfall {
            code: ExitCode::NothingTested,
            reason: Reason::other(reason),
        })
    }

    /// Why an undamaged trace does not contain the whole run, if it does not.
    pub fn incomplete_reason(&self) -> Option<String> {
        let Some(summary) = self.summary() else {
            return Some(
                "the trace is cut short: the recorder did not finish it, and the last events may be missing"
                    .into(),
            );
        };
        let why = match summary.ending.stopped.as_ref()? {
            EarlyStop::StorageFull => "the disk was full".into(),
            EarlyStop::Interrupted => "it was interrupted".into(),
            EarlyStop::Failure(failure) => failure.clone(),
            _ => "this version of brownout does not know the reason".into(),
        };
        Some(format!("recording stopped before the program ended: {why}"))
    }
}

/// Wraps a visitor, shows its progress and collects the notes.
struct Watchful<'a, V> {
    progress: &'a mut Progress,
    notes: &'a mut TraceNotes,
    visitor: &'a mut V,
}

impl<V: Visitor> Visitor for Watchful<'_, V> {
    type Break = V::Break;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<V::Break> {
        self.progress.step(event.index.0);
        if let EventKind::Note { text } = event.kind {
            self.notes.add(text);
        }
        self.visitor.event(event, definitions)
    }

    #[inline]
    fn run(&mut self, run: &ThreadRun<'_>) {
        self.progress.step(run.next.0);
        self.visitor.run(run);
    }

    #[inline]
    fn store(
        &mut self,
        at: EventPosition,
        addr: Address,
        bytes: &[u8],
        flavor: StoreFlavor,
    ) -> bool {
        self.visitor.store(at, addr, bytes, flavor)
    }

    #[inline]
    fn flush(&mut self, at: EventPosition, addr: Address, kind: FlushKind) -> bool {
        self.visitor.flush(at, addr, kind)
    }

    #[inline]
    fn fence(&mut self, at: EventPosition, kind: FenceKind) -> bool {
        self.visitor.fence(at, kind)
    }
}
