//! Lints a trace: applies the rules and gives their findings source-level stacks.

use std::path::Path;

use brownout_crash::SuspectedStores;
use brownout_libraries::FrameNames;
use brownout_lint::{
    Attribution, ContentCheck, FileStores, Lint, Origin, Profile, RawFinding, RawSite, SiteKey,
    oracle, origin_of,
};
use brownout_report::{
    ByteRange, Evidence, Finding, FindingId, Mistake, RuleInfo, Sources, Stack, StoredFile,
    Subject, Value,
};
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event};
use rustc_hash::FxHashMap;

use crate::commands::{describe_candidates, unmatched_patterns};
use crate::config::OracleSpec;
use crate::console::Console;
use crate::failure::Failure;
use crate::results::subject;
use crate::settings::Settings;
use crate::source_gaps;
use crate::stacks::{StackId, StackLevel, StackTable, report_frame};
use crate::suspects::{self, LintSuspect};
use crate::trace_file::TraceFile;
use crate::wrapper_functions::{WrapperFunctions, WrapperSearch};

/// The results of linting a trace.
pub struct LintRun {
    pub findings: Vec<Finding>,
    /// Findings that crash images can confirm, also those of pedantic rules that are not shown.
    pub suspects: Vec<LintSuspect>,
    /// The stores that findings name, for the search for causes.
    pub suspected_stores: SuspectedStores,
    pub subject: Subject,
    /// The functions of the target at whose callers findings are shown.
    pub wrappers: WrapperFunctions,
    /// What was examined, in a sentence.
    pub tested: String,
    /// A persistency profile that fits the target better than the one in use.
    pub better_profile: Option<&'static str>,
    /// If nothing persistent was seen: what the trace shows instead.
    pub nothing_persistent: Option<String>,
    /// If there are persistent files, and the target stores nothing there: that this is so.
    pub nothing_stored: Option<String>,
    /// That patterns for persistent files match none, in a sentence.
    pub unmatched_patterns: Option<String>,
    pub trace: TraceFile,
}

/// Reads a trace and applies the rules that are on.
pub fn lint(path: &Path, settings: &Settings, console: &Console) -> Result<LintRun, Failure> {
    let mut run = examine(path, settings, console)?;
    for gap in &run.subject.gaps {
        console.warn(gap);
    }
    run.subject.gaps.extend(run.trace.incomplete_reason());
    Ok(run)
}

