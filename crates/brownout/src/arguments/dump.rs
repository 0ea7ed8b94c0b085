//! `brownout dump`.

use std::path::PathBuf;
use std::str::FromStr;

use brownout_trace::{EventClass, ProcessId, ThreadId};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::Format;

/// Print the events of a trace, one a line
///
/// A line holds the event's number, process:thread, kind, address and bytes, the file and the
/// offset in it, and the source line the event comes from.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout dump run.trace --kind store --kind flush --kind fence
  brownout dump run.trace --from 1200 --to 1300 --stacks
  brownout dump run.trace --format json | jq 'select(.kind == \"flush\")'")]
pub struct DumpArgs {
    /// The trace to read
    pub trace: PathBuf,

    /// First event to print
    #[arg(long, value_name = "EVENT", default_value_t = 0)]
    pub from: u64,

    /// Last event to print
    #[arg(long, value_name = "EVENT", default_value_t = u64::MAX, hide_default_value = true)]
    pub to: u64,

    /// Print events of this kind only; may be given several times
    #[arg(long = "kind", value_name = "KIND", value_parser = event_class())]
    pub kinds: Vec<EventClass>,

    /// Print events of this thread only: TID, or PROCESS:TID; may be given several times
    #[arg(long = "thread", value_name = "THREAD")]
    pub threads: Vec<ThreadFilter>,

    /// Print the whole calling context below each event
    #[arg(long)]
    pub stacks: bool,

    /// Print all bytes of each event instead of the first few; JSON always has all
    #[arg(long)]
    pub full: bool,

    /// How to print; JSON is one object a line
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn event_class() -> impl clap::builder::TypedValueParser<Value = EventClass> {
    PossibleValuesParser::new(EventClass::ALL.map(EventClass::name)).try_map(|name| {
        EventClass::ALL
            .into_iter()
            .find(|class| class.name() == name)
            .ok_or("no such kind of event")
    })
}

/// A thread as a person names it: the kernel's number, with or without the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadFilter {
    process: Option<ProcessId>,
    thread: ThreadId,
}

impl ThreadFilter {
    pub fn matches(self, process: ProcessId, thread: ThreadId) -> bool {
        self.thread == thread && self.process.is_none_or(|wanted| wanted == process)
    }
}

impl FromStr for ThreadFilter {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (process, thread) = match text.split_once(':') {
            Some((process, thread)) => (Some(ProcessId(process.parse()?)), thread),
            None => (None, text),
        };
        Ok(Self {
            process,
            thread: ThreadId(thread.parse()?),
        })
    }
}
