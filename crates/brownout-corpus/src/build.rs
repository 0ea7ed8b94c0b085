//! The ways to build a program. Each has tags, by which an annotation can say that it is meant for some
//! builds only.

use std::collections::BTreeSet;
use std::fmt;

/// The compiler of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compiler {
    Gcc,
    Clang,
    Rustc,
}

impl Compiler {
    pub const ALL: [Compiler; 3] = [Compiler::Gcc, Compiler::Clang, Compiler::Rustc];

    pub fn tag(self) -> &'static str {
        match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang => "clang",
            Compiler::Rustc => "rustc",
        }
    }
}

/// The optimisation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    O0,
    O1,
    O2,
    O3,
}

impl Level {
    pub const ALL: [Level; 4] = [Level::O0, Level::O1, Level::O2, Level::O3];

    pub fn tag(self) -> &'static str {
        match self {
            Level::O0 => "O0",
            Level::O1 => "O1",
            Level::O2 => "O2",
            Level::O3 => "O3",
        }
    }
}

/// One way to build a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    pub compiler: Compiler,
    pub level: Level,
    /// Seen by the source as the macro `VARIANT_name`, in Rust as `cfg(variant = "name")`.
    pub variant: Option<String>,
}

impl Build {
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        [self.compiler.tag(), self.level.tag()]
            .into_iter()
            .chain(self.variant.as_deref())
    }
}

impl fmt::Display for Build {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags: Vec<&str> = self.tags().collect();
        out.write_str(&tags.join("-"))
    }
}

/// The builds that an annotation is meant for: tags of one kind (compiler, level, variant) are alternatives,
/// and each kind that is named must agree. Empty means all builds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildScope {
    tags: BTreeSet<String>,
}

impl BuildScope {
    pub fn new(tags: impl IntoIterator<Item = impl Into<String>>) -> BuildScope {
        BuildScope {
            tags: tags.into_iter().map(Into::into).collect(),
        }
    }

    pub fn includes(&self, build: &Build) -> bool {
        let agrees = |kind: Kind, own: Option<&str>| {
            let alternatives = || self.tags.iter().filter(|tag| kind_of(tag) == kind);
            alternatives().next().is_none() || alternatives().any(|tag| Some(tag.as_str()) == own)
        };
        agrees(Kind::Compiler, Some(build.compiler.tag()))
            && agrees(Kind::Level, Some(build.level.tag()))
            && agrees(Kind::Variant, build.variant.as_deref())
    }

    /// A tag that none of `builds` has, so that it must be a mistake.
    pub fn stray_tag(&self, builds: &[Build]) -> Option<&str> {
        self.tags.iter().map(String::as_str).find(|tag| {
            !builds
                .iter()
                .any(|build| build.tags().any(|own| own == *tag))
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Compiler,
    Level,
    Variant,
}

fn kind_of(tag: &str) -> Kind {
    if Compiler::ALL.iter().any(|compiler| compiler.tag() == tag) {
        Kind::Compiler
    } else if Level::ALL.iter().any(|level| level.tag() == tag) {
        Kind::Level
    } else {
        Kind::Variant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(compiler: Compiler, level: Level, variant: &str) -> Build {
        Build {
            compiler,
            level,
            variant: Some(variant.to_owned()),
        }
    }

    #[test]
    fn an_empty_scope_includes_every_build() {
        assert!(BuildScope::default().includes(&build(Compiler::Clang, Level::O0, "nt")));
    }

    #[test]
    fn tags_of_one_kind_are_alternatives_and_kinds_must_agree() {
        let scope = BuildScope::new(["clwb", "clflushopt", "O2"]);
        assert!(scope.includes(&build(Compiler::Gcc, Level::O2, "clwb")));
        assert!(scope.includes(&build(Compiler::Clang, Level::O2, "clflushopt")));
        assert!(!scope.includes(&build(Compiler::Gcc, Level::O0, "clwb")));
        assert!(!scope.includes(&build(Compiler::Gcc, Level::O2, "nt")));
    }

    #[test]
    fn a_variant_is_never_that_of_a_build_without_variants() {
        let mut plain = build(Compiler::Gcc, Level::O2, "");
        plain.variant = None;
        assert!(!BuildScope::new(["clwb"]).includes(&plain));
        assert!(BuildScope::new(["gcc"]).includes(&plain));
    }

    #[test]
    fn a_tag_of_no_build_is_found() {
        let builds = [build(Compiler::Gcc, Level::O2, "clwb")];
        assert_eq!(BuildScope::new(["clwb", "O2"]).stray_tag(&builds), None);
        assert_eq!(
            BuildScope::new(["clwb", "O0"]).stray_tag(&builds),
            Some("O0")
        );
        assert_eq!(BuildScope::new(["clbw"]).stray_tag(&builds), Some("clbw"));
    }
}
