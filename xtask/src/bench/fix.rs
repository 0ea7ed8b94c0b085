//! `cargo xtask bench fix`: how long `brownout fix` takes from the findings to proven patches, and what the repaired program costs.
//!
//! The time is measured on programs of several lengths, in which one function of a hundred stores without a flush. What a repair costs is
//! measured as Hippocrates does with Redis (Neal, chapter 3): a store in persistent memory loses all its flushes and keeps its fences, and
//! is compared, repaired, with the one that has its flushes by hand.
//!
//! Paper: 2 s to 5 min 9 s for a repair, and 1.00 to 1.07 of the throughput.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::crash::own_directory;
use crate::args::Args;
use crate::wrapper::Wrapper;

const STORE: &str = include_str!("fix/store.c");
/// What the lines of the store end with that are left out.
const BY_HAND: &str = "// by hand";
/// The lengths of generated programs, in lines.
const LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];
/// The lines of a generated function, and how many of them a file has.
const FUNCTION_LINES: usize = 10;
const FUNCTIONS: usize = 100;
const ROUNDS: usize = 3;
/// What the store does when it is checked, and when its speed is measured.
const FEW: &str = "50";
const MANY: &str = "2000000";
/// The least part of the throughput by hand.
const AIM: f64 = 0.95;

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let longest = args.number("--lines")?.unwrap_or(usize::MAX);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout().context("only brownout repairs")?;
    let place = own_directory("fix")?;
    let bench = RepairTimes {
        brownout: fs::canonicalize(brownout)?,
        place: place.clone(),
    };
    println!(
        "{:>8} {:>9} {:>10} {:>14} {:>14}",
        "lines", "findings", "check", "fix", "fix --build"
    );
    for length in LENGTHS.into_iter().filter(|length| *length <= longest) {
        bench.time_of(length)?;
    }
    println!();
    let share = bench.store(rounds)?;
    fs::remove_dir_all(&place).context("cannot remove what was measured with")?;
    ensure!(
        share >= AIM,
        "the repaired store has {share:.2} of the throughput by hand, less than {AIM}"
    );
    Ok(())
}

struct RepairTimes {
    brownout: PathBuf,
    place: PathBuf,
}

impl RepairTimes {
    /// Measures a generated program of so many lines.
    fn time_of(&self, length: usize) -> Result<()> {
        let directory = self.place.join(length.to_string());
        fs::create_dir_all(&directory)?;
        let files = generate(&directory, length)?;
        let build = "cc -g -O1 -o program *.c";
        self.shell(&directory, build)?;
        let pool = directory.join("pool");
        let pool = pool.to_string_lossy();
        let (check, _) = self.timed(
            &directory,
            &["check", "--quiet", "--", "./program", &pool],
            1,
        )?;
        let fix = ["fix", "brownout.out", "--format", "json"];
        let (running, _) = self.timed(&directory, &fix, 0)?;
        let with_build = [&fix[..], &["--build", build]].concat();
        let (rebuilt, output) = self.timed(&directory, &with_build, 0)?;
        let proven = output.matches("\"proof\":\"rebuilt\"").count();
        ensure!(
            proven == files,
            "{proven} of {files} repairs are proven:\n{output}"
        );
        println!(
            "{length:>8} {proven:>9} {:>8.2} s {:>12.2} s {:>12.2} s",
            check.as_secs_f64(),
            running.as_secs_f64(),
            rebuilt.as_secs_f64()
        );
        Ok(())
    }

    /// Repairs a store without flushes and compares it with the one by hand. Returns the part of the throughput that it has.
    fn store(&self, rounds: usize) -> Result<f64> {
        let kept = |line: &&str| !line.ends_with(BY_HAND);
        let without: String = STORE
            .lines()
            .filter(kept)
            .flat_map(|line| [line, "\n"])
            .collect();
        // A call that the compiler makes a jump has no frame, and so is no place for a repair.
        let build = "cc -g -O2 -fno-optimize-sibling-calls -Wall -Wextra -Werror -o store store.c";
        let mut directories = Vec::new();
        for (name, text) in [("hand", STORE), ("repaired", &without)] {
            let directory = self.place.join(name);
            fs::create_dir_all(&directory)?;
            fs::write(directory.join("store.c"), text)?;
            self.shell(&directory, build)?;
            directories.push(directory);
        }
        let [hand, repaired] = &directories[..] else {
            unreachable!("two directories were made");
        };
        let check = [
            "check", "--quiet", "--pm", "*pool", "--", "./store", "pool", FEW,
        ];
        self.timed(repaired, &check, 0)?;
        let fix = [
            "fix",
            "brownout.out",
            "transient-data",
            "--apply",
            "--force",
            "--build",
            build,
        ];
        let (time, _) = self.timed(repaired, &fix, 0)?;
        self.shell(repaired, build)?;
        let flushes = [self.flushes(hand, &check)?, self.flushes(repaired, &check)?];
        let mut best = [Duration::MAX; 2];
        for _ in 0..rounds {
            for (best, directory) in best.iter_mut().zip(&directories) {
                *best = self.speed(directory)?.min(*best);
            }
        }
        let share = best[0].as_secs_f64() / best[1].as_secs_f64();
        println!(
            "a store without flushes is repaired in {:.2} s; {} flushes by hand and {} by brownout for {FEW} entries; \
             {share:.2} of the throughput by hand",
            time.as_secs_f64(),
            flushes[0],
            flushes[1]
        );
        Ok(share)
    }

