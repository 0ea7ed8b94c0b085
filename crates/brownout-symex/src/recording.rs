//! Reads the records of a path (`brownout_ring::path`). They come from the target, so anything is expected.

use brownout_ring::path::kind;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Site {
        number: u32,
        pc: u64,
        code: &'a [u8],
    },
    Step {
        number: u32,
        mask: u32,
        values: &'a [u8],
    },
    Load(Bytes<'a>),
    Store(Bytes<'a>),
    Page(Bytes<'a>),
    Vector {
        number: u8,
        bytes: &'a [u8],
    },
    Mask {
        number: u8,
        value: u64,
    },
    Thread(u32),
    Symbolic {
        source: u32,
        offset: u64,
        at: Bytes<'a>,
    },
    Kernel {
        addr: u64,
        len: u64,
    },
    Call {
        number: u32,
    },
    Signal,
}

/// Bytes at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'a> {
    pub addr: u64,
    pub bytes: &'a [u8],
}

impl Bytes<'_> {
    /// The byte at an address, if it is one of these.
    pub fn at(&self, addr: u64) -> Option<u8> {
        let index = usize::try_from(addr.wrapping_sub(self.addr)).ok()?;
        self.bytes.get(index).copied()
    }
}

/// The records of a path are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording of the path is damaged at byte {at}; the program may have overwritten it")]
pub struct Damaged {
    pub at: usize,
}

/// The records in order.
pub struct Records<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.all.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<Bytes<'a>> {
        let addr = self.long()?;
        let len = self.word()?;
        Some(Bytes {
            addr,
            bytes: self.take(len as usize)?,
        })
    }

    fn record(&mut self) -> Option<Record<'a>> {
        Some(match self.byte()? {
            kind::SITE => {
                let (number, pc) = (self.word()?, self.long()?);
                let len = self.byte()?;
                let code = self.take(usize::from(len))?;
                Record::Site { number, pc, code }
            }
            kind::STEP => {
                let (number, mask) = (self.word()?, self.word()?);
                let values = self.take(8 * mask.count_ones() as usize)?;
                Record::Step {
                    number,
                    mask,
                    values,
                }
            }
            kind::LOAD => Record::Load(self.bytes()?),
            kind::STORE => Record::Store(self.bytes()?),
            kind::PAGE => Record::Page(self.bytes()?),
            kind::VECTOR => {
                let (number, len) = (self.byte()?, self.byte()?);
                let bytes = self.take(usize::from(len))?;
                Record::Vector { number, bytes }
            }
            kind::MASK => Record::Mask {
                number: self.byte()?,
                value: self.long()?,
            },
            kind::THREAD => Record::Thread(self.word()?),
            kind::SYMBOLIC => {
                let (source, offset) = (self.word()?, self.long()?);
                let Some(kind::LOAD) = self.byte() else {
                    return None;
                };
                let at = self.bytes()?;
                Record::Symbolic { source, offset, at }
            }
            kind::KERNEL => Record::Kernel {
                addr: self.long()?,
                len: self.long()?,
            },
            kind::CALL => {
                let number = self.word()?;
                self.take(48)?;
                Record::Call { number }
            }
            kind::SIGNAL => Record::Signal,
            _ => return None,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.all.len() {
            return None;
        }
        let at = self.at;
        let record = self.record().ok_or(Damaged { at });
        if record.is_err() {
            self.at = self.all.len();
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_in_order() {
        let mut bytes = vec![kind::THREAD, 7, 0, 0, 0, kind::LOAD];
        bytes.extend(16u64.to_le_bytes());
        bytes.extend(2u32.to_le_bytes());
        bytes.extend([1, 2]);
        let records: Vec<_> = Records::new(&bytes).collect();
        let load = Bytes {
            addr: 16,
            bytes: &[1, 2],
        };
        assert_eq!(records, [Ok(Record::Thread(7)), Ok(Record::Load(load))]);
        assert_eq!(
            (load.at(17), load.at(18), load.at(15)),
            (Some(2), None, None)
        );
    }

    #[test]
    fn damage_ends_the_records() {
        for bytes in [&[255u8][..], &[kind::LOAD, 1], &[kind::SYMBOLIC]] {
            let records: Vec<_> = Records::new(bytes).collect();
            assert_eq!(records, [Err(Damaged { at: 0 })]);
        }
    }
}
