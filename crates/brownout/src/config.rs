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
//! [rules]                             # bug, unless-passed, performance, warning or off
//! transient-data = "off"
//!
//! [crash]                             # with `recover`, `check` also tests crashes: see `crash`
//! recover = "./kvstore {pm} check"
//!
//! [sync]                              # the program's own locks: see `sync`
//! acquire = ["ticket_lock"]
//! release = ["ticket_unlock"]
//!
//! [memory]                            # the program's own allocators: see `memory`
//! allocate = [{ function = "slab_alloc", size = 0 }]
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
//! relative to its directory; `recover` and `client` are commands, which run in the working directory. Unknown keys are errors: ignoring a
//! misspelt option would make a result look better than it is.

mod crash;
mod keys;
mod memory;
mod oracles;
mod sync;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use brownout_model::Profile;
use brownout_race::{CustomAllocator, CustomLock};
use brownout_report::FailOn;
use toml::Spanned;

use crate::arguments::{ConfigArgs, FindingFormat};
use crate::rules::RuleLevel;

pub use crash::CrashKeys;
use keys::{Keys, check_rules, model, with_section};
use memory::MemoryKeys;
pub use oracles::OracleSpec;
use sync::SyncKeys;

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
    /// The target's own locks.
    pub locks: Vec<CustomLock>,
    /// The target's own allocators.
    pub allocators: Vec<CustomAllocator>,
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

impl Config {
    /// The options that apply in the directory `here`.
    pub fn find(arguments: &ConfigArgs, here: &Path) -> Result<Self, ConfigError> {
        let Some(path) = file(arguments, here) else {
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
            flaw(offset, with_section(error.message()))
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
            if let Some(sync) = &keys.sync {
                let checked = sync.get_ref().locks();
                checked.map_err(|why| flaw(sync.span().start, why))?;
            }
            if let Some(memory) = &keys.memory {
                let checked = memory.get_ref().allocators();
                checked.map_err(|why| flaw(memory.span().start, why))?;
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

/// The directory for results that a file names which cannot be used for another reason: results that are there must not pass
/// for those of a run that fails because of it.
pub fn out_of_faulty_file(arguments: &ConfigArgs) -> Option<PathBuf> {
    let path = file(arguments, &std::env::current_dir().ok()?)?;
    let table: toml::Table = fs::read_to_string(&path).ok()?.parse().ok()?;
    let preset = arguments.preset.as_ref().and_then(|name| {
        let presets = table.get("preset").or_else(|| table.get("profile"))?;
        presets.get(name)?.get("out")
    });
    let out = preset.or_else(|| table.get("out"))?.as_str()?;
    Some(path.parent()?.join(out))
}

/// The file that applies in the directory `here`.
fn file(arguments: &ConfigArgs, here: &Path) -> Option<PathBuf> {
    let given = arguments.config.as_ref().map(|path| here.join(path));
    given.or_else(|| nearest(here))
}

fn nearest(here: &Path) -> Option<PathBuf> {
    here.ancestors()
        .map(|directory| directory.join(FILE_NAME))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests;
