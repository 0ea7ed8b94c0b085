//! One word for one concept: a type that the glossary of CONTRIBUTING.md names is defined once, in the crate it names,
//! and the names that the glossary bans are not defined at all.
//!
//! The table is read from the document, so document and check cannot diverge.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::rust_code::{code_of, identifiers};

/// The glossary's heading, and how the line starts that lists the banned names.
const HEADING: &str = "## Glossary";
const BANNED: &str = "Not used as names of types:";

/// Types by name, each with the crate that defines it; and names that no type has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Glossary {
    types: Vec<(String, String)>,
    banned: Vec<String>,
}

/// A type that a file defines.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    pub path: String,
    pub line: usize,
    pub name: String,
}

impl Glossary {
    /// Reads the table `| word | type | crate | meaning |` of CONTRIBUTING.md.
    pub fn parse(document: &str) -> Result<Glossary> {
        let section = document
            .split_once(HEADING)
            .with_context(|| format!("CONTRIBUTING.md: there is no `{HEADING}`"))?
            .1;
        let section = section.split("\n## ").next().unwrap_or(section);
        let mut glossary = Glossary::default();
        let mut words: BTreeSet<&str> = BTreeSet::new();
        for line in section.lines() {
            if let Some(names) = line.strip_prefix(BANNED) {
                glossary.banned.extend(quoted(names));
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let ["", listed, types, owner, _, ""] = cells[..] {
                for word in listed.split(',').map(str::trim) {
                    if !words.insert(word) {
                        bail!("CONTRIBUTING.md: the glossary explains the word `{word}` twice");
                    }
                }
                let owner: Vec<String> = quoted(owner).collect();
                match (&owner[..], quoted(types).next()) {
                    ([owner], Some(_)) => glossary
                        .types
                        .extend(quoted(types).map(|name| (name, owner.clone()))),
                    ([], None) => {}
                    _ => bail!(
                        "CONTRIBUTING.md: the glossary names a type without its crate: {line}"
                    ),
                }
            }
        }
        if glossary.types.is_empty() || glossary.banned.is_empty() {
            bail!("CONTRIBUTING.md: the glossary lists no types or no banned names");
        }
        Ok(glossary)
    }

    /// What is wrong with the definitions of all files.
    pub fn check(&self, definitions: &[Definition]) -> Vec<String> {
        let mut problems = Vec::new();
        for definition in definitions {
            let Definition { path, line, name } = definition;
            if self.banned.contains(name) {
                problems.push(format!(
                    "{path}: line {line}: the glossary bans the name `{name}`; say what it is"
                ));
            }
            let Some((_, owner)) = self.types.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let first = definitions
                .iter()
                .find(|other| other.name == *name && is_in(&other.path, owner));
            if first != Some(definition) {
                problems.push(format!(
                    "{path}: line {line}: the glossary gives the name `{name}` to a type of {owner}; qualify this one"
                ));
            }
        }
        for (name, owner) in &self.types {
            if !definitions
                .iter()
                .any(|found| found.name == *name && is_in(&found.path, owner))
            {
                problems.push(format!(
                    "CONTRIBUTING.md: {owner} does not define the type `{name}` of the glossary"
                ));
            }
        }
        problems
    }
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn is_in(path: &str, owner: &str) -> bool {
    path.starts_with(&format!("crates/{owner}/"))
}

/// Whether the glossary applies to a file: sources, not tests.
pub fn applies_to(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/")
        || path.starts_with("xtask/src/")
        || path.starts_with("tests/differential/src/")
        || path.starts_with("tests/semantics/src/");
    is_source && path.ends_with(".rs") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

/// The code before the test module at the end of a file. A test module in a file of its own has nothing to cut off.
pub fn before_tests(code: &str) -> &str {
    let starts = code.match_indices("#[cfg(test)]\nmod ");
    let mut inline = starts.filter(|(start, attribute)| {
        let name = &code[start + attribute.len()..];
        let end = name.find(['{', ';']);
        end.is_some_and(|end| name[end..].starts_with('{'))
    });
    inline.next().map_or(code, |(start, _)| &code[..start])
}

/// The types that a file of Rust code defines, those of its test module aside.
pub fn definitions(path: &str, text: &str) -> Vec<Definition> {
    const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
    let code = code_of(text);
    let code = before_tests(&code);
    let mut found = Vec::new();
    for (line, code) in (1..).zip(code.lines()) {
        // Associated types are indented; they name a type that is defined elsewhere.
        let is_alias = code.starts_with(' ') && code.trim_start().starts_with("type ");
        let mut words = identifiers(code).map(|(word, _)| word).peekable();
        while let Some(word) = words.next() {
            if KEYWORDS.contains(&word)
                && !is_alias
                && let Some(name) = words.peek()
                && name.starts_with(char::is_uppercase)
            {
                found.push(Definition {
                    path: path.to_owned(),
                    line,
                    name: (*name).to_owned(),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# C\n\n## Glossary\n\n| word | type | crate | meaning |\n|---|---|---|---|\n\
        | site | `Site` | `brownout-runtime` | an instruction |\n\
        | stack | `Frame`, `Stack` | `brownout-report` | calls |\n\
        | target | | | the program under test |\n\n\
        Not used as names of types: `Place`, `Run`.\n\n## Tests\n\n| a | `B` | `c` | d |\n";

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let all: Vec<Definition> = files
            .iter()
            .flat_map(|(path, text)| definitions(path, text))
            .collect();
        Glossary::parse(DOCUMENT).unwrap().check(&all)
    }

    #[test]
    fn a_word_is_explained_once() {
        let twice = DOCUMENT.replace("| target |", "| target, site |");
        let error = Glossary::parse(&twice).unwrap_err().to_string();
        assert!(error.contains("`site` twice"), "{error}");
    }

    const OWNERS: [(&str, &str); 2] = [
        ("crates/brownout-runtime/src/site.rs", "pub struct Site;\n"),
        (
            "crates/brownout-report/src/stack.rs",
            "pub struct Frame;\npub struct Stack;\n",
        ),
    ];

    #[test]
    fn a_name_of_the_glossary_is_defined_once() {
        assert!(problems(&OWNERS).is_empty());
        let second = |path, text| problems(&[OWNERS[0], OWNERS[1], (path, text)]).len();
        assert_eq!(second("crates/brownout-lint/src/a.rs", "enum Site {}\n"), 1);
        assert_eq!(
            second("crates/brownout-runtime/src/b.rs", "struct Site;\n"),
            1
        );
        assert_eq!(
            second(
                "crates/brownout-lint/src/a.rs",
                "struct LintSite; // struct Site\n"
            ),
            0
        );
        assert_eq!(
            second(
                "crates/brownout-lint/src/a.rs",
                "#[cfg(test)]\nmod tests { struct Site; }\n"
            ),
            0
        );
        assert_eq!(
            second(
                "crates/brownout-lint/src/a.rs",
                "#[cfg(test)]\nmod tests;\nstruct Site;\n"
            ),
            1,
            "tests in a file of their own do not end the code"
        );
    }

    #[test]
    fn a_banned_name_is_not_defined() {
        let found = problems(&[OWNERS[0], OWNERS[1], ("xtask/src/a.rs", "struct Run;\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_word_without_its_type_is_reported() {
        assert_eq!(problems(&OWNERS[..1]).len(), 2);
    }

    #[test]
    fn a_document_without_a_glossary_is_an_error() {
        assert!(Glossary::parse("# C\n").is_err());
        assert!(Glossary::parse("## Glossary\n| w | `T` | | m |\n").is_err());
    }
}
