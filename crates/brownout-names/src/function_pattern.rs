//! A function, or several, as a user names them.

use crate::demangle;
use crate::name_parts::{NameParts, without_arguments};
use crate::wildcard::Wildcard;

/// Endings that a compiler adds to the symbols of copies of a function. A copy is entered as the function would be.
const COPIES: [&str; 4] = ["constprop", "isra", "lto_priv", "llvm"];

/// A pattern for functions. It matches
///
/// - the symbol (`_ZN4pool6insertEi`),
/// - the demangled name, with or without parameters and template arguments (`pool::insert(int)`, `pool::insert`),
/// - the name without some or all of its scopes (`insert`).
///
/// `*` stands for any number of characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPattern {
    text: String,
    wildcard: Wildcard,
    /// The demangled name, if the text is a symbol that has one.
    demangled: Option<String>,
}

/// How much of a function's name a pattern gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameMatch {
    /// The function without some or all of its scopes.
    Unqualified,
    /// All of it, or all but parameters and template arguments.
    Whole,
}

impl FunctionPattern {
    /// The pattern that a user wrote.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let demangled = demangle(&text);
        Self {
            wildcard: Wildcard::new(text.clone()),
            demangled: (demangled != text).then_some(demangled),
            text,
        }
    }

    /// The pattern as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches a function with this demangled name, as stacks show it.
    pub fn matches(&self, name: &str) -> bool {
        self.match_of(name).is_some()
    }

    /// Whether it matches a function with this name in a symbol table.
    pub fn matches_symbol(&self, symbol: &str) -> bool {
        self.match_of_symbol(symbol).is_some()
    }

    /// How it matches a function with this name in a symbol table. Fragments of functions, such as `f.cold`, are none.
    pub fn match_of_symbol(&self, symbol: &str) -> Option<NameMatch> {
        let symbol = without_copy_ending(symbol)?;
        if self.wildcard.matches(symbol) {
            return Some(NameMatch::Whole);
        }
        match self.demangled {
            // It names one symbol; several may have the same demangled name.
            Some(_) => None,
            None => self.match_of(&demangle(symbol)),
        }
    }

    fn match_of(&self, name: &str) -> Option<NameMatch> {
        if let Some(demangled) = &self.demangled {
            return (demangled == name).then_some(NameMatch::Whole);
        }
        if self.wildcard.matches(name) {
            return Some(NameMatch::Whole);
        }
        if !name.contains(self.word()) {
            return None;
        }
        let parts = NameParts::of(name);
        let path = parts.of_rust_type();
        let matches = [Some(parts), path].into_iter().flatten();
        matches
            .filter_map(|parts| self.match_of_parts(&parts))
            .max()
    }

    fn match_of_parts(&self, parts: &NameParts<'_>) -> Option<NameMatch> {
        let plain: Vec<&str> = parts.scopes.iter().map(|s| without_arguments(s)).collect();
        let mut plain_function = parts.scopes.clone();
        let last = parts.scopes.len() - 1;
        plain_function[last] = plain[last];
        (0..parts.scopes.len()).find_map(|first| {
            let spellings = [&parts.scopes, &plain_function, &plain].map(|s| s[first..].join("::"));
            let matches = spellings.iter().any(|spelling| {
                self.wildcard.matches(spelling)
                    || self
                        .wildcard
                        .matches(&format!("{spelling}{}", parts.parameters))
            });
            matches.then_some(match first {
                0 => NameMatch::Whole,
                _ => NameMatch::Unqualified,
            })
        })
    }

    /// A word that every name has which the pattern matches; it rules most names out.
    fn word(&self) -> &str {
        let end = self.text.find(['<', '(', ' ']).unwrap_or(self.text.len());
        let scopes = &self.text[..end];
        let last = scopes.rsplit("::").next().unwrap_or(scopes);
        let literal = last.find(['*', '?']).unwrap_or(last.len());
        &last[..literal]
    }
}

/// A symbol without what a compiler adds to the names of copies; `None` for a fragment, which is not entered by a call.
fn without_copy_ending(symbol: &str) -> Option<&str> {
    let mut name = symbol.split('@').next().unwrap_or(symbol);
    if name.contains(".part.") || name.contains(".cold") {
        return None;
    }
    while let Some((before, number)) = name.rsplit_once('.')
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && let Some((base, ending)) = before.rsplit_once('.')
        && COPIES.contains(&ending)
    {
        name = base;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        FunctionPattern::new(pattern).matches(name)
    }

    fn symbol(pattern: &str, symbol: &str) -> Option<NameMatch> {
        FunctionPattern::new(pattern).match_of_symbol(symbol)
    }

    #[test]
    fn a_name_may_lack_parameters_template_arguments_and_scopes() {
        let name = "void kv::store<int>::put<long>(int, long) const";
        for pattern in [
            name,
            "put",
            "put<long>",
            "put(int, long)",
            "store::put",
            "store<int>::put",
            "kv::store::put",
            "kv::store<int>::put<long>(int, long)",
            "pu*",
            "kv::*",
            "store*put",
        ] {
            assert!(matches(pattern, name), "{pattern}");
        }
        for pattern in ["store", "kv", "ut", "put(int)", "void", "v::store::put", ""] {
            assert!(!matches(pattern, name), "{pattern}");
        }
    }

    #[test]
    fn a_symbol_matches_the_demangled_name() {
        assert!(matches("_ZN4pool6insertEi", "pool::insert(int)"));
        assert!(!matches("_ZN4pool6insertEi", "pool::insert(long)"));
    }

    #[test]
    fn symbols_are_matched_in_every_spelling() {
        let insert = "_ZN4pool6insertEi";
        for pattern in [insert, "pool::insert(int)", "pool::insert", "_ZN4pool*"] {
            assert_eq!(symbol(pattern, insert), Some(NameMatch::Whole), "{pattern}");
        }
        assert_eq!(symbol("insert", insert), Some(NameMatch::Unqualified));
        assert_eq!(symbol("_ZN4pool6insertEi", "_ZN4pool6insertEl"), None);
        assert_eq!(
            symbol("memcpy", "memcpy@@GLIBC_2.14"),
            Some(NameMatch::Whole)
        );
        let rust = "_ZN5store3Log4push17h01234567890abcdeE";
        assert_eq!(symbol("Log::push", rust), Some(NameMatch::Unqualified));
    }

    #[test]
    fn copies_are_the_function_and_fragments_are_not() {
        for copy in ["put.constprop.0", "put.isra.0.constprop.1", "put.llvm.123"] {
            assert_eq!(symbol("put", copy), Some(NameMatch::Whole), "{copy}");
        }
        for fragment in ["put.part.0", "put.cold", "put.constprop.0.cold"] {
            assert_eq!(symbol("put*", fragment), None, "{fragment}");
        }
        assert_eq!(symbol("put", "put.1"), None);
    }
}
