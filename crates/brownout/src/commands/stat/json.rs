//! Prints statistics as JSON.

use std::io::{self, Write};
use std::time::SystemTime;

use brownout_trace::selection::Candidate;
use brownout_trace::{EventClass, EventCounts, Process};
use serde_json::{Map, Value, json};

use super::Statistics;
use super::sites::BusySite;
use crate::event_json::{self, text};

pub fn print(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &object(statistics)).map_err(io::Error::from)?;
    writeln!(out)
}

fn object(statistics: &Statistics<'_>) -> Value {
    let header = statistics.header;
    let started = header.started.duration_since(SystemTime::UNIX_EPOCH);
    let target = statistics.summary.and_then(|summary| summary.ending.target);
    let definitions = statistics.definitions;
    json!({
        "command": header.command.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>(),
        "cwd": text(&header.cwd),
        "brownout_version": header.brownout_version,
        "started": started.ok().map(|since| since.as_secs_f64()),
        "loads": header.loads,
        "shared_loads": header.shared_loads,
        "pm": header.pm.iter().map(|glob| glob.to_string_lossy()).collect::<Vec<_>>(),
        "end": target.map(event_json::end),
        "wall_seconds": statistics.wall().map(|time| time.as_secs_f64()),
        "cpu_seconds": statistics.cpu().map(|time| time.as_secs_f64()),
        "events_per_second": statistics.events_per_second(),
        "trace_bytes": statistics.bytes,
        "bytes_per_event": statistics.bytes_per_event(),
        "gap": statistics.incomplete,
        "processes": definitions.processes().map(|p| process(statistics, p)).collect::<Vec<_>>(),
        "files": statistics.selection.candidates().map(|c| file(statistics, c)).collect::<Vec<_>>(),
        "notes": statistics.census.notes(),
        "events": counts(statistics.census.counts()),
        "sites": statistics.sites.iter().map(site).collect::<Vec<_>>(),
    })
}

fn process(statistics: &Statistics<'_>, process: &Process) -> Value {
    let threads: Vec<Value> = statistics
        .census
        .threads_of(process.id)
        .into_iter()
        .map(|(thread, events)| json!({ "thread": thread.0, "events": events }))
        .collect();
    json!({
        "process": process.id.0,
        "pid": process.pid,
        "parent": process.parent.map(|parent| parent.0),
        "exe": text(&process.exe),
        "args": process.args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>(),
        "end": process.end.map(|(_, end)| event_json::end(end)),
        "threads": threads,
    })
}

fn file(statistics: &Statistics<'_>, candidate: Candidate) -> Value {
    let census = statistics.census.of_file(candidate.file);
    let file = statistics.definitions.file(candidate.file);
    json!({
        "path": file.map(|file| text(&file.path)),
        "length": census.len,
        "persistent": candidate.reason.is_some(),
        "reason": candidate.reason.map(|reason| reason.name()),
        "mappings": census.mappings,
        "stores": census.stores,
        "stored_bytes": census.stored_bytes,
        "flushes": census.flushes,
        "writes": census.writes,
    })
}

fn site(site: &BusySite) -> Value {
    json!({
        "events": site.counts.total(),
        "counts": counts(&site.counts),
        "frame": event_json::frame(&site.primary.frame),
        "through": site.primary.through,
    })
}

fn counts(counts: &EventCounts) -> Value {
    let present = EventClass::ALL
        .into_iter()
        .filter(|&class| counts.of(class) > 0);
    let object: Map<String, Value> = present
        .map(|class| (class.name().to_owned(), counts.of(class).into()))
        .collect();
    Value::Object(object)
}
