//! Recoveries a second, in three ways: started by fork and exec alone, by `brownout crash` natively, and by `brownout crash` with shared
//! starts. Rounds are interleaved and the best of each counts.
//!
//! How much shared starts save depends on what recovery does before it first reads a byte that differs between images, and on how many
//! images make it read the same. A copy has to do all that comes after the read at which it is made, so with shared starts recoveries take
//! at least the time of that part. Hence three cases:
//!
//! - `snapshot_journal` verifies and indexes a snapshot, which is the same in each image, and then reads its journal. Nearly all of
//!   its work is shared. This is the case that shared starts are for, and has the aim of three times fork and exec.
//! - `obj_inserts` opens a pool of libpmemobj and checks the map in it. libpmemobj first reads its logs, which differ, and then sets up its
//!   volatile state, which is most of its work and the same for all images, but comes too late to be shared: a copy takes
//!   almost as long as a recovery. What is saved are the images that recovery cannot distinguish. Sharing must not cost more than it saves.
//! - `crash_log` reads the count of its log first, which differs in each image, and then computes for about ten milliseconds with
//!   it. There is nothing to share; it shows that sharing then ends early and costs little.
//!
//! What a copy takes on average is printed beside what a native recovery takes: the quotient bounds what shared starts can gain.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{own_directory, program, remarks_of, run_quietly};
use crate::programs::Built;

/// A program whose recovery is `PROGRAM check DIR`.
pub struct Case {
    text: &'static str,
    program: &'static str,
    /// The argument of a run before the recorded one that makes the file, if there is such a run.
    create: Option<&'static str>,
    /// The arguments of the recorded run before the directory.
    arguments: &'static [&'static str],
    file: &'static str,
    environment: Option<(&'static str, &'static str)>,
    /// How many recoveries are started by fork and exec, and how many occurrences of each failure point are tried.
    recoveries: usize,
    occurrences: usize,
    /// The least shares of the bound, natively and with shared starts.
    wanted: [f64; 2],
}

/// Otherwise libpmem syncs with `msync`, whose states are others.
const FORCED: Option<(&str, &str)> = Some(("PMEM_IS_PMEM_FORCE", "1"));

pub const CASES: &[Case] = &[
    Case {
        text: "recoveries that index a snapshot, then read a journal",
        program: "snapshot_journal",
        create: Some("create"),
        arguments: &[],
        file: "store",
        environment: FORCED,
        recoveries: 600,
        // As many as there are records: the snapshot is also read once before any crash, which takes a second.
        occurrences: 600,
        wanted: [0.0, 3.0],
    },
    Case {
        text: "recoveries of about 10 ms on a pool of 64 MiB",
        program: "crash_log",
        create: None,
        arguments: &[],
        file: "log",
        environment: None,
        recoveries: 600,
        // The program reaches two failure points again and again.
        occurrences: 300,
        wanted: [0.8, 0.7],
    },
    Case {
        text: "recoveries that open a pool of libpmemobj and check a map",
        program: "obj_inserts",
        create: None,
        arguments: &["400"],
        file: "pool",
        environment: FORCED,
        recoveries: 600,
        occurrences: 40,
        wanted: [0.0, 1.0],
    },
];

/// A test of all images.
struct Tested {
    /// Recoveries on different images, in a second.
    rate: f64,
    /// In seconds.
    elapsed: f64,
    recoveries: u64,
    shared: Value,
}

impl Case {
    /// Measures and prints. Returns what is missed.
    pub fn run(
        &self,
        brownout: &Path,
        built: &[Built],
        rounds: usize,
        jobs: usize,
    ) -> Result<Vec<String>> {
        let program = program(built, self.program)?;
        let place = own_directory(self.program)?;
        let trace = place.join("trace");
        let pool = place.join("pm");
        fs::create_dir(&pool)?;
        if let Some(create) = self.create {
            run_quietly(Command::new(&program).arg(create).arg(&pool))?;
        }
        let mut record = Command::new(brownout);
        record.args(["record", "-q", "-o"]).arg(&trace).arg("--");
        record.arg(&program).args(self.arguments).arg(&pool);
        run_quietly(record.envs(self.environment))?;
        let mut bare: f64 = 0.0;
        let mut best: [Option<Tested>; 2] = [None, None];
        let mut fewest: Option<Tested> = None;
        let run = |sharing, occurrences: usize| {
            let files = (trace.as_path(), pool.as_path());
            self.tested(brownout, &program, files, sharing, (occurrences, jobs))
        };
        for _ in 0..rounds {
            bare = bare.max(self.bare_rate(&program, &place, jobs)?);
            for (best, sharing) in best.iter_mut().zip(["never", "auto"]) {
                run(sharing, self.occurrences)?.replace_if_better(best);
            }
            run("never", 1)?.replace_if_better(&mut fewest);
        }
        fs::remove_dir_all(&place)?;
        println!("{}, {jobs} at a time", self.text);
        println!("{:<52} {bare:>10.1} /s", "fork and exec on a prepared file");
        if let ([Some(native), Some(shared)], Some(fewest)) = (&best, &fewest) {
            print_copy_time(native, shared, fewest, jobs);
        }
        let mut misses = Vec::new();
        let names = ["natively", "with shared starts"];
        for ((tested, name), wanted) in best.iter().zip(names).zip(self.wanted) {
            let tested = tested.as_ref().context("there is no round")?;
            let share = tested.rate / bare;
            let name = format!("brownout crash, from start to report, {name}");
            println!(
                "{name:<52} {:>10.1} /s {:>8.0} %",
                tested.rate,
                100.0 * share
            );
            tested.print();
            if share < wanted {
                misses.push(format!(
                    "{}: {:.0} % of fork and exec, less than {:.0} %",
                    self.program,
                    100.0 * share,
                    100.0 * wanted
                ));
            }
        }
        Ok(misses)
    }

