//! `campaign.json`: what a campaign is about, by which it can be continued.

use std::fs;
use std::path::{Path, PathBuf};

use brownout_recovery::path_text;
use serde::{Deserialize, Serialize};

use crate::end_counts::EndCounts;
use crate::error::FuzzError;
use crate::image_store::write_atomically;

const NAME: &str = "campaign.json";
const VERSION: u32 = 1;

/// What is known about a campaign besides its corpus and its images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignFile {
    pub version: u32,
    /// The program and its arguments, as text.
    pub command: Vec<String>,
    pub directory: String,
    /// Whether the program is a server that gets the input from clients.
    #[serde(default)]
    pub is_server: bool,
    /// The patterns that select persistent files.
    pub patterns: Vec<String>,
    /// The symbolic sources that determine what an input is, as the user has written them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbolic: Vec<String>,
    /// The persistent files that the target has used, as in [`path_text`].
    pub files: Vec<String>,
    pub executions: u64,
    pub seconds: f64,
    /// How executions have ended.
    #[serde(default)]
    pub ends: EndCounts,
    /// Whether an execution may have used its input.
    #[serde(default)]
    pub may_have_used_input: bool,
    /// How the process that has worked on it last was to run and examine the program.
    #[serde(default)]
    pub options: RunOptions,
}

/// What the results do not depend on, but a replay does: it is what the last command has said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// How long an execution may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// The function before which the program is copied, if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_at: Option<String>,
    /// The configuration file and the preset in it, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
}

impl CampaignFile {
    pub fn new(command: Vec<String>, directory: &Path, patterns: Vec<String>) -> Self {
        Self {
            version: VERSION,
            command,
            directory: path_text::to_text(directory),
            is_server: false,
            patterns,
            symbolic: Vec::new(),
            files: Vec::new(),
            executions: 0,
            seconds: 0.0,
            ends: EndCounts::default(),
            may_have_used_input: false,
            options: RunOptions::default(),
        }
    }

    /// The program is a server, or is not.
    pub fn with_clients(mut self, is_server: bool) -> Self {
        self.is_server = is_server;
        self
    }

    /// The campaign in a results directory, if there is one.
    pub fn read(out: &Path) -> Result<Option<Self>, FuzzError> {
        let path = out.join(NAME);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FuzzError::Read { path, source }),
            Ok(text) => text,
        };
        let malformed = |why: String| FuzzError::Malformed {
            path: path.clone(),
            why,
        };
        let file: Self =
            serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
        match file.version {
            VERSION => Ok(Some(file)),
            other => Err(malformed(format!(
                "it has version {other}; this brownout continues campaigns of version {VERSION}"
            ))),
        }
    }

    pub fn write(&self, out: &Path) -> Result<(), FuzzError> {
        let path = out.join(NAME);
        let text = serde_json::to_vec_pretty(self).map_err(|error| FuzzError::Malformed {
            path: path.clone(),
            why: error.to_string(),
        })?;
        write_atomically(&path, &text)
    }

    /// Whether it is a campaign with the same program and arguments.
    pub fn is_of(&self, other: &Self) -> bool {
        let parts = |file: &Self| {
            (
                file.command.clone(),
                file.directory.clone(),
                file.patterns.clone(),
                file.symbolic.clone(),
                file.is_server,
            )
        };
        parts(self) == parts(other)
    }

    /// Where the program runs.
    pub fn directory(&self) -> PathBuf {
        path_text::from_text(&self.directory).unwrap_or_else(|| PathBuf::from("/"))
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        let files = self.files.iter();
        files
            .filter_map(|text| path_text::from_text(text))
            .collect()
    }

    pub fn set_paths(&mut self, paths: &[PathBuf]) {
        self.files = paths.iter().map(|path| path_text::to_text(path)).collect();
    }
}
