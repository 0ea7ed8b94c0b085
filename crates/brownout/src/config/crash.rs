//! The table `[crash]` of `brownout.toml`: options of crash testing.
//!
//! ```toml
//! [crash]
//! recover = "./kvstore {pm} check"
//! recover-time-limit = "30s"
//! after = "pmemobj_create"
//! ```
//!
//! Its keys are the options of the command line without the leading dashes. The relative paths of `expect-output`,
//! `expect-one-of` and `memory` start in the directory of the file; `recover` and `client` are commands, which run in the working
//! directory.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::arguments::{CrashTestArgs, GranularityArg, TearingArg, duration, readiness, strategy};

/// The keys of the table, all optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CrashKeys {
    recover: Option<String>,
    recover_success: Option<Vec<i32>>,
    recover_time_limit: Option<String>,
    client: Option<String>,
    recover_ready: Option<String>,
    expect_output: Option<PathBuf>,
    expect_one_of: Option<PathBuf>,
    op: Option<OneOrMore>,
    after: Option<String>,
    from_start: Option<bool>,
    granularity: Option<GranularityArg>,
    strategy: Option<String>,
    occurrences: Option<u32>,
    max_states: Option<u64>,
    tearing: Option<TearingArg>,
    depth: Option<u32>,
    jobs: Option<u32>,
    time_limit: Option<String>,
    allow_network: Option<bool>,
    memory: Option<PathBuf>,
}

/// One text, or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn into_list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        }
    }
}

impl CrashKeys {
    /// These where they are given, else those of `base`.
    pub fn over(self, base: Self) -> Self {
        Self {
            recover: self.recover.or(base.recover),
            recover_success: self.recover_success.or(base.recover_success),
            recover_time_limit: self.recover_time_limit.or(base.recover_time_limit),
            client: self.client.or(base.client),
            recover_ready: self.recover_ready.or(base.recover_ready),
            expect_output: self.expect_output.or(base.expect_output),
            expect_one_of: self.expect_one_of.or(base.expect_one_of),
            op: self.op.or(base.op),
            after: self.after.or(base.after),
            from_start: self.from_start.or(base.from_start),
            granularity: self.granularity.or(base.granularity),
            strategy: self.strategy.or(base.strategy),
            occurrences: self.occurrences.or(base.occurrences),
            max_states: self.max_states.or(base.max_states),
            tearing: self.tearing.or(base.tearing),
            depth: self.depth.or(base.depth),
            jobs: self.jobs.or(base.jobs),
            time_limit: self.time_limit.or(base.time_limit),
            allow_network: self.allow_network.or(base.allow_network),
            memory: self.memory.or(base.memory),
        }
    }

    /// What is wrong with a value, if something is.
    pub fn check(&self) -> Result<(), String> {
        let times = [&self.recover_time_limit, &self.time_limit];
        for time in times.into_iter().flatten() {
            duration(time)?;
        }
        if let Some(sign) = &self.recover_ready {
            readiness(sign)?;
        }
        if let Some(name) = &self.strategy {
            strategy(name).map_err(|error| format!("strategy `{name}`: {error}"))?;
        }
        let counts = [
            ("occurrences", self.occurrences.map(u64::from)),
            ("max-states", self.max_states),
            ("depth", self.depth.map(u64::from)),
            ("jobs", self.jobs.map(u64::from)),
        ];
        match counts.into_iter().find(|(_, count)| *count == Some(0)) {
            Some((key, _)) => Err(format!("{key} must be at least 1")),
            None => Ok(()),
        }
    }

    pub fn rooted_at(self, directory: &Path) -> Self {
        let rooted = |path: PathBuf| directory.join(path);
        Self {
            expect_output: self.expect_output.map(rooted),
            expect_one_of: self.expect_one_of.map(rooted),
            memory: self.memory.map(rooted),
            ..self
        }
    }

    /// The options in force: the command line's where it gives them.
    pub fn complete(&self, given: &CrashTestArgs) -> CrashTestArgs {
        let keys = self.clone();
        let mut options = given.clone();
        let time = |text: Option<String>| text.and_then(|text| duration(&text).ok());
        options.recover = options.recover.or(keys.recover);
        if options.recover_success.is_empty() {
            options.recover_success = keys.recover_success.unwrap_or_default();
        }
        options.recover_time_limit = options
            .recover_time_limit
            .or_else(|| time(keys.recover_time_limit));
        options.client = options.client.or(keys.client);
        options.recover_ready = options.recover_ready.or_else(|| {
            let sign = keys.recover_ready?;
            readiness(&sign).ok()
        });
        if options.expect_output.is_none() && options.expect_one_of.is_none() {
            options.expect_output = keys.expect_output;
            options.expect_one_of = keys.expect_one_of;
        }
        if options.op.is_empty() {
            options.op = keys.op.map(OneOrMore::into_list).unwrap_or_default();
        }
        options.points.after = options.points.after.or(keys.after);
        options.points.from_start |= keys.from_start.unwrap_or_default();
        options.points.granularity = options.points.granularity.or(keys.granularity);
        options.strategy = options.strategy.or_else(|| strategy(&keys.strategy?).ok());
        options.occurrences = options.occurrences.or(keys.occurrences);
        options.max_states = options.max_states.or(keys.max_states);
        options.tearing = options.tearing.or(keys.tearing);
        options.depth = options.depth.or(keys.depth);
        options.jobs = options.jobs.or(keys.jobs);
        options.time_limit = options.time_limit.or_else(|| time(keys.time_limit));
        options.allow_network |= keys.allow_network.unwrap_or_default();
        options.memory = options.memory.or(keys.memory);
        options
    }
}
