//! Rust source without what is not code: comments and the contents of literals become spaces, so that checks for names
//! do not find them in prose.
//!
//! What it can miss: it reads no macros, so code that a macro makes is not seen.

/// `text` with comments, strings and characters blanked out; lines stay where they are.
pub fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = end_of_prose(bytes, at);
        if end == at {
            code.push(bytes[at]);
            at += 1;
        } else {
            let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
            code.extend(bytes[at..end].iter().map(blank));
            at = end;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// The strings of a file of Rust code, each with its line, as they are written.
pub fn literals_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut line = 1;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let (start, first) = (at, line);
            at = end_of_prose(bytes, at).max(at + 1);
            line += bytes[start..at].iter().filter(|b| **b == b'\n').count();
            let whole = text.get(start..at).unwrap_or_default();
            let quoted = whole.trim_start_matches(['r', 'b', 'c']).trim_matches('#');
            let quoted = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            if let Some(content) = quoted.filter(|_| whole.len() > 1) {
                return Some((first, content));
            }
        }
        None
    })
}

/// The end of the comment or literal that starts at `at`; `at` if none does.
fn end_of_prose(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let starts_word = at == 0 || !is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => at + find(rest, b"\n").unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => at + 2 + end_of_block(&rest[2..]),
        b'"' => at + end_of_string(rest),
        b'r' | b'b' | b'c' if starts_word => raw_string(rest).map_or(at, |len| at + len),
        b'\'' => at + end_of_character(rest),
        _ => at,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

/// Block comments nest.
fn end_of_block(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (1, 0);
    while at < bytes.len() && depth > 0 {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    at
}

/// Length of the string that `bytes` starts with.
fn end_of_string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Length of a raw string `r"…"`, `br#"…"#`, `cr…`.
fn raw_string(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.iter().position(|byte| *byte == b'r')?;
    let marks = bytes[prefix + 1..]
        .iter()
        .take_while(|b| **b == b'#')
        .count();
    let start = prefix + 1 + marks;
    if prefix > 1 || bytes.get(start) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &b"#".repeat(marks)].concat();
    let len = find(&bytes[start + 1..], &end).map_or(bytes.len(), |at| start + 1 + at + end.len());
    Some(len)
}

/// Length of a character literal; 0 for a lifetime.
fn end_of_character(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&b'\\') {
        return find(&bytes[2..], b"'").map_or(0, |at| {
            // `'\''` ends at the second.
            if at == 0 { 4 } else { at + 3 }
        });
    }
    let text = std::str::from_utf8(&bytes[1..bytes.len().min(6)]);
    let valid = text.unwrap_or_else(|error| {
        std::str::from_utf8(&bytes[1..1 + error.valid_up_to()]).unwrap_or_default()
    });
    match valid.chars().next() {
        Some(character) if bytes.get(1 + character.len_utf8()) == Some(&b'\'') => {
            2 + character.len_utf8()
        }
        _ => 0,
    }
}

/// The identifiers of a line of code, each with what follows it.
pub fn identifiers(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let start = rest.find(is_word)?;
        let tail = &rest[start..];
        let end = tail.find(|letter| !is_word(letter)).unwrap_or(tail.len());
        let (word, after) = tail.split_at(end);
        rest = after;
        Some((word, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text =
            "a // rax\n/* rax /* rax */ rax */ b \"rax \\\" rax\" c r#\"rax\"#  'x' '\\'' d\n";
        let code = code_of(text);
        assert!(!code.contains("rax"), "{code}");
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c", "d"]);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn literals_come_with_their_lines() {
        let text = "a(\"b\"); // \"c\"\n\"d\ne\"; r#\"f\"#, b\"g\", '\"', \"\"\n";
        let found: Vec<_> = literals_of(text).collect();
        assert_eq!(found, [(1, "b"), (2, "d\ne"), (3, "f"), (3, "g"), (3, "")]);
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(
            code_of("fn f<'a>(x: &'a str) {}"),
            "fn f<'a>(x: &'a str) {}"
        );
        assert_eq!(code_of("'é' x").trim(), "x");
    }

    #[test]
    fn identifiers_come_with_what_follows() {
        let found: Vec<_> = identifiers("pm::fault(a_b)").collect();
        assert_eq!(
            found,
            [("pm", "::fault(a_b)"), ("fault", "(a_b)"), ("a_b", ")")]
        );
    }
}
