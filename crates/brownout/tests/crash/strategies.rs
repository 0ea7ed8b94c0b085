//! Strategies: how one is chosen, that their results are not mixed, and that one can try other states than those in
//! program order.

use std::collections::HashSet;
use std::fs;
use std::io::Seek;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use brownout_crash::journal::{self, Head};
use brownout_crash::strategy::{TrialJob, TrialResults, TriedState};
use brownout_crash::{
    CallingContexts, Campaign, CampaignEnd, Choice, Collaborators, CrashPoint, FailurePoint,
    ImageBuilder, Journal, OtherLines, PersistentFiles, Progress, ProgressObserver, ProposedCrash,
    RecordedRun, Scope, Shard, StackId, Strategy, StrategyId, StrategyInfo, StrategyInput,
    SuspectedStores, Symbols, TestConfiguration, Token, TraceIdentity, Trial, findings, group,
    narrow,
};
use brownout_model::{Profile, Tearing};
use brownout_recovery::{
    EngineRun, Expectation, RawFrame, Recovery, RecoveryRunner, RunnerPool, Sandbox,
    SandboxServerCommand,
};
use brownout_report::Frame;
use brownout_trace::selection::Survey;
use brownout_trace::{Definitions, Event, EventIndex, EventKind, TraceReader};

use crate::TestDir;