    /// The flushes of a recording, in which nothing may be missing.
    fn flushes(&self, directory: &Path, check: &[&str]) -> Result<u64> {
        let _ = fs::remove_file(directory.join("pool"));
        self.timed(directory, check, 0)?;
        let findings = fs::read_to_string(directory.join("brownout.out/findings.jsonl"))?;
        ensure!(
            !findings.contains("transient-data") && !findings.contains("\"severity\":\"bug\""),
            "the store in {} has findings:\n{findings}",
            directory.display()
        );
        let (_, stat) = self.timed(directory, &["stat", "brownout.out", "--format", "json"], 0)?;
        let stat: serde_json::Value = serde_json::from_str(&stat)?;
        let flushes = stat["events"]["flush"].as_u64();
        flushes.context("`stat` reports no flushes")
    }

    fn speed(&self, directory: &Path) -> Result<Duration> {
        let started = Instant::now();
        let mut store = Command::new("./store");
        store.args(["speed", MANY]).current_dir(directory);
        completed(&mut store, 0)?;
        Ok(started.elapsed())
    }

    fn shell(&self, directory: &Path, command: &str) -> Result<()> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(directory);
        completed(&mut shell, 0).map(|_| ())
    }

    /// Runs brownout, which must exit with this status. Returns how long that took, and the output.
    fn timed(
        &self,
        directory: &Path,
        arguments: &[&str],
        status: i32,
    ) -> Result<(Duration, String)> {
        let started = Instant::now();
        let mut command = Command::new(&self.brownout);
        command.args(arguments).current_dir(directory);
        let output = completed(&mut command, status)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((started.elapsed(), text))
    }
}

fn completed(command: &mut Command, status: i32) -> Result<Output> {
    let output = command.output()?;
    ensure!(
        output.status.code() == Some(status),
        "{command:?} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

/// Writes a program of about so many lines. One function of each file stores without a flush. Returns how many files there are.
fn generate(directory: &Path, length: usize) -> Result<usize> {
    let files = (length / FUNCTION_LINES / FUNCTIONS).max(1);
    let mut main = String::from(
        "#include \"part.h\"\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\n",
    );
    // Writing to a string cannot fail.
    for file in 0..files {
        let _ = writeln!(main, "void part_{file}(struct line *line);");
    }
    main.push_str(
        "int main(int argc, char **argv)\n{\n\tint file = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);\n",
    );
    let _ = writeln!(
        main,
        "\tif (ftruncate(file, {}))\n\t\treturn 2;\n\tstruct line *line = mmap(0, {}, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);",
        files * FUNCTIONS * 64,
        files * FUNCTIONS * 64
    );
    for file in 0..files {
        let _ = writeln!(main, "\tpart_{file}(line + {});", file * FUNCTIONS);
    }
    main.push_str("\treturn 0;\n}\n");
    fs::write(directory.join("main.c"), main)?;
    fs::write(
        directory.join("part.h"),
        "#include <immintrin.h>\n#include <stdint.h>\nstruct line { uint64_t word[8]; };\n\
         static inline void persist(const void *at)\n{\n\t_mm_clflush(at);\n\t_mm_sfence();\n}\n",
    )?;
    for file in 0..files {
        let mut text = String::from("#include \"part.h\"\n");
        for function in 0..FUNCTIONS {
            let _ = write!(
                text,
                "\nstatic __attribute__((noinline)) void store_{function}(struct line *line, uint64_t value)\n{{\n\tuint64_t sum = 0;\n\
                 \tfor (uint64_t i = 0; i < value % 8; i++)\n\t\tsum += i ^ value;\n\tline->word[1] = sum + {file};\n"
            );
            // Every hundredth store is flushed the first time only.
            text.push_str(match function {
                0 => "\tif (value < 100)\n\t\tpersist(line);\n}\n",
                _ => "\tpersist(line);\n}\n\n",
            });
        }
        let _ = writeln!(text, "\nvoid part_{file}(struct line *line)\n{{");
        for function in 0..FUNCTIONS {
            let _ = writeln!(text, "\tstore_{function}(&line[{function}], {function});");
        }
        text.push_str("\tstore_0(&line[0], 100);\n}\n");
        fs::write(directory.join(format!("part_{file}.c")), text)?;
    }
    Ok(files)
}
