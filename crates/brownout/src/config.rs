//! `brownout.toml`: the options of a project.
//!
//! ```toml
//! pm = ["/mnt/pmem/**"]
//! model = "adr"                       # adr, eadr, gpf or msync
//! format = "human"                    # human, json, sarif, junit or github
//! verbose = false
//! fail-on = "bug"                     # bug, performance, warning or never
//! pedantic = false
//! suppressions = ["accepted.toml"]
//! baseline = "known.json"
//! out = "brownout.out"
//! loads = false
//!
//! [rules]                             # bug, performance, warning or off
//! transient-data = "off"
//!
//! [crash]                             # with `recover`, `check` also tests crashes: see `crash`
//! recover = "./kvstore {pm} check"
//!
//! [preset.ci]                         # with --preset ci, these override those above
//! format = "github"
//!
//! [[oracle]]                          # a requirement of this program: see `oracles`
//! id = "entry-before-head"
//! summary = "an entry is persistent before the head points to it"
//! persisted = { offset = "0x40.." }
//! before = { offset = "0..8" }
//! ```
//!
//! The file is looked up in the working directory and its parents, or named by `--config`. Relative paths are
//! relative to its directory. Unknown keys are errors: ignoring a misspelt option would make a result look
//! better than it is.

mod crash;
mod oracles;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use brownout_model::Profile;
use brownout_report::FailOn;
use serde::Deserialize;
use toml::Spanned;

use crate::arguments::{ConfigArgs, FindingFormat};
use crate::rules::{self, RuleLevel};

pub use crash::CrashKeys;
use oracles::OracleKeys;
pub use oracles::OracleSpec;

/// The name of the file.
const FILE_NAME: &str = "brownout.toml";

