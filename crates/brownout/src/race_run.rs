//! Looks for races in a trace, and gives what is found source-level stacks.

use std::ops::ControlFlow;
use std::path::Path;

use brownout_libraries::FrameNames;
use brownout_lint::{Origin, origin_of};
use brownout_race::{
    AccessOwner, ExcludedPair, RaceCounts, RaceDetector, RaceOptions, RaceSite, RawRace, TargetCode,
};
use brownout_report::{Finding, FindingId, Frame, Sources};
use brownout_trace::{Definitions, Event, EventClass, RecognisedLocks};

use crate::commands::{describe_candidates, unmatched_patterns};
use crate::console::Console;
use crate::failure::Failure;
use crate::quantity::number_of;
use crate::race_finding::{RaceContext, race_finding};
use crate::settings::Settings;
use crate::source_gaps;
use crate::stacks::{StackId, StackLevel, StackTable, report_frame};
use crate::trace_file::TraceFile;
use crate::wrapper_functions::{WrapperFunctions, WrapperSearch};

/// How the sentence ends that says what was examined.
const FOR_RACES: &str = "for races";

/// Pairs that recognised locks exclude which are listed.
const LISTED_PAIRS: usize = 50;

/// What the search for races has found.
pub struct RaceRun {
    pub findings: Vec<Finding>,
    /// The races behind the findings, in terms of the trace. Several can be one finding.
    pub races: Vec<(FindingId, RawRace)>,
    /// What could not be examined.
    pub gaps: Vec<String>,
    /// The functions of the target at whose callers findings are shown.
    pub wrappers: WrapperFunctions,
    /// What was examined, in a sentence.
    pub tested: String,
    /// What else there is to know.
    pub remarks: Vec<String>,
    /// If nothing persistent was seen: what the trace shows instead.
    pub nothing_persistent: Option<String>,
    /// That patterns for persistent files match none, in a sentence.
    pub unmatched_patterns: Option<String>,
    /// Why the trace cannot show races, if it cannot.
    pub untested: Option<String>,
}

/// Whether a sentence says what was examined for races.
pub fn is_race_sentence(text: &str) -> bool {
    text.ends_with(FOR_RACES)
}

/// Reads a trace from its beginning.
pub fn race(
    trace: &mut TraceFile,
    settings: &Settings,
    removes_initialisation: bool,
    console: &Console,
) -> Result<RaceRun, Failure> {
    let patterns = trace.patterns(&settings.patterns)?;
    let recognised = recognised_locks(trace, console)?;
    let options = RaceOptions {
        profile: settings.model,
        removes_initialisation,
        locks: settings.locks.clone(),
        allocators: settings.allocators.clone(),
        recognised,
    };
    let code = RaceStacks::new(&trace.header().cwd);
    let mut detector = RaceDetector::new(options, code);
    let mut progress = console.progress("looking for races", Some(trace.events()));
    trace.visit(&mut progress, &mut detector)?;
    drop(progress);
    let definitions = trace.definitions();
    let outcome = detector.finish(definitions, patterns.as_ref());
    let nothing_persistent = outcome.selection.is_empty().then(|| {
        let given = match &settings.patterns[..] {
            [] => &trace.header().pm,
            given => given,
        };
        describe_candidates(&outcome.selection, definitions, given)
    });
    let unmatched_patterns = unmatched_patterns(&outcome.selection, definitions);
    let mut stacks = outcome.code;
    for process in definitions.processes() {
        stacks.table.note_recursion(process.id, definitions);
    }
    let sources = Sources::on_disk();
    let (mut findings, mut races) = (Vec::new(), Vec::new());
    for race in outcome.races {
        let mut context = RaceContext {
            definitions,
            frames: &mut |site| stacks.frames(site),
        };
        let mut finding = race_finding(&race, &mut context);
        finding.identify(&sources);
        races.push((finding.id.clone(), race));
        findings.push(finding);
    }
    let findings = settings.levels.apply(findings);
    races.retain(|(id, _)| findings.iter().any(|finding| finding.id == *id));
    let mut gaps: Vec<String> = stacks.table.problems().collect();
    gaps.extend(source_gaps::without_lines(&findings, &gaps));
    gaps.extend(source_gaps::newer_sources(&findings));
    let remarks = excluded_pairs(&outcome.by_recognised_locks, &mut stacks, settings.verbose);
    Ok(RaceRun {
        findings,
        races,
        gaps,
        remarks,
        wrappers: stacks.wrappers.find(),
        tested: tested(&outcome.counts),
        nothing_persistent,
        unmatched_patterns,
        untested: untested(&outcome.counts),
    })
}

