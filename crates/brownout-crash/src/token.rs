//! What reproduces a finding on any machine that has the trace and the binaries.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::operation::Operation;
use crate::recovery::Recovery;

const PREFIX: &str = "crash1";

/// A crash and the recovery from it. As text: `crash1:EVENT:…`, where the rest tells what else is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A text that is no token.
#[derive(Debug, thiserror::Error)]
#[error(
    "this is not a token of crash testing, or not all of one; it is in the field `replay` of a finding"
)]
pub struct NotAToken;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_vec(self).map_err(|_| fmt::Error)?;
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
        let token: Self = serde_json::from_slice(&text).map_err(|_| NotAToken)?;
        if token.event.to_string() == event {
            Ok(token)
        } else {
            Err(NotAToken)
        }
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
        let other_event = text.replacen("4711", "4712", 1);
        assert!(other_event.parse::<Token>().is_err());
    }
}
