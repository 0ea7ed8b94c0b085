//! Shortens the names of C++ and Rust functions: long template and generic arguments become `<…>`.

/// Arguments of at most so many characters are kept.
const KEPT: usize = 8;

/// The name with long template arguments left out: `std::map<…>::insert`.
pub fn short_name(name: &str) -> String {
    let mut short = String::new();
    let mut rest = name;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        short.push_str(before);
        match argument_list(&short, from) {
            Some(len) if from[1..len - 1].chars().count() > KEPT => {
                short.push_str("<…>");
                rest = &from[len..];
            }
            Some(len) => {
                short.push_str(&from[..len]);
                rest = &from[len..];
            }
            None => {
                short.push('<');
                rest = &from[1..];
            }
        }
    }
    short.push_str(rest);
    short
}

/// The length of the argument list that `text` begins with; `None` if this `<` begins none: it is an operator, or the `<` of
/// `<Type as Trait>`, in which the type matters.
fn argument_list(before: &str, text: &str) -> Option<usize> {
    let operator = before.trim_end_matches('<').ends_with("operator");
    let after_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    if operator || !after_name {
        return None;
    }
    let mut depth = 0_usize;
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // The arrow of a function type is no bracket.
            '>' if last != '-' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        last = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn long_arguments_are_left_out() {
        for (name, short) in [
            ("put", "put"),
            ("std::map<int, std::string>::insert", "std::map<…>::insert"),
            ("vec<int>::push", "vec<int>::push"),
            (
                "tree<std::pair<long, long>, std::less<long> >::find(std::vector<unsigned long>&)",
                "tree<…>::find(std::vector<…>&)",
            ),
            (
                "core::ops::function::FnOnce::call_once::<fn(u64) -> bool, (u64,)>",
                "core::ops::function::FnOnce::call_once::<…>",
            ),
            (
                "<store::Log<store::Entry<u64>> as store::Append>::append",
                "<store::Log<…> as store::Append>::append",
            ),
        ] {
            assert_eq!(short_name(name), short);
        }
    }

    #[test]
    fn operators_and_unpaired_brackets_stay() {
        for name in [
            "operator<(Entry const&, Entry const&)",
            "operator<<",
            "Entry::operator->",
            "a < b",
            "f<unpaired arguments",
            "<",
        ] {
            assert_eq!(short_name(name), name);
        }
    }
}
