//! `brownout crash`, and what every command that tries crashes takes.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use brownout_crash::{Granularity, STRATEGIES, Shard, StrategyInfo};
use brownout_recovery::Readiness;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::{FindingArgs, SelectionArgs};

/// Test crashes of a recorded run with the program's own recovery
///
/// At each failure point (a flush, fence or locked instruction after a store) the persistent files are
/// rebuilt from the trace as a loss of power would leave them. The recovery command then runs on them, at
/// their original paths but isolated from your files: nothing that it writes is kept. It passes if it exits
/// with 0 in time. The program itself is not run again.
///
/// Exits with 1 if recovery fails after a crash, and with 4 if it fails on the files that the program left
/// without any crash.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout crash run.trace --recover './kvstore /mnt/pmem/pool check'
  brownout crash run.trace --recover './kvstore {pm} check' --after pmemobj_create --time-limit 10m
  brownout crash run.trace --recover './server {pm}' --recover-ready tcp:6379 --client './client verify'
  brownout crash run.trace --recover './check {pm}' --shard 2/8 --out part2    (then: brownout merge part*)")]
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
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,

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
    /// `{pm:2}` for that of the second file. It runs in the current directory, through a shell only if it
    /// needs one.
    #[arg(long, value_name = "CMD")]
    pub recover: Option<String>,

    /// Exit statuses of recovery that mean success [default: 0]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub recover_success: Vec<i32>,

    /// Time limit of a recovery, such as 500ms, 30s or 2m [default: ten times as long as on the files
    /// without a crash, at least 5s]
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
    /// the file for the number of complete operations, or of the next file if an operation was active.
    #[arg(long, value_name = "DIR")]
    pub expect_one_of: Option<PathBuf>,

    /// The function that performs one operation of the workload; may be given several times
    ///
    /// For recovery, BROWNOUT_OP is the number of complete operations, and BROWNOUT_OP_ACTIVE is 1 if
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

    /// Recoveries to run at the same time [default: one for each processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,

    /// Stop after this time of recoveries, such as 30s or 10m; the most different crashes are tested first
    /// [default: 30s with the strategy auto, otherwise none]
    ///
    /// If not every failure point was tested by then, the run is incomplete and exits with 3 unless it found bugs.
    /// --resume continues with what is left. The time counts from the first recovery on a crash image; the search for causes
    /// comes on top, with half as much time or 10s (see --no-narrowing).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,

    /// Do not search for the stores that cause a finding
    #[arg(long)]
    pub no_narrowing: bool,
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
            jobs,
            time_limit,
            no_narrowing,
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
            ("--jobs", jobs.is_some()),
            ("--time-limit", time_limit.is_some()),
            ("--no-narrowing", *no_narrowing),
        ];
        let own = options.into_iter().filter(|(_, given)| *given);
        let own = own.map(|(option, _)| option);
        own.chain(points.given()).collect()
    }
}

/// Which failure points are tested.
#[derive(Clone, Debug, Default, Args)]
pub struct FailurePointArgs {
    /// Which events are failure points
    #[arg(long, value_enum)]
    pub granularity: Option<GranularityArg>,

    /// No crash before FUNCTION has returned for the first time
    ///
    /// FUNCTION is a name as for --op. pmemobj_create and pmemobj_open are always recorded; for others `crash` needs a trace
    /// that was recorded with --watch FUNCTION.
    #[arg(long, value_name = "FUNCTION")]
    pub after: Option<String>,

    /// Crashes inside the creation of a pool, too
    ///
    /// Functions that create pools, such as pmemobj_create, are not expected to survive a crash: a program whose pool is
    /// not complete creates it again. Failure points inside of them are left out and counted.
    #[arg(long)]
    pub from_start: bool,

    /// Only where FUNCTION is on the call stack
    ///
    /// FUNCTION is a name as for --op. This option, --in-file and --in-module can be given several times: a failure point is
    /// tested if one of each kind that is given matches. One that matches no failure point is an error.
    #[arg(long = "in-function", value_name = "FUNCTION")]
    pub functions: Vec<String>,

    /// Only where code of a source file that matches GLOB is on the call stack
    #[arg(long = "in-file", value_name = "GLOB")]
    pub files: Vec<String>,

