//! One concept for each word: no two crates export types of the same name.
//!
//! The exports of a crate are the names that its `lib.rs` re-exports from its own modules. Types that stay inside a
//! crate may be called as suits their file, unless the glossary has the name.

use super::rust_code::{code_of, identifiers};

/// A type that a crate exports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Export {
    name: String,
    package: String,
}

/// The types that a file exports, if it is the root of a library.
pub fn exported(path: &str, text: &str) -> Vec<Export> {
    let below = path.strip_prefix("crates/");
    let Some(package) = below.and_then(|below| below.strip_suffix("/src/lib.rs")) else {
        return Vec::new();
    };
    let code = code_of(text);
    let statements = code.split(';').filter_map(|statement| {
        let (_, exported) = statement.rsplit_once("pub use ")?;
        // Of another crate, which exports it itself.
        (!exported.starts_with("brownout_")).then_some(exported)
    });
    let names = statements.flat_map(|exported| identifiers(exported).map(|(name, _)| name));
    // Constants are written in capitals.
    let is_type =
        |name: &&str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    names
        .filter(is_type)
        .map(|name| Export {
            name: name.to_owned(),
            package: package.to_owned(),
        })
        .collect()
}

/// What is wrong with the exports of all crates.
pub fn check(exports: &[Export]) -> Vec<String> {
    let mut sorted = exports.to_vec();
    sorted.sort();
    let pairs = sorted.windows(2).filter_map(|pair| match pair {
        [first, second] if first.name == second.name => Some((first, second)),
        _ => None,
    });
    pairs
        .map(|(first, second)| {
            format!(
                "{} and {} both export a type `{}`; say in its name what distinguishes it",
                first.package, second.package, first.name
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> usize {
        let files = files.iter();
        let exports: Vec<Export> = files
            .flat_map(|(path, text)| exported(path, text))
            .collect();
        check(&exports).len()
    }

    #[test]
    fn two_crates_do_not_export_the_same_name() {
        let crash = (
            "crates/crash/src/lib.rs",
            "mod a;\npub use a::{Baseline, LIMIT, of};\n",
        );
        let report = |text| ("crates/report/src/lib.rs", text);
        assert_eq!(problems(&[crash, report("pub use b::Baseline;\n")]), 1);
        assert_eq!(problems(&[crash, report("use b::Baseline;\n")]), 0);
        assert_eq!(problems(&[crash, report("pub use b::{LIMIT, of};\n")]), 0);
        let other = "pub use brownout_crash::Baseline;\n";
        assert_eq!(problems(&[crash, report(other)]), 0);
        let module = ("crates/report/src/b.rs", "pub use b::Baseline;\n");
        assert_eq!(problems(&[crash, module]), 0);
    }
}
