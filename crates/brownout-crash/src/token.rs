//! Tokens: what reproduces a finding on any machine that has the trace and the binaries.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::crash_point::{Choice, CrashPoint, Interruption};
use crate::operation::Operation;
use crate::test_configuration::TraceIdentity;
#[cfg(doc)]
use brownout_recovery::Expectation;
use brownout_recovery::{Readiness, Recovery};

/// How tokens begin, and which version they have. Version 1 named a crash by its event alone, version 2 not its trace, version 3
/// has neither torn stores nor crashes inside recovery and is read, too.
const NAME: &str = "crash";
const VERSION: u32 = 4;
const OLDEST_VERSION: u32 = 3;

/// A crash and the recovery from it. As text: `crash4:EVENT:…`, where the rest holds everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub point: CrashPoint,
    pub recovery: Recovery,
    pub operation: Option<Operation>,
    /// Patterns for the files that are persistent memory, if not those given when recording.
    pub patterns: Vec<String>,
    /// In milliseconds, if the user gave one.
    pub time_limit: Option<u64>,
    /// The digest of what recovery has to print, if it is not [`Expectation::Anything`].
    pub expected: Option<String>,
    /// The trace that the token belongs to.
    pub trace: TraceIdentity,
}

/// A token in as few letters as possible: defaults are left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Short {
    cmd: String,
    #[serde(with = "brownout_recovery::path_text")]
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
    choice: Option<Choice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inside: Vec<Interruption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Operation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pm: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    trace: TraceIdentity,
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
            choice: token.point.choice.clone(),
            inside: token.point.interruptions.clone(),
            op: token.operation,
            pm: token.patterns.clone(),
            time: token.time_limit,
            expected: token.expected.clone(),
            trace: token.trace,
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
            point: CrashPoint {
                event,
                choice: self.choice,
                interruptions: self.inside,
            },
            recovery,
            operation: self.op,
            patterns: self.pm,
            time_limit: self.time,
            expected: self.expected,
            trace: self.trace,
        }
    }
}

/// Why a text is not a usable token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    #[error(
        "this is not a token of crash testing, or only a part of one; copy the whole field `replay` of a finding"
    )]
    NotAToken,
    #[error(
        "this token has version {found}, but this version of brownout reads versions {OLDEST_VERSION} to {VERSION}; \
         run `brownout crash` on the trace again to get new tokens"
    )]
    OtherVersion { found: u32 },
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_vec(&Short::from(self)).map_err(|_| fmt::Error)?;
        let rest = URL_SAFE_NO_PAD.encode(text);
        write!(f, "{NAME}{VERSION}:{}:{rest}", self.point.event)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let mut parts = text.trim().splitn(3, ':');
        let (Some(name), Some(event), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::NotAToken);
        };
        let version = name.strip_prefix(NAME).and_then(|text| text.parse().ok());
        match version {
            Some(OLDEST_VERSION..=VERSION) => {}
            Some(found) => return Err(TokenError::OtherVersion { found }),
            None => return Err(TokenError::NotAToken),
        }
        let decoded = URL_SAFE_NO_PAD.decode(rest).ok();
        let short = decoded.and_then(|text| serde_json::from_slice::<Short>(&text).ok());
        match (short, event.parse().ok()) {
            (Some(short), Some(event)) => Ok(short.token(event)),
            _ => Err(TokenError::NotAToken),
        }
    }
}

#[cfg(test)]
mod tests {
    use brownout_model::Tearing;

    use super::*;
    use crate::crash_point::{LineChoice, OtherLines, TornStore};
    use brownout_recovery::Expectation;

    fn token(choice: Option<Choice>) -> Token {
        Token {
            point: CrashPoint {
                event: 4711,
                interruptions: choice
                    .iter()
                    .map(|choice| Interruption {
                        actions: 3,
                        digest: u64::MAX,
                        choice: Some(choice.clone()),
                    })
                    .collect(),
                choice,
            },
            recovery: Recovery::new("./kv check '{pm}' && echo \"ok\"", "/home/somebody"),
            operation: Some(Operation {
                completed: 3,
                active: true,
            }),
            patterns: vec!["*.pool".into()],
            time_limit: Some(5000),
            expected: Some(Expectation::Exactly(b"3 entries".to_vec().into()).digest()),
            trace: TraceIdentity {
                started: 1_800_000_000_000_000_007,
                bytes: 1176,
            },
        }
    }

    #[test]
    fn a_token_survives_being_text() {
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Words,
            others: OtherLines::Guaranteed,
            lines: vec![LineChoice {
                file: 1,
                offset: 128,
                stores: 7,
                exceptions: vec![2],
                torn: vec![TornStore { store: 7, words: 5 }],
            }],
        };
        for token in [token(None), token(Some(choice))] {
            let text = token.to_string();
            assert!(text.starts_with("crash4:4711:"), "{text}");
            assert_eq!(text.parse::<Token>().unwrap(), token);
            for broken in ["", "crash4", "crash4:4711:", &text[..text.len() - 3]] {
                let error = broken.parse::<Token>().unwrap_err();
                assert_eq!(error, TokenError::NotAToken, "{broken}");
            }
        }
    }

    #[test]
    fn a_token_of_the_version_before_is_read() {
        let token = token(None);
        let text = token.to_string().replacen("crash4", "crash3", 1);
        assert_eq!(text.parse::<Token>().unwrap(), token);
    }

    #[test]
    fn a_token_of_another_version_is_recognised() {
        let error = "crash1:4711:AAAA".parse::<Token>().unwrap_err();
        assert_eq!(error, TokenError::OtherVersion { found: 1 });
        let newer = "crash5:4711:AAAA".parse::<Token>().unwrap_err();
        assert_eq!(newer, TokenError::OtherVersion { found: 5 });
        assert!(error.to_string().contains("version 1"), "{error}");
    }
}
