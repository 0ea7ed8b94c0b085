//! The effective options: the command line overrides `brownout.toml`, which overrides the defaults.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use brownout_model::Profile;
use brownout_race::{CustomAllocator, CustomLock};
use brownout_report::FailOn;
use brownout_trace::ProcessEnd;

use crate::arguments::{FindingArgs, FindingFormat, target_end};
use crate::config::{self, Config, CrashKeys, OracleSpec};
use crate::console::Console;
use crate::failure::Failure;
use crate::output_directory::{self, OutputDirectory};
use crate::rules::RuleLevels;
use crate::target_outcome;

/// The directory for results if none is given.
const OUT: &str = "brownout.out";

/// The options of a command that reports findings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub model: Profile,
    pub format: FindingFormat,
    /// Show every finding in full.
    pub verbose: bool,
    /// Show all findings, however many there are.
    pub all: bool,
    pub fail_on: FailOn,
    /// Which rules are on, and their severities.
    pub levels: RuleLevels,
    pub patterns: Vec<OsString>,
    /// Whether they come from a configuration file.
    pub patterns_are_configured: bool,
    pub suppressions: Vec<PathBuf>,
    pub gen_suppressions: bool,
    pub baseline: Option<PathBuf>,
    pub write_baseline: Option<PathBuf>,
    pub out: Option<PathBuf>,
    pub loads: bool,
    /// Ends of the target that count as success besides exit status 0.
    pub target_success: Vec<ProcessEnd>,
    /// Requirements that are specific to the target.
    pub oracles: Vec<OracleSpec>,
    /// Crash-testing options from the configuration file.
    pub crash: CrashKeys,
    /// The target's own locks, from the configuration file.
    pub locks: Vec<CustomLock>,
    /// The target's own allocators, from the configuration file.
    pub allocators: Vec<CustomAllocator>,
    /// Source paths below this directory are shown relative to it.
    pub directory: PathBuf,
}

impl Settings {
    /// The options without a command line or configuration file.
    pub fn defaults(directory: &Path) -> Self {
        Self {
            model: Profile::default(),
            format: FindingFormat::default(),
            verbose: false,
            all: false,
            fail_on: FailOn::default(),
            levels: RuleLevels::default(),
            patterns: Vec::new(),
            patterns_are_configured: false,
            suppressions: Vec::new(),
            gen_suppressions: false,
            baseline: None,
            write_baseline: None,
            out: None,
            loads: false,
            target_success: Vec::new(),
            oracles: Vec::new(),
            crash: CrashKeys::default(),
            locks: Vec::new(),
            allocators: Vec::new(),
            directory: directory.to_owned(),
        }
    }

    /// The functions of the target that the configuration file names, as for `--watch`.
    pub fn own_functions(&self) -> impl Iterator<Item = String> {
        let locks = self.locks.iter().map(|lock| &lock.function);
        let allocators = self.allocators.iter().map(|allocator| &allocator.function);
        locks
            .chain(allocators)
            .map(|function| function.text().to_owned())
    }

    /// `patterns` are the arguments of `--pm`.
    pub fn new(
        arguments: &FindingArgs,
        patterns: &[OsString],
        console: &Console,
    ) -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
        Self::of_directory(&here, arguments, patterns, console)
    }

    /// The same as if this process had been started in the directory `here`.
    pub fn of_directory(
        here: &Path,
        arguments: &FindingArgs,
        patterns: &[OsString],
        console: &Console,
    ) -> Result<Self, Failure> {
        let config = Config::find(&arguments.config, here)?;
        if let Some(path) = &config.path {
            console.remark(format_args!("options from {}", path.display()));
        }
        let mut suppressions = config.suppressions;
        suppressions.extend(arguments.suppressions.iter().cloned());
        let patterns_are_configured = patterns.is_empty() && !config.pm.is_empty();
        let patterns = if patterns.is_empty() {
            config.pm
        } else {
            patterns.to_vec()
        };
        Ok(Self {
            model: arguments.model.or(config.model).unwrap_or_default(),
            format: arguments.format.or(config.format).unwrap_or_default(),
            verbose: arguments.verbose || config.verbose.unwrap_or_default(),
            all: arguments.all,
            fail_on: arguments.fail_on.or(config.fail_on).unwrap_or_default(),
            levels: RuleLevels {
                pedantic: arguments.pedantic || config.pedantic.unwrap_or_default(),
                levels: config.rules,
            },
            patterns,
            patterns_are_configured,
            suppressions,
            gen_suppressions: arguments.gen_suppressions,
            baseline: arguments.baseline.clone().or(config.baseline),
            write_baseline: arguments.write_baseline.clone(),
            out: config.out,
            loads: config.loads.unwrap_or_default(),
            target_success: Vec::new(),
            oracles: config.oracles,
            crash: config.crash,
            locks: config.locks,
            allocators: config.allocators,
            directory: source_directory(here.to_owned()),
        })
    }

    /// The same for a command that writes results to a directory: to the one that is `given`, or configured, or to the default.
    /// From now on, results that are there do not pass for those of this process, whatever it fails at.
    pub fn with_out(
        given: Option<&Path>,
        arguments: &FindingArgs,
        patterns: &[OsString],
        console: &Console,
    ) -> Result<(Self, PathBuf), Failure> {
        let plan = |configured: Option<PathBuf>| {
            let out = given.map(Path::to_owned).or(configured);
            let out = out.unwrap_or_else(|| PathBuf::from(OUT));
            output_directory::plan(&out);
            out
        };
        match Self::new(arguments, patterns, console) {
            Ok(settings) => {
                let out = plan(settings.out.clone());
                Ok((settings, out))
            }
            Err(failure) => {
                plan(config::out_of_faulty_file(&arguments.config));
                Err(failure)
            }
        }
    }

    /// Ends of the target that count as success: those given, and those that the results name to which `trace` belongs.
    pub fn accept_ends(&mut self, given: &[ProcessEnd], trace: &Path) -> Result<(), Failure> {
        self.target_success = given.to_vec();
        let results = match trace.is_dir() {
            true => Some(OutputDirectory::open(trace)?),
            // The results may be beside the trace, and so may be those of another one.
            false => trace
                .parent()
                .and_then(|beside| OutputDirectory::open(beside).ok())
                .filter(|(directory, ..)| directory.is_about(trace)),
        };
        if let Some((_, subject, _)) = results {
            let known = target_outcome::accepted(&subject.accepted_ends);
            self.target_success.extend(known);
        }
        Ok(())
    }

    /// The patterns that select persistent files, as text.
    pub fn pattern_texts(&self) -> Vec<String> {
        let patterns = self.patterns.iter();
        patterns
            .map(|pattern| pattern.to_string_lossy().into_owned())
            .collect()
    }

    /// The ends that count as success, as options name them.
    pub fn accepted_ends(&self) -> Vec<String> {
        let ends = self.target_success.iter().copied();
        let mut words: Vec<String> = ends.filter_map(target_end::argument).collect();
        words.sort();
        words.dedup();
        words
    }
}

/// Paths are shown relative to this directory: on GitHub Actions the repository root, which annotations
/// need; otherwise the working directory.
pub fn source_directory(here: PathBuf) -> PathBuf {
    if !on_github() {
        return here;
    }
    match std::env::var_os("GITHUB_WORKSPACE") {
        Some(workspace) if here.starts_with(Path::new(&workspace)) => workspace.into(),
        _ => here,
    }
}

/// Whether brownout runs in GitHub Actions.
pub fn on_github() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}
