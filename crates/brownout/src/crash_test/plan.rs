//! The options of crash testing, combined and checked.

use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::Duration;

use brownout_crash::rules::UNPERSISTED_READ;
use brownout_crash::{
    Scope, Shard, Sharing, StrategyInfo, TestConfiguration, TraceIdentity, journal,
};
use brownout_model::{Profile, Tearing, Wait};
use brownout_names::FunctionPattern;
use brownout_recovery::{AllowedOutput, Expectation, Recovery, check_command, program_digest};

use super::function_name;
use super::missing_function::RecordedBy;
use super::point_filters::PointFilters;
use crate::arguments::{CrashTestArgs, FailurePointArgs};
use crate::behaviour_memory::BehaviourMemory;
use crate::failure::Failure;
use crate::settings::Settings;

/// Refuses an option that selects some crashes, if the strategy does not let anything be left out.
pub fn check_selectable(
    strategy: &'static StrategyInfo,
    option: &'static str,
) -> Result<(), Failure> {
    match strategy.tries_all {
        true => Err(Failure::StrategyTriesAll {
            option,
            strategy: strategy.name,
        }),
        false => Ok(()),
    }
}

/// Refuses what a strategy cannot do that only tries other orders of stores.
fn check_reordering(
    strategy: &'static StrategyInfo,
    occurrences: Option<u32>,
    profile: &Profile,
) -> Result<(), Failure> {
    let name = strategy.name;
    match strategy.tests_behaviours {
        true if occurrences.is_some() => Err(Failure::OnlyReorders { strategy: name }),
        true if profile.cached == Wait::Nothing => Err(Failure::NothingReordered {
            strategy: name,
            model: profile.name,
        }),
        _ => Ok(()),
    }
}

/// All options of crash testing.
#[derive(Clone, Debug)]
pub struct Plan {
    pub recovery: Recovery,
    pub expected: Expectation,
    pub strategy: &'static StrategyInfo,
    /// The persistency profile of the run.
    pub profile: Profile,
    pub scope: Scope,
    pub filters: PointFilters,
    pub recorded_by: RecordedBy,
    pub patterns: Vec<OsString>,
    pub jobs: usize,
    pub recovery_time_limit: Option<Duration>,
    /// How long crashes are tested; `None` if until everything is tried.
    pub time_limit: Option<Duration>,
    /// How many occurrences of each failure point the user wants.
    pub occurrences: Option<usize>,
    /// How many states to explore at each failure point, at most.
    pub max_states: Option<u64>,
    /// Whether stores are explored that persist in part.
    pub tearing: Tearing,
    /// How many runs may crash in a row.
    pub depth: usize,
    /// The number of arguments of the process that are the target and its arguments.
    pub target_arguments: usize,
    pub resume: bool,
    /// Whether this is one of several schedules, whose test cannot be continued.
    pub is_swept: bool,
    pub shard: Shard,
    pub narrowing: bool,
    /// Whether to report reads of recovery that can see stores which are late.
    pub examines_reads: bool,
    /// What remembers the behaviours that were tested.
    pub memory: Option<BehaviourMemory>,
    /// When recoveries share their starts.
    pub sharing: Sharing,
}

impl Plan {
    /// `None` if no recovery command is given.
    pub fn new(arguments: &CrashTestArgs, settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(command) = &arguments.recover else {
            return Ok(None);
        };
        let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
        let commands = [
            ("--recover", Some(command)),
            ("--client", arguments.client.as_ref()),
        ];
        for (option, command) in commands {
            let checked = command.map_or(Ok(()), |command| check_command(command, &here));
            checked.map_err(|source| Failure::Command { option, source })?;
        }
        if arguments.recover_ready.is_some() && arguments.client.is_none() {
            return Err(Failure::NoClient);
        }
        let mut recovery = Recovery::new(command, here);
        recovery.client = arguments.client.clone();
        recovery.ready = arguments.recover_ready.clone();
        recovery.network = arguments.allow_network;
        recovery.memory_limit = arguments.memory_limit;
        recovery.file_size_limit = arguments.file_size_limit;
        if !arguments.recover_success.is_empty() {
            recovery.success = arguments.recover_success.clone();
        }
        let strategy = arguments
            .strategy
            .unwrap_or_else(StrategyInfo::default_strategy);
        let selecting = [
            ("--occurrences", arguments.occurrences.is_some()),
            ("--granularity", arguments.points.granularity.is_some()),
        ];
        if let Some((option, _)) = selecting.into_iter().find(|(_, given)| *given) {
            check_selectable(strategy, option)?;
        }
        check_reordering(strategy, arguments.occurrences, &settings.model)?;
        let exploring = [
            ("--max-states", arguments.max_states.is_some()),
            ("--tearing", arguments.tearing.is_some()),
            ("--depth", arguments.depth.is_some()),
        ];
        let has_effect =
            |option| strategy.tries_all || strategy.tests_behaviours && option == "--tearing";
        let mut given = exploring.into_iter().filter(|(_, given)| *given);
        if let Some((option, _)) = given.find(|(option, _)| !has_effect(*option)) {
            return Err(Failure::NotExploring {
                option,
                strategy: strategy.name,
            });
        }
        let occurrences = arguments.occurrences.map(|count| count as usize);
        Ok(Some(Self {
            expected: expectation(arguments)?,
            recovery,
            strategy,
            profile: settings.model,
            scope: Scope {
                occurrences: occurrences.unwrap_or(1),
                operations: arguments.op.iter().map(FunctionPattern::new).collect(),
                ..scope(&arguments.points)
            },
            filters: PointFilters::new(&arguments.points)?,
            recorded_by: RecordedBy::ThisCommand,
            patterns: settings.patterns.clone(),
            jobs: arguments.jobs.map_or_else(processors, |jobs| jobs as usize),
            recovery_time_limit: arguments.recover_time_limit,
            time_limit: arguments.time_limit.or(strategy.time_limit),
            occurrences,
            max_states: arguments.max_states,
            tearing: arguments.tearing.map(Into::into).unwrap_or_default(),
            depth: arguments.depth.map_or(1, |depth| depth as usize),
            target_arguments: 0,
            resume: false,
            is_swept: false,
            shard: Shard::default(),
            narrowing: !arguments.no_narrowing,
            examines_reads: strategy.tries_all && settings.levels.is_on(&UNPERSISTED_READ),
            memory: memory(arguments, strategy)?,
            sharing: arguments.shared_starts.map(Into::into).unwrap_or_default(),
        }))
    }

