//! `cargo xtask bench symex`: what it costs to record, replay and solve a path, and how that grows with the input.
//!
//! A program that parses lines of text, all of whose bytes are symbolic. The work natively and while it is recorded is the difference
//! between runs that do it several times and not at all, so that starting does not count. No aims are stated: nothing depends on these figures
//! alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::crash::{own_directory, program};
use crate::args::Args;
use crate::programs;
use crate::shell::{cargo, step, target_dir};

/// Lines of the inputs.
const LINES: &[usize] = &[1, 4, 16, 64];

pub fn run(mut args: Args) -> Result<()> {
    let most: usize = args.number("--lines")?.unwrap_or(usize::MAX);
    args.finish()?;
    let programs = programs::discover(|group| group == "bench")?;
    let built = programs::build(&programs)?;
    let target = program(&built, "symbolic_text")?;
    let words = ["build", "--quiet", "--release", "--package"];
    step(cargo(&words)?.args(["brownout-symex", "--example", "path_speed"]))?;
    let measurer = target_dir()?.join("release/examples/path_speed");
    let place = own_directory("symex")?;
    println!(
        "{:>12} {:>10} {:>10} {:>8} {:>9} {:>9} {:>10} {:>11} {:>10} {:>9}",
        "input, bytes",
        "native, us",
        "recorded",
        "times",
        "steps",
        "symbolic",
        "replays/s",
        "constraints",
        "queries/s",
        "peak, MB"
    );
    for &lines in LINES.iter().filter(|&&lines| lines <= most) {
        let input = place.join("input");
        let text: String = (0..lines)
            .map(|line| match line % 3 {
                0 => format!("insert {line}\n"),
                1 => format!("remove {line}\n"),
                _ => "something else\n".to_owned(),
            })
            .collect();
        fs::write(&input, &text)?;
        Figures::measure(&measurer, &target, &input)?.print(text.len());
    }
    fs::remove_dir_all(&place).context("cannot remove what was measured with")
}

/// What the measuring program prints, in its order.
struct Figures {
    native: f64,
    recorded: f64,
    steps: f64,
    symbolic_steps: f64,
    replay: f64,
    constraints: f64,
    queries: f64,
    solver: f64,
    peak: f64,
}

impl Figures {
    fn measure(measurer: &Path, target: &Path, input: &Path) -> Result<Self> {
        let mut command = Command::new(measurer);
        let output = command.arg(target).arg(input).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = { text.split_whitespace() }
            .filter_map(|word| word.parse().ok())
            .collect();
        let [
            native,
            recorded,
            steps,
            symbolic_steps,
            _bytes,
            replay,
            constraints,
            queries,
            solver,
            peak,
        ] = numbers[..]
        else {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("{command:?} printed {text:?} and not its figures: {errors}");
        };
        Ok(Self {
            native,
            recorded,
            steps,
            symbolic_steps,
            replay,
            constraints,
            queries,
            solver,
            peak,
        })
    }

    fn print(&self, bytes: usize) {
        const NANOSECONDS: f64 = 1e9;
        println!(
            "{bytes:>12} {:>10.2} {:>10.0} {:>8.0} {:>9} {:>9} {:>10.1} {:>11} {:>10.0} {:>9.0}",
            self.native / 1e3,
            self.recorded / 1e3,
            self.recorded / self.native,
            self.steps,
            self.symbolic_steps,
            NANOSECONDS / self.replay,
            self.constraints,
            self.queries * NANOSECONDS / self.solver,
            self.peak / 1024.0
        );
    }
}
