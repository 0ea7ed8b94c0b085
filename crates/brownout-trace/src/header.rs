//! The header of a trace: what is known about a recording before its first event.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::error::Flaw;
use crate::fields::{FieldReader, FieldWriter};
use crate::section_header::SHARED_LOADS;

/// The header of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of brownout that recorded the trace.
    pub brownout_version: String,
    /// The command line of the target.
    pub command: Vec<OsString>,
    /// The working directory of the recorder.
    pub cwd: PathBuf,
    /// The patterns given as `--pm`, which select among the mapped files afterwards.
    pub pm: Vec<OsString>,
    /// Whether loads and recognised locks were recorded.
    pub loads: bool,
    /// Whether they were recorded from the time on at which threads or processes share persistent memory. No earlier load can race.
    pub shared_loads: bool,
    /// When the recording started.
    pub started: SystemTime,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_bytes(self.brownout_version.as_bytes());
        put_list(&mut out, &self.command);
        out.put_path(&self.cwd);
        put_list(&mut out, &self.pm);
        out.put(u64::from(self.loads));
        // If the clock is set before 1970, the time is stored as 1970.
        let since_epoch = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        put_duration(&mut out, since_epoch);
        out.put(u64::from(self.shared_loads));
        out
    }

    pub(crate) fn decode(padded: &[u8], version: u32) -> Result<Self, Flaw> {
        let mut fields = FieldReader::new(padded, 0);
        let brownout_version = fields.take_str()?.to_owned();
        let command = take_list(&mut fields)?;
        let cwd = fields.take_path()?.to_owned();
        let pm = take_list(&mut fields)?;
        let loads = fields.take_bool()?;
        let since_epoch = take_duration(&mut fields)?;
        let started = SystemTime::UNIX_EPOCH
            .checked_add(since_epoch)
            .ok_or(Flaw::BadField)?;
        let shared_loads = version >= SHARED_LOADS && fields.take_bool()?;
        fields.finish()?;
        Ok(Header {
            brownout_version,
            command,
            cwd,
            pm,
            loads,
            shared_loads,
            started,
        })
    }
}

fn put_list(out: &mut Vec<u8>, list: &[OsString]) {
    out.put(list.len() as u64);
    for item in list {
        out.put_bytes(item.as_bytes());
    }
}

fn take_list(fields: &mut FieldReader<'_>) -> Result<Vec<OsString>, Flaw> {
    let count = fields.take()?;
    // Grown item by item: each takes at least one byte of the input, so a forged count cannot cause a large allocation.
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(OsStr::from_bytes(fields.take_bytes()?).to_owned());
    }
    Ok(list)
}

pub(crate) fn put_duration(out: &mut Vec<u8>, duration: Duration) {
    out.put(duration.as_secs());
    out.put(u64::from(duration.subsec_nanos()));
}

pub(crate) fn take_duration(fields: &mut FieldReader<'_>) -> Result<Duration, Flaw> {
    let seconds = fields.take()?;
    let nanos = fields.take_u32()?;
    if nanos >= 1_000_000_000 {
        return Err(Flaw::BadField);
    }
    Ok(Duration::new(seconds, nanos))
}
