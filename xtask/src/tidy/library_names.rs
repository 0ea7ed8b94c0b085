//! Knowledge about libraries stays in one table: no other crate has the name of a library's function as a literal.
//!
//! The names are those of `brownout-libraries`. A literal counts if it begins with such a name and holds no white space, as
//! messages and sample code do.
//!
//! What it can miss: names that the table does not have, and those that are put together from parts.

use brownout_libraries::is_library_name;

use super::glossary::before_tests;
use super::rust_code::{code_of, literals_of};

/// The crate that has the table.
const OWNER: &str = "crates/brownout-libraries/";

/// Names in the table that are also plain words.
const WORDS: &[&str] = &[
    "add", "cast", "data", "exit", "len", "length", "offset", "read", "send", "size", "sub",
    "write",
];

/// Files that name functions all the same, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/brownout-engine/loader/src/arch/x86_64.rs",
        "assembly that defines these functions",
    ),
    (
        "crates/brownout-model/src/profile/msync.rs",
        "the name of a profile",
    ),
    (
        "crates/brownout-runtime/src/instruments/pm/kernel/write_back.rs",
        "names of system calls",
    ),
    (
        "crates/brownout-trace/src/event/details.rs",
        "names of system calls",
    ),
    (
        "crates/brownout-trace/src/failed_sync.rs",
        "names of system calls",
    ),
    (
        "crates/brownout/src/wrapper_functions/search.rs",
        "parts of names that users give their own functions",
    ),
];

/// What is wrong with the literals of one file of Rust code.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let is_source = path.starts_with("crates/") && path.contains("/src/");
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
    let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == path);
    if !is_source || is_test || is_allowed || path.starts_with(OWNER) {
        return Vec::new();
    }
    let code = code_of(text);
    let lines = before_tests(&code).lines().count();
    literals_of(text)
        .filter(|(line, literal)| *line <= lines && names_function(literal))
        .map(|(line, literal)| {
            format!(
                "line {line}: \"{literal}\" names a function of a library; ask the table of brownout-libraries"
            )
        })
        .collect()
}

fn names_function(literal: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let word = literal.split(|letter| !is_word(letter)).next();
    let word = word.unwrap_or_default();
    !literal.contains(char::is_whitespace) && !WORDS.contains(&word) && is_library_name(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANALYSIS: &str = "crates/brownout-lint/src/a.rs";

    fn problems(path: &str, text: &str) -> usize {
        check(path, text).len()
    }

    #[test]
    fn names_of_library_functions_are_in_the_table_only() {
        for literal in [
            "\"msync\"",
            "\"pmem_drain();\"",
            "r#\"pmemobj_\"#",
            "b\"memcpy\"",
        ] {
            let text = format!("const NAME: &str = {literal};\n");
            assert_eq!(problems(ANALYSIS, &text), 1, "{literal}");
            assert_eq!(problems("crates/brownout-libraries/src/table.rs", &text), 0);
            assert_eq!(problems("crates/brownout-lint/src/a/tests.rs", &text), 0);
            assert_eq!(problems("xtask/src/a.rs", &text), 0);
        }
    }

    #[test]
    fn messages_and_comments_may_name_functions() {
        for text in [
            "// \"msync\"\n",
            "const HELP: &str = \"msync is missing\";\n",
            "const HELP: &str = \"call pmem_persist\";\n",
            "const WORD: &str = \"read\";\n",
            "fn f() { pmem_drain() }\n",
            "#[cfg(test)]\nmod tests {\n    const A: &str = \"msync\";\n}\n",
        ] {
            assert_eq!(problems(ANALYSIS, text), 0, "{text}");
        }
    }

    #[test]
    fn exceptions_have_a_reason_and_a_file() {
        for (path, reason) in ALLOWED {
            assert!(!reason.is_empty());
            assert!(crate::shell::root().join(path).exists(), "{path}");
        }
    }
}
