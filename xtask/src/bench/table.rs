//! The table that `bench engine` prints, with the project's aims next to the measurements.

use std::time::Duration;

use super::load::Kind;
use super::measure::Cost;
use super::{OTHERS, Row, Trace};

const AIM_MEAN: f64 = 1.6;
const AIM_MEAN_LOADS: f64 = 2.0;
const AIM_WORST: f64 = 2.2;
const AIM_PERSISTENT: f64 = 2.5;
const AIM_START_UP_MS: f64 = 8.0;
const AIM_BYTES: f64 = 4.0;
const AIM_READER: f64 = 30.0;

/// Traces shorter than this are mostly head: their bytes per event say nothing.
const MANY_EVENTS: u64 = 1000;

pub fn print_head() {
    print!("{:<24} {:>10} {:>8} {:>6}", "load", "native", "cpu", "wall");
    OTHERS.iter().for_each(|(name, _)| print!(" {name:>9}"));
    println!(" {:>11} {:>8}", "events", "B/event");
}

pub fn print_row(row: &Row) {
    let start_up = row.load.kind == Kind::StartUp;
    let shown = |cost: Cost| match start_up {
        true => format!(
            "{:+.1}ms",
            milliseconds(cost.wall) - milliseconds(row.native.wall)
        ),
        false => format!("{:.2}", ratio(cost.cpu, row.native.cpu)),
    };
    let native = if start_up {
        row.native.wall
    } else {
        row.native.cpu
    };
    print!(
        "{:<24} {:>7.1} ms {:>8}",
        row.load.name,
        milliseconds(native),
        shown(row.tested)
    );
    match start_up {
        true => print!(" {:>6}", ""),
        false => print!(" {:>6.2}", ratio(row.tested.wall, row.native.wall)),
    }
    for other in &row.others {
        print!(" {:>9}", other.map_or("-".to_owned(), shown));
    }
    match &row.trace {
        Some(trace) if trace.events >= MANY_EVENTS => {
            println!(" {:>11} {:>8.2}", trace.events, bytes_per_event(trace));
        }
        Some(trace) => println!(" {:>11} {:>8}", trace.events, "-"),
        None => println!(" {:>11} {:>8}", "-", "-"),
    }
}

pub fn print_summary(rows: &[Row], loads: bool) {
    let running = || rows.iter().filter(|row| row.load.kind != Kind::StartUp);
    if let Some(mean) = geometric_mean(running().map(cpu_ratio)) {
        let wall = running().map(|row| ratio(row.tested.wall, row.native.wall));
        let wall = geometric_mean(wall).unwrap_or_default();
        let aim = if loads { AIM_MEAN_LOADS } else { AIM_MEAN };
        println!("\ngeometric mean of cpu {mean:.2} (aim: at most {aim}), of wall {wall:.2}");
    }
    for (at, (name, _)) in OTHERS.iter().enumerate() {
        let ratios = running().filter_map(|row| Some(ratio(row.others[at]?.cpu, row.native.cpu)));
        if let Some(mean) = geometric_mean(ratios) {
            println!("geometric mean of cpu of {name} {mean:.2}");
        }
    }
    for (persistent, kind, aim) in [
        (false, "ordinary", AIM_WORST),
        (true, "persistent", AIM_PERSISTENT),
    ] {
        let of_kind = running().filter(|row| (row.load.kind == Kind::Persistent) == persistent);
        if let Some(worst) = of_kind.max_by(|a, b| cpu_ratio(a).total_cmp(&cpu_ratio(b))) {
            let name = worst.load.name;
            println!(
                "worst of the {kind} loads {:.2}, {name} (aim: at most {aim})",
                cpu_ratio(worst)
            );
        }
    }
    if let Some(row) = rows.iter().find(|row| row.load.kind == Kind::StartUp) {
        let over = milliseconds(row.tested.wall) - milliseconds(row.native.wall);
        println!("start-up {over:.1} ms over native (aim: at most {AIM_START_UP_MS})");
    }
}

/// The figures of the traces with many events, and of their reader, in millions of events per second.
pub fn print_traces(rows: &[Row], speed: f64) {
    let traces = rows.iter().filter_map(|row| row.trace.as_ref());
    let (mut events, mut bytes) = (0, 0);
    for trace in traces.filter(|trace| trace.events >= MANY_EVENTS) {
        events += trace.events;
        bytes += trace.bytes;
    }
    if events > 0 {
        let each = bytes as f64 / events as f64;
        println!("bytes per event on disk {each:.2} (aim: at most {AIM_BYTES})");
        println!("reader {speed:.1} million events per second (aim: at least {AIM_READER})");
    }
}

fn cpu_ratio(row: &Row) -> f64 {
    ratio(row.tested.cpu, row.native.cpu)
}

fn ratio(tested: Duration, native: Duration) -> f64 {
    tested.as_secs_f64() / native.as_secs_f64().max(1e-6)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn bytes_per_event(trace: &Trace) -> f64 {
    trace.bytes as f64 / trace.events.max(1) as f64
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (!logarithms.is_empty())
        .then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric() {
        let mean = geometric_mean([1.0, 4.0].into_iter()).unwrap();
        assert!((mean - 2.0).abs() < 1e-9);
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }

    #[test]
    fn the_best_of_each_counts() {
        let cost = |cpu, wall| Cost {
            cpu: Duration::from_millis(cpu),
            wall: Duration::from_millis(wall),
        };
        let best = Cost::WORST.best(cost(5, 9)).best(cost(7, 8));
        assert_eq!(
            (best.cpu, best.wall),
            (Duration::from_millis(5), Duration::from_millis(8))
        );
    }
}
