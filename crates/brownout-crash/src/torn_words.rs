//! How a store of several words is torn: hardware only promises that an aligned word of 8 bytes persists as a whole.
//!
//! Can miss: other combinations of words, which `exhaustive` has with `--tearing words`; lines of a store between its first and its last
//! one.

use brownout_model::LINE;

/// Bytes that persist as a whole.
const WORD: u64 = 8;

/// For the first and the last line of a store of the bytes `first` to `last`, the first half of its words there, and the second, as sets of
/// bits. None for a line with a single word of it.
pub(crate) fn word_halves(first: u64, last: u64) -> impl Iterator<Item = (u64, u8)> {
    let line = |offset: u64| offset - offset % LINE;
    let ends = [line(first), line(last)];
    let count = if ends[0] == ends[1] { 1 } else { 2 };
    ends.into_iter().take(count).flat_map(move |line| {
        let word = |offset: u64| (offset - line) / WORD;
        let words = word(first.max(line))..word(last.min(line + LINE - 1)) + 1;
        let middle = words.start + (words.end - words.start).div_ceil(2);
        let halves = [words.start..middle, middle..words.end];
        let is_torn = middle < words.end;
        halves
            .into_iter()
            .filter(move |_| is_torn)
            .map(move |words| (line, words.fold(0, |set, word| set | 1 << word)))
    })
}
