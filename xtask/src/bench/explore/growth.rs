//! How exploring grows with the run, for the commit-store pattern (Jaaru, ASPLOS'21, §2): an entry is persisted, then the
//! count that makes it valid. Recovery does something else for each count, so executions must grow with the counts, not with
//! crash times times states; and time with executions.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::Misses;
use super::explored_run::{ExploredRun, RecordedProgram, Sampling};
use crate::bench::crash::program;
use crate::programs::Built;

/// Entries of the shortest run.
const ENTRIES: u32 = 500;
const TIMES: [u32; 4] = [1, 2, 4, 8];
/// The most that an execution may cost in the longest run, as a multiple of the shortest.
const WANTED_GROWTH: f64 = 1.5;
/// The most memory that the explorer may keep for an execution.
const WANTED_KIB: f64 = 16.0;
/// The most that the processes that wait may take in the longest run, as a multiple of the shortest: how many wait is limited.
const WANTED_WAITING: f64 = 1.5;

pub fn run(brownout: &Path, built: &[Built], place: &Path) -> Result<Misses> {
    let target = program(built, "commit_log")?;
    println!(
        "{:<16} {:>12} {:>10} {:>14} {:>16} {:>16}",
        "commit stores", "executions", "seconds", "ms/execution", "explorer (MiB)", "others (MiB)"
    );
    let mut runs: Vec<(f64, ExploredRun)> = Vec::new();
    for times in TIMES {
        let entries = ENTRIES * times;
        let here = place.join("growth");
        let recorded = RecordedProgram::record(brownout, &target, entries, &here)?;
        let run = recorded.explore(Sampling::Memory)?;
        fs::remove_dir_all(&here)?;
        if !run.is_complete || run.executions != u64::from(entries) + 1 {
            bail!(
                "{entries} commit stores have {} behaviours, but {} were run, complete: {}",
                entries + 1,
                run.executions,
                run.is_complete
            );
        }
        let cost = print_row(entries, &run);
        runs.push((cost, run));
    }
    let (Some((first_cost, first)), Some((last_cost, last))) = (runs.first(), runs.last()) else {
        return Ok(Misses::new());
    };
    let kept = last.memory.explorer as f64 - first.memory.explorer as f64;
    let measured = [
        (
            "cost of an execution, longest run to shortest",
            last_cost / first_cost,
            WANTED_GROWTH,
        ),
        (
            "KiB that the explorer keeps for an execution",
            kept / (last.executions - first.executions) as f64,
            WANTED_KIB,
        ),
        (
            "memory of other processes, longest to shortest",
            last.memory.others as f64 / first.memory.others as f64,
            WANTED_WAITING,
        ),
    ];
    for (what, value, wanted) in measured {
        println!("{what:<48} {value:>8.2}, aim {wanted:.2}");
    }
    let missed = measured.iter().filter(|(_, value, wanted)| value > wanted);
    Ok(missed
        .map(|(what, value, wanted)| format!("{what}: {value:.2}, more than {wanted:.2}"))
        .collect())
}

/// Prints what a run took; the milliseconds of one execution.
fn print_row(entries: u32, run: &ExploredRun) -> f64 {
    let seconds = run.time.as_secs_f64();
    let cost = 1000.0 * seconds / run.executions as f64;
    let mib = |kib: u64| kib as f64 / 1024.0;
    println!(
        "{entries:<16} {:>12} {seconds:>10.2} {cost:>14.3} {:>16.1} {:>16.1}",
        run.executions,
        mib(run.memory.explorer),
        mib(run.memory.others)
    );
    cost
}
