//! Prints statistics as text.

use std::io::{self, Write};
use std::path::Path;

use brownout_trace::selection::Candidate;
use brownout_trace::{EventClass, Process};

use super::Statistics;
use crate::event_text::EndText;
use crate::quantity::number_of;
use crate::terminal_text::OneLine;

pub fn print(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    print_head(statistics, out)?;
    print_processes(statistics, out)?;
    print_files(statistics, out)?;
    print_notes(statistics, out)?;
    print_events(statistics, out)?;
    print_sites(statistics, out)
}

fn print_head(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    let header = statistics.header;
    write!(out, "Command:  ")?;
    for argument in &header.command {
        write!(out, " {}", OneLine::of(Path::new(argument)))?;
    }
    writeln!(out)?;
    writeln!(out, "Directory: {}", OneLine::of(&header.cwd))?;
    write!(
        out,
        "Recorded:  by brownout {}",
        OneLine((&header.brownout_version).into())
    )?;
    if header.loads {
        write!(out, ", with loads")?;
    } else if header.shared_loads {
        write!(out, ", with loads while memory is shared")?;
    }
    if let Some(end) = statistics.summary.and_then(|summary| summary.ending.target) {
        write!(out, "; {}", EndText(end))?;
    }
    writeln!(out)?;
    write!(out, "Time:      ")?;
    match (statistics.wall(), statistics.cpu()) {
        (None, None) => write!(out, "unknown")?,
        (wall, cpu) => {
            let times = [("elapsed", wall), ("processor", cpu)];
            let mut first = true;
            for (name, time) in times {
                if let Some(time) = time {
                    let separator = if first { "" } else { ", " };
                    write!(out, "{separator}{:.3} s {name}", time.as_secs_f64())?;
                    first = false;
                }
            }
        }
    }
    if let Some(rate) = statistics.events_per_second() {
        write!(out, ", {rate:.0} events/s")?;
    }
    writeln!(out)?;
    write!(out, "Trace:     {}", Size(statistics.bytes))?;
    if let Some(density) = statistics.bytes_per_event() {
        write!(out, ", {density:.2} bytes per event")?;
    }
    writeln!(out)?;
    match &statistics.incomplete {
        Some(reason) => writeln!(out, "Missing:   {}", OneLine(reason.into())),
        None => Ok(()),
    }
}

fn print_processes(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nProcesses")?;
    for process in statistics.definitions.processes() {
        print_process(statistics, process, out)?;
    }
    Ok(())
}

fn print_process(
    statistics: &Statistics<'_>,
    process: &Process,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(
        out,
        "  {}  pid {}  {}",
        process.id,
        process.pid,
        OneLine::of(&process.exe)
    )?;
    for argument in process.args.iter().skip(1) {
        write!(out, " {}", OneLine::of(Path::new(argument)))?;
    }
    match process.end {
        Some((_, end)) => writeln!(out, "  ({})", EndText(end))?,
        None => writeln!(out, "  (end not recorded)")?,
    }
    for (thread, events) in statistics.census.threads_of(process.id) {
        writeln!(
            out,
            "       thread {thread}: {}",
            number_of(events, "event")
        )?;
    }
    Ok(())
}

fn print_files(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    let (persistent, others): (Vec<Candidate>, Vec<Candidate>) = statistics
        .selection
        .candidates()
        .partition(|candidate| candidate.reason.is_some());
    writeln!(out, "\nPersistent files")?;
    for candidate in &persistent {
        print_file(statistics, *candidate, out)?;
    }
    if persistent.is_empty() {
        writeln!(out, "  none; select one with --pm GLOB")?;
    }
    if !others.is_empty() {
        writeln!(out, "\nOther mapped files (select one with --pm GLOB)")?;
        for candidate in &others {
            print_file(statistics, *candidate, out)?;
        }
    }
    Ok(())
}

fn print_file(
    statistics: &Statistics<'_>,
    candidate: Candidate,
    out: &mut impl Write,
) -> io::Result<()> {
    match statistics.definitions.file(candidate.file) {
        Some(file) => write!(out, "  {}", OneLine::of(&file.path))?,
        None => write!(out, "  file {}", candidate.file)?,
    }
    let census = statistics.census.of_file(candidate.file);
    write!(out, "  {}", Size(census.len))?;
    if let Some(reason) = candidate.reason {
        write!(out, ", {}", reason.name())?;
    }
    writeln!(
        out,
        "; {}, {} ({}), {} flush{}, {}",
        number_of(census.mappings, "mapping"),
        number_of(census.stores, "store"),
        Size(census.stored_bytes),
        census.flushes,
        if census.flushes == 1 { "" } else { "es" },
        number_of(census.writes, "write"),
    )
}

fn print_notes(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    let notes = statistics.census.notes();
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNotes")?;
    for note in notes {
        writeln!(out, "  {}", OneLine(note.into()))?;
    }
    Ok(())
}

fn print_events(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nEvents")?;
    let counts = statistics.census.counts();
    for class in EventClass::ALL {
        if counts.of(class) > 0 {
            writeln!(out, "  {:<14} {:>12}", class.name(), counts.of(class))?;
        }
    }
    writeln!(out, "  {:<14} {:>12}", "total", counts.total())
}

fn print_sites(statistics: &Statistics<'_>, out: &mut impl Write) -> io::Result<()> {
    if statistics.sites.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nBusiest call sites")?;
    for site in &statistics.sites {
        write!(out, "  {:>12}  {}  (", site.counts.total(), site.primary)?;
        let kinds = EventClass::ALL
            .into_iter()
            .filter(|&class| site.counts.of(class) > 0);
        for (number, class) in kinds.enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            write!(out, "{separator}{} {}", class.name(), site.counts.of(class))?;
        }
        writeln!(out, ")")?;
    }
    Ok(())
}

/// A number of bytes, printed in a suitable unit.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut size = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while size >= 1024.0 && unit + 1 < UNITS.len() {
            size /= 1024.0;
            unit += 1;
        }
        write!(f, "{size:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_a_suitable_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (64 << 20, "64.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
