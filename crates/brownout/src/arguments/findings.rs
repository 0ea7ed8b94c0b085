//! What commands that give findings have in common.

use std::path::PathBuf;

use brownout_model::Profile;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;

/// How findings are made and shown.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Findings")]
pub struct FindingArgs {
    /// What the machine guarantees to survive a crash
    #[arg(long, value_name = "MODEL", value_parser = model())]
    pub model: Option<Profile>,

    /// How to print
    #[arg(long, value_enum)]
    pub format: Option<FindingFormat>,

    /// Show warnings in full, not as one line for each rule and place
    #[arg(long)]
    pub warnings: bool,

    /// Leave out findings that FILE names; may be given several times
    ///
    /// FILE holds `[[suppression]]` tables with `rule`, `reason` and `function`, `file`, `module` or
    /// `stack`, or is one of Valgrind's if its name ends with `.supp`.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,

    /// Print suppressions for all findings instead of the findings
    #[arg(long)]
    pub gen_suppressions: bool,

    /// Leave out findings that were there when FILE was written
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Write all findings that are not suppressed to FILE, for --baseline in later runs
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,

    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Where options come from that the command line does not give.
#[derive(Debug, Default, Args)]
pub struct ConfigArgs {
    /// Take options from FILE instead of the nearest brownout.toml above the working directory
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Let the options of [profile.NAME] go before those outside of profiles
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingFormat {
    /// Text for a person
    #[default]
    Human,
    /// One JSON object a line
    Json,
    /// SARIF 2.1.0, for code scanning and editors
    Sarif,
    /// JUnit's XML, for continuous integration
    Junit,
    /// Workflow commands for GitHub Actions
    Github,
}

fn model() -> impl TypedValueParser<Value = Profile> {
    let names = Profile::ALL.map(|profile| PossibleValue::new(profile.name).help(profile.summary));
    PossibleValuesParser::new(names).try_map(|name| Profile::named(&name).ok_or("no such model"))
}
