//! Suggestions for a name that does not exist.

use crate::name_parts::{NameParts, without_arguments};

/// Suggestions, at most.
const MOST: usize = 5;

/// Those of `names` that are most similar to `given`, the most similar first.
pub fn nearest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let wanted = last_word(given);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| Some((distance(&wanted, &last_word(name))?, name)))
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(MOST);
    near.into_iter().map(|(_, name)| name).collect()
}

/// The function or file without its scopes or directories, in lower case.
fn last_word(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    let parts = NameParts::of(name);
    let last = parts.scopes.last().copied().unwrap_or(name);
    without_arguments(last).trim_matches('*').to_lowercase()
}

/// How different two words are; `None` if they are not similar.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    if short.is_empty() {
        return None;
    }
    let edits = edits(a, b);
    let similar = edits <= (long.len() / 3).max(1);
    // A part of the name: `put` for `put_all`.
    let part = short.len() >= 3 && long.contains(short);
    (similar || part).then_some(edits)
}

/// The number of characters to insert, remove, replace or exchange with the next one to make one text the other.
fn edits(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| text.chars().collect::<Vec<char>>());
    // For each number of characters of `a`, the edits that make the first characters of `b` of them.
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut fewest = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 2..i] == [b[j - 1], b[j - 2]] {
                fewest = fewest.min(rows[i - 2][j - 2] + 1);
            }
            row.push(fewest);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("put", "put"), 0);
        assert_eq!(edits("putt", "put"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "ab"), 2);
        assert_eq!(edits("mian", "main"), 1, "exchanged");
    }

    #[test]
    fn similar_names_are_suggested_the_most_similar_first() {
        let names = [
            "main",
            "kv::store<int>::Put(int)",
            "put_all",
            "get",
            "persist",
        ];
        assert_eq!(nearest("puts", names), ["kv::store<int>::Put(int)"]);
        assert_eq!(
            nearest("put", names)[..2],
            ["kv::store<int>::Put(int)", "put_all"]
        );
        assert_eq!(nearest("src/lst.c", ["/home/u/list.c"]), ["/home/u/list.c"]);
        assert!(nearest("zzz", names).is_empty());
    }
}
