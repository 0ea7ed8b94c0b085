//! `cargo xtask fuzz`: broken traces must give the readable part and a message, never a panic.
//!
//! The bounded run needs nothing but a stable compiler: it is a test of `brownout-trace` that mutates
//! valid traces, repeated more often than in the ordinary test run. `--libfuzzer` runs the
//! coverage-guided target in `fuzz/`, which needs `cargo-fuzz` and a nightly compiler.

use anyhow::{Result, bail};

use crate::args::Args;
use crate::shell::{cargo, root, step};

/// Mutated traces of a bounded run: some seconds on one core.
const ITERATIONS: u64 = 200_000;

pub fn run(mut args: Args) -> Result<()> {
    let iterations = args.number("--iterations")?.unwrap_or(ITERATIONS);
    let libfuzzer = args.switch("--libfuzzer");
    let seconds: u64 = args.number("--seconds")?.unwrap_or(60);
    args.finish()?;
    if libfuzzer {
        let fuzz = root().join("fuzz");
        if !fuzz.is_dir() {
            bail!("{} does not exist", fuzz.display());
        }
        let limit = format!("-max_total_time={seconds}");
        return step(&mut cargo(&[
            "+nightly",
            "fuzz",
            "run",
            "read_trace",
            "--",
            &limit,
        ])?);
    }
    let words = [
        "test",
        "--package",
        "brownout-trace",
        "--release",
        "fuzz_reader",
    ];
    step(cargo(&words)?.env("BROWNOUT_FUZZ_ITERS", iterations.to_string()))
}