/// Reads a trace and applies the rules, without warning of what could not be examined: for a command that uses a part of what
/// lint knows.
pub fn examine(path: &Path, settings: &Settings, console: &Console) -> Result<LintRun, Failure> {
    let mut trace = TraceFile::open(path)?;
    let patterns = trace.patterns(&settings.patterns)?;
    let oracles = settings.oracles.iter().map(OracleSpec::oracle).collect();
    let stacks = SiteStacks::new(&trace.header().cwd);
    let mut lint = Lint::new(settings.model, stacks).with_oracles(oracles);
    let mut progress = console.progress("linting", Some(trace.events()));
    trace.visit(&mut progress, &mut lint)?;
    drop(progress);

    let definitions = trace.definitions();
    let ended = lint.end(definitions, patterns.as_ref());
    let content = match ended.content_check() {
        Some(check) => Some(read_content(path, check, console)?),
        None => None,
    };
    let outcome = ended.finish(content.as_ref());
    let (selection, files) = (outcome.selection, outcome.files);
    let nothing_persistent = selection.is_empty().then(|| {
        let given = match &settings.patterns[..] {
            [] => &trace.header().pm,
            given => given,
        };
        describe_candidates(&selection, definitions, given)
    });
    let nothing_stored = nothing_persistent
        .is_none()
        .then(|| nothing_stored(&files, definitions))
        .flatten();
    let unmatched_patterns = unmatched_patterns(&selection, definitions);
    let not_judged = not_judged(&selection, definitions);
    let better_profile = match settings.model == Profile::ADR && outcome.relies_on_syncs {
        true => Some(Profile::MSYNC.name),
        false => None,
    };
    let mut stacks = outcome.attribution;
    for process in definitions.processes() {
        stacks.table.note_recursion(process.id, definitions);
    }
    let sources = Sources::on_disk();
    let (mut findings, mut suspects) = (Vec::new(), Vec::new());
    let mut related = Vec::new();
    let mut suspected_stores = SuspectedStores::new();
    let implied = match settings.levels.is_off(pointer_rule()) {
        true => outcome.implied_by_pointers,
        false => Vec::new(),
    };
    for raw in outcome.findings.into_iter().chain(implied) {
        let suspicion = suspects::suspicion(&raw).filter(|_| !settings.levels.is_off(raw.rule.id));
        if !settings.levels.is_off(raw.rule.id) {
            suspected_stores.extend(suspects::suspected_stores(&raw));
        }
        let sites = (raw.sites.first().map(|site| site.key), raw.related.clone());
        let mut finding = stacks.finding(raw, definitions);
        finding.identify(&sources);
        related.push(sites);
        suspects.extend(suspicion.map(|suspicion| LintSuspect::new(&finding, suspicion)));
        findings.push(finding);
    }
    relate(&mut findings, &related);
    let findings = settings.levels.apply(findings);
    let mut gaps: Vec<String> = stacks.table.problems().collect();
    gaps.extend(source_gaps::without_lines(&findings, &gaps));
    gaps.extend(source_gaps::newer_sources(&findings));
    if outcome.pointers_not_judged > 0 && !settings.levels.is_off(pointer_rule()) {
        gaps.push(pointers_not_judged(outcome.pointers_not_judged));
    }
    Ok(LintRun {
        findings,
        suspects,
        suspected_stores,
        subject: Subject {
            files: stored_files(&files, trace.definitions()),
            not_judged,
            ..subject(&trace, settings, gaps)
        },
        wrappers: stacks.wrappers.find(),
        tested: linted(trace.events()),
        better_profile,
        nothing_persistent,
        nothing_stored,
        unmatched_patterns,
        trace,
    })
}

/// Reads a trace a second time, for the content of lost stores.
fn read_content(
    path: &Path,
    mut check: ContentCheck,
    console: &Console,
) -> Result<ContentCheck, Failure> {
    let mut trace = TraceFile::open(path)?;
    let mut progress = console.progress("examining lost stores", Some(trace.events()));
    trace.walk(&mut progress, |event, _| Ok(check.observe(event)))?;
    Ok(check)
}

/// Notes which findings are about stores to one object. `sites` has the first site of each finding, and the sites of the others.
fn relate(findings: &mut [Finding], sites: &[(Option<SiteKey>, Vec<SiteKey>)]) {
    let ids = findings
        .iter()
        .zip(sites)
        .filter_map(|(finding, (site, related))| {
            let is_related = !related.is_empty();
            site.filter(|_| is_related)
                .map(|site| (site, finding.id.clone()))
        });
    let ids: FxHashMap<SiteKey, FindingId> = ids.collect();
    for (finding, (_, related)) in findings.iter_mut().zip(sites) {
        let others = related.iter().filter_map(|site| ids.get(site).cloned());
        finding.evidence.same_object = others.collect();
    }
}

fn linted(events: u64) -> String {
    match events {
        1 => "1 event was linted".to_owned(),
        _ => format!("{events} events were linted"),
    }
}

fn pointers_not_judged(pointers: u64) -> String {
    let pointers = match pointers {
        1 => "1 pointer was".to_owned(),
        _ => format!("{pointers} pointers were"),
    };
    let rule = pointer_rule();
    format!(
        "{pointers} not checked by the rule {rule}: too many waited for a fence of their thread"
    )
}

/// The rule that reports pointers which are persistent before what they point to.
fn pointer_rule() -> &'static str {
    let is_it = |rule: &&RuleInfo| matches!(rule.policy.mistake, Mistake::UnpersistedTarget { .. });
    let mut rules = brownout_lint::RULES.iter().copied();
    rules
        .find(is_it)
        .map_or_else(Default::default, |rule| rule.id)
}

