//! What a recovery has read, with the bytes, in little space: a test keeps it for each run.

use brownout_trace::replay::Content;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::FirstRead;
use super::actions::{RecoveryActions, as_hexadecimal};
use super::hexadecimal::{from_digits, to_digits};

/// What a run of recovery under the engine showed of its reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// In order; `None` if recovery ended before its reads were reported.
    pub reads: Option<ReadBytes>,
    /// Why it may have read more, or other bytes, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Whether recovery was a copy of a process that had waited, and so shared the start of an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_copy: bool,
    /// Why it could not be one, though that was asked for. Completes the sentence "recovery is run anew because …".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_anew: Option<String>,
    /// Whether a copy did something else before than an earlier one that had read the same bytes: recovery depends on more than that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_contradicted: bool,
    /// What it has used that is not the same in each run, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_inputs: Vec<String>,
    /// Whether it has certainly used nothing but what it has read, its arguments and its environment: then it does the same
    /// whenever it reads the same bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_repeatable: bool,
    /// What it did, if that was wanted and is known.
    #[serde(
        default,
        with = "as_hexadecimal",
        skip_serializing_if = "Option::is_none"
    )]
    pub actions: Option<RecoveryActions>,
}

impl Observation {
    /// Of a recovery that ended before its reads were reported.
    pub(crate) fn unknown() -> Self {
        Self {
            reads: None,
            gaps: vec!["recovery ran out of time when it was observed".to_owned()],
            is_copy: false,
            run_anew: None,
            is_contradicted: false,
            other_inputs: Vec::new(),
            is_repeatable: false,
            actions: None,
        }
    }
}

/// First reads with the bytes that they saw.
#[derive(Clone, PartialEq, Eq)]
pub struct ReadBytes {
    /// For each read: the number of the file, the offset, and the bytes.
    encoded: Box<[u8]>,
}

impl ReadBytes {
    /// What these reads saw of an image, which has a content for each persistent file.
    pub fn of(reads: &[FirstRead], image: &[Option<Content>]) -> Self {
        let with_bytes = reads.iter().map(|&read| {
            let mut bytes = vec![0; read.len as usize];
            if let Some(Some(content)) = image.get(read.file) {
                content.read(read.offset, &mut bytes);
            }
            (read, bytes)
        });
        with_bytes.collect()
    }

    /// The reads in order.
    pub fn iter(&self) -> impl Iterator<Item = (FirstRead, &[u8])> {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || {
            let ((file, offset, bytes), left) = take(rest)?;
            rest = left;
            let len = bytes.len() as u64;
            Some((FirstRead { file, offset, len }, bytes))
        })
    }

    /// The reads as hexadecimal digits. Reads that begin alike have digits that begin alike.
    pub fn to_text(&self) -> String {
        to_digits(&self.encoded)
    }

    /// The reads that digits stand for; `None` if they are damaged.
    pub fn from_text(text: &str) -> Option<Self> {
        let reads = Self {
            encoded: from_digits(text)?.into(),
        };
        let mut rest = &reads.encoded[..];
        while !rest.is_empty() {
            rest = take(rest)?.1;
        }
        Some(reads)
    }
}

impl FromIterator<(FirstRead, Vec<u8>)> for ReadBytes {
    fn from_iter<I: IntoIterator<Item = (FirstRead, Vec<u8>)>>(reads: I) -> Self {
        let mut encoded = Vec::new();
        for (read, bytes) in reads {
            encoded = postcard::to_extend(&(read.file, read.offset, bytes), encoded)
                .expect("memory takes everything");
        }
        Self {
            encoded: encoded.into(),
        }
    }
}

type Encoded<'e> = (usize, u64, &'e [u8]);

fn take(encoded: &[u8]) -> Option<(Encoded<'_>, &[u8])> {
    postcard::take_from_bytes(encoded).ok()
}

impl std::fmt::Debug for ReadBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// As hexadecimal digits.
impl Serialize for ReadBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for ReadBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let damaged = || de::Error::custom("the reads of a recovery are damaged");
        Self::from_text(&text).ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads() -> ReadBytes {
        let mut content = Content::default();
        content.resize(8);
        content.write(0, &[1, 2, 3, 4]);
        let read = |file, offset, len| FirstRead { file, offset, len };
        ReadBytes::of(
            &[read(1, 2, 2), read(1, 300, 1), read(0, 0, 1)],
            &[None, Some(content)],
        )
    }

    #[test]
    fn reads_have_the_bytes_of_the_image() {
        let reads = reads();
        let seen: Vec<_> = reads
            .iter()
            .map(|(read, bytes)| (read.file, read.offset, bytes.to_vec()))
            .collect();
        let expected = [(1, 2, vec![3, 4]), (1, 300, vec![0]), (0, 0, vec![0])];
        assert_eq!(seen, expected);
    }

    #[test]
    fn stored_reads_are_the_same_and_damage_is_detected() {
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, StrDeserializer};

        let reads = reads();
        let stored: Vec<u8> = postcard::to_stdvec(&reads).unwrap();
        assert_eq!(postcard::from_bytes::<ReadBytes>(&stored).unwrap(), reads);
        for damaged in ["0", "0x", "0102"] {
            let text: StrDeserializer<'_, Error> = damaged.into_deserializer();
            assert!(ReadBytes::deserialize(text).is_err(), "{damaged}");
        }
    }
}
