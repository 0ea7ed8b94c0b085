//! Command-line options: taken out one by one; an argument that is left at the end is an error.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// The arguments not yet taken.
pub struct Args {
    rest: Vec<String>,
}

impl Args {
    pub fn from_env() -> Args {
        Args {
            rest: std::env::args().skip(1).collect(),
        }
    }

    /// No arguments at all, for commands that run another command.
    pub fn none() -> Args {
        Args { rest: Vec::new() }
    }

    pub fn given(words: &[&str]) -> Args {
        Args {
            rest: words.iter().map(ToString::to_string).collect(),
        }
    }

    /// Takes the first argument that is left.
    pub fn positional(&mut self) -> Option<String> {
        (!self.rest.is_empty()).then(|| self.rest.remove(0))
    }

    /// Takes the switch `name`; true if it was there.
    pub fn switch(&mut self, name: &str) -> bool {
        let position = self.rest.iter().position(|word| word == name);
        position.map(|at| self.rest.remove(at)).is_some()
    }

    /// Takes `name VALUE` or `name=VALUE`.
    pub fn value(&mut self, name: &str) -> Result<Option<String>> {
        for at in 0..self.rest.len() {
            if self.rest[at] == name {
                if at + 1 == self.rest.len() {
                    bail!("{name} needs a value");
                }
                self.rest.remove(at);
                return Ok(Some(self.rest.remove(at)));
            }
            let inline = self.rest[at]
                .strip_prefix(name)
                .and_then(|tail| tail.strip_prefix('='));
            if let Some(value) = inline.map(str::to_owned) {
                self.rest.remove(at);
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Takes `name NUMBER`.
    pub fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(text) = self.value(name)? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .with_context(|| format!("{name} {text:?} is not a number"))
    }

    /// Fails if anything was not taken.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        bail!("unknown arguments: {}", self.rest.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_in_both_spellings() {
        let mut args = Args::given(&["engine", "--runs", "7", "--only=perl", "--loads"]);
        assert_eq!(args.positional().as_deref(), Some("engine"));
        assert_eq!(args.number::<usize>("--runs").unwrap(), Some(7));
        assert_eq!(args.value("--only").unwrap().as_deref(), Some("perl"));
        assert!(args.switch("--loads"));
        args.finish().unwrap();
    }

    #[test]
    fn what_is_not_taken_is_an_error() {
        let mut args = Args::given(&["--core", "--cores"]);
        assert!(args.switch("--core"));
        assert!(args.finish().unwrap_err().to_string().contains("--cores"));
    }

    #[test]
    fn a_value_must_follow() {
        assert!(Args::given(&["--runs"]).value("--runs").is_err());
        assert!(
            Args::given(&["--runs", "many"])
                .number::<usize>("--runs")
                .is_err()
        );
    }
}
