//! Lines of prose are not too long to read: comments, and Markdown outside of tables and code.
//!
//! What it can miss: comments behind code, which rustfmt keeps short with the code, and macros' text.

/// Columns past which a line of prose is to be broken.
const MAX_COLUMNS: usize = 140;

/// Which lines of one text file are too long.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let Some(prose) = prose_of(path) else {
        return Vec::new();
    };
    let mut in_code = false;
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(said) = prose(line) else {
            in_code = false;
            continue;
        };
        if said.starts_with("```") {
            in_code = !in_code;
        }
        let columns = line.chars().count();
        // Tables cannot be broken, nor can addresses.
        let is_prose = !in_code && !said.starts_with('|') && !line.contains("://");
        if is_prose && columns > MAX_COLUMNS {
            problems.push(format!(
                "line {number} has {columns} columns of prose; break it before {MAX_COLUMNS}"
            ));
        }
    }
    problems
}

/// How a line of prose is recognised in files of this kind, and what it says.
fn prose_of(path: &str) -> Option<fn(&str) -> Option<&str>> {
    let (_, extension) = path.rsplit_once('.')?;
    match extension {
        "md" => Some(|line| Some(line.trim_start())),
        "rs" => Some(|line| after(line, &["///", "//!", "//"])),
        "c" | "cpp" | "h" => Some(|line| after(line, &["//", "/*", "* "])),
        "toml" => Some(|line| after(line, &["#"])),
        _ => None,
    }
}

/// What follows the mark with which a comment begins.
fn after<'a>(line: &'a str, marks: &[&str]) -> Option<&'a str> {
    let line = line.trim_start();
    let said = marks.iter().find_map(|mark| line.strip_prefix(mark));
    said.map(str::trim_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, mark: &str) -> usize {
        let words = "word ".repeat(30);
        check(path, &format!("{mark}{}\n", words.trim_end())).len()
    }

    #[test]
    fn long_comments_and_paragraphs_are_reported() {
        for (path, mark) in [
            ("a.md", ""),
            ("a.rs", "//! "),
            ("a.rs", "    /// "),
            ("a.rs", "// "),
            ("a.c", " * "),
            ("a.c", "/* "),
            ("Cargo.toml", "# "),
        ] {
            assert_eq!(problems(path, mark), 1, "{path} {mark}");
        }
        let short = format!("{}\n", "é".repeat(MAX_COLUMNS));
        assert!(check("a.md", &short).is_empty());
    }

    #[test]
    fn tables_addresses_and_code_may_be_long() {
        for (path, mark) in [
            ("a.md", "| "),
            ("a.rs", "//! | "),
            ("a.md", "https://example.org/ "),
            ("a.rs", "let x = "),
            ("a.c", "*x = "),
            ("a.md", "```\n"),
            ("a.rs", "/// ```\n/// "),
            ("a.json", ""),
        ] {
            assert_eq!(problems(path, mark), 0, "{path} {mark}");
        }
        assert_eq!(problems("a.md", "```\ncode\n```\n"), 1);
    }
}
