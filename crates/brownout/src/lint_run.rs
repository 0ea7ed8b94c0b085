//! A trace under the rules: findings with source-level stacks.

use std::path::Path;

use brownout_libraries::FrameNames;
use brownout_lint::{Attribution, Lint, Origin, RawFinding, RawPlace, oracle, origin_of};
use brownout_report::{ByteRange, Evidence, Finding, Stack, Subject, Value};
use brownout_trace::{Definitions, Event};

use crate::commands::describe_candidates;
use crate::config::OracleSpec;
use crate::console::Console;
use crate::failure::Failure;
use crate::results::subject;
use crate::settings::Settings;
use crate::source_gaps;
use crate::stacks::{StackId, StackTable, report_frame};
use crate::trace_file::TraceFile;

/// What a trace came to.
pub struct Examination {
    pub findings: Vec<Finding>,
    pub subject: Subject,
    /// Why nothing could be judged, if nothing could.
    pub nothing_persistent: Option<String>,
    /// To be concluded when all is printed.
    pub trace: TraceFile,
}

/// Reads a trace and applies all rules.
pub fn examine(
    path: &Path,
    settings: &Settings,
    console: &Console,
) -> Result<Examination, Failure> {
    let mut trace = TraceFile::open(path)?;
    let patterns = trace.patterns(&settings.patterns)?;
    let oracles = settings.oracles.iter().map(OracleSpec::oracle).collect();
    let places = Places::new(&trace.header().cwd);
    let mut lint = Lint::new(settings.model, places).with_oracles(oracles);
    let mut progress = console.progress("examining", Some(trace.events()));
    trace.show(&mut progress, &mut lint)?;
    drop(progress);

    let definitions = trace.definitions();
    let outcome = lint.finish(definitions, patterns.as_ref());
    let selection = outcome.selection;
    let nothing_persistent = selection.is_empty().then(|| {
        let given = match &settings.patterns[..] {
            [] => &trace.header().pm,
            given => given,
        };
        describe_candidates(&selection, definitions, given)
    });
    let mut places = outcome.attribution;
    let findings: Vec<Finding> = outcome
        .findings
        .into_iter()
        .map(|raw| places.finding(raw, definitions))
        .collect();
    let mut gaps: Vec<String> = places.stacks.problems().collect();
    gaps.extend(source_gaps::without_lines(&findings, &gaps));
    gaps.extend(source_gaps::newer_sources(&findings));
    for gap in &gaps {
        console.warn(gap);
    }
    gaps.extend(trace.gap());
    Ok(Examination {
        findings,
        subject: subject(&trace, settings, gaps),
        nothing_persistent,
        trace,
    })
}

/// The stacks of all places that the rules have met, looked up when they are met: what an address means
/// may change later.
struct Places {
    stacks: StackTable,
    met: Vec<StackId>,
}

impl Attribution for Places {
    fn origin(&mut self, event: &Event<'_>, definitions: &Definitions) -> Origin {
        let stack = self.stacks.intern(event, definitions);
        self.met.push(stack);
        let frames = self.stacks.called_frames(stack);
        origin_of(frames.iter().map(|(frame, called)| FrameNames {
            module: file_name(&frame.module),
            function: frame.function.as_deref(),
            called: called.as_deref(),
            source: frame.file.as_ref().and_then(|file| file.to_str()),
        }))
    }

    fn stack(&mut self, place: usize) -> Vec<oracle::Frame> {
        let frames = self.stacks.frames(self.met[place]);
        let frames = frames.into_iter().map(|frame| oracle::Frame {
            module: file_name(&frame.module).to_owned(),
            function: frame.function,
            source: frame.file.zip(frame.line).map(|(file, line)| {
                let file = file.to_string_lossy().into_owned();
                (file, line)
            }),
        });
        frames.collect()
    }
}

fn file_name(module: &Path) -> &str {
    let name = module.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

impl Places {
    fn new(directory: &Path) -> Self {
        Self {
            stacks: StackTable::new(directory),
            met: Vec::new(),
        }
    }

    fn finding(&mut self, raw: RawFinding, definitions: &Definitions) -> Finding {
        let stacks = raw.places.iter().map(|place| self.stack(place)).collect();
        let path = |file| {
            let file = definitions
                .file(file)
                .map(|file| file.path.to_string_lossy());
            file.unwrap_or_default().into_owned()
        };
        let evidence = Evidence {
            ranges: raw
                .ranges
                .iter()
                .map(|range| ByteRange {
                    file: path(range.file),
                    offset: range.offset,
                    len: range.len,
                })
                .collect(),
            values: raw
                .values
                .iter()
                .map(|value| Value::new(value.name, &value.bytes))
                .collect(),
            events: raw.places.iter().map(|place| place.event.0).collect(),
            ..Evidence::default()
        };
        let mut finding = Finding::new(raw.rule, raw.message, stacks, evidence);
        finding.count = raw.count;
        finding.replay = Some(format!("event:{}", raw.first));
        finding
    }

    fn stack(&mut self, place: &RawPlace) -> Stack {
        // Where there is no instruction, the kernel acted on its own.
        let known = self.met.get(place.number).filter(|_| place.pc.0 != 0);
        let frames = known.map_or_else(Vec::new, |&stack| self.stacks.frames(stack));
        Stack {
            role: place.role.to_owned(),
            frames: frames.iter().map(report_frame).collect(),
        }
    }
}
