//! The fields of a record's payload.

use crate::file_names::NameChange;
use crate::stream::Corruption;
use brownout_ring::{map, name, origin};
use brownout_trace::{
    Address, Arguments, EventKind, FileId, FileIdentity, Mapping, ProcessId, ProcessOrigin,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The rest of a payload, and the error to report if it is too short.
pub(super) struct Payload<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) wrong: Corruption,
}

impl<'a> Payload<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corruption> {
        let (first, rest) = self.bytes.split_first_chunk().ok_or(self.wrong)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Corruption> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Corruption> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(super) fn rest_not_empty(&mut self) -> Result<&'a [u8], Corruption> {
        if self.bytes.is_empty() {
            Err(self.wrong)
        } else {
            Ok(self.bytes)
        }
    }

    /// The rest as a path, up to the first NUL if there is one.
    pub(super) fn path(&mut self) -> &'a Path {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.bytes.len());
        let path = Path::new(OsStr::from_bytes(&self.bytes[..end]));
        self.bytes = self.bytes.get(end + 1..).unwrap_or_default();
        path
    }

    /// A [`brownout_ring::FileAt`]: the file, and the offset in it.
    pub(super) fn file_at(&mut self) -> Result<(FileIdentity, u64), Corruption> {
        let identity = FileIdentity {
            dev: self.u64()?,
            ino: self.u64()?,
        };
        Ok((identity, self.u64()?))
    }

    /// The change of names in a record with these flags; `None` if there are no such flags.
    pub(super) fn name_change(&mut self, flags: u16) -> Result<Option<NameChange<'a>>, Corruption> {
        let (file, _) = self.file_at()?;
        let old = self.path();
        let new = self.path();
        Ok(Some(match flags & !name::REPLACED_UNKNOWN {
            name::RENAMED => NameChange::Renamed {
                old,
                new,
                replaced_unknown: flags & name::REPLACED_UNKNOWN != 0,
            },
            name::EXCHANGED => NameChange::Exchanged { old, new },
            name::LINKED => NameChange::Linked { file, new },
            name::UNLINKED => NameChange::Unlinked { old },
            _ => return Ok(None),
        }))
    }

    /// A [`brownout_ring::Map`].
    pub(super) fn mapping(&mut self, addr: Address) -> Result<(FileIdentity, Mapping), Corruption> {
        let (identity, offset) = self.file_at()?;
        let (len, file_len) = (self.u64()?, self.u64()?);
        let (prot, flags, facts, _) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        let mapping = Mapping {
            addr,
            len,
            file: FileId::default(),
            offset,
            file_len,
            prot,
            flags,
            dax: facts & map::DAX != 0,
            snapshot: facts & map::SNAPSHOT != 0,
        };
        Ok((identity, mapping))
    }

    /// A [`brownout_ring::ProcessStart`], the path and the arguments.
    pub(super) fn process_start(&mut self) -> Result<EventKind<'a>, Corruption> {
        let (pid, parent_pid, parent) = (self.u32()?, self.u32()?, self.u32()?);
        let origin = match self.u32()? {
            origin::EXEC => ProcessOrigin::Exec,
            origin::FORK => ProcessOrigin::Fork,
            _ => return Err(self.wrong),
        };
        Ok(EventKind::ProcessStart {
            pid,
            parent_pid,
            parent: (parent != u32::MAX).then_some(ProcessId(parent)),
            origin,
            exe: self.path(),
            args: Arguments::from_bytes(self.bytes),
        })
    }
}
