//! `run.json`: what a run examined and how it ended. It marks a directory as one of results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use brownout_report::{Conclusion, FailOn, Report, RuleInfo, Severity, StoredFile};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::rules;

/// The name of the file.
pub const RUN: &str = "run.json";

/// The content of `run.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunFile {
    /// The version of brownout that wrote it.
    pub brownout: String,
    pub command: Vec<String>,
    pub directory: Option<String>,
    /// The path of the trace, if it is not in the directory.
    #[serde(default, with = "optional_path")]
    pub trace: Option<PathBuf>,
    #[serde(default)]
    pub gaps: Vec<String>,
    /// The persistent files, and how many of the stores to them are never guaranteed.
    #[serde(default)]
    pub files: Vec<StoredFile>,
    /// Mapped files that the target stores to and that were not taken for persistent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<String>,
    /// Ends of the target that count as success besides exit status 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_success: Vec<String>,
    /// The model by which the trace was linted. Absent in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The patterns of `--pm`, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pm: Vec<String>,
    /// The options of the crash test and of the configuration file. Absent in results of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crash_options: Vec<String>,
    /// How many findings were known from the baseline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known: usize,
    /// How many findings the file of findings has, and that of suppressed ones. Absent in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<usize>,
    #[serde(flatten)]
    pub in_force: RulesInForce,
    #[serde(flatten)]
    pub conclusion: Conclusion,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The rules that were applied, and which findings made the check fail, so that `report` shows the same verdict.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RulesInForce {
    #[serde(default)]
    pub fail_on: FailOn,
    /// The severities of the rules that were on. Absent in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rules: Option<BTreeMap<String, Severity>>,
}

impl RulesInForce {
    pub fn of(report: &Report) -> Self {
        let rules = report.rules.iter();
        let rules = rules.map(|rule| (rule.id.to_owned(), rule.severity));
        Self {
            fail_on: report.fail_on,
            rules: Some(rules.collect()),
        }
    }

    /// Whether rules of lint were applied.
    pub fn linted(&self) -> bool {
        match &self.rules {
            Some(rules) => {
                let is_other = |id: &str| rules::is_crash_rule(id) || rules::is_race_rule(id);
                rules.keys().any(|id| !is_other(id))
            }
            None => true,
        }
    }

    /// Whether a rule is known to have been applied.
    pub fn applied(&self, rule: &str) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.contains_key(rule))
    }

    /// Those of the given rules that were applied, with the severities they had.
    pub fn rules(&self, all: Vec<RuleInfo>) -> Vec<RuleInfo> {
        let Some(rules) = &self.rules else {
            return all;
        };
        all.into_iter()
            .filter_map(|rule| {
                let severity = *rules.get(rule.id)?;
                Some(RuleInfo { severity, ..rule })
            })
            .collect()
    }
}

impl RunFile {
    /// Reads the file of a results directory.
    pub fn read(directory: &Path) -> Result<Self, Failure> {
        let unreadable = |source| Failure::Results {
            path: directory.to_owned(),
            source,
        };
        let path = directory.join(RUN);
        let text = fs::read_to_string(&path).map_err(unreadable)?;
        serde_json::from_str(&text).map_err(|source| Failure::DamagedResults { path, source })
    }

    /// Fails if the file of findings is not the one that belongs to these results.
    pub fn check_findings(&self, path: &Path, found: usize) -> Result<(), Failure> {
        self.check_count(path, found, self.findings)
    }

    /// Fails if the file of suppressed findings is not the one that belongs to these results.
    pub fn check_suppressed(&self, path: &Path, found: usize) -> Result<(), Failure> {
        self.check_count(path, found, self.suppressed)
    }

    /// A run that was killed may have replaced its findings last. It has not passed in any case.
    fn check_count(
        &self,
        path: &Path,
        found: usize,
        counted: Option<usize>,
    ) -> Result<(), Failure> {
        match counted.filter(|_| self.conclusion.exit_code.is_some()) {
            Some(counted) if counted != found => Err(Failure::OtherFindings {
                path: path.to_owned(),
                found,
                counted,
            }),
            _ => Ok(()),
        }
    }
}

/// Paths that need not be UTF-8, in JSON.
mod optional_path {
    use std::path::PathBuf;

    use brownout_recovery::path_text;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(path_text::to_text).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.as_deref().and_then(path_text::from_text))
    }
}