/// The options in a file; paths and patterns are absolute.
#[derive(Debug, Default)]
pub struct Config {
    /// The file; `None` if there is none.
    pub path: Option<PathBuf>,
    pub pm: Vec<OsString>,
    pub model: Option<Profile>,
    pub format: Option<FindingFormat>,
    pub verbose: Option<bool>,
    pub fail_on: Option<FailOn>,
    pub pedantic: Option<bool>,
    /// Levels by rule id.
    pub rules: BTreeMap<String, RuleLevel>,
    pub suppressions: Vec<PathBuf>,
    pub baseline: Option<PathBuf>,
    pub out: Option<PathBuf>,
    pub loads: Option<bool>,
    pub oracles: Vec<OracleSpec>,
    pub crash: CrashKeys,
}

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}`, line {line}: {why}", path.display())]
    Flaw {
        path: PathBuf,
        line: usize,
        why: String,
    },
    #[error("`{}` has no [preset.{name}]; it has {}", path.display(), listed(known))]
    NoSuchPreset {
        path: PathBuf,
        name: String,
        known: Vec<String>,
    },
    #[error("--preset {name} needs a {FILE_NAME}; there is none in this directory or its parents")]
    NoFile { name: String },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no presets".to_owned(),
        names => names.join(", "),
    }
}

/// The keys of a file or of one of its presets.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Keys {
    pm: Option<Vec<String>>,
    model: Option<Spanned<String>>,
    format: Option<FindingFormat>,
    #[serde(alias = "warnings")]
    verbose: Option<bool>,
    fail_on: Option<FailOn>,
    pedantic: Option<bool>,
    rules: Option<Spanned<BTreeMap<String, RuleLevel>>>,
    suppressions: Option<Vec<PathBuf>>,
    baseline: Option<PathBuf>,
    out: Option<PathBuf>,
    loads: Option<bool>,
    crash: Option<Spanned<CrashKeys>>,
    /// Not allowed in presets. Files may use its former name.
    #[serde(alias = "profile")]
    preset: Option<Spanned<BTreeMap<String, Keys>>>,
    oracle: Option<Vec<Spanned<OracleKeys>>>,
}

impl Config {
    /// The options that apply in the directory `here`.
    pub fn find(arguments: &ConfigArgs, here: &Path) -> Result<Self, ConfigError> {
        let given = arguments.config.as_ref().map(|path| here.join(path));
        let Some(path) = given.or_else(|| nearest(here)) else {
            return match &arguments.preset {
                Some(name) => Err(ConfigError::NoFile { name: name.clone() }),
                None => Ok(Self::default()),
            };
        };
        let text = fs::read_to_string(&path).map_err(|source| ConfigError::Unreadable {
            path: path.clone(),
            source,
        })?;
        Self::parse(&path, &text, arguments.preset.as_deref())
    }

    fn parse(path: &Path, text: &str, preset: Option<&str>) -> Result<Self, ConfigError> {
        let flaw = |offset: usize, why: String| ConfigError::Flaw {
            path: path.to_owned(),
            line: 1 + text.bytes().take(offset).filter(|&b| b == b'\n').count(),
            why,
        };
        let mut keys: Keys = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            flaw(offset, error.message().to_owned())
        })?;
        let oracles = keys.oracle.take().unwrap_or_default();
        let presets = keys.preset.take();
        let mut presets = presets.map(Spanned::into_inner).unwrap_or_default();
        for preset in presets.values() {
            if let Some(nested) = &preset.preset {
                let why = "a preset cannot contain presets".to_owned();
                return Err(flaw(nested.span().start, why));
            }
            if let Some([oracle, ..]) = preset.oracle.as_deref() {
                let why = "a preset cannot contain oracles".to_owned();
                return Err(flaw(oracle.span().start, why));
            }
        }
        let chosen = match preset {
            None => Keys::default(),
            Some(name) => match presets.remove(name) {
                Some(keys) => keys,
                None => {
                    return Err(ConfigError::NoSuchPreset {
                        path: path.to_owned(),
                        name: name.to_owned(),
                        known: presets.into_keys().collect(),
                    });
                }
            },
        };
        // Report mistakes in unused presets too.
        let oracle_ids: Vec<&str> = oracles.iter().map(|oracle| oracle.get_ref().id()).collect();
        for keys in presets.values().chain([&chosen, &keys]) {
            if let Some(rules) = &keys.rules {
                check_rules(rules, &oracle_ids, text).map_err(|(offset, why)| flaw(offset, why))?;
            }
            model(keys.model.as_ref()).map_err(|(offset, why)| flaw(offset, why))?;
            if let Some(crash) = &keys.crash {
                let checked = crash.get_ref().check();
                checked.map_err(|why| flaw(crash.span().start, why))?;
            }
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut config = chosen.over(keys).rooted_at(directory);
        config.path = Some(path.to_owned());
        for oracle in oracles {
            let flaw = |why| flaw(oracle.span().start, why);
            let spec = oracle.get_ref().spec(directory).map_err(flaw)?;
            if config
                .oracles
                .iter()
                .any(|other| other.rule().id == spec.rule().id)
            {
                return Err(flaw(format!("duplicate oracle id `{}`", spec.rule().id)));
            }
            config.oracles.push(spec);
        }
        Ok(config)
    }
}

/// The persistency profile of that name, or the position of the name and an error message.
fn model(name: Option<&Spanned<String>>) -> Result<Option<Profile>, (usize, String)> {
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
fn check_rules(
    rules: &Spanned<BTreeMap<String, RuleLevel>>,
    oracles: &[&str],
    text: &str,
) -> Result<(), (usize, String)> {
    let known = |id: &str| oracles.contains(&id) || rules::all().iter().any(|rule| rule.id == id);
    match rules.get_ref().keys().find(|id| !known(id)) {
        None => Ok(()),
        Some(id) => {
            let why = format!("no rule `{id}`; did you mean `{}`?", rules::nearest(id));
            // A table's span begins at its header, an inline table's at its brace; the key follows.
            let start = rules.span().start;
            let key = text.get(start..).and_then(|rest| rest.find(id.as_str()));
            Err((start + key.unwrap_or(0), why))
        }
    }
}

impl Keys {
    /// These options where given, else those of `base`.
    fn over(self, base: Self) -> Self {
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
            preset: None,
            oracle: None,
        }
    }

    fn rooted_at(self, directory: &Path) -> Config {
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
            oracles: Vec::new(),
        }
    }
}

fn nearest(here: &Path) -> Option<PathBuf> {
    here.ancestors()
        .map(|directory| directory.join(FILE_NAME))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, preset: Option<&str>) -> Result<Config, String> {
        Config::parse(Path::new("/home/u/kv/brownout.toml"), text, preset)
            .map_err(|error| error.to_string())
    }

    const EXAMPLE: &str = "\
pm = ['/mnt/pmem/**', 'pools/*', '*.pool']
model = 'eadr'
suppressions = ['accepted.toml']
baseline = '/etc/known.json'

[preset.ci]
format = 'sarif'
model = 'adr'
";

    #[test]
    fn paths_are_relative_to_the_file() {
        let config = parse(EXAMPLE, None).unwrap();
        assert_eq!(config.pm, ["/mnt/pmem/**", "/home/u/kv/pools/*", "*.pool"]);
        assert_eq!(config.suppressions, [Path::new("/home/u/kv/accepted.toml")]);
        assert_eq!(
            config.baseline.as_deref(),
            Some(Path::new("/etc/known.json"))
        );
        assert_eq!(config.model, Some(Profile::EADR));
        assert_eq!(config.format, None);
    }

    #[test]
    fn a_preset_overrides_the_rest() {
        let config = parse(EXAMPLE, Some("ci")).unwrap();
        assert_eq!(config.model, Some(Profile::ADR));
        assert_eq!(config.format, Some(FindingFormat::Sarif));
        assert_eq!(config.pm.len(), 3);
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        let flaw = |text: &str| parse(text, None).unwrap_err();
        assert!(flaw("\nmodle = 'adr'\n").contains("line 2: unknown field `modle`"));
        assert!(flaw("\n\n[preset.x]\nfoo = 1\n").contains("line 4: unknown field `foo`"));
        assert!(flaw("model = 'x'\n").contains("line 1: unknown model `x`; expected one of adr,"));
        assert!(flaw("[preset.a]\nmodel = 'x'\n").contains("line 2: unknown model"));
        assert!(flaw("\nformat = 'pdf'\n").contains("line 2: unknown variant `pdf`"));
        assert!(flaw("[preset.a.preset.b]\n").contains("a preset cannot contain presets"));
        assert!(flaw("pm = ").contains("line 1"));
        let oracle = "[[oracle]]\nid = 'x'\nsummary = ''\nstores = {}\n";
        assert!(flaw(oracle).contains("line 1: oracle `x`: needs exactly one of"));
        let whole = format!("{oracle}only-inside = []\n");
        assert_eq!(parse(&whole, None).unwrap().oracles.len(), 1);
        assert!(flaw(&format!("{whole}{whole}")).contains("line 6: duplicate oracle id `x`"));
        let nested = whole.replace("[[oracle", "[[preset.ci.oracle");
        assert!(flaw(&nested).contains("a preset cannot contain oracles"));
    }

    #[test]
    fn the_former_name_of_presets_is_accepted() {
        let config = parse("[profile.ci]\nmodel = 'eadr'\n", Some("ci")).unwrap();
        assert_eq!(config.model, Some(Profile::EADR));
    }

    #[test]
    fn a_missing_preset_is_an_error() {
        let error = parse(EXAMPLE, Some("cj")).unwrap_err();
        assert!(error.ends_with("has no [preset.cj]; it has ci"), "{error}");
        assert!(
            parse("", Some("a"))
                .unwrap_err()
                .ends_with("it has no presets")
        );
        let arguments = ConfigArgs {
            config: None,
            preset: Some("ci".into()),
        };
        let empty = tempfile::tempdir().unwrap();
        let error = Config::find(&arguments, empty.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--preset ci needs a brownout.toml")
        );
    }

    #[test]
    fn the_nearest_file_in_the_parents_applies() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join(FILE_NAME), "out = 'far'").unwrap();
        let find = || Config::find(&ConfigArgs::default(), &inner).unwrap();
        assert_eq!(find().out, Some(root.path().join("far")));
        fs::write(root.path().join("a").join(FILE_NAME), "out = 'near'").unwrap();
        assert_eq!(find().out, Some(root.path().join("a/near")));
    }

    #[test]
    fn rules_have_levels_and_a_preset_overrides_single_ones() {
        let text = "fail-on = 'warning'\npedantic = true\n[rules]\nmissing-flush = 'warning'\n\
                    transient-data = 'off'\n[preset.ci.rules]\nmissing-flush = 'bug'\n";
        let base = parse(text, None).unwrap();
        assert_eq!(base.fail_on, Some(FailOn::Warning));
        assert_eq!(base.pedantic, Some(true));
        assert_eq!(base.rules["missing-flush"], RuleLevel::Warning);
        let ci = parse(text, Some("ci")).unwrap();
        assert_eq!(ci.rules["missing-flush"], RuleLevel::Bug);
        assert_eq!(ci.rules["transient-data"], RuleLevel::Off);
    }

    #[test]
    fn a_misspelt_rule_is_an_error() {
        let why = parse("# x\n[rules]\nmising-flush = 'off'\n", None).unwrap_err();
        let expected = "line 3: no rule `mising-flush`; did you mean `missing-flush`?";
        assert!(why.ends_with(expected), "{why}");
        let why = parse("[rules]\nmissing-flush = 'error'\n", None).unwrap_err();
        assert!(why.contains("line 2: unknown variant `error`"), "{why}");
        let oracle = "[rules]\nx = 'warning'\n[[oracle]]\nid = 'x'\nsummary = ''\nstores = {}\nonly-inside = []\n";
        assert!(parse(oracle, None).is_ok());
    }
}
