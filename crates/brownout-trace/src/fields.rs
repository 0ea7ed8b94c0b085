//! Row-wise encoding of infrequent data: definitions, mappings, processes, the header and the summary. Integers are
//! varints; byte strings are preceded by their length.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Flaw;
use crate::varint;

/// Appends fields to a buffer.
pub(crate) trait FieldWriter {
    fn put(&mut self, value: u64);

    fn put_signed(&mut self, value: i64) {
        self.put(varint::zigzag(value));
    }

    fn put_bytes(&mut self, bytes: &[u8]);

    fn put_path(&mut self, path: &Path) {
        self.put_bytes(path.as_os_str().as_bytes());
    }
}

impl FieldWriter for Vec<u8> {
    #[inline]
    fn put(&mut self, value: u64) {
        varint::encode(self, value);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads fields from a buffer.
#[derive(Debug)]
pub(crate) struct FieldReader<'a> {
    /// What was not read, with [`varint::PADDING`] bytes after its end.
    rest: &'a [u8],
    /// The length of the whole buffer.
    len: usize,
}

impl<'a> FieldReader<'a> {
    /// Reads `padded` from `at` up to its padding.
    pub(crate) fn new(padded: &'a [u8], at: usize) -> Self {
        FieldReader {
            rest: padded.get(at..).unwrap_or_default(),
            len: padded.len(),
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// The bytes that were not read, with their padding.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.len() <= varint::PADDING
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Result<u64, Flaw> {
        let (value, rest) = varint::split_first(self.rest).ok_or(Flaw::FieldCutOff)?;
        self.rest = rest;
        Ok(value)
    }

    #[inline]
    pub(crate) fn take_byte(&mut self) -> Result<u8, Flaw> {
        let (byte, rest) = self.rest.split_first().ok_or(Flaw::FieldCutOff)?;
        if rest.len() < varint::PADDING {
            return Err(Flaw::FieldCutOff);
        }
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    pub(crate) fn take_u32(&mut self) -> Result<u32, Flaw> {
        u32::try_from(self.take()?).map_err(|_| Flaw::BadField)
    }

    pub(crate) fn take_u16(&mut self) -> Result<u16, Flaw> {
        u16::try_from(self.take()?).map_err(|_| Flaw::BadField)
    }

    pub(crate) fn take_bool(&mut self) -> Result<bool, Flaw> {
        match self.take()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Flaw::BadField),
        }
    }

    pub(crate) fn take_signed(&mut self) -> Result<i64, Flaw> {
        Ok(varint::unzigzag(self.take()?))
    }

    pub(crate) fn take_bytes(&mut self) -> Result<&'a [u8], Flaw> {
        let len = usize::try_from(self.take()?).map_err(|_| Flaw::FieldCutOff)?;
        let (bytes, rest) = self
            .rest
            .split_at_checked(len)
            .filter(|(_, rest)| rest.len() >= varint::PADDING)
            .ok_or(Flaw::FieldCutOff)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn take_path(&mut self) -> Result<&'a Path, Flaw> {
        Ok(Path::new(OsStr::from_bytes(self.take_bytes()?)))
    }

    pub(crate) fn take_str(&mut self) -> Result<&'a str, Flaw> {
        std::str::from_utf8(self.take_bytes()?).map_err(|_| Flaw::BadField)
    }

    /// Checks that all fields were read. Left-over bytes would be data that this reader does not understand.
    pub(crate) fn finish(self) -> Result<(), Flaw> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Flaw::ColumnLength)
        }
    }
}
