//! Patterns with `*` and `?` for names.
//!
//! No other character is special, because function names contain brackets and braces. `*` also matches slashes, as
//! in Valgrind's suppressions.

/// A pattern: `*` matches any number of characters, `?` exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard(String);

impl Wildcard {
    /// The pattern that a user wrote.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> &str {
        &self.0
    }

    /// Whether it matches the whole of `name`.
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }

    /// Matches a path: a pattern without a slash against the last component, a relative pattern against the
    /// last components, any other pattern against the whole path.
    pub fn matches_path(&self, path: &str) -> bool {
        if self.0.starts_with(['/', '*']) {
            return self.matches(path);
        }
        let tails = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
        let relative = self.0.contains('/');
        std::iter::once(path)
            .chain(tails)
            .filter(|tail| relative || !tail.contains('/'))
            .any(|tail| self.matches(tail))
    }
}

/// On a mismatch, only the last `*` has to be retried with a longer match, because each earlier `*` already has
/// its shortest match. The running time is at most the product of both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, n));
            }
            Some(b'?') => {
                p += 1;
                n = end_of_char(name, n);
            }
            Some(&byte) if byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else {
                    return false;
                };
                retry = Some((after_star, from + 1));
                (p, n) = (after_star, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// The end of the character at `at`: `?` matches a character, which may have several bytes.
fn end_of_char(name: &[u8], at: usize) -> usize {
    let is_continuation = |byte: &u8| byte & 0xc0 == 0x80;
    let rest = &name[at + 1..];
    at + 1 + rest.iter().take_while(|byte| is_continuation(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Wildcard::new(pattern).matches(name)
    }

    #[test]
    fn stars_and_question_marks() {
        assert!(matches("put", "put"));
        assert!(!matches("put", "puts"));
        assert!(matches("put*", "puts"));
        assert!(matches("*_persist", "pmem_persist"));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-b-b"));
        assert!(matches("p?t", "p\u{fc}t"));
        assert!(!matches("p?t", "pt"));
        assert!(matches("*", ""));
    }

    #[test]
    fn brackets_are_not_special() {
        let name = "<[T] as Store>::put::{{closure}}";
        assert!(matches(name, name));
        assert!(matches("<[T]*{{closure}}", name));
    }

    #[test]
    fn paths_are_matched_from_the_end() {
        let path = |pattern: &str| Wildcard::new(pattern).matches_path("/home/u/src/log/kv.c");
        assert!(path("kv.c"));
        assert!(path("*.c"));
        assert!(path("k?.c"));
        assert!(path("log/kv.c"));
        assert!(path("src/*/kv.c"));
        assert!(path("/home/*"));
        assert!(!path("v.c"));
        assert!(!path("home/kv.c"));
        assert!(!path("log"));
    }

    /// A simple and slow reference implementation.
    fn slow(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|skip| slow(rest, &name[skip..])),
            Some(('?', rest)) => !name.is_empty() && slow(rest, &name[1..]),
            Some((c, rest)) => name.first() == Some(c) && slow(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn the_fast_implementation_agrees_with_the_slow_one(pattern in "[ab\u{fc}?*]{0,7}", name in "[ab\u{fc}]{0,9}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &name), slow(&chars(&pattern), &chars(&name)));
        }
    }

    #[test]
    fn a_hostile_pattern_is_fast() {
        let pattern = "*a".repeat(2_000);
        assert!(!matches(&pattern, &"a".repeat(1_999)));
        assert!(!matches(&format!("{pattern}b"), &"a".repeat(20_000)));
    }
}
