//! How a program is put under test: by `brownout record`, or by another command in its place, so
//! that the tables themselves can be tried with `env` or compared with `qemu-x86_64`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::args::Args;
use crate::shell::{cargo, step, target_dir};

pub enum Wrapper {
    /// Records with the `brownout` at this path.
    Record {
        brownout: PathBuf,
        loads: bool,
        /// The schedule of the program's threads, if they do not run freely.
        schedule: Option<String>,
    },
    /// Runs the program as arguments of these words.
    Prefix(Vec<String>),
}

impl Wrapper {
    /// Takes `--brownout`, `--schedule` and `--wrapper`; builds `brownout` if neither is given.
    pub fn from_args(args: &mut Args) -> Result<Wrapper> {
        if let Some(words) = args.value("--wrapper")? {
            let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() {
                bail!("--wrapper names no command");
            }
            return Ok(Wrapper::Prefix(words));
        }
        let schedule = args.value("--schedule")?;
        if let Some(path) = args.value("--brownout")? {
            return Ok(Wrapper::Record {
                brownout: std::fs::canonicalize(path)?,
                loads: false,
                schedule,
            });
        }
        step(&mut cargo(&[
            "build",
            "--release",
            "--package",
            "brownout",
        ])?)?;
        Ok(Wrapper::Record {
            brownout: target_dir()?.join("release/brownout"),
            loads: false,
            schedule,
        })
    }

    /// Whether a recording includes loads.
    pub fn with_loads(self, loads: bool) -> Wrapper {
        match self {
            Wrapper::Record {
                brownout, schedule, ..
            } => Wrapper::Record {
                brownout,
                loads,
                schedule,
            },
            other => other,
        }
    }

    /// The words that run `argv` under test. `trace` is where a recording goes; `pm` names the files
    /// that are persistent memory, if that matters.
    pub fn wrap(&self, trace: &Path, pm: Option<&Path>, argv: &[OsString]) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        match self {
            Wrapper::Record {
                brownout,
                loads,
                schedule,
            } => {
                words.extend([brownout.into(), "record".into(), "--quiet".into()]);
                if let Some(pm) = pm {
                    words.extend(["--pm".into(), pm.into()]);
                }
                if *loads {
                    words.push("--loads".into());
                }
                if let Some(schedule) = schedule {
                    words.extend(["--schedule".into(), schedule.into()]);
                }
                words.extend(["-o".into(), trace.into(), "--".into()]);
            }
            Wrapper::Prefix(prefix) => words.extend(prefix.iter().map(Into::into)),
        }
        words.extend(argv.iter().cloned());
        words
    }

    /// The `brownout` that records, if this records.
    pub fn brownout(&self) -> Option<&Path> {
        match self {
            Wrapper::Record { brownout, .. } => Some(brownout),
            Wrapper::Prefix(_) => None,
        }
    }
}
