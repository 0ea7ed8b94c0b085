//! What reproduces a finding on any machine that has the trace and the binaries.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::operation::Operation;
use brownout_recovery::{Readiness, Recovery};

const PREFIX: &str = "crash1";

/// A crash and the recovery from it. As text: `crash1:EVENT:…`, where the rest tells what else is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The crash comes before this event.
    pub event: u64,
    pub recovery: Recovery,
    pub operation: Option<Operation>,
    /// Which files were taken as persistent memory, if not those chosen at recording.
    pub patterns: Vec<String>,
    /// In milliseconds, if the user gave one.
    pub time_limit: Option<u64>,
}

/// A token in as few letters as possible: what is as usual is left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Short {
    cmd: String,
    dir: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<Readiness>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<Vec<i32>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    network: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Operation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pm: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
}

impl From<&Token> for Short {
    fn from(token: &Token) -> Self {
        let recovery = token.recovery.clone();
        let usual = recovery.success == [0];
        Self {
            cmd: recovery.command,
            dir: recovery.directory,
            client: recovery.client,
            ready: recovery.ready,
            success: (!usual).then_some(recovery.success),
            network: recovery.network,
            memory: recovery.memory_limit,
            file_size: recovery.file_size_limit,
            op: token.operation,
            pm: token.patterns.clone(),
            time: token.time_limit,
        }
    }
}

impl Short {
    fn token(self, event: u64) -> Token {
        let mut recovery = Recovery::new(self.cmd, self.dir);
        recovery.client = self.client;
        recovery.ready = self.ready;
        recovery.network = self.network;
        recovery.memory_limit = self.memory;
        recovery.file_size_limit = self.file_size;
        if let Some(success) = self.success {
            recovery.success = success;
        }
        Token {
            event,
            recovery,
            operation: self.op,
            patterns: self.pm,
            time_limit: self.time,
        }
    }
}

/// A text that is no token.
#[derive(Debug, thiserror::Error)]
#[error(
    "this is not a token of crash testing, or not all of one; it is in the field `replay` of a finding"
)]
pub struct NotAToken;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_vec(&Short::from(self)).map_err(|_| fmt::Error)?;
        let rest = URL_SAFE_NO_PAD.encode(text);
        write!(f, "{PREFIX}:{}:{rest}", self.event)
    }
}

impl FromStr for Token {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let mut parts = text.trim().splitn(3, ':');
        let (Some(PREFIX), Some(event), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(NotAToken);
        };
        let text = URL_SAFE_NO_PAD.decode(rest).map_err(|_| NotAToken)?;
        let short: Short = serde_json::from_slice(&text).map_err(|_| NotAToken)?;
        let event = event.parse().map_err(|_| NotAToken)?;
        Ok(short.token(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_being_text() {
        let token = Token {
            event: 4711,
            recovery: Recovery::new("./kv check '{pm}' && echo \"ok\"", "/home/somebody"),
            operation: Some(Operation {
                completed: 3,
                active: true,
            }),
            patterns: vec!["*.pool".into()],
            time_limit: Some(5000),
        };
        let text = token.to_string();
        assert!(text.starts_with("crash1:4711:"), "{text}");
        assert_eq!(text.parse::<Token>().unwrap(), token);
        for broken in [
            "",
            "crash1",
            "crash1:4711:",
            "crash2:1:AA",
            &text[..text.len() - 3],
        ] {
            assert!(broken.parse::<Token>().is_err(), "{broken}");
        }
    }
}
