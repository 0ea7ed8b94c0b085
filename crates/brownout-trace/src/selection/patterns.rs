//! The patterns with which a user selects persistent files.

use std::ffi::OsString;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

/// Why a pattern cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It is not UTF-8.
    #[error("the pattern {} is not valid UTF-8", pattern.display())]
    NotUtf8 {
        /// The pattern.
        pattern: OsString,
    },
    /// It is not a pattern.
    #[error("the pattern {} is not valid", pattern.display())]
    Syntax {
        /// The pattern.
        pattern: OsString,
        /// The reason.
        #[source]
        source: globset::Error,
    },
}

/// Shell patterns for paths: `*` and `?` do not match a slash, `**` does. A pattern without a slash is matched against file
/// names, any other against absolute paths.
#[derive(Clone, Debug)]
pub struct Patterns {
    set: GlobSet,
    /// As they were given.
    texts: Vec<String>,
}

impl Patterns {
    /// Compiles patterns. Relative patterns start at `directory`. Returns `None` if there are no patterns, which is not the
    /// same as patterns that match nothing.
    pub fn new(patterns: &[OsString], directory: &Path) -> Result<Option<Self>, PatternError> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let mut set = GlobSetBuilder::new();
        let mut texts = Vec::new();
        for pattern in patterns {
            let text = pattern.to_str().ok_or_else(|| PatternError::NotUtf8 {
                pattern: pattern.clone(),
            })?;
            let syntax = |source| PatternError::Syntax {
                pattern: pattern.clone(),
                source,
            };
            texts.push(text.to_owned());
            let absolute = absolute(text, directory);
            let mut glob = GlobBuilder::new(&absolute);
            set.add(glob.literal_separator(true).build().map_err(syntax)?);
        }
        let set = set.build().map_err(|source| PatternError::Syntax {
            pattern: patterns.join(" ".as_ref()),
            source,
        })?;
        Ok(Some(Patterns { set, texts }))
    }

    /// Whether a path matches one of the patterns.
    pub fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// The patterns that match none of the paths, as they were given.
    pub fn without_match<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Vec<String> {
        let mut is_matched = vec![false; self.texts.len()];
        for path in paths {
            for number in self.set.matches(path) {
                is_matched[number] = true;
            }
        }
        let texts = self.texts.iter().zip(is_matched);
        let unmatched = texts.filter(|(_, is_matched)| !is_matched);
        unmatched.map(|(text, _)| text.clone()).collect()
    }
}

fn absolute(pattern: &str, directory: &Path) -> String {
    if pattern.starts_with('/') {
        pattern.to_owned()
    } else if pattern.contains('/') {
        let directory = globset::escape(&directory.to_string_lossy());
        let relative = pattern.trim_start_matches("./");
        format!("{}/{relative}", directory.trim_end_matches('/'))
    } else {
        format!("**/{pattern}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let patterns = Patterns::new(&[pattern.into()], Path::new("/home/u[1]")).unwrap();
        patterns.unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_name_matches_in_any_directory() {
        assert!(matches("pool", "/mnt/pmem/pool"));
        assert!(matches("*.db", "/mnt/x.db"));
        assert!(!matches("pool", "/mnt/pool/other"));
    }

    #[test]
    fn an_absolute_pattern_stops_at_slashes() {
        assert!(matches("/mnt/*", "/mnt/pool"));
        assert!(!matches("/mnt/*", "/mnt/pmem/pool"));
        assert!(matches("/mnt/**", "/mnt/pmem/pool"));
    }

    #[test]
    fn a_relative_pattern_starts_at_the_directory() {
        assert!(matches("./data/pool", "/home/u[1]/data/pool"));
        assert!(matches("data/*", "/home/u[1]/data/pool"));
        assert!(!matches("data/*", "/srv/data/pool"));
    }

    #[test]
    fn patterns_that_match_nothing_are_known() {
        let given = ["pool".into(), "tpyo".into(), "/mnt/*".into()];
        let patterns = Patterns::new(&given, Path::new("/")).unwrap().unwrap();
        let paths = ["/mnt/pool", "/srv/other"].map(Path::new);
        assert_eq!(patterns.without_match(paths.into_iter()), ["tpyo"]);
    }

    #[test]
    fn none_is_not_the_same_as_matching_nothing() {
        assert!(Patterns::new(&[], Path::new("/")).unwrap().is_none());
    }

    #[test]
    fn the_error_names_the_invalid_pattern() {
        let error = Patterns::new(&["/mnt/[".into()], Path::new("/")).unwrap_err();
        assert_eq!(error.to_string(), "the pattern /mnt/[ is not valid");
    }
}
