//! Bytes as hexadecimal digits, for lines of text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub(super) fn to_digits(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
    bytes.iter().flat_map(digits).map(char::from).collect()
}

/// `None` if there are other characters, or an odd number of digits.
pub(super) fn from_digits(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_back_and_other_text_is_refused() {
        assert_eq!(to_digits(&[0, 0x1f, 0xa0]), "001fa0");
        assert_eq!(from_digits("001fa0"), Some(vec![0, 0x1f, 0xa0]));
        for damaged in ["0", "0x", "00 1"] {
            assert_eq!(from_digits(damaged), None, "{damaged}");
        }
    }
}
