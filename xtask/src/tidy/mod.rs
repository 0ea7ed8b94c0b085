//! `cargo xtask tidy`: what no other tool checks of the sources, documents and dependencies.

mod dependencies;
mod exports;
mod glossary;
mod layers;
mod library_names;
mod line_length;
mod rule_ids;
mod rust_code;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::glossary::Glossary;
use crate::args::Args;
use crate::shell::root;

/// Lines past which a source file needs a reason, given in [`LONG`].
const MAX_LINES: usize = 1000;
/// Files that may be longer: path and reason.
const LONG: &[(&str, &str)] = &[];

/// What lives inside the target or speaks to the kernel, where `unsafe` is the job. Other crates have it in a file `sys.rs`.
const UNSAFE_FOLDERS: &[&str] = &[
    "crates/brownout-engine/loader/",
    "crates/brownout-engine/src/sys/",
    "crates/brownout-runtime/",
];

/// README's two commands; the second is all that the continuous integration runs.
const DEMO: &str = "cargo run --release -- demo";
const TEST: &str = "cargo xtask setup && cargo xtask test";

pub fn run(args: Args) -> Result<()> {
    args.finish()?;
    let mut problems = Vec::new();
    let files = tracked_files()?;
    let instruments = layers::instrument_names(&files);
    let mut rule_ids = Vec::new();
    for path in files.iter().filter(|path| path.ends_with(".rs")) {
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            rule_ids.extend(rule_ids::declared(path, &text));
        }
    }
    let (mut definitions, mut exports) = (Vec::new(), Vec::new());
    for path in &files {
        // A file that another change has deleted need not be checked.
        let Ok(bytes) = std::fs::read(root().join(path)) else {
            continue;
        };
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        problems.extend(
            check_text(path, &text)
                .into_iter()
                .map(|problem| format!("{path}: {problem}")),
        );
        if path.ends_with(".rs") {
            let mut found = layers::check(path, &text, &instruments);
            found.extend(library_names::check(path, &text));
            found.extend(rule_ids::check(path, &text, &rule_ids));
            problems.extend(
                found
                    .into_iter()
                    .map(|problem| format!("{path}: {problem}")),
            );
        }
        exports.extend(exports::exported(path, &text));
        if glossary::applies_to(path) {
            definitions.extend(glossary::definitions(path, &text));
        }
    }
    check_documents(&files, &mut problems)?;
    let contributing = std::fs::read_to_string(root().join("CONTRIBUTING.md"))?;
    problems.extend(Glossary::parse(&contributing)?.check(&definitions));
    problems.extend(exports::check(&exports));
    problems.extend(dependencies::check()?);
    problems.iter().for_each(|problem| println!("{problem}"));
    if !problems.is_empty() {
        let plural = if problems.len() == 1 { "" } else { "s" };
        bail!(
            "tidy: {} problem{plural} in {} files",
            problems.len(),
            files.len()
        );
    }
    println!("tidy: {} files are tidy", files.len());
    Ok(())
}

pub fn tracked_files() -> Result<Vec<String>> {
    let output = Command::new("git")
        // The checkout may belong to another user.
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!(
            "git ls-files: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect())
}

/// What is wrong with one text file.
fn check_text(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let extension = Path::new(path)
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    if !text.is_empty() && !text.ends_with('\n') {
        problems.push("does not end with a line end".to_owned());
    }
    for (number, line) in (1..).zip(text.lines()) {
        if line.ends_with([' ', '\t', '\r']) {
            problems.push(format!("line {number} ends with white space"));
        }
        if matches!(extension, "rs" | "toml" | "md") && line.contains('\t') {
            problems.push(format!("line {number} holds a tab"));
        }
        if let Some(mark) =
            unfinished_mark(line).filter(|_| matches!(extension, "rs" | "c" | "cpp" | "h" | "toml"))
        {
            problems.push(format!("line {number} holds {mark}"));
        }
        if names_this_checkout(line) {
            problems.push(format!("line {number} names the path of this checkout"));
        }
    }
    problems.extend(line_length::check(path, text));
    match extension {
        "rs" => problems.extend(check_rust(path, text)),
        "c" | "cpp" | "h" if !text.starts_with("/*") => {
            problems.push("does not open with a comment that states its purpose".to_owned());
        }
        _ => {}
    }
    problems
}

fn check_rust(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push("does not open with `//!` and its purpose".to_owned());
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !LONG.iter().any(|(long, _)| *long == path) {
        problems.push(format!(
            "has {lines} lines; past {MAX_LINES} it needs a reason"
        ));
    }
    let fenced =
        UNSAFE_FOLDERS.iter().any(|fence| path.starts_with(fence)) || path.ends_with("/sys.rs");
    // Programs under test do as programs do.
    let is_test_program = ["tests/", "corpus/", "fuzz/"]
        .iter()
        .any(|folder| path.starts_with(folder))
        || path.contains("/tests/");
    if !fenced && !is_test_program {
        let block = concat!("unsafe", " {");
        if let Some((number, _)) = (1..)
            .zip(text.lines())
            .find(|(_, line)| line.contains(block))
        {
            problems.push(format!(
                "line {number}: unsafe code outside of the runtime, the loader and `sys`"
            ));
        }
    }
    problems
}

/// A mark that something is not finished, or was made quiet instead of right.
fn unfinished_mark(line: &str) -> Option<&'static str> {
    // Spelt in halves so that this file is tidy.
    const MARKS: &[(&str, &str)] = &[
        (concat!("TO", "DO"), "an unfinished mark"),
        (concat!("FIX", "ME"), "an unfinished mark"),
        (concat!("todo", "!("), "an unfinished mark"),
        (concat!("unimple", "mented!("), "an unfinished mark"),
        (concat!("dbg", "!("), "a debugging aid"),
        (concat!("#[ig", "nore"), "a test that is never run"),
        (concat!("allow(dead", "_code"), "permission for dead code"),
        (concat!("allow(un", "used"), "permission for unused code"),
    ];
    MARKS
        .iter()
        .find(|(mark, _)| line.contains(mark))
        .map(|(_, meaning)| *meaning)
}

