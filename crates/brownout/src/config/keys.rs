//! The keys of `brownout.toml`: those of the file itself and those of a preset are the same.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use brownout_model::Profile;
use brownout_report::FailOn;
use serde::Deserialize;
use toml::Spanned;

use super::oracles::OracleKeys;
use super::{Config, CrashKeys, MemoryKeys, SyncKeys};
use crate::arguments::FindingFormat;
use crate::failure::did_you_mean;
use crate::rules::{self, RuleLevel};
use crate::suspects;

/// The keys of a file or of one of its presets.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Keys {
    pub(super) pm: Option<Vec<String>>,
    pub(super) model: Option<Spanned<String>>,
    pub(super) format: Option<FindingFormat>,
    #[serde(alias = "warnings")]
    pub(super) verbose: Option<bool>,
    pub(super) fail_on: Option<FailOn>,
    pub(super) pedantic: Option<bool>,
    pub(super) rules: Option<Spanned<BTreeMap<String, RuleLevel>>>,
    pub(super) suppressions: Option<Vec<PathBuf>>,
    pub(super) baseline: Option<PathBuf>,
    pub(super) out: Option<PathBuf>,
    pub(super) loads: Option<bool>,
    pub(super) crash: Option<Spanned<CrashKeys>>,
    pub(super) sync: Option<Spanned<SyncKeys>>,
    pub(super) memory: Option<Spanned<MemoryKeys>>,
    /// Not allowed in presets. Files may use its former name.
    #[serde(alias = "profile")]
    pub(super) preset: Option<Spanned<BTreeMap<String, Keys>>>,
    pub(super) oracle: Option<Vec<Spanned<OracleKeys>>>,
}

/// Adds to a message about an unknown key which section the key belongs to.
pub(super) fn with_section(message: &str) -> String {
    let name = message.strip_prefix(UNKNOWN);
    let name = name.and_then(|rest| rest.split('`').next());
    match name.and_then(|name| Some((name, section_of(name)?))) {
        Some((name, section)) => format!("{message}; `{name}` belongs {section}"),
        None => message.to_owned(),
    }
}

/// How a message about an unknown key begins.
const UNKNOWN: &str = "unknown field `";

fn section_of(name: &str) -> Option<&'static str> {
    if knows::<Keys>(name) {
        Some("at the beginning of the file, before its sections")
    } else if knows::<CrashKeys>(name) {
        Some("in the section [crash]")
    } else if knows::<SyncKeys>(name) {
        Some("in the section [sync]")
    } else if knows::<MemoryKeys>(name) {
        Some("in the section [memory]")
    } else {
        let is_rule = rules::all().iter().any(|rule| rule.id == name);
        is_rule.then_some("in the section [rules]")
    }
}

/// Whether a section has a key with this name, whatever its value is.
fn knows<T: serde::de::DeserializeOwned>(name: &str) -> bool {
    let Err(error) = toml::from_str::<T>(&format!("\"{name}\" = 0")) else {
        return true;
    };
    !error.message().starts_with(UNKNOWN)
}

/// The persistency profile of that name, or the position of the name and an error message.
pub(super) fn model(name: Option<&Spanned<String>>) -> Result<Option<Profile>, (usize, String)> {
    let Some(name) = name else {
        return Ok(None);
    };
    match Profile::named(name.get_ref()) {
        Some(profile) => Ok(Some(profile)),
        None => {
            let known = Profile::ALL.map(|profile| profile.name).join(", ");
            let why = format!(
                "unknown model `{}`; expected one of {known}",
                name.get_ref()
            );
            Err((name.span().start, why))
        }
    }
}

/// Every key is the id of a rule or oracle; otherwise the position of the key and an error message.
pub(super) fn check_rules(
    rules: &Spanned<BTreeMap<String, RuleLevel>>,
    oracles: &[&str],
    text: &str,
) -> Result<(), (usize, String)> {
    let known = |id: &str| oracles.contains(&id) || rules::all().iter().any(|rule| rule.id == id);
    let is_tried =
        |level: &RuleLevel, id: &str| *level != RuleLevel::UnlessPassed || suspects::is_tried(id);
    let mistake = rules.get_ref().iter().find_map(|(id, level)| {
        let why = if !known(id) {
            let near = did_you_mean(rules::nearest(id));
            format!("no rule `{id}`;{near} `brownout explain` lists all rules")
        } else if !is_tried(level, id) {
            format!("`{id}` cannot be `unless-passed`: crash testing does not try its findings")
        } else {
            return None;
        };
        Some((id, why))
    });
    match mistake {
        None => Ok(()),
        Some((id, why)) => {
            // A table's span begins at its header, an inline table's at its brace; the key follows.
            let start = rules.span().start;
            let key = text.get(start..).and_then(|rest| rest.find(id.as_str()));
            Err((start + key.unwrap_or(0), why))
        }
    }
}

impl Keys {
    /// These options where given, else those of `base`.
    pub(super) fn over(self, base: Self) -> Self {
        Self {
            pm: self.pm.or(base.pm),
            model: self.model.or(base.model),
            format: self.format.or(base.format),
            verbose: self.verbose.or(base.verbose),
            fail_on: self.fail_on.or(base.fail_on),
            pedantic: self.pedantic.or(base.pedantic),
            rules: match (self.rules, base.rules) {
                (Some(own), Some(base)) => {
                    let span = base.span();
                    let mut rules = base.into_inner();
                    rules.extend(own.into_inner());
                    Some(Spanned::new(span, rules))
                }
                (own, base) => own.or(base),
            },
            suppressions: self.suppressions.or(base.suppressions),
            baseline: self.baseline.or(base.baseline),
            out: self.out.or(base.out),
            loads: self.loads.or(base.loads),
            crash: match (self.crash, base.crash) {
                (Some(own), Some(base)) => {
                    let span = own.span();
                    Some(Spanned::new(span, own.into_inner().over(base.into_inner())))
                }
                (own, base) => own.or(base),
            },
            sync: self.sync.or(base.sync),
            memory: self.memory.or(base.memory),
            preset: None,
            oracle: None,
        }
    }

    pub(super) fn rooted_at(self, directory: &Path) -> Config {
        let rooted = |path: PathBuf| directory.join(path);
        // A pattern without a slash matches file names in any directory.
        let pattern = |pattern: String| -> OsString {
            if pattern.contains('/') {
                rooted(pattern.into()).into()
            } else {
                pattern.into()
            }
        };
        Config {
            path: None,
            pm: self
                .pm
                .unwrap_or_default()
                .into_iter()
                .map(pattern)
                .collect(),
            model: model(self.model.as_ref()).ok().flatten(),
            format: self.format,
            verbose: self.verbose,
            fail_on: self.fail_on,
            pedantic: self.pedantic,
            rules: self.rules.map(Spanned::into_inner).unwrap_or_default(),
            suppressions: self
                .suppressions
                .unwrap_or_default()
                .into_iter()
                .map(rooted)
                .collect(),
            baseline: self.baseline.map(rooted),
            out: self.out.map(rooted),
            loads: self.loads,
            crash: self
                .crash
                .map(|crash| crash.into_inner().rooted_at(directory))
                .unwrap_or_default(),
            locks: self
                .sync
                .and_then(|sync| sync.get_ref().locks().ok())
                .unwrap_or_default(),
            allocators: self
                .memory
                .and_then(|memory| memory.get_ref().allocators().ok())
                .unwrap_or_default(),
            oracles: Vec::new(),
        }
    }
}
