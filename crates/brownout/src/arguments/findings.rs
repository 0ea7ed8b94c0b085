//! The options shared by the commands that report findings.

use std::path::PathBuf;

use brownout_model::Profile;
use brownout_report::FailOn;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;

/// How findings are judged and shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Findings")]
pub struct FindingArgs {
    /// Which stores the machine guarantees to survive a crash
    #[arg(long, value_name = "MODEL", value_parser = model())]
    pub model: Option<Profile>,

    /// Output format
    #[arg(long, value_enum)]
    pub format: Option<FindingFormat>,

    /// Which findings make the exit code 1 [default: bug]
    #[arg(long, value_name = "SEVERITY", value_parser = fail_on())]
    pub fail_on: Option<FailOn>,

    /// Apply pedantic rules too: `brownout explain` lists them
    #[arg(long)]
    pub pedantic: bool,

    /// Show every finding in full, not only bugs; by default, other findings take one line per rule and location
    #[arg(long, alias = "warnings")]
    pub verbose: bool,

    /// Print all findings; by default, the human format shows at most 20
    #[arg(long)]
    pub all: bool,

    /// Leave out the findings that FILE lists; can be given more than once
    ///
    /// FILE holds `[[suppression]]` tables with `rule`, `reason` and `function`, `file`, `module` or
    /// `stack`. A FILE whose name ends with `.supp` is in Valgrind's format.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,

    /// Print suppressions for all findings instead of the findings
    #[arg(long)]
    pub gen_suppressions: bool,

    /// Leave out the findings that the baseline FILE contains
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Write all findings that are not suppressed to FILE, for --baseline in later runs
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,

    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Where options that are not on the command line come from.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Read options from FILE instead of the nearest brownout.toml in the working directory or above
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Let the options of [preset.NAME] in brownout.toml override its other options
    #[arg(long, value_name = "NAME", alias = "profile")]
    pub preset: Option<String>,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON object per line
    Json,
    /// SARIF 2.1.0, for code scanning and editors
    Sarif,
    /// JUnit XML, for continuous integration
    Junit,
    /// Workflow commands for GitHub Actions
    Github,
}

/// The values of `--fail-on`.
pub fn fail_on() -> impl TypedValueParser<Value = FailOn> {
    let values = [
        (
            "bug",
            "Data can be lost, torn or reordered, or recovery fails",
        ),
        (
            "performance",
            "Bugs, and flushes, fences and log entries without effect",
        ),
        ("warning", "Any finding"),
        ("never", "No finding"),
    ];
    let values = values.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "performance" => FailOn::Performance,
        "warning" => FailOn::Warning,
        "never" => FailOn::Never,
        _ => FailOn::Bug,
    })
}

fn model() -> impl TypedValueParser<Value = Profile> {
    let names = Profile::ALL.map(|profile| PossibleValue::new(profile.name).help(profile.summary));
    PossibleValuesParser::new(names).try_map(|name| Profile::named(&name).ok_or("no such model"))
}