    /// Fork and exec alone. Each job has a file of its own.
    fn bare_rate(&self, program: &Path, place: &Path, jobs: usize) -> Result<f64> {
        let source = place.join("pm").join(self.file);
        let mut places = Vec::new();
        for job in 0..jobs {
            let own = place.join(format!("bare{job}"));
            fs::create_dir_all(&own)?;
            fs::copy(&source, own.join(self.file))?;
            places.push(own);
        }
        let left = &AtomicUsize::new(self.recoveries);
        let started = Instant::now();
        let done = thread::scope(|scope| {
            let threads: Vec<_> = places
                .iter()
                .map(|own| {
                    scope.spawn(move || -> Result<()> {
                        let take = || {
                            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                                left.checked_sub(1)
                            })
                        };
                        while take().is_ok() {
                            let mut command = Command::new(program);
                            command.arg("check").arg(own).envs(self.environment);
                            run_quietly(&mut command)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .collect::<Result<Vec<()>>>()
        });
        done?;
        Ok(self.recoveries as f64 / started.elapsed().as_secs_f64())
    }

    fn tested(
        &self,
        brownout: &Path,
        program: &Path,
        (trace, pool): (&Path, &Path),
        sharing: &str,
        (occurrences, jobs): (usize, usize),
    ) -> Result<Tested> {
        let recover = format!("{} check {}", program.display(), pool.display());
        let out: PathBuf = trace.with_file_name("out");
        let (occurrences, jobs) = (occurrences.to_string(), jobs.to_string());
        let words = [
            "crash",
            "--strategy",
            "prefix",
            "--occurrences",
            &occurrences,
            "--jobs",
            &jobs,
            "--shared-starts",
            sharing,
            "--recover",
            &recover,
            "--out",
        ];
        let mut command = Command::new(brownout);
        command
            .args(words)
            .args([OsString::from(&out), trace.into()]);
        let started = Instant::now();
        remarks_of(command.envs(self.environment))?;
        let elapsed = started.elapsed();
        let run: Value = serde_json::from_str(&fs::read_to_string(out.join("run.json"))?)?;
        fs::remove_dir_all(&out)?;
        let crash = &run["crash"];
        let recoveries = crash["recoveries"].as_u64();
        let recoveries = recoveries.context("run.json has no number of recoveries")?;
        Ok(Tested {
            rate: recoveries as f64 / elapsed.as_secs_f64(),
            elapsed: elapsed.as_secs_f64(),
            recoveries,
            shared: crash["shared_starts"].clone(),
        })
    }
}

/// Prints what a native recovery takes, and what a copy takes. The time that a test of all images needs beyond that of a test of the
/// `fewest` images is that of the further recoveries; with shared starts, of copies and of native ones that check them.
fn print_copy_time(native: &Tested, shared: &Tested, fewest: &Tested, jobs: usize) {
    let count = |key: &str| shared.shared[key].as_u64().unwrap_or(0) as f64;
    let beyond = |tested: &Tested| (tested.elapsed - fewest.elapsed) * jobs as f64;
    let recovery = beyond(native) / native.recoveries.saturating_sub(fewest.recoveries) as f64;
    let copy = (beyond(shared) - count("checked") * recovery) / count("copies");
    if !(recovery.is_finite() && recovery > 0.0) {
        return;
    }
    println!("{:<52} {:>10.2} ms", "a native recovery", 1e3 * recovery);
    // If there are no copies, or sharing has ended early, the rest is no time of copies.
    if shared.shared["ended"].is_null() && copy.is_finite() && copy > 0.0 {
        let share = 100.0 * copy / recovery;
        let name = "a copy, which begins where it reads other bytes";
        println!("{name:<52} {:>10.2} ms {share:>8.0} %", 1e3 * copy);
    }
}

impl Tested {
    fn replace_if_better(self, best: &mut Option<Tested>) {
        if best.as_ref().is_none_or(|best| best.rate < self.rate) {
            *best = Some(self);
        }
    }

    fn print(&self) {
        println!("{:<52} {:>10}", "  images", self.recoveries);
        for (key, text) in [
            ("copies", "  copies that share the start of others"),
            (
                "known_paths",
                "  known from others that have read the same bytes",
            ),
            ("checked", "  of these, run natively as a check"),
        ] {
            if let Some(count) = self.shared[key].as_u64() {
                println!("{text:<52} {count:>10}");
            }
        }
        if let Some(reason) = self.shared["ended"].as_str() {
            println!("  further ones run natively because {reason}");
        }
    }
}
