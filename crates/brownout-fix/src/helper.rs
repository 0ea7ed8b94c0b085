//! The helper that a repair adds to a file without an idiom of its own: it writes cache lines back with the best instruction
//! that the CPU has.
//!
//! The guard lets a header and the file that includes it have the helper both.

use crate::arch::{C_WRITE_BACK, C_WRITE_BACK_HEADERS, RUST_WRITE_BACK};
use crate::edit::Edit;
use crate::idiom::includes;
use crate::syntax::{SourceLanguage, SourceTree, descendants};

/// The name of the helper.
pub(crate) const WRITE_BACK: &str = "pm_write_back";
/// The name of the helper under the model `msync`.
pub(crate) const SYNC: &str = "pm_sync";

const C_SYNC: &str = include_str!("../helpers/pm_sync.c");

const RUST_SYNC: &str = include_str!("../helpers/pm_sync.rust");

/// The edits that add the helper of that name to a file, for a use at `offset`. None if the file has it.
pub(crate) fn add(name: &str, source: &SourceTree, offset: usize) -> Vec<Edit> {
    if source.text.contains(&format!("{name}(")) {
        return Vec::new();
    }
    if source.language == SourceLanguage::Rust {
        let text = match name {
            SYNC => RUST_SYNC,
            _ => RUST_WRITE_BACK,
        };
        return vec![Edit::insert(source.text.len(), format!("\n{text}"))];
    }
    let (text, headers): (_, &[&str]) = match name {
        SYNC => (C_SYNC, &["stdlib.h", "sys/mman.h", "unistd.h"]),
        _ => (C_WRITE_BACK, C_WRITE_BACK_HEADERS),
    };
    let missing = headers.iter().filter(|header| !includes(source, header));
    let included: String = missing
        .map(|header| format!("#include <{header}>\n"))
        .collect();
    let at = after_includes(source, offset);
    // At the start of a file nothing separates the helper from what follows.
    let end = if at == 0 { "\n" } else { "" };
    let gap = if at == 0 { "" } else { "\n" };
    vec![Edit::insert(at, format!("{included}{gap}{text}{end}"))]
}

/// The end of the last line before `offset` that includes a header at the top level; the start of the first item without one.
fn after_includes(source: &SourceTree, offset: usize) -> usize {
    let root = source.root();
    let mut cursor = root.walk();
    let top = root
        .children(&mut cursor)
        .filter(|node| node.start_byte() < offset);
    let includes = top.filter(|node| node.kind() == "preproc_include" && !inside_guard(*node));
    let last = includes.last();
    let guarded = || {
        let guards = descendants(root).into_iter();
        let mut within = guards.filter(|node| {
            let is_guarded = node.parent().is_some_and(|up| up.kind() == "preproc_ifdef");
            node.kind() == "preproc_include" && is_guarded && node.start_byte() < offset
        });
        within.next_back()
    };
    let found = last.or_else(guarded);
    match found {
        Some(node) => end_of_line(&source.text, node.end_byte()),
        None => first_item(source),
    }
}

fn inside_guard(node: tree_sitter::Node<'_>) -> bool {
    node.parent()
        .is_some_and(|up| up.kind().starts_with("preproc_if"))
}

fn first_item(source: &SourceTree) -> usize {
    let root = source.root();
    let mut cursor = root.walk();
    let mut items = root
        .children(&mut cursor)
        .filter(|node| node.kind() != "comment");
    items.next().map_or(0, |node| node.start_byte())
}

fn end_of_line(text: &str, at: usize) -> usize {
    // The grammar counts the end of the line as a part of the directive.
    match text[..at].ends_with('\n') {
        true => at,
        false => text[at..].find('\n').map_or(text.len(), |end| at + end + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::apply;

    fn added(path: &str, text: &str) -> String {
        let source = SourceTree::new(path, text.to_owned()).unwrap();
        apply(text, &add(WRITE_BACK, &source, text.len()))
    }

    #[test]
    fn the_helper_follows_the_headers() {
        let text = "#include <stdio.h>\n#include \"a.h\"\n\nint main(void) { return 0; }\n";
        let text = added("x.c", text);
        assert!(
            text.starts_with(
                "#include <stdio.h>\n#include \"a.h\"\n#include <cpuid.h>\n\n/* Starts"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("#endif\n\nint main(void) { return 0; }\n"),
            "{text}"
        );
    }

    #[test]
    fn a_file_without_headers_has_it_before_its_first_item() {
        let text = added("x.c", "/* why */\nint main(void) { return 0; }\n");
        assert!(
            text.starts_with("/* why */\n#include <cpuid.h>\n"),
            "{text}"
        );
    }

    #[test]
    fn it_is_added_once() {
        let once = added("x.c", "int x;\n");
        assert_eq!(added("x.c", &once), once);
    }

    #[test]
    fn rust_has_it_at_the_end() {
        let text = added("x.rs", "fn main() {}\n");
        assert!(
            text.starts_with("fn main() {}\n\n/// Starts writing"),
            "{text}"
        );
        let source = SourceTree::new("x.rs", "fn main() {}\n".to_owned()).unwrap();
        let edits = add(SYNC, &source, 0);
        assert!(
            edits[0]
                .text
                .contains("\nfn pm_sync(from: *const u8, size: usize) {\n")
        );
    }
}
