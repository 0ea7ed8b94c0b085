//! Recoveries a second, in three ways: started by fork and exec alone, by `brownout crash` natively, and by `brownout crash` with shared starts.
//! Rounds are interleaved and the best of each counts.
//!
//! How much shared starts save depends on what recovery does before it first reads a byte that differs between images, and on how many images
//! make it read the same. The recovery of `crash_log` reads the count of the log first, which differs in each image, and then computes for
//! about ten milliseconds with it: there is next to nothing to share, and it shows that sharing then ends early and costs little. That of
//! `obj_inserts` opens a pool of libpmemobj and checks the map in it.

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

pub const CASES: &[Case] = &[
    Case {
        text: "recoveries of about 10 ms on a pool of 64 MiB",
        program: "crash_log",
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
        arguments: &["400"],
        file: "pool",
        environment: Some(("PMEM_IS_PMEM_FORCE", "1")),
        recoveries: 600,
        occurrences: 40,
        wanted: [0.0, 3.0],
    },
];

/// A test of all images.
struct Tested {
    /// Recoveries on different images, in a second.
    rate: f64,
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
        let mut record = Command::new(brownout);
        record.args(["record", "-q", "-o"]).arg(&trace).arg("--");
        record.arg(&program).args(self.arguments).arg(&pool);
        run_quietly(record.envs(self.environment))?;
        let mut bare: f64 = 0.0;
        let mut best: [Option<Tested>; 2] = [None, None];
        for _ in 0..rounds {
            bare = bare.max(self.bare_rate(&program, &place, jobs)?);
            for (best, sharing) in best.iter_mut().zip(["never", "auto"]) {
                let tested = self.tested(brownout, &program, (&trace, &pool), sharing, jobs)?;
                if best.as_ref().is_none_or(|best| best.rate < tested.rate) {
                    *best = Some(tested);
                }
            }
        }
        fs::remove_dir_all(&place)?;
        println!("{}, {jobs} at a time", self.text);
        println!("{:<52} {bare:>10.1} /s", "fork and exec on a prepared file");
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
        jobs: usize,
    ) -> Result<Tested> {
        let recover = format!("{} check {}", program.display(), pool.display());
        let out: PathBuf = trace.with_file_name("out");
        let (occurrences, jobs) = (self.occurrences.to_string(), jobs.to_string());
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
            recoveries,
            shared: crash["shared_starts"].clone(),
        })
    }
}

impl Tested {
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
