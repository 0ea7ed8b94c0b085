//! Shortens an input while it keeps showing what it was kept for: whole lines first, then pieces of bytes.

use crate::error::FuzzError;

/// Removes parts of `input`, as long as `still_shows` and fewer than `budget` inputs were tried.
pub fn minimize(
    input: &[u8],
    budget: usize,
    mut still_shows: impl FnMut(&[u8]) -> Result<bool, FuzzError>,
) -> Result<Vec<u8>, FuzzError> {
    let lines: Vec<Vec<u8>> = input
        .split_inclusive(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let mut left = budget;
    let mut shows = |parts: &[Vec<u8>]| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        still_shows(&parts.concat())
    };
    let lines = reduce(lines, &mut shows)?;
    let joined = lines.concat();
    // Lines that are needed are rarely shorter: words carry the meaning.
    if lines.len() > 1 {
        return Ok(joined);
    }
    let bytes = joined.iter().map(|&byte| vec![byte]).collect();
    Ok(reduce(bytes, &mut shows)?.concat())
}

/// Removes blocks of parts, large ones first.
fn reduce(
    mut parts: Vec<Vec<u8>>,
    shows: &mut impl FnMut(&[Vec<u8>]) -> Result<bool, FuzzError>,
) -> Result<Vec<Vec<u8>>, FuzzError> {
    let mut size = parts.len().div_ceil(2);
    while size > 0 && !parts.is_empty() {
        let mut at = 0;
        while at < parts.len() {
            let end = (at + size).min(parts.len());
            let without: Vec<Vec<u8>> = [&parts[..at], &parts[end..]].concat();
            if shows(&without)? {
                parts = without;
            } else {
                at = end;
            }
        }
        if size == 1 {
            break;
        }
        size = size.div_ceil(2);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(input: &str, budget: usize, needed: &[&str]) -> String {
        let found = minimize(input.as_bytes(), budget, |tried| {
            let text = String::from_utf8_lossy(tried).into_owned();
            Ok(needed.iter().all(|part| text.contains(part)))
        });
        String::from_utf8(found.unwrap()).unwrap()
    }

    #[test]
    fn only_the_needed_lines_stay() {
        let input = "set a\nset b\nget a\ndel b\nset c\ndel a\n";
        assert_eq!(
            shortened(input, 100, &["set b\n", "del a\n"]),
            "set b\ndel a\n"
        );
    }

    #[test]
    fn bytes_of_a_single_line_are_removed() {
        assert_eq!(shortened("xxxxMAGICyyyyyy", 100, &["MAGIC"]), "MAGIC");
    }

    #[test]
    fn the_budget_is_kept_and_what_is_left_still_shows_it() {
        let mut tried = 0;
        let found = minimize(b"a\nb\nc\nd\ne\nf\ng\nh\n", 3, |input| {
            tried += 1;
            Ok(input.contains(&b'h'))
        });
        assert!(found.unwrap().contains(&b'h') && tried == 3);
    }
}