/// Says that the target neither stores nor writes anything to its persistent files, if that is so.
fn nothing_stored(files: &[FileStores], definitions: &Definitions) -> Option<String> {
    if files.iter().any(|file| file.stores > 0 || file.is_written) {
        return None;
    }
    let names = files.iter().filter_map(|file| definitions.file(file.file));
    let names: Vec<String> = names
        .map(|file| format!("`{}`", file.path.display()))
        .collect();
    Some(format!(
        "the program stores nothing to {}, so there is nothing to judge; run it so that it changes its data",
        names.join(", ")
    ))
}

/// The files with a name that the target stores to and that are not taken for persistent.
fn not_judged(selection: &Selection, definitions: &Definitions) -> Vec<String> {
    let files = selection
        .unselected()
        .filter_map(|file| definitions.file(file));
    let paths = files.map(|file| file.path.to_string_lossy().into_owned());
    paths.filter(|path| !path.ends_with(" (deleted)")).collect()
}

fn stored_files(files: &[FileStores], definitions: &Definitions) -> Vec<StoredFile> {
    let stored = files.iter().map(|stores| {
        let file = definitions.file(stores.file);
        let path = file.map(|file| file.path.to_string_lossy().into_owned());
        StoredFile {
            path: path.unwrap_or_default(),
            stores: stores.stores,
            never_guaranteed: stores.never_guaranteed,
        }
    });
    stored.collect()
}

/// The stacks of all sites the rules have seen. A stack is interned when its site is first seen: the meaning of an
/// address may change later.
struct SiteStacks {
    table: StackTable,
    by_site: FxHashMap<SiteKey, StackId>,
    wrappers: WrapperSearch,
}

impl Attribution for SiteStacks {
    fn origin(&mut self, site: SiteKey, event: &Event<'_>, definitions: &Definitions) -> Origin {
        let stack = self.table.intern(event, definitions);
        self.by_site.insert(site, stack);
        let levels = self.table.levels(stack);
        let frames = || levels.iter().flat_map(StackLevel::frames);
        let origin = origin_of(frames().map(|(frame, called)| FrameNames {
            module: file_name(&frame.module),
            function: frame.function.as_deref(),
            called,
            source: frame.file.as_ref().and_then(|file| file.to_str()),
        }));
        let frames = frames().map(|(frame, _)| report_frame(frame));
        self.wrappers.observe(&event.kind, origin, frames);
        origin
    }

    fn stack(&mut self, site: SiteKey) -> Vec<oracle::OracleFrame> {
        let stack = self.by_site.get(&site);
        let frames = stack.map_or_else(Vec::new, |&stack| self.table.frames(stack));
        let frames = frames.into_iter().map(|frame| oracle::OracleFrame {
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

impl SiteStacks {
    /// For a target that was started in `directory`.
    fn new(directory: &Path) -> Self {
        Self {
            table: StackTable::new(directory),
            by_site: FxHashMap::default(),
            wrappers: WrapperSearch::default(),
        }
    }

    fn finding(&mut self, raw: RawFinding, definitions: &Definitions) -> Finding {
        let stacks = raw.sites.iter().map(|site| self.stack_of(site)).collect();
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
                .map(|value| Value::beginning(value.name, &value.bytes, value.len))
                .collect(),
            events: raw.sites.iter().map(|site| site.event.0).collect(),
            unfenced_since: raw.unfenced_since.iter().map(|one| one.event).collect(),
            store_threads: raw.unfenced_since.iter().map(|one| one.thread).collect(),
            ..Evidence::default()
        };
        let mut finding = Finding::new(raw.rule, raw.message, stacks, evidence);
        finding.count = raw.count;
        finding.replay = Some(format!("event:{}", raw.first));
        finding
    }

    fn stack_of(&mut self, site: &RawSite) -> Stack {
        // An event without an instruction was caused by the kernel.
        let stack = self.by_site.get(&site.key).filter(|_| site.pc.0 != 0);
        Stack {
            role: site.role.to_owned(),
            frames: stack.map_or_else(Vec::new, |&stack| self.table.report_frames(stack)),
        }
    }
}
