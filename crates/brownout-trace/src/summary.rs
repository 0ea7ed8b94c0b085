//! The summary of a trace: what is known about a recording after its last event. It is missing if the recorder was killed.

use std::time::Duration;

use crate::error::Flaw;
use crate::event::ProcessEnd;
use crate::event_class::EventClass;
use crate::fields::{FieldReader, FieldWriter};
use crate::header::{put_duration, take_duration};

/// How the recording ended, according to the recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// How the target ended, if it ended before recording stopped.
    pub target: Option<ProcessEnd>,
    /// Time from the start of the target to its end.
    pub wall: Option<Duration>,
    /// Processor time of the target and its children.
    pub cpu: Option<Duration>,
    /// Why events after the last one are missing; `None` if none are.
    pub stopped: Option<EarlyStop>,
}

/// Why recording stopped before the target ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EarlyStop {
    /// There was no room left for the trace.
    StorageFull,
    /// The user interrupted it.
    Interrupted,
    /// The recorder failed, with this message.
    Failure(String),
}

/// The summary of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How the recording ended.
    pub ending: Ending,
    /// The number of events of each class.
    pub counts: EventCounts,
}

/// Number of events of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts([u64; EventClass::ALL.len()]);

impl EventCounts {
    /// The number of events of `class`.
    pub fn of(&self, class: EventClass) -> u64 {
        self.0[class as usize]
    }

    /// The number of all events.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Counts one more event of `class`.
    #[inline]
    pub fn add(&mut self, class: EventClass) {
        self.0[class as usize] += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &EventCounts) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }
}

impl Summary {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.ending.target {
            None => out.put(0),
            Some(end) => {
                out.put(1);
                put_end(&mut out, end);
            }
        }
        for duration in [self.ending.wall, self.ending.cpu] {
            out.put(u64::from(duration.is_some()));
            if let Some(duration) = duration {
                put_duration(&mut out, duration);
            }
        }
        match &self.ending.stopped {
            None => out.put(0),
            Some(EarlyStop::StorageFull) => out.put(1),
            Some(EarlyStop::Interrupted) => out.put(2),
            Some(EarlyStop::Failure(text)) => {
                out.put(3);
                out.put_bytes(text.as_bytes());
            }
        }
        for count in self.counts.0 {
            out.put(count);
        }
        out
    }

    pub(crate) fn decode(padded: &[u8]) -> Result<Self, Flaw> {
        let mut fields = FieldReader::new(padded, 0);
        let target = if fields.take_bool()? {
            Some(take_end(&mut fields)?)
        } else {
            None
        };
        let wall = take_optional_duration(&mut fields)?;
        let cpu = take_optional_duration(&mut fields)?;
        let stopped = match fields.take()? {
            0 => None,
            1 => Some(EarlyStop::StorageFull),
            2 => Some(EarlyStop::Interrupted),
            3 => Some(EarlyStop::Failure(fields.take_str()?.to_owned())),
            _ => return Err(Flaw::BadField),
        };
        let mut counts = EventCounts::default();
        for count in &mut counts.0 {
            // A trace of an older version has no counts for newer classes.
            if fields.is_empty() {
                break;
            }
            *count = fields.take()?;
        }
        fields.finish()?;
        Ok(Summary {
            ending: Ending {
                target,
                wall,
                cpu,
                stopped,
            },
            counts,
        })
    }
}

fn take_optional_duration(fields: &mut FieldReader<'_>) -> Result<Option<Duration>, Flaw> {
    if fields.take_bool()? {
        take_duration(fields).map(Some)
    } else {
        Ok(None)
    }
}

pub(crate) fn put_end(out: &mut Vec<u8>, end: ProcessEnd) {
    let (tag, number) = match end {
        ProcessEnd::Exited { status } => (0, status),
        ProcessEnd::Signaled { signal } => (1, signal),
    };
    out.put(tag);
    out.put_signed(i64::from(number));
}

pub(crate) fn take_end(fields: &mut FieldReader<'_>) -> Result<ProcessEnd, Flaw> {
    let signaled = fields.take_bool()?;
    let number = i32::try_from(fields.take_signed()?).map_err(|_| Flaw::BadField)?;
    Ok(if signaled {
        ProcessEnd::Signaled { signal: number }
    } else {
        ProcessEnd::Exited { status: number }
    })
}
