//! The lines of a failed recovery's output that are reported.

/// Lines of output that are reported of a recovery that failed: the first ones, which are the message of a panic with a backtrace,
/// and the last ones.
const FIRST_LINES: usize = 4;
const LAST_LINES: usize = 8;
/// Longer lines are cut.
const COLUMNS: usize = 400;

/// The first and the last lines of the first stream that is not empty.
pub fn shown_lines(streams: &[&Vec<u8>]) -> Vec<String> {
    let mut streams = streams.iter();
    let printed = streams.find(|stream| !stream.trim_ascii().is_empty());
    let Some(printed) = printed else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(printed.trim_ascii_end());
    let lines: Vec<&str> = text.lines().collect();
    let omitted = lines.len().saturating_sub(FIRST_LINES + LAST_LINES);
    if omitted < 2 {
        return lines.into_iter().map(shortened).collect();
    }
    let (first, rest) = lines.split_at(FIRST_LINES);
    let first = first.iter().copied().map(shortened);
    let last = rest[omitted..].iter().copied().map(shortened);
    let gap = format!("… {omitted} lines …");
    first.chain([gap]).chain(last).collect()
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(COLUMNS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_lines_of_output_are_shown() {
        let printed = |lines: usize| -> Vec<u8> {
            let lines: Vec<String> = (1..=lines).map(|line| line.to_string()).collect();
            lines.join("\n").into_bytes()
        };
        assert_eq!(shown_lines(&[&printed(0), &printed(2)]), ["1", "2"]);
        assert_eq!(shown_lines(&[&printed(13)]).len(), 13);
        let shown = shown_lines(&[&printed(40)]);
        let expected = "1 2 3 4|… 28 lines …|33 34 35 36 37 38 39 40";
        let parts = [shown[..4].join(" "), shown[4].clone(), shown[5..].join(" ")];
        assert_eq!(parts.join("|"), expected);
        let long = shown_lines(&[&vec![b'x'; 500]]);
        assert!(long[0].ends_with("x…") && long[0].chars().count() == 401);
    }
}
