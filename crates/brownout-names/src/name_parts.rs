//! Takes the demangled name of a C++ or Rust function apart.
//!
//! It is no parser of either language: it follows brackets, and knows that `operator<` is none. Can miss: functions that
//! return pointers to functions, and `decltype` as a return type.

/// The parts of a function's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameParts<'a> {
    /// The function and the scopes around it, the outermost first, with their template arguments.
    pub(crate) scopes: Vec<&'a str>,
    /// The list of parameters with its parentheses; empty if the name has none.
    pub(crate) parameters: &'a str,
}

impl<'a> NameParts<'a> {
    pub(crate) fn of(name: &'a str) -> Self {
        let bytes = name.as_bytes();
        let mut scopes = Vec::new();
        let (mut at, mut start, mut depth) = (0, 0, 0_usize);
        // Where the outermost open bracket is, if it is a parenthesis.
        let mut open = None;
        // The type in `operator std::string` is part of the name, spaces included.
        let mut converts = false;
        while at < bytes.len() {
            if depth == 0 && is_operator(name, at) {
                at = end_of_operator(name, at);
                converts |= bytes[at - 1] == b' ';
                continue;
            }
            match bytes[at] {
                b'(' if depth == 0 => {
                    open = Some(at);
                    depth = 1;
                }
                b'<' | b'(' | b'[' | b'{' => depth += 1,
                b'>' if at > 0 && bytes[at - 1] == b'-' => {}
                b'>' | b')' | b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    let opened = if depth == 0 { open.take() } else { None };
                    // A group that a scope follows is no parameter list of this function: `(anonymous namespace)::f`.
                    if let Some(open) = opened
                        && !name[at + 1..].starts_with("::")
                    {
                        scopes.push(&name[start..open]);
                        let parameters = &name[open..=at];
                        return Self { scopes, parameters };
                    }
                }
                b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => {
                    scopes.push(&name[start..at]);
                    at += 1;
                    start = at + 1;
                }
                // What came before is the type that the function returns.
                b' ' if depth == 0 && !converts => {
                    scopes.clear();
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        scopes.push(&name[start..]);
        let parameters = "";
        Self { scopes, parameters }
    }

    /// The scopes of `mycrate::Store::put` if the name is `<mycrate::Store>::put` or `<mycrate::Store as Trait>::put`.
    pub(crate) fn of_rust_type(&self) -> Option<Self> {
        let (first, rest) = self.scopes.split_first()?;
        let inner = first.strip_prefix('<')?.strip_suffix('>')?;
        let ty = inner.split(" as ").next().unwrap_or(inner);
        let mut scopes = NameParts::of(ty).scopes;
        scopes.extend(rest);
        let parameters = self.parameters;
        Some(Self { scopes, parameters })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Whether the word `operator` is at `at`.
fn is_operator(name: &str, at: usize) -> bool {
    let bytes = name.as_bytes();
    bytes[at..].starts_with(b"operator")
        && (at == 0 || !is_word(bytes[at - 1]))
        && bytes.get(at + 8).is_some_and(|&next| !is_word(next))
}

/// The end of the operator whose word is at `at`: of its symbol, or of the space before a type.
fn end_of_operator(name: &str, at: usize) -> usize {
    let symbol = &name[at + 8..];
    let len = match symbol {
        _ if symbol.starts_with("()") || symbol.starts_with("[]") => 2,
        _ if symbol.starts_with(' ') => 1,
        _ => {
            let is_symbol = |c: char| !"<>=!+-*/%^&|~,".contains(c);
            symbol.find(is_symbol).unwrap_or(symbol.len())
        }
    };
    at + 8 + len
}

/// A scope or a name without template arguments.
pub(crate) fn without_arguments(scope: &str) -> &str {
    if is_operator(scope, 0) {
        return &scope[..end_of_operator(scope, 0)];
    }
    match scope.find('<') {
        None | Some(0) => scope,
        Some(start) => &scope[..start],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_and_parameters_are_found() {
        for (name, scopes, parameters) in [
            ("main", &["main"][..], ""),
            ("pool::insert(int)", &["pool", "insert"], "(int)"),
            (
                "void store<std::pair<int, int>>::put<long>(int, long) const",
                &["store<std::pair<int, int>>", "put<long>"],
                "(int, long)",
            ),
            (
                "(anonymous namespace)::f(int)",
                &["(anonymous namespace)", "f"],
                "(int)",
            ),
            ("a::operator<(b, c)", &["a", "operator<"], "(b, c)"),
            ("a::operator()(b)", &["a", "operator()"], "(b)"),
            (
                "a::operator unsigned int() const",
                &["a", "operator unsigned int"],
                "()",
            ),
            (
                "f(int)::{lambda(int)#1}::operator()(int) const",
                &["f(int)", "{lambda(int)#1}", "operator()"],
                "(int)",
            ),
            (
                "<store::Log as core::ops::Drop>::drop",
                &["<store::Log as core::ops::Drop>", "drop"],
                "",
            ),
            ("operators::put(int)", &["operators", "put"], "(int)"),
            ("", &[""], ""),
        ] {
            let parts = NameParts::of(name);
            assert_eq!((&parts.scopes[..], parts.parameters), (scopes, parameters));
        }
    }

    #[test]
    fn the_type_of_a_rust_method_is_a_path() {
        let parts = NameParts::of("<store::Log as core::ops::Drop>::drop");
        let path = parts.of_rust_type().unwrap();
        assert_eq!(path.scopes, ["store", "Log", "drop"]);
        assert_eq!(NameParts::of("store::put").of_rust_type(), None);
    }

    #[test]
    fn template_arguments_are_left_out() {
        assert_eq!(without_arguments("put<long>"), "put");
        assert_eq!(without_arguments("operator<"), "operator<");
        assert_eq!(without_arguments("<T as U>"), "<T as U>");
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_taken_apart(name in "(operator|[a<>(): \u{fc}{}-]){0,16}") {
            let parts = NameParts::of(&name);
            assert!(!parts.scopes.is_empty());
            let _ = parts.of_rust_type();
            parts.scopes.iter().for_each(|scope| assert!(without_arguments(scope).len() <= scope.len()));
        }
    }
}
