//! `brownout crash`, and what every command that tries crashes takes.

use std::path::PathBuf;
use std::time::Duration;

use brownout_crash::{STRATEGIES, Shard, Sharing, StrategyInfo};
use brownout_model::Tearing;
use brownout_recovery::Readiness;
use brownout_trace::ProcessEnd;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::target_end::target_end;
use super::values::{duration, readiness, shard, size};
use super::{FailurePointArgs, FindingArgs, SelectionArgs};

/// Test crashes of a recorded run with the program's own recovery
///
/// At each failure point (a flush, fence or locked instruction after a store) the persistent files are
/// rebuilt from the trace as a loss of power would leave them. The recovery command then runs on them, at
/// their original paths but isolated from your files: nothing that it writes is kept. It passes if it exits
/// with 0 in time. The program itself is not run again.
///
/// Exits with 1 if a finding reaches --fail-on (by default: recovery fails after a crash). Exits with 3 if no crash was
/// tested, if a failure point was not tested, or if recovery reads no persistent file. Exits with 4, regardless of findings, if
/// recovery fails on the files that the program left without a crash, or if the recorded program failed on its own.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout crash run.trace --recover './kvstore /mnt/pmem/pool check'
  brownout crash run.trace --recover './kvstore {pm} check' --after pmemobj_create --time-limit 10m
  brownout crash run.trace --recover './server {pm}' --recover-ready tcp:6379 --client './client verify'
  brownout crash run.trace --recover './check {pm}' --shard 2/8 --out part2    (then: brownout merge part*)
  brownout crash run.trace --recover './check {pm}' --strategy representative --memory tested.json")]
pub struct CrashArgs {
    /// The trace to read, or a results directory with one
    #[arg(value_name = "TRACE-OR-DIR")]
    pub trace: PathBuf,

    /// Where to write the results [default: the results directory with the trace, or else brownout.out]
    ///
    /// Findings of other analyses of the same trace in DIR are kept.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Continue an interrupted run with the same options and --out
    #[arg(long)]
    pub resume: bool,

    /// Do part I of N, to distribute the work; `brownout merge` combines the results
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with = "memory")]
    pub shard: Option<Shard>,

    /// Also count this exit status, or death by this signal, as success of the recorded program: 3, SIGTERM; can be given more
    /// than once
    ///
    /// Exit status 0 always counts as success, and so does what counted as success for the results in a directory.
    #[arg(long, value_name = "STATUS|SIGNAL", value_parser = target_end, value_delimiter = ',')]
    pub target_success: Vec<ProcessEnd>,

    #[command(flatten)]
    pub selection: SelectionArgs,

    #[command(flatten)]
    pub crash: CrashTestArgs,

    #[command(flatten)]
    pub findings: FindingArgs,
}

/// How crashes are tested.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Crash testing")]
pub struct CrashTestArgs {
    /// Test crashes, with CMD as recovery
    ///
    /// CMD finds each crash image at the original path of the file; `{pm}` in CMD stands for that path,
    /// `{pm:2}` for that of the second file. Text that resembles one of these, such as `{PM}`, is an error; other text in
    /// braces is left unchanged. To pass the text {pm} itself, write {''pm}. CMD runs in the current directory, through a shell
    /// only if it needs one. If CMD reads none of the persistent files, nothing is tested.
    #[arg(long, value_name = "CMD")]
    pub recover: Option<String>,

    /// Exit statuses of recovery that mean success [default: 0]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub recover_success: Vec<i32>,

    /// Time limit for one recovery, such as 500ms, 30s or 2m [default: ten times what it takes without a
    /// crash, at least 5s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub recover_time_limit: Option<Duration>,

    /// Recovery is a server; run CMD against it when it is ready, then stop it
    ///
    /// The exit status of CMD decides, unless the server ends first. Each server has a private network, so
    /// that several can use the same port.
    #[arg(long, value_name = "CMD")]
    pub client: Option<String>,

