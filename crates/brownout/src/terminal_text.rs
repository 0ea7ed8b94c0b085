//! Frames, bytes and text from the target, as they are printed.

use std::fmt::{self, Display, Formatter, Write as _};
use std::path::Path;

use brownout_symbols::SourceFrame;

use crate::stacks::PrimaryFrame;

/// A frame, always on one line, even if its names contain line breaks.
pub struct FrameText<'a> {
    frame: &'a SourceFrame,
}

impl<'a> FrameText<'a> {
    pub fn of(frame: &'a SourceFrame) -> Self {
        Self { frame }
    }
}

impl Display for FrameText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        OneLine(self.frame.to_string().into()).fmt(f)?;
        if self.frame.inlined {
            f.write_str(" (inlined)")?;
        }
        Ok(())
    }
}

impl Display for PrimaryFrame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        OneLine(self.frame.to_string().into()).fmt(f)?;
        if let Some(through) = &self.through {
            write!(f, " (through {})", OneLine(through.into()))?;
        }
        Ok(())
    }
}

/// Bytes as hexadecimal digits.
pub struct Hex<'a>(pub &'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const DIGITS: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        ];
        for byte in self.0 {
            f.write_char(DIGITS[usize::from(byte >> 4)])?;
            f.write_char(DIGITS[usize::from(byte & 15)])?;
        }
        Ok(())
    }
}

/// Text from the target, safe to print on one line of a terminal: control characters are escaped.
pub struct OneLine<'a>(pub std::borrow::Cow<'a, str>);

impl<'a> OneLine<'a> {
    pub fn of(path: &'a Path) -> Self {
        Self(path.to_string_lossy())
    }
}

impl Display for OneLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut plain = &self.0[..];
        while let Some(at) = plain.find(char::is_control) {
            f.write_str(&plain[..at])?;
            let mut rest = plain[at..].chars();
            if let Some(control) = rest.next() {
                write!(f, "{}", control.escape_default())?;
            }
            plain = rest.as_str();
        }
        f.write_str(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_the_target_cannot_move_the_cursor() {
        assert_eq!(OneLine("a\x1b[2J\nb".into()).to_string(), "a\\u{1b}[2J\\nb");
    }
}
