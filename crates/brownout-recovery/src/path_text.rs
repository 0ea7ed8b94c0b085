//! Paths in JSON and other formats whose strings are UTF-8.
//!
//! A path that is UTF-8 is written as it is. In any other, each byte that is not part of a character becomes a NUL followed by
//! two hexadecimal digits; no path contains a NUL.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// For `#[serde(with)]`.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    to_text(path).serialize(serializer)
}

/// For `#[serde(with)]`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(deserializer)?;
    from_text(&text).ok_or_else(|| serde::de::Error::custom("not a path"))
}

/// For `#[serde(with)]` of paths that may be absent.
pub mod optional {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer};

    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = path.as_deref().map(super::to_text);
        text.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let path = |text: String| {
            super::from_text(&text).ok_or_else(|| serde::de::Error::custom("not a path"))
        };
        text.map(path).transpose()
    }
}

/// A path as text.
pub fn to_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\0{byte:02x}"));
        }
    }
    text
}

/// The path that [`to_text`] was given.
pub fn from_text(text: &str) -> Option<PathBuf> {
    let mut pieces = text.split('\0');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_survives_being_text() {
        for bytes in [
            &b""[..],
            b"/pm/pool",
            "/pm/\u{e9}".as_bytes(),
            b"/pm/\xff\xc3/x\xe2\x82",
            b"\xff0a",
        ] {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            assert_eq!(from_text(&to_text(&path)), Some(path));
        }
        assert_eq!(to_text(Path::new("/a b")), "/a b");
        assert_eq!(from_text("/a\0"), None);
        assert_eq!(from_text("/a\0zz"), None);
    }
}