    /// The sign that the server is ready: tcp:PORT, unix:PATH, file:PATH or output:TEXT
    #[arg(long, value_name = "SIGN", value_parser = readiness)]
    pub recover_ready: Option<Readiness>,

    /// Recovery must print the content of FILE
    #[arg(long, value_name = "FILE", conflicts_with = "expect_one_of")]
    pub expect_output: Option<PathBuf>,

    /// Recovery must print the content of one of the files in DIR
    ///
    /// With --op, and if the names of the files are the numbers from 0 on, recovery must print the content of
    /// the file for the number of complete operations, or of the next file if an operation was active. If only some of the
    /// names are such numbers, that is an error. Hidden files are ignored.
    #[arg(long, value_name = "DIR")]
    pub expect_one_of: Option<PathBuf>,

    /// The function that performs one operation of the workload; can be given more than once
    ///
    /// In the environment of recovery, BROWNOUT_OP is the number of complete operations, and BROWNOUT_OP_ACTIVE is 1 if
    /// another was active, otherwise 0. FUNCTION is the name of a function, or FILE:LINE of a line in it. A name may be
    /// mangled or not, with or without parameters and namespaces, and may contain `*`.
    /// `crash` needs a trace that was recorded with --watch FUNCTION.
    #[arg(long, value_name = "FUNCTION")]
    pub op: Vec<String>,

    /// Let recovery use the network of this machine
    #[arg(long)]
    pub allow_network: bool,

    /// Limit on the memory of all processes of a recovery together, such as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<u64>,

    /// Limit on the size of a file that recovery writes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub file_size_limit: Option<u64>,

    #[arg(long, value_name = "NAME", value_parser = strategy_parser(), help = strategy_help())]
    pub strategy: Option<&'static StrategyInfo>,

    #[command(flatten)]
    pub points: FailurePointArgs,

    /// Number of occurrences to test of each failure point: the first, the last, and some in between
    /// [default: the strategy auto tests as many as the time limit allows, prefix tests 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub occurrences: Option<u32>,

    /// Largest number of states to explore at each failure point, with the strategy exhaustive [default: no limit]
    ///
    /// If there are more, the run is incomplete and exits with 3 unless it found bugs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_states: Option<u64>,

    /// Whether a crash can tear a store, with the strategies exhaustive and representative [default: whole]; auto tears stores of more
    /// than 8 bytes in two halves, and so does representative with words
    #[arg(long, value_name = "HOW", value_enum)]
    pub tearing: Option<TearingArg>,

    /// Number of successive crashes, with the strategy exhaustive: with 2, recovery crashes too and is run again; with 3, the
    /// second recovery crashes too, and so on [default: 1]
    ///
    /// Recovery crashes before each of its operations that makes stores durable, and at its end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,

    /// Number of recoveries to run at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,

    /// Stop testing crashes after this time, such as 30s or 10m; the crashes that differ most are tested first
    /// [default: 30s with the strategy auto, otherwise none]
    ///
    /// If not every failure point was tested by then, the run is incomplete and exits with 3 unless it found bugs.
    /// --resume continues with what is left. The time counts from the first recovery on a crash image. The search for causes
    /// (see --no-narrowing) takes what is left of TIME, and up to a fifth of it, or 2s, more.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,

    /// Do not search for the stores that cause a finding
    #[arg(long)]
    pub no_narrowing: bool,

    /// Leave out behaviours that earlier runs with the same FILE have tested, and add those that this run tests, with the strategies
    /// representative and exhaustive
    ///
    /// FILE is created if it does not exist. With the strategy exhaustive, recovery is not run where it can only read what it has read in
    /// the test of another recording and passed, with the same recovery (command, options, program and environment). With the strategy
    /// representative, an update behaviour is left out if one that represents it has passed with the same recovery (command, options and
    /// program), and if no source line has changed that stores something during it or makes it durable. One that failed, or of which only
    /// samples were tested, is always tested again. The results say how many were left out. The default strategy auto cannot use FILE: the
    /// time limit may end it before a behaviour is decided; run it beside a test with the strategy representative.
    #[arg(long, value_name = "FILE")]
    pub memory: Option<PathBuf>,