/// Reads the trace once for the locks that are recognised by their instructions, if it has any.
pub fn recognised_locks(
    trace: &mut TraceFile,
    console: &Console,
) -> Result<RecognisedLocks, Failure> {
    let mut recognised = RecognisedLocks::default();
    let counted = trace.summary().map(|summary| &summary.counts);
    if counted.is_some_and(|counts| counts.of(EventClass::LockAcquire) == 0) {
        return Ok(recognised);
    }
    let mut progress = console.progress("recognising locks", Some(trace.events()));
    trace.walk(&mut progress, |event, _| {
        recognised.event(event);
        Ok(ControlFlow::Continue(()))
    })?;
    trace.rewind()?;
    Ok(recognised)
}

fn tested(counts: &RaceCounts) -> String {
    format!(
        "{} and {} of {} were examined {FOR_RACES}",
        number_of(counts.loads, "load"),
        number_of(counts.stores, "store"),
        number_of(counts.threads as u64, "thread"),
    )
}

fn untested(counts: &RaceCounts) -> Option<String> {
    if counts.loads == 0 {
        return Some(
            "the trace contains no loads, which race detection needs; record with `--loads`"
                .to_owned(),
        );
    }
    (counts.threads < 2).then(|| {
        "only one thread accesses persistent memory in this trace, so there can be no race; run the program with several threads"
            .to_owned()
    })
}

/// What only recognised locks exclude: a count, and with `all` the pairs.
fn excluded_pairs(pairs: &[ExcludedPair], stacks: &mut RaceStacks, all: bool) -> Vec<String> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let count = number_of(pairs.len() as u64, "pair");
    let were = if pairs.len() == 1 { "was" } else { "were" };
    let more = if all { ":" } else { "; --verbose lists them" };
    let mut remarks = vec![format!(
        "{count} of a store and a load {were} excluded only because of locks recognised by their instructions{more}"
    )];
    if all {
        for pair in pairs.iter().take(LISTED_PAIRS) {
            let (store, load) = (stacks.primary(pair.store), stacks.primary(pair.load));
            remarks.push(format!("  store in {store}, load in {load}"));
        }
        if let Some(more) = pairs
            .len()
            .checked_sub(LISTED_PAIRS)
            .filter(|&more| more > 0)
        {
            remarks.push(format!("  and {} more", number_of(more as u64, "pair")));
        }
    }
    remarks
}

/// The stacks of all sites. A stack is interned when its site is first seen: the meaning of an address may change later.
pub struct RaceStacks {
    table: StackTable,
    by_site: Vec<Option<StackId>>,
    wrappers: WrapperSearch,
}

impl RaceStacks {
    /// For a target that was started in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            table: StackTable::new(directory),
            by_site: Vec::new(),
            wrappers: WrapperSearch::default(),
        }
    }

    fn frames(&mut self, site: RaceSite) -> Vec<Frame> {
        match self.by_site.get(site.0 as usize) {
            Some(&Some(stack)) => self.table.report_frames(stack),
            _ => Vec::new(),
        }
    }

    fn primary(&mut self, site: RaceSite) -> String {
        let frames = self.frames(site);
        let primary = brownout_report::primary_frame(&frames);
        primary.map_or_else(
            || "unknown code".to_owned(),
            |index| frames[index].to_string(),
        )
    }
}

impl TargetCode for RaceStacks {
    fn owner(
        &mut self,
        site: RaceSite,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> AccessOwner {
        let stack = self.table.intern(event, definitions);
        debug_assert_eq!(site.0 as usize, self.by_site.len());
        // An event without an instruction was caused by the kernel.
        self.by_site.push(Some(stack).filter(|_| event.pc.0 != 0));
        let levels = self.table.levels(stack);
        let frames = || levels.iter().flat_map(StackLevel::frames);
        let origin = origin_of(frames().map(|(frame, called)| {
            FrameNames {
                module: frame
                    .module
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default(),
                function: frame.function.as_deref(),
                called,
                source: frame.file.as_ref().and_then(|file| file.to_str()),
            }
        }));
        let frames = frames().map(|(frame, _)| report_frame(frame));
        self.wrappers.observe(&event.kind, origin, frames);
        match origin {
            Origin::Library | Origin::Bindings => AccessOwner::Library,
            Origin::Lock => AccessOwner::Lock,
            _ => AccessOwner::User,
        }
    }
}
