//! `brownout dump`.

use std::path::PathBuf;
use std::str::FromStr;

use brownout_trace::{EventClass, ProcessId, ThreadId};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::Format;

/// Print the events of a trace, one per line
///
/// Each line shows the event's number, process and thread, kind, address and bytes, the file and the offset
/// in it, and the source line of the instruction.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout dump run.trace --kind store --kind flush --kind fence
  brownout dump run.trace --from 1200 --to 1300 --stacks
  brownout dump run.trace --format json | jq 'select(.kind == \"flush\")'")]
pub struct DumpArgs {
    /// The trace to read, or a results directory with one
    #[arg(value_name = "TRACE-OR-DIR")]
    pub trace: PathBuf,

    /// First event to print
    #[arg(long, value_name = "EVENT", default_value_t = 0)]
    pub from: u64,

    /// Last event to print
    #[arg(long, value_name = "EVENT", default_value_t = u64::MAX, hide_default_value = true)]
    pub to: u64,

    /// Print only events of this kind; can be given more than once
    #[arg(long = "kind", value_name = "KIND", value_parser = event_class())]
    pub kinds: Vec<EventClass>,

    /// Print only events of this thread, given as TID or PROCESS:TID; can be given more than once
    #[arg(long = "thread", value_name = "THREAD")]
    pub threads: Vec<ThreadFilter>,

    /// Print the full calling context below each event
    #[arg(long)]
    pub stacks: bool,

    /// Print all bytes of each event instead of the first few; JSON output always contains all
    #[arg(long)]
    pub full: bool,

    /// Output format; JSON is one object per line
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

/// A thread as given on the command line: the kernel's thread id, with or without the process id.
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
