//! What recovery opens and reads of the persistent files: the object `recovery_reads` of `run.json`.

use serde::{Deserialize, Serialize};

/// What recovery opens and reads, as observed once, without a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadsSummary {
    /// Why it is not known, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The persistent files that existed.
    pub files: Vec<ReadFile>,
    /// Why recovery may have read more, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// What recovery reads of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    pub path: String,
    /// Whether recovery opened it, or looked it up by its name.
    pub opened: bool,
    /// Different bytes that recovery read before it wrote them.
    pub bytes_read: u64,
}

impl ReadsSummary {
    /// Why crash testing tested nothing, if recovery opens none of the files.
    pub fn opens_nothing(&self) -> Option<String> {
        let names = self.never_opened();
        if names.is_empty() || names.len() < self.files.len() {
            return None;
        }
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        Some(format!(
            "crash testing tested nothing: recovery never opened {} as a crash leaves it; it uses another path (in its command, {{pm}} stands for the first persistent file), or replaces the file",
            names.join(", ")
        ))
    }

    /// The files that recovery does not open, if it opens others.
    pub fn unopened(&self) -> Vec<String> {
        let names = self.never_opened();
        let others = names.len() < self.files.len();
        names.into_iter().filter(|_| others).collect()
    }

    /// What may have been opened without being seen does not count.
    fn never_opened(&self) -> Vec<String> {
        let unopened = self.files.iter().filter(|file| !file.opened);
        let certain = unopened.filter(|_| self.gaps.is_empty());
        certain.map(|file| file.path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(opened: &[bool], gaps: &[&str]) -> ReadsSummary {
        let file = |&opened: &bool| ReadFile {
            path: format!("/pm/{opened}"),
            opened,
            bytes_read: 0,
        };
        ReadsSummary {
            unknown: None,
            files: opened.iter().map(file).collect(),
            gaps: gaps.iter().map(|&gap| gap.to_owned()).collect(),
        }
    }

    #[test]
    fn only_a_recovery_that_opens_no_file_has_tested_nothing() {
        let nothing = summary(&[false], &[]);
        let why = nothing.opens_nothing().unwrap();
        assert!(why.contains("never opened `/pm/false`"), "{why}");
        assert!(nothing.unopened().is_empty());
        for other in [
            summary(&[true, true], &[]),
            summary(&[false], &["a setuid program ran"]),
            summary(&[], &[]),
        ] {
            assert_eq!(other.opens_nothing(), None);
            assert!(other.unopened().is_empty());
        }
        let some = summary(&[true, false], &[]);
        assert_eq!(some.opens_nothing(), None);
        assert_eq!(some.unopened(), ["/pm/false"]);
    }
}
