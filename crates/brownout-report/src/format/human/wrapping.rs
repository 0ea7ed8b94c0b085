//! Breaks lines that are wider than the terminal, between words.

/// How far the rest of a line is indented.
const INDENT: &str = "  ";
/// Narrower columns are not filled: a word on each line is harder to read than lines that the terminal breaks.
const LEAST: usize = 30;

/// The text with no line wider than `width`, as far as its words allow: a path is never broken, because it is to be copied.
pub fn wrapped(text: &str, width: usize) -> String {
    let width = width.max(LEAST);
    let lines = text.lines().map(|line| wrapped_line(line, width));
    lines.collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let indent = &line[..line.len() - line.trim_start().len()];
    let mut wrapped = indent.to_owned();
    let mut column = indent.chars().count();
    let mut first = true;
    for word in line.split_whitespace() {
        let len = word.chars().count();
        if first {
            first = false;
        } else if column + 1 + len > width {
            wrapped.push('\n');
            wrapped.push_str(indent);
            wrapped.push_str(INDENT);
            column = indent.chars().count() + INDENT.len();
        } else {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += len;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_broken_between_words() {
        let text = "one two three four five six seven eight nine ten";
        assert_eq!(wrapped(text, 100), text);
        assert_eq!(
            wrapped(text, 30),
            "one two three four five six\n  seven eight nine ten"
        );
        let indented = format!("  {text}\nshort");
        assert_eq!(
            wrapped(&indented, 30),
            "  one two three four five six\n    seven eight nine ten\nshort"
        );
    }

    #[test]
    fn words_are_never_broken() {
        let path = "/mnt/pmem/a/very/long/path/that/does/not/fit/anywhere/pool";
        assert_eq!(wrapped(path, 40), path);
    }
}
