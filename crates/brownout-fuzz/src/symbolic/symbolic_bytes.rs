//! Which bytes are symbolic, as the user writes it: `stdin`, `file:PATH`, `arg:N`, `env:NAME` or `pm:PATH`, each with an optional `@RANGE`.
//!
//! A range is `START..END`, `START..`, `..END` or one number, in bytes from 0, without END. The last `@` that is followed by a range begins
//! it, so paths may contain `@`.

use std::ops::Range;
use std::path::PathBuf;

use brownout_recovery::StartString;

/// An input of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolicKind {
    /// Standard input.
    Stdin,
    /// The input file.
    File(PathBuf),
    /// A string that the target is started with.
    Start(StartString),
    /// A persistent file as the target finds it.
    Image(PathBuf),
}

/// An input of the target, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolicBytes {
    pub kind: SymbolicKind,
    /// The bytes that are symbolic; all if there is none.
    pub range: Option<Range<u64>>,
}

/// Why a text does not name a symbolic source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("write stdin, file:PATH, arg:N, env:NAME or pm:PATH")]
    Kind,
    #[error(
        "the input of sockets cannot be symbolic yet; write stdin, file:PATH, arg:N, env:NAME or pm:PATH"
    )]
    Socket,
    #[error(
        "`{0}` is not the number of an argument; the first argument behind the program is arg:1"
    )]
    Argument(String),
    #[error("`{0}` is not the name of an environment variable")]
    Variable(String),
    #[error("the range `{0}` is empty; write START..END, with END behind START")]
    EmptyRange(String),
}

impl SymbolicBytes {
    /// All bytes of an input.
    pub fn all(kind: SymbolicKind) -> Self {
        Self { kind, range: None }
    }

    /// Reads what the user has written.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let (kind, range) = match text.rsplit_once('@') {
            Some((kind, range)) => match parse_range(range)? {
                Some(range) => (kind, Some(range)),
                None => (text, None),
            },
            None => (text, None),
        };
        let kind = match kind.split_once(':') {
            None if kind == "stdin" => SymbolicKind::Stdin,
            None if kind == "socket" => return Err(SourceError::Socket),
            Some(("file", path)) if !path.is_empty() => SymbolicKind::File(path.into()),
            Some(("pm", path)) if !path.is_empty() => SymbolicKind::Image(path.into()),
            Some(("arg", number)) => match number.parse() {
                Ok(number @ 1..=4096) => SymbolicKind::Start(StartString::Argument(number)),
                _ => return Err(SourceError::Argument(number.to_owned())),
            },
            Some(("env", name)) => {
                let is_name = !name.is_empty() && name.len() < 256 && !name.contains(['=', '\0']);
                match is_name {
                    true => SymbolicKind::Start(StartString::Variable(name.to_owned())),
                    false => return Err(SourceError::Variable(name.to_owned())),
                }
            }
            _ => return Err(SourceError::Kind),
        };
        Ok(Self { kind, range })
    }

    /// The input as the user writes it, without a range.
    pub fn text(&self) -> String {
        match &self.kind {
            SymbolicKind::Stdin => "stdin".to_owned(),
            SymbolicKind::File(path) => format!("file:{}", path.display()),
            SymbolicKind::Start(StartString::Argument(number)) => format!("arg:{number}"),
            SymbolicKind::Start(StartString::Variable(name)) => format!("env:{name}"),
            SymbolicKind::Image(path) => format!("pm:{}", path.display()),
        }
    }

    /// Whether a byte is symbolic.
    pub fn contains(&self, offset: u64) -> bool {
        { self.range.as_ref() }.is_none_or(|range| range.contains(&offset))
    }
}

/// `None` if the text is no range.
fn parse_range(text: &str) -> Result<Option<Range<u64>>, SourceError> {
    let (start, end) = match text.split_once("..") {
        Some((start, end)) => (start, end),
        None => {
            let single = text.parse::<u64>().ok();
            return Ok(single.map(|at| at..at.saturating_add(1)));
        }
    };
    let number = |text: &str, absent| match text {
        "" => Some(absent),
        digits => digits.parse::<u64>().ok(),
    };
    let Some((start, end)) = number(start, 0).zip(number(end, u64::MAX)) else {
        return Ok(None);
    };
    match start < end {
        true => Ok(Some(start..end)),
        false => Err(SourceError::EmptyRange(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_with_their_ranges() {
        let source = |text| SymbolicBytes::parse(text).unwrap();
        assert_eq!(source("stdin"), SymbolicBytes::all(SymbolicKind::Stdin));
        assert_eq!(source("stdin@4..20").range, Some(4..20));
        assert_eq!(source("stdin@7").range, Some(7..8));
        assert_eq!(source("stdin@8..").range, Some(8..u64::MAX));
        let file = source("file:a@b");
        assert_eq!(file, SymbolicBytes::all(SymbolicKind::File("a@b".into())));
        let image = source("pm:/mnt/pool@..64");
        assert_eq!(image.kind, SymbolicKind::Image("/mnt/pool".into()));
        assert!(image.contains(63) && !image.contains(64));
        let variable = source("env:MODE");
        let name = StartString::Variable("MODE".to_owned());
        assert_eq!(variable.kind, SymbolicKind::Start(name));
    }

    #[test]
    fn what_is_no_source_is_explained() {
        let error = |text| SymbolicBytes::parse(text).unwrap_err();
        assert_eq!(error("keyboard"), SourceError::Kind);
        assert_eq!(error("file:"), SourceError::Kind);
        assert_eq!(error("socket"), SourceError::Socket);
        assert_eq!(error("arg:0"), SourceError::Argument("0".to_owned()));
        assert_eq!(error("env:A=B"), SourceError::Variable("A=B".to_owned()));
        assert_eq!(
            error("stdin@9..4"),
            SourceError::EmptyRange("9..4".to_owned())
        );
    }
}
