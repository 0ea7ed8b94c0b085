//! Filters of failure points: functions, source files and modules that must be on the call stack.
//!
//! Filters of one kind unite, and filters of different kinds intersect. A filter that no failure point matches is an error:
//! it is a misspelt name, and a test of nothing must not pass.

use brownout_names::{FunctionPattern, nearest};
use brownout_report::Frame;
use globset::{GlobBuilder, GlobMatcher};

use crate::arguments::FailurePointArgs;
use crate::failure::Failure;

/// Names to show if none is similar to a wrong one.
const SHOWN: usize = 5;

/// All filters of a test.
#[derive(Clone, Debug, Default)]
pub struct PointFilters {
    filters: Vec<PointFilter>,
    /// Whether a failure point matches all of them.
    taken: bool,
}

/// One filter.
#[derive(Clone, Debug)]
struct PointFilter {
    option: &'static str,
    text: String,
    matcher: FrameMatcher,
    /// Whether a failure point matches it.
    matched: bool,
}

#[derive(Clone, Debug)]
enum FrameMatcher {
    Function(FunctionPattern),
    File(GlobMatcher),
    Module(GlobMatcher),
}

impl PointFilters {
    pub fn new(points: &FailurePointArgs) -> Result<Self, Failure> {
        let mut filters: Vec<PointFilter> = Vec::new();
        let mut add = |option: &'static str, text: &String, matcher| {
            filters.push(PointFilter {
                option,
                text: text.clone(),
                matcher,
                matched: false,
            });
        };
        for text in &points.functions {
            let pattern = FunctionPattern::new(text);
            add("--in-function", text, FrameMatcher::Function(pattern));
        }
        for text in &points.files {
            let glob = path_glob("--in-file", text)?;
            add("--in-file", text, FrameMatcher::File(glob));
        }
        for text in &points.modules {
            let glob = path_glob("--in-module", text)?;
            add("--in-module", text, FrameMatcher::Module(glob));
        }
        let taken = false;
        Ok(Self { filters, taken })
    }

    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// The filters as text.
    pub fn texts(&self) -> Vec<String> {
        let filters = self.filters.iter();
        filters
            .map(|filter| format!("{} {}", filter.option, filter.text))
            .collect()
    }

    /// Whether a failure point with this stack is wanted.
    pub fn take(&mut self, frames: &[Frame]) -> bool {
        let mut wanted: Vec<(&str, bool)> = Vec::new();
        for filter in &mut self.filters {
            let matches = frames.iter().any(|frame| filter.matcher.matches(frame));
            filter.matched |= matches;
            match wanted.last_mut() {
                Some((option, any)) if *option == filter.option => *any |= matches,
                _ => wanted.push((filter.option, matches)),
            }
        }
        let takes = wanted.iter().all(|&(_, any)| any);
        self.taken |= takes;
        takes
    }

    /// Fails if a filter, or all of them together, match no failure point. `frames` are those of all failure points.
    pub fn check(&self, frames: &[Frame]) -> Result<(), Failure> {
        if let Some(filter) = self.filters.iter().find(|filter| !filter.matched) {
            return Err(Failure::NoPointMatches {
                option: filter.option,
                text: filter.text.clone(),
                instead: filter.suggestion(frames),
            });
        }
        if !self.is_empty() && !self.taken {
            let filters = self.texts().join(", ");
            return Err(Failure::NoPointMatchesAll { filters });
        }
        Ok(())
    }
}

impl PointFilter {
    /// What the user may have meant.
    fn suggestion(&self, frames: &[Frame]) -> String {
        let users = frames.iter().filter(|frame| !frame.is_library());
        let mut names: Vec<&str> = match self.matcher {
            FrameMatcher::Module(_) => frames.iter().map(|frame| &*frame.module).collect(),
            _ => users.filter_map(|frame| self.matcher.name(frame)).collect(),
        };
        names.sort_unstable();
        names.dedup();
        let near = nearest(&self.text, names.iter().copied());
        let quoted = |names: &[&str]| -> String {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        match (&near[..], &names[..]) {
            ([], []) => "no failure point has debug information".to_owned(),
            ([], names) => {
                let more = if names.len() > SHOWN { ", …" } else { "" };
                let shown = quoted(&names[..names.len().min(SHOWN)]);
                format!("failure points are in {shown}{more}")
            }
            (near, _) => format!("similar: {}", quoted(near)),
        }
    }
}

impl FrameMatcher {
    /// What the filter looks at.
    fn name<'f>(&self, frame: &'f Frame) -> Option<&'f str> {
        match self {
            Self::Function(_) => frame.function.as_deref(),
            Self::File(_) => frame.file.as_deref(),
            Self::Module(_) => Some(&frame.module),
        }
    }

    fn matches(&self, frame: &Frame) -> bool {
        let Some(name) = self.name(frame) else {
            return false;
        };
        match self {
            Self::Function(pattern) => pattern.matches(name),
            Self::File(glob) | Self::Module(glob) => {
                glob.is_match(name) || glob.is_match(format!("/{name}"))
            }
        }
    }
}

/// A pattern without a slash matches names, any other matches whole paths or their ends.
fn path_glob(option: &'static str, text: &str) -> Result<GlobMatcher, Failure> {
    let pattern = if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("**/{text}")
    };
    let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|source| Failure::Glob {
            option,
            pattern: text.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            module: "/bin/kv".into(),
            ..Frame::default()
        }
    }

    fn filters(functions: &[&str], files: &[&str]) -> PointFilters {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let points = FailurePointArgs {
            functions: owned(functions),
            files: owned(files),
            ..FailurePointArgs::default()
        };
        PointFilters::new(&points).unwrap()
    }

    #[test]
    fn filters_of_one_kind_unite_and_of_different_kinds_intersect() {
        let put = [
            frame("kv::put(int)", "/src/kv.cc"),
            frame("main", "/src/main.cc"),
        ];
        let get = [
            frame("kv::get()", "/src/kv.cc"),
            frame("main", "/src/main.cc"),
        ];
        let mut union = filters(&["put", "kv::get"], &[]);
        assert!(union.take(&put) && union.take(&get));
        let mut both = filters(&["put", "main"], &["kv.cc"]);
        assert!(both.take(&put) && both.take(&get));
        assert!(!both.take(&put[1..]) && !both.take(&[]));
        let mut neither = filters(&["put"], &["other.cc"]);
        assert!(!neither.take(&put));
    }

    #[test]
    fn a_filter_that_matches_nothing_is_an_error_with_suggestions() {
        let put = [
            frame("kv::put(int)", "/src/kv.cc"),
            frame("main", "/src/main.cc"),
        ];
        let mut wrong = filters(&["main", "kv::putt"], &[]);
        assert!(wrong.take(&put));
        let error = wrong.check(&put).unwrap_err().to_string();
        assert!(error.contains("--in-function kv::putt"), "{error}");
        assert!(error.contains("`kv::put(int)`"), "{error}");
        let far = filters(&[], &["zzz"]);
        let error = far.check(&put).unwrap_err().to_string();
        assert!(
            error.contains("failure points are in `/src/kv.cc`"),
            "{error}"
        );
    }

    #[test]
    fn filters_that_match_only_different_points_are_an_error() {
        let mut apart = filters(&["put"], &["main.cc"]);
        assert!(!apart.take(&[frame("put", "/src/kv.cc")]));
        assert!(!apart.take(&[frame("main", "/src/main.cc")]));
        let error = apart.check(&[]).unwrap_err().to_string();
        assert!(
            error.contains("--in-function put, --in-file main.cc"),
            "{error}"
        );
    }
}