/// The place of this very checkout: a path that means nothing to anybody else.
fn names_this_checkout(line: &str) -> bool {
    let checkout = root().to_string_lossy();
    // A checkout at, say, `/src` would find itself everywhere.
    checkout.matches('/').count() > 1 && line.contains(&*checkout)
}

/// What the documents must say.
fn check_documents(files: &[String], problems: &mut Vec<String>) -> Result<()> {
    let read =
        |name: &str| std::fs::read_to_string(root().join(name)).with_context(|| name.to_owned());
    let readme = read("README.md")?;
    for command in [DEMO, TEST] {
        if !readme.lines().any(|line| line.trim() == command) {
            problems.push(format!(
                "README.md: `{command}` is not there on a line of its own"
            ));
        }
    }
    let ci = read(".ci/run")?;
    if !ci.lines().any(|line| line.trim() == TEST) {
        problems.push(format!(".ci/run: does not run `{TEST}`"));
    }
    if !read("CHANGELOG.md")?.contains("## Unreleased") {
        problems.push("CHANGELOG.md: there is no `## Unreleased`".to_owned());
    }
    let architecture = read("ARCHITECTURE.md")?;
    for name in source_files_named(&architecture) {
        let suffix = format!("/{name}");
        if !files.iter().any(|path| path.ends_with(&suffix)) {
            problems.push(format!("ARCHITECTURE.md: there is no `{name}`"));
        }
    }
    for name in layers::registered(&read(layers::REGISTRY)?) {
        if !architecture.contains(&format!("\n| `{name}` | ")) {
            problems.push(format!(
                "ARCHITECTURE.md: the instrument `{name}` is not in the table of instruments"
            ));
        }
    }
    for manifest in files
        .iter()
        .filter(|path| path.starts_with("crates/") && path.ends_with("/Cargo.toml"))
    {
        let folder = manifest.trim_end_matches("/Cargo.toml");
        let Ok(text) = read(manifest) else { continue };
        if !architecture.contains(&format!("`{folder}`")) {
            problems.push(format!(
                "ARCHITECTURE.md: `{folder}` is not on the code map"
            ));
        }
        if !text.contains("\nlicense") {
            problems.push(format!("{manifest}: no license"));
        }
        if !text.contains("\ndescription") {
            problems.push(format!("{manifest}: no description"));
        }
    }
    Ok(())
}

/// The Rust files that a document names in backquotes.
fn source_files_named(text: &str) -> impl Iterator<Item = &str> {
    text.split('`')
        .filter(|quoted| quoted.ends_with(".rs") && !quoted.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tidy_file_has_no_problems() {
        assert!(
            check_text(
                "crates/brownout/src/main.rs",
                "//! Purpose.\n\nfn main() {}\n"
            )
            .is_empty()
        );
        assert!(
            check_text(
                "tests/programs/a.c",
                "/* Purpose. */\nint main(void) { return 0; }\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn problems_are_found() {
        let problems = |path: &str, text: &str| check_text(path, text).len();
        assert_eq!(problems("a.rs", "fn main() {}\n"), 1);
        assert_eq!(problems("a.c", "int x;\n"), 1);
        assert_eq!(problems("a.rs", "//! P.\nfn f() {} \n"), 1);
        assert_eq!(problems("a.rs", "//! P."), 1);
        assert_eq!(problems("a.rs", concat!("//! P.\n// TO", "DO later\n")), 1);
        assert_eq!(
            problems("a.md", &format!("see {}/notes\n", root().display())),
            1
        );
        assert_eq!(
            problems("a.rs", &format!("//! P.\n{}", "//\n".repeat(MAX_LINES))),
            1
        );
    }

    #[test]
    fn unsafe_code_is_fenced() {
        let text = concat!("//! P.\nfn f() { unsafe", " { g() } }\n");
        assert_eq!(
            check_text("crates/brownout-trace/src/lib.rs", text).len(),
            1
        );
        assert_eq!(
            check_text("crates/brownout-engine/src/drain.rs", text).len(),
            1
        );
        assert!(check_text("crates/brownout-engine/src/sys/memory.rs", text).is_empty());
        assert!(check_text("crates/brownout-engine/loader/src/main.rs", text).is_empty());
        assert!(check_text("crates/brownout-trace/src/sys.rs", text).is_empty());
        assert!(check_text("crates/brownout-runtime/src/lib.rs", text).is_empty());
    }

    #[test]
    fn source_files_are_those_in_backquotes() {
        let text = "`a/b.rs`, `c.rs`: not d.rs, `e`, `f g.rs`";
        assert_eq!(
            source_files_named(text).collect::<Vec<_>>(),
            ["a/b.rs", "c.rs"]
        );
    }
}
