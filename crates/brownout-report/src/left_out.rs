//! What crash testing leaves out on purpose. It is the object `left_out` of `run.json`, and every format shows its sentences.

use serde::{Deserialize, Serialize};

/// Files that a sentence names, at most.
const SHOWN: usize = 5;

/// What crash testing leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// Failure points inside the creation of a pool.
    pub failure_points: u64,
    /// The functions that created the pools.
    pub functions: Vec<String>,
    /// Files that the target wrote with system calls beside its persistent files. They are not part of a crash image:
    /// recovery finds them as the target left them in the end.
    pub files: Vec<String>,
    /// Files beside its persistent files that the target maps and stores to, and never flushes or syncs. They are not part of a crash
    /// image either.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mapped: Vec<String>,
    /// Persistent files that recovery never opens, if it opens others: damage to them is not noticed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unopened: Vec<String>,
    /// Update behaviours that earlier runs have tested.
    #[serde(skip_serializing_if = "is_zero")]
    pub tested_behaviours: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LeftOut {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another part of the same test left out.
    pub fn merge(&mut self, other: Self) {
        self.failure_points = self.failure_points.max(other.failure_points);
        self.tested_behaviours = self.tested_behaviours.max(other.tested_behaviours);
        for (own, more) in [
            (&mut self.functions, other.functions),
            (&mut self.files, other.files),
            (&mut self.mapped, other.mapped),
            (&mut self.unopened, other.unopened),
        ] {
            own.extend(more);
            own.sort();
            own.dedup();
        }
    }

    /// One sentence for each kind.
    pub fn sentences(&self) -> Vec<String> {
        self.points_sentence()
            .into_iter()
            .chain(self.files_sentence())
            .chain(self.mapped_sentence())
            .chain(self.unopened_sentence())
            .chain(self.behaviours_sentence())
            .collect()
    }

    fn points_sentence(&self) -> Option<String> {
        let noun = match self.failure_points {
            0 => return None,
            1 => "failure point",
            _ => "failure points",
        };
        Some(format!(
            "{} {noun} inside {} left out; `--from-start` includes them",
            self.failure_points,
            quoted(&self.functions)
        ))
    }

    fn behaviours_sentence(&self) -> Option<String> {
        let noun = match self.tested_behaviours {
            0 => return None,
            1 => "update behaviour",
            _ => "update behaviours",
        };
        let (them, are) = match self.tested_behaviours {
            1 => ("it", "it is"),
            _ => ("them", "they are"),
        };
        Some(format!(
            "{} {noun} left out because earlier runs have tested {them}; without `--memory` {are} tested again",
            self.tested_behaviours
        ))
    }

    /// The sentence about files that crash images do not contain.
    pub fn files_sentence(&self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let shown = first_quoted(&self.files);
        Some(format!(
            "not in the crash images: {shown}, written with system calls; recovery finds their final content"
        ))
    }

    /// The sentence about mapped files that crash images do not contain.
    pub fn mapped_sentence(&self) -> Option<String> {
        (!self.mapped.is_empty()).then(|| {
            format!(
                "not in the crash images: {}, mapped and not taken for persistent; recovery finds their final content, and `--pm` includes \
                 them",
                first_quoted(&self.mapped)
            )
        })
    }

    /// The sentence about persistent files that recovery does not open.
    pub fn unopened_sentence(&self) -> Option<String> {
        (!self.unopened.is_empty()).then(|| {
            format!(
                "recovery never opened {}, so it cannot notice what a crash does there",
                first_quoted(&self.unopened)
            )
        })
    }
}

/// The first of many names, and the number of the others.
pub(crate) fn first_quoted(names: &[String]) -> String {
    let shown = quoted(&names[..names.len().min(SHOWN)]);
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_sentence() {
        assert!(LeftOut::default().sentences().is_empty());
        let left_out = LeftOut {
            failure_points: 12,
            functions: vec!["pmemobj_create".to_owned()],
            files: (0..7).map(|number| format!("/d/{number}")).collect(),
            mapped: vec!["/d/index".to_owned()],
            unopened: vec!["/pm/index".to_owned()],
            tested_behaviours: 1,
        };
        let [points, files, mapped, unopened, behaviours] = &left_out.sentences()[..] else {
            panic!("five sentences are expected");
        };
        assert_eq!(
            behaviours,
            "1 update behaviour left out because earlier runs have tested it; without `--memory` it is tested again"
        );
        assert_eq!(
            points,
            "12 failure points inside `pmemobj_create` left out; `--from-start` includes them"
        );
        assert!(files.contains("`/d/4` and 2 more"), "{files}");
        assert!(mapped.contains("`/d/index`, mapped"), "{mapped}");
        assert!(unopened.contains("never opened `/pm/index`"), "{unopened}");
    }

    #[test]
    fn parts_leave_out_the_same() {
        let part = |file: &str| LeftOut {
            failure_points: 3,
            functions: vec!["create".to_owned()],
            files: vec![file.to_owned()],
            mapped: Vec::new(),
            unopened: Vec::new(),
            tested_behaviours: 2,
        };
        let mut whole = part("b");
        whole.merge(part("a"));
        assert_eq!(
            (whole.failure_points, &whole.files[..]),
            (3, &["a".to_owned(), "b".to_owned()][..])
        );
    }
}