    /// When recoveries share their starts [default: auto]
    ///
    /// For measurements, and to compare results: they do not depend on it.
    #[arg(long, value_name = "WHEN", value_enum, hide = true)]
    pub shared_starts: Option<SharedStartsArg>,
}

impl CrashTestArgs {
    /// The options that are given, other than --recover.
    pub fn given(&self) -> Vec<&'static str> {
        // Each option is named, so that a new one cannot be forgotten here.
        let Self {
            recover: _,
            recover_success,
            recover_time_limit,
            client,
            recover_ready,
            expect_output,
            expect_one_of,
            op,
            allow_network,
            memory_limit,
            file_size_limit,
            strategy,
            points,
            occurrences,
            max_states,
            tearing,
            depth,
            jobs,
            time_limit,
            no_narrowing,
            memory,
            shared_starts,
        } = self;
        let options = [
            ("--recover-success", !recover_success.is_empty()),
            ("--recover-time-limit", recover_time_limit.is_some()),
            ("--client", client.is_some()),
            ("--recover-ready", recover_ready.is_some()),
            ("--expect-output", expect_output.is_some()),
            ("--expect-one-of", expect_one_of.is_some()),
            ("--op", !op.is_empty()),
            ("--allow-network", *allow_network),
            ("--memory-limit", memory_limit.is_some()),
            ("--file-size-limit", file_size_limit.is_some()),
            ("--strategy", strategy.is_some()),
            ("--occurrences", occurrences.is_some()),
            ("--max-states", max_states.is_some()),
            ("--tearing", tearing.is_some()),
            ("--depth", depth.is_some()),
            ("--jobs", jobs.is_some()),
            ("--time-limit", time_limit.is_some()),
            ("--no-narrowing", *no_narrowing),
            ("--memory", memory.is_some()),
            ("--shared-starts", shared_starts.is_some()),
        ];
        let own = options.into_iter().filter(|(_, given)| *given);
        let own = own.map(|(option, _)| option);
        own.chain(points.given()).collect()
    }
}

/// Whether a crash can tear a store: keep a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TearingArg {
    /// A store persists as a whole, or not at all; one that crosses cache lines does so in each line
    Whole,
    /// Each aligned 8-byte word of a store can persist without the others
    Words,
}

impl From<TearingArg> for Tearing {
    fn from(tearing: TearingArg) -> Self {
        match tearing {
            TearingArg::Whole => Self::Whole,
            TearingArg::Words => Self::Words,
        }
    }
}

/// When recoveries share their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SharedStartsArg {
    /// If that is expected to save time
    Auto,
    Always,
    Never,
}

impl From<SharedStartsArg> for Sharing {
    fn from(when: SharedStartsArg) -> Self {
        match when {
            SharedStartsArg::Auto => Self::Auto,
            SharedStartsArg::Always => Self::Always,
            SharedStartsArg::Never => Self::Never,
        }
    }
}

/// The strategy with this name.
pub fn strategy(name: &str) -> Result<&'static StrategyInfo, String> {
    StrategyInfo::named(name).ok_or_else(|| {
        let names: Vec<&str> = STRATEGIES.iter().map(|info| info.name).collect();
        format!("unknown strategy; available: {}", names.join(", "))
    })
}

fn strategy_parser() -> impl TypedValueParser<Value = &'static StrategyInfo> {
    let names = STRATEGIES
        .iter()
        .map(|info| PossibleValue::new(info.name).help(info.summary));
    PossibleValuesParser::new(names).try_map(|name| strategy(&name))
}

fn strategy_help() -> String {
    let default = StrategyInfo::default_strategy().name;
    format!("How crash points are chosen [default: {default}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_known_by_name_and_the_error_lists_them() {
        assert_eq!(strategy("prefix").unwrap().name, "prefix");
        for wrong in ["", "Prefix", "all"] {
            let error = strategy(wrong).unwrap_err();
            assert!(
                error.contains("available: auto, prefix, representative, exhaustive"),
                "{error}"
            );
        }
    }
}
