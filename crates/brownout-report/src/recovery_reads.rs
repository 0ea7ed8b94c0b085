//! What recovery opens and reads of the persistent files: the object `recovery_reads` of `run.json`.

use serde::{Deserialize, Serialize};

use crate::{Reason, ReasonKind};

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
    /// Why recovery may pass although it has not checked what a crash changes, in sentences. Then no finding is known to be harmless.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
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
    /// Why crash testing tested nothing, if recovery opens none of the files, or reads no byte of any of them: it passes whatever they
    /// hold.
    pub fn tested_nothing(&self) -> Option<Reason> {
        let is_known = self.unknown.is_none() && self.gaps.is_empty() && !self.files.is_empty();
        let reads_any = self.files.iter().any(|file| file.bytes_read > 0);
        if !is_known || reads_any {
            return None;
        }
        let names = self.files.iter().map(|file| format!("`{}`", file.path));
        let names = names.collect::<Vec<String>>().join(", ");
        let why = match self.files.iter().any(|file| file.opened) {
            true => format!(
                "recovery reads no byte of {names}, so it passes whatever a crash leaves there; use a command that opens what the program stored and checks it"
            ),
            false => format!(
                "recovery never opened {names} as a crash leaves it; it uses another path (in its command, {{pm}} stands for the first persistent file), or replaces the file"
            ),
        };
        let text = format!("crash testing tested nothing: {why}");
        Some(Reason::new(ReasonKind::NothingRead, text))
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

    /// Files that are opened, of which the first one is read.
    fn summary(opened: &[bool], bytes_read: u64, gaps: &[&str]) -> ReadsSummary {
        let file = |(number, &opened): (usize, &bool)| ReadFile {
            path: format!("/pm/{opened}"),
            opened,
            bytes_read: if number == 0 { bytes_read } else { 0 },
        };
        ReadsSummary {
            unknown: None,
            files: opened.iter().enumerate().map(file).collect(),
            gaps: gaps.iter().map(|&gap| gap.to_owned()).collect(),
            doubts: Vec::new(),
        }
    }

    #[test]
    fn only_a_recovery_that_reads_no_file_has_tested_nothing() {
        let nothing = summary(&[false], 0, &[]);
        let why = nothing.tested_nothing().unwrap();
        assert_eq!(why.kind, ReasonKind::NothingRead);
        assert!(why.text.contains("never opened `/pm/false`"), "{why:?}");
        assert!(nothing.unopened().is_empty());
        let looked_up = summary(&[true, true], 0, &[]);
        let why = looked_up.tested_nothing().unwrap().text;
        assert!(why.contains("reads no byte of `/pm/true`"), "{why}");
        for other in [
            summary(&[true, true], 8, &[]),
            summary(&[false], 0, &["a setuid program ran"]),
            summary(&[true], 0, &["a setuid program ran"]),
            summary(&[], 0, &[]),
        ] {
            assert_eq!(other.tested_nothing(), None);
            assert!(other.unopened().is_empty());
        }
        let some = summary(&[true, false], 8, &[]);
        assert_eq!(some.tested_nothing(), None);
        assert_eq!(some.unopened(), ["/pm/false"]);
    }
}