    /// Only where code of a module (the program or a library) that matches GLOB is on the call stack
    #[arg(long = "in-module", value_name = "GLOB")]
    pub modules: Vec<String>,
}

impl FailurePointArgs {
    /// The options that are given.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self {
            granularity,
            after,
            from_start,
            functions,
            files,
            modules,
        } = self;
        let options = [
            ("--granularity", granularity.is_some()),
            ("--after", after.is_some()),
            ("--from-start", *from_start),
            ("--in-function", !functions.is_empty()),
            ("--in-file", !files.is_empty()),
            ("--in-module", !modules.is_empty()),
        ];
        let given = options.into_iter().filter(|(_, given)| *given);
        given.map(|(option, _)| option)
    }
}

/// Which events are failure points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GranularityArg {
    /// Flushes, fences and locked instructions
    Flush,
    /// Stores too
    Store,
}

impl From<GranularityArg> for Granularity {
    fn from(granularity: GranularityArg) -> Self {
        match granularity {
            GranularityArg::Flush => Self::Flush,
            GranularityArg::Store => Self::Store,
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

/// The longest time that an option may give, so that sums and multiples of times do not overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// `500ms`, `30s`, `2m`, `1h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is not a unit of time; use ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if time > LONGEST => Err("more than a year".to_owned()),
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("not a time such as 500ms, 30s or 2m".to_owned()),
    }
}

/// `512M`, `4G`; a bare number is bytes.
fn size(text: &str) -> Result<u64, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("`{unit}` is not a unit of size; use K, M, G or T")),
    };
    let bytes = number.parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "not a size such as 512M or 4G".to_owned())
}

/// Parses a sign such as `tcp:6379`.
pub fn readiness(text: &str) -> Result<Readiness, String> {
    let unknown = || "give tcp:PORT, unix:PATH, file:PATH or output:TEXT".to_owned();
    let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
    Ok(match kind {
        "tcp" => Readiness::Tcp(rest.parse().map_err(|_| "not a port".to_owned())?),
        "unix" => Readiness::Unix(rest.into()),
        "file" => Readiness::File(rest.into()),
        "output" if !rest.is_empty() => Readiness::Output(rest.to_owned()),
        _ => return Err(unknown()),
    })
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(index, count)| {
        let index = u32::from_str(index).ok()?;
        let count = u32::from_str(count).ok()?;
        Some(Shard { index, count })
    });
    match numbers {
        Some(shard) if (1..=shard.count).contains(&shard.index) => Ok(shard),
        _ => Err("not a part such as 2/8; parts are numbered from 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(duration("1.5m").unwrap(), Duration::from_secs(90));
        for wrong in ["", "x", "5y", "-1s", "0", "1e9h", "9999999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("8784h").unwrap(), LONGEST);
        for long in ["8785h", "10000000000000000000"] {
            assert_eq!(duration(long).unwrap_err(), "more than a year");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4G").unwrap(), 4 << 30);
        assert_eq!(size("512MiB").unwrap(), 512 << 20);
        assert_eq!(size("7").unwrap(), 7);
        for wrong in ["", "G", "1.5G", "99999999999999T", "3X"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn strategies_are_known_by_name_and_the_error_lists_them() {
        assert_eq!(strategy("prefix").unwrap().name, "prefix");
        for wrong in ["", "Prefix", "exhaustive"] {
            let error = strategy(wrong).unwrap_err();
            assert!(error.contains("available: auto, prefix"), "{error}");
        }
    }

    #[test]
    fn shards_are_numbered_from_one() {
        assert_eq!(shard("2/8").unwrap(), Shard { index: 2, count: 8 });
        for wrong in ["0/8", "9/8", "1", "1/0", "a/b", "1/2/3"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sign_of_readiness_names_its_kind() {
        assert_eq!(readiness("tcp:80").unwrap(), Readiness::Tcp(80));
        let text = readiness("output:now: ready").unwrap();
        assert_eq!(text, Readiness::Output("now: ready".into()));
        for wrong in ["", "80", "tcp:x", "tcp:70000", "output:", "pipe:x"] {
            assert!(readiness(wrong).is_err(), "{wrong}");
        }
    }
}