#[test]
fn only_registered_strategies_are_accepted() {
    let dir = TestDir::new();
    dir.record(&[], &["3"]);
    let run = dir.crash(&["--strategy", "prefix"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run = dir.crash(&["--strategy", "random"]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr
            .contains("[possible values: auto, prefix, representative, exhaustive]"),
        "{}",
        run.stderr
    );
    let help = dir.brownout(&["crash", "--help"]).stdout;
    assert!(help.contains("[default: auto]"), "{help}");
    assert!(help.contains("in program order"), "{help}");
    fs::write(dir.path("brownout.toml"), "[crash]\nstrategy = 'random'\n").unwrap();
    let run = dir.crash(&[]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("random") && run.stderr.contains("available: auto, prefix"),
        "{}",
        run.stderr
    );
}

#[test]
fn results_of_different_strategies_are_not_mixed() {
    let dir = TestDir::new();
    dir.record(&[], &["3", "early"]);
    for part in ["1/2", "2/2"] {
        dir.crash(&["--shard", part, "--out", &part[..1]]);
    }
    let journal = dir.path("2/crash.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    assert!(text.contains(r#""name":"auto""#), "{text}");
    fs::write(
        &journal,
        text.replacen(r#""name":"auto""#, r#""name":"other""#, 1),
    )
    .unwrap();
    let merged = dir.brownout(&["merge", "1", "2", "--out", "merged"]);
    assert_eq!(merged.status, Some(2));
    assert!(
        merged.stderr.contains("strategy other"),
        "{}",
        merged.stderr
    );
    let resumed = dir.crash(&["--shard", "2/2", "--out", "2", "--resume"]);
    assert_eq!(resumed.status, Some(2));
    assert!(
        resumed.stderr.contains("strategy other"),
        "{}",
        resumed.stderr
    );
}

#[test]
fn journals_and_tokens_of_another_version_are_refused_by_their_version() {
    let dir = TestDir::new();
    dir.record(&[], &["3"]);
    dir.crash(&[]);
    let journal = dir.path("brownout.out/crash.jsonl");
    fs::write(&journal, "{\"version\":1,\"trace\":[1,2]}\n").unwrap();
    let resumed = dir.crash(&["--resume"]);
    assert_eq!(resumed.status, Some(2));
    assert!(
        resumed.stderr.contains("has version 1"),
        "{}",
        resumed.stderr
    );
    let replayed = dir.brownout(&["replay", "trace", "crash1:5:e30"]);
    assert_eq!(replayed.status, Some(2));
    assert!(
        replayed.stderr.contains("has version 1"),
        "{}",
        replayed.stderr
    );
}

/// Tries every state of the persistency model at each failure point.
struct EveryState {
    waiting: Vec<ProposedCrash>,
    planned: u64,
    learned: HashSet<CrashPoint>,
}

static EVERY_STATE: StrategyInfo = StrategyInfo {
    name: "every-state",
    version: 1,
    summary: "Every state of the persistency model",
    time_limit: None,
    tries_suspects: false,
    tries_all: false,
    tests_behaviours: false,
    start: |input| Ok(Box::new(EveryState::new(&input))),
};

impl EveryState {
    fn new(input: &StrategyInput<'_>) -> Self {
        let (files, selection) = (&input.survey.files, &input.run.selection);
        let leaves = input.survey.points.leaves();
        let mut builder = ImageBuilder::new(files, selection).with_states(Profile::ADR);
        let mut waiting = Vec::new();
        let reader = input.run.walk(|event, definitions| {
            for leaf in leaves {
                for occurrence in leaf.chosen() {
                    if occurrence.event != event.index {
                        continue;
                    }
                    let point = FailurePoint {
                        kind: leaf.kind,
                        stack: leaf.stack,
                        occurrence,
                    };
                    waiting.extend(builder.choices(Tearing::Whole, definitions).map(|choice| {
                        let mut proposal = ProposedCrash::from(point);
                        proposal.point.choice = Some(choice);
                        proposal
                    }));
                }
            }
            builder.apply(event, definitions);
            ControlFlow::Continue(())
        });
        reader.unwrap();
        Self {
            planned: waiting.len() as u64,
            waiting,
            learned: HashSet::new(),
        }
    }
}

impl Strategy for EveryState {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        std::mem::take(&mut self.waiting)
    }

    fn learn(&mut self, trial: &Trial) {
        assert!(
            self.learned.insert(trial.point.clone()),
            "each verdict comes once"
        );
    }

    fn planned(&self) -> u64 {
        self.planned
    }
}

#[test]
fn a_strategy_can_try_states_that_are_not_in_program_order() {
    let dir = TestDir::with("crash/pair.c", &["-g"]);
    let recorded = dir.brownout(&["record", "-q", "-o", "trace", "--", "./pair", "pool", "put"]);
    assert_eq!(recorded.status, Some(0), "{}", recorded.stderr);
    // In program order the value is always there with the flag.
    let crash = ["crash", "trace", "--recover", "./pair {pm} check"];
    let in_order = dir.brownout(&[&crash[..], &["--strategy", "prefix"]].concat());
    assert_eq!(in_order.status, Some(0), "{}", in_order.stderr);

    let recovery = Recovery::new("./pair {pm} check", dir.directory.path());
    let run = RecordedRun::new(&dir.path("trace"), selection(&dir));
    let survey = run
        .survey(Scope::default(), &mut Bare, &mut Silent)
        .unwrap();
    let mut strategy = (EVERY_STATE.start)(StrategyInput {
        run: &run,
        survey: &survey,
        symbols: &mut Bare,
        occurrences: None,
        max_states: None,
        depth: 1,
        suspects: &[],
        profile: Profile::ADR,
        tearing: Tearing::Whole,
        memory: None,
        explored: None,
    })
    .unwrap();
    let head = head(&recovery, EVERY_STATE.id());
    let mut journal = Journal::create(&dir.path("journal"), &head).unwrap();
    let limit = Duration::from_secs(20);
    let mut pool = RunnerPool::new(vec![runner(&recovery, &survey.files)]);
    let mut campaign = Campaign::new(&run, &survey.files, Shard::default(), false, limit);
    let ending = campaign.run(&mut Collaborators {
        strategy: &mut *strategy,
        pool: &mut pool,
        journal: &mut journal,
        symbols: &mut Bare,
        observer: &mut Silent,
    });
    assert_eq!(ending.unwrap().end, CampaignEnd::Exhausted);
    assert_eq!(campaign.progress().done, strategy.planned());
    let trials = campaign.into_trials();
    let failed: Vec<&Trial> = trials
        .iter()
        .filter(|trial| !trial.verdict.passed())
        .collect();
    assert_eq!(failed.len(), 1, "the flag without the value: {failed:?}");
    assert!(failed[0].point.choice.is_some());

    let groups = group(&trials);
    let asked = vec![failed[0].clone()];
    let mut pool = RunnerPool::new(pool.close());
    let causes = narrow(
        &run,
        &survey.files,
        (asked, &trials, &SuspectedStores::new()),
        &[],
        limit,
        &mut pool,
        &mut Bare,
        &mut Silent,
    )
    .unwrap();
    assert_eq!(causes.len(), 1);
    assert!(causes[0].present.is_empty());
    let ranges: Vec<(u64, u64)> = causes[0].absent[0]
        .ranges
        .iter()
        .map(|range| (range.offset, range.len))
        .collect();
    assert_eq!(ranges, [(0, 8)], "the value is what is missing");

    let token = |trial: &Trial| Token {
        point: trial.point.clone(),
        recovery: recovery.clone(),
        operation: None,
        patterns: Vec::new(),
        time_limit: None,
        expected: None,
        trace: identity(&dir),
    };
    let findings = findings(groups, &causes, &[], token);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0]
            .message
            .contains("not reached persistent memory")
    );
    let details = &findings[0].evidence.details;
    assert!(!details.contains_key("stores since the last image that passed"));
    let replay = findings[0].replay.clone().unwrap();
    let replayed = dir.brownout(&["replay", "trace", &replay]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    let kept = dir.brownout(&["replay", "trace", &replay, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = fs::read(dir.path("image")).unwrap();
    assert_eq!((image[0], image[64]), (0, 1));
}

/// Runs recovery under the engine on the last crash point, and keeps the traces of the recoveries.
struct UnderEngine {
    waiting: Vec<ProposedCrash>,
    traces: Arc<Mutex<Vec<Arc<fs::File>>>>,
}

impl Strategy for UnderEngine {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        std::mem::take(&mut self.waiting)
    }

    fn learn(&mut self, _: &Trial) {}

    fn planned(&self) -> u64 {
        1
    }

    fn job(&self, _: &ProposedCrash) -> TrialJob {
        let traces = Arc::clone(&self.traces);
        TrialJob::Other(Box::new(move |runner, image, task| {
            let trace = Arc::new(tempfile::tempfile().unwrap());
            let engine = EngineRun {
                loads: true,
                trace: Some(Arc::clone(&trace)),
                reads: None,
                held: false,
                input: false,
            };
            let proposed = runner.run_under_engine(&image.files, task, engine)?;
            traces.lock().unwrap().push(trace);
            Ok(TrialResults {
                proposed,
                others: Vec::new(),
            })
        }))
    }
}

#[test]
fn a_strategy_can_run_recovery_under_the_engine_and_read_its_loads() {
    let dir = TestDir::with("crash/pair.c", &["-g"]);
    let recorded = dir.brownout(&["record", "-q", "-o", "trace", "--", "./pair", "pool", "put"]);
    assert_eq!(recorded.status, Some(0), "{}", recorded.stderr);
    let recovery = Recovery::new("./pair {pm} check", dir.directory.path());
    let run = RecordedRun::new(&dir.path("trace"), selection(&dir));
    let survey = run
        .survey(Scope::default(), &mut Bare, &mut Silent)
        .unwrap();
    let leaf = survey.points.leaves().last().unwrap();
    let traces = Arc::default();
    let mut strategy = UnderEngine {
        waiting: vec![ProposedCrash::from(FailurePoint {
            kind: leaf.kind,
            stack: leaf.stack,
            occurrence: leaf.chosen()[0],
        })],
        traces: Arc::clone(&traces),
    };
    let head = head(&recovery, EVERY_STATE.id());
    let mut journal = Journal::create(&dir.path("journal"), &head).unwrap();
    let mut pool = RunnerPool::new(vec![runner(&recovery, &survey.files)]);
    let limit = Duration::from_secs(60);
    let mut campaign = Campaign::new(&run, &survey.files, Shard::default(), false, limit);
    let ending = campaign.run(&mut Collaborators {
        strategy: &mut strategy,
        pool: &mut pool,
        journal: &mut journal,
        symbols: &mut Bare,
        observer: &mut Silent,
    });
    assert_eq!(ending.unwrap().end, CampaignEnd::Exhausted);
    let trials = campaign.into_trials();
    assert_eq!(trials.len(), 1);
    assert!(trials[0].verdict.passed(), "{:?}", trials[0]);

    let mut trace = traces.lock().unwrap()[0].try_clone().unwrap();
    trace.rewind().unwrap();
    let mut reader = TraceReader::new(trace).unwrap();
    let mut loads = 0;
    while let Some((event, _)) = reader.next_defined().unwrap() {
        loads += u64::from(matches!(event.kind, EventKind::Load { .. }));
    }
    assert!(loads > 0, "recovery reads the pool");
}

/// Proposes each failure point, and reports a second state with each: the one with only guaranteed stores.
struct TwoStates(Vec<ProposedCrash>);

impl Strategy for TwoStates {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        std::mem::take(&mut self.0)
    }

    fn learn(&mut self, _: &Trial) {}

    /// Far too few, which must do no harm.
    fn planned(&self) -> u64 {
        0
    }

    fn job(&self, _: &ProposedCrash) -> TrialJob {
        TrialJob::Other(Box::new(|runner, image, task| {
            let proposed = runner.attempt(&image.files, task)?;
            let other = TriedState {
                choice: Some(Choice {
                    profile: Profile::ADR.name.to_owned(),
                    tearing: Tearing::Whole,
                    others: OtherLines::Guaranteed,
                    lines: Vec::new(),
                }),
                attempt: proposed.clone(),
            };
            Ok(TrialResults {
                proposed,
                others: vec![other],
            })
        }))
    }
}

#[test]
fn states_that_a_job_came_upon_are_not_those_of_equal_images() {
    let dir = TestDir::with("crash/pair.c", &["-g"]);
    let recorded = dir.brownout(&["record", "-q", "-o", "trace", "--", "./pair", "pool", "put"]);
    assert_eq!(recorded.status, Some(0), "{}", recorded.stderr);
    let recovery = Recovery::new("./pair {pm} check", dir.directory.path());
    let run = RecordedRun::new(&dir.path("trace"), selection(&dir));
    let survey = run
        .survey(Scope::default(), &mut Bare, &mut Silent)
        .unwrap();
    let leaf = survey.points.leaves().last().unwrap();
    let proposal = ProposedCrash::from(FailurePoint {
        kind: leaf.kind,
        stack: leaf.stack,
        occurrence: leaf.chosen()[0],
    });
    // The program only flushes from the first of these on, so both images are equal.
    let mut later = proposal.clone();
    later.point.event += 1;
    let points = [proposal.point.clone(), later.point.clone()];
    let head = head(&recovery, EVERY_STATE.id());
    let path = dir.path("journal");
    let mut journal = Journal::create(&path, &head).unwrap();
    let mut pool = RunnerPool::new(vec![runner(&recovery, &survey.files)]);
    let limit = Duration::from_secs(20);
    let mut campaign = Campaign::new(&run, &survey.files, Shard::default(), false, limit);
    let ending = campaign.run(&mut Collaborators {
        strategy: &mut TwoStates(vec![proposal, later]),
        pool: &mut pool,
        journal: &mut journal,
        symbols: &mut Bare,
        observer: &mut Silent,
    });
    assert_eq!(ending.unwrap().end, CampaignEnd::Exhausted);
    let progress = campaign.progress();
    assert_eq!((progress.done, progress.points), (2, 2));
    let written = journal::read(&path).unwrap().unwrap();
    let proposed = written.ending.map(|ending| ending.proposed);
    assert_eq!((written.head.points, proposed), (0, Some(2)));
    let trials = campaign.into_trials();
    let tried: HashSet<&CrashPoint> = trials.iter().map(|trial| &trial.point).collect();
    assert_eq!((trials.len(), tried.len()), (3, 3), "{trials:?}");
    let same: Vec<_> = trials
        .iter()
        .filter_map(|trial| trial.same_as.as_ref())
        .collect();
    assert_eq!(same, [&points[0]]);
    let others: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.reached_from.is_some())
        .collect();
    assert_eq!(others.len(), 1);
    assert_eq!(others[0].reached_from.as_ref(), Some(&points[0]));
    assert!(others[0].point.choice.is_some());
}

/// The trace that tokens have to name.
fn identity(dir: &TestDir) -> TraceIdentity {
    let reader = TraceReader::open(dir.path("trace")).unwrap();
    let started = reader.header().started.duration_since(UNIX_EPOCH);
    TraceIdentity {
        started: started.unwrap().as_nanos() as u64,
        bytes: reader.byte_len(),
    }
}

fn selection(dir: &TestDir) -> brownout_trace::selection::Selection {
    let mut reader = TraceReader::open(dir.path("trace")).unwrap();
    let mut survey = Survey::default();
    while let Some((event, definitions)) = reader.next_defined().unwrap() {
        survey.observe(&event, definitions);
    }
    survey.select(reader.definitions(), None)
}

fn runner(recovery: &Recovery, files: &PersistentFiles) -> RecoveryRunner {
    let server = SandboxServerCommand::new(env!("CARGO_BIN_EXE_brownout"), &["serve-sandbox"]);
    let sandbox = Sandbox::start(&server, recovery, files.paths()).unwrap();
    RecoveryRunner::new(sandbox, recovery.clone(), Expectation::Anything)
}

fn head(recovery: &Recovery, strategy: StrategyId) -> Head {
    let configuration = TestConfiguration {
        version: journal::VERSION,
        strategy,
        trace: TraceIdentity::default(),
        patterns: Vec::new(),
        recovery: recovery.clone(),
        granularity: Default::default(),
        profile: "adr".into(),
        tearing: Tearing::Whole,
        occurrences: None,
        depth: 1,
        after: None,
        operations: Vec::new(),
        from_start: false,
        within: Vec::new(),
        time_limit: None,
        expected: String::new(),
        programs: String::new(),
    };
    Head {
        configuration,
        shards: vec![Shard::default()],
        points: 0,
    }
}

/// Distinguishes calling contexts by their instruction, without symbols.
struct Bare;

impl CallingContexts for Bare {
    fn observe(&mut self, _: &Event<'_>, _: &Definitions) {}

    fn stack(&mut self, event: &Event<'_>, _: &Definitions) -> Option<StackId> {
        Some(StackId(event.pc.0 as usize))
    }

    fn wanted(&mut self, _: Option<StackId>) -> bool {
        true
    }
}

impl Symbols for Bare {
    fn frames(&mut self, stack: StackId) -> Vec<Frame> {
        vec![Frame {
            offset: stack.0 as u64,
            ..Frame::default()
        }]
    }

    fn line(&mut self, frames: &[Frame]) -> String {
        brownout_crash::line_of(frames)
    }

    fn code(&mut self, stack: StackId) -> String {
        stack.0.to_string()
    }

    fn recovery_frames(&mut self, _: &[RawFrame]) -> Vec<Frame> {
        Vec::new()
    }
}

struct Silent;

impl ProgressObserver for Silent {
    fn progress(&mut self, _: Progress) {}

    fn explained(&mut self, _: usize, _: usize) {}

    fn reading(&mut self, _: EventIndex) {}

    fn stop(&mut self) -> bool {
        false
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }
}