    /// Sets whether an earlier test is continued.
    pub fn set_resume(&mut self, resume: bool) -> Result<(), Failure> {
        if resume && self.strategy.tries_all && self.memory.is_some() {
            return Err(Failure::ResumedMemory {
                strategy: self.strategy.name,
            });
        }
        self.resume = resume;
        Ok(())
    }

    /// Replaces functions that are named by a source line of `program` by their symbols.
    pub fn resolve_functions(&mut self, program: &Path) -> Result<(), Failure> {
        let operations = self.scope.operations.iter_mut();
        let functions = operations.map(|function| ("--op", function)).chain(
            self.scope
                .after
                .iter_mut()
                .map(|function| ("--after", function)),
        );
        for (option, function) in functions {
            let symbol = function_name::symbol(option, function.text(), program)?;
            *function = FunctionPattern::new(symbol);
        }
        Ok(())
    }

    /// Whether recovery learns how many operations were complete.
    pub fn counts_operations(&self) -> bool {
        !self.scope.operations.is_empty()
    }

    /// The digest of what recovery has to print, for tokens.
    pub fn expected_digest(&self) -> Option<String> {
        let digest = self.expected.digest();
        Some(digest).filter(|digest| *digest != Expectation::Anything.digest())
    }

    pub fn pattern_texts(&self) -> Vec<String> {
        let texts = self.patterns.iter();
        texts
            .map(|text| text.to_string_lossy().into_owned())
            .collect()
    }

    /// The options that decide the verdicts.
    pub fn configuration(&self, trace: TraceIdentity) -> TestConfiguration {
        TestConfiguration {
            version: journal::VERSION,
            strategy: self.strategy.id(),
            trace,
            patterns: self.pattern_texts(),
            recovery: self.recovery.clone(),
            granularity: self.scope.granularity,
            profile: self.profile.name.to_owned(),
            tearing: self.tearing,
            occurrences: self.occurrences,
            depth: self.depth,
            after: text(&self.scope.after).pop(),
            operations: text(&self.scope.operations),
            from_start: self.scope.from_start,
            within: self.filters.texts(),
            expected: self.expected.digest(),
            programs: program_digest(&self.recovery),
            time_limit: self
                .recovery_time_limit
                .map(|limit| limit.as_millis() as u64),
        }
    }
}

/// The scope that these arguments give.
pub fn scope(points: &FailurePointArgs) -> Scope {
    Scope {
        granularity: points.granularity.map(Into::into).unwrap_or_default(),
        after: points.after.as_ref().map(FunctionPattern::new),
        occurrences: 1,
        from_start: points.from_start,
        operations: Vec::new(),
    }
}

/// Patterns as the user wrote them.
fn text<'p>(patterns: impl IntoIterator<Item = &'p FunctionPattern>) -> Vec<String> {
    let patterns = patterns.into_iter();
    patterns.map(|pattern| pattern.text().to_owned()).collect()
}

/// The memory, if there is to be one. It must be usable before anything is recorded.
fn memory(
    arguments: &CrashTestArgs,
    strategy: &'static StrategyInfo,
) -> Result<Option<BehaviourMemory>, Failure> {
    let Some(path) = &arguments.memory else {
        return Ok(None);
    };
    if !strategy.tests_behaviours && !strategy.tries_all {
        return Err(Failure::NoBehaviours {
            strategy: strategy.name,
        });
    }
    if arguments.depth.is_some_and(|depth| depth > 1) {
        return Err(Failure::MemoryOfDepth);
    }
    BehaviourMemory::open(path).map(Some)
}

fn expectation(arguments: &CrashTestArgs) -> Result<Expectation, Failure> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| Failure::Expected { path, source }
    };
    if let Some(path) = &arguments.expect_output {
        let output = AllowedOutput::read(path).map_err(unreadable(path))?;
        return Ok(Expectation::Exactly(output));
    }
    if let Some(path) = &arguments.expect_one_of {
        let operations = !arguments.op.is_empty();
        return Expectation::from_directory(path, operations).map_err(unreadable(path));
    }
    Ok(Expectation::Anything)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
