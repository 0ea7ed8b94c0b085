//! Generated instructions, replayed symbolically and compared with the processor on other operands.
//!
//! `cargo xtask differential --symbolic` drives this program; its test is a small part of that. See `tests/semantics/README.md`.
#![forbid(unsafe_code)]

mod assembly;
mod batch;
mod case;
mod forms;
mod host;
mod instruction;
mod layout;
mod modelled;
mod prepare;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use iced_x86::Code;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::batch::{BatchResult, Content};
use crate::host::Host;

const USAGE: &str = "\
semantics SEED INSTRUCTIONS SEQUENCES   compare as many cases of one instruction, and as many of several; exit 1 if any differs
semantics SEED modelled SEQUENCES       the same, with each form that is modelled once
";
/// Cases of one run of the host.
const BATCH: usize = 1000;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("semantics: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seed, instructions, sequences] = &words[..] else {
        bail!("not three words\n{USAGE}");
    };
    let number = |word: &String| {
        word.parse()
            .with_context(|| format!("not a number: {word}"))
    };
    let seed: u64 = seed.parse().context("not a seed")?;
    let mut comparison = Comparison::new(Host::compile()?, seed);
    match instructions.as_str() {
        "modelled" => {
            let codes = modelled_forms();
            comparison.instructions(&codes, codes.len())?;
        }
        _ => comparison.instructions(&forms::all(), number(instructions)?)?,
    }
    comparison.sequences(number(sequences)?)?;
    for failure in &comparison.failures {
        println!("{failure}\n");
    }
    let BatchResult {
        cases,
        cases_compared,
        values,
        steps,
        ..
    } = comparison.total;
    println!(
        "semantics: {cases} cases of {} steps, {cases_compared} of them on a second input, in {values} bytes: {} differ",
        steps,
        comparison.failures.len()
    );
    match comparison.failures.is_empty() && cases > 0 {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn modelled_forms() -> Vec<Code> {
    let mut codes = forms::all();
    codes.retain(|&code| modelled::is_modelled(code));
    codes
}

/// A comparison by many batches.
struct Comparison {
    host: Host,
    seed: u64,
    total: BatchResult,
    failures: Vec<String>,
    concretised: FxHashMap<Code, String>,
    compared: FxHashSet<Code>,
}

impl Comparison {
    fn new(host: Host, seed: u64) -> Self {
        Self {
            host,
            seed,
            total: BatchResult::default(),
            failures: Vec::new(),
            concretised: FxHashMap::default(),
            compared: FxHashSet::default(),
        }
    }

    /// Cases of one instruction each.
    fn instructions(&mut self, codes: &[Code], count: usize) -> Result<()> {
        for from in (0..count).step_by(BATCH) {
            let cases = BATCH.min(count - from);
            self.batch(cases, &Content::Instructions { codes, from })?;
        }
        for (code, title) in &self.concretised {
            if modelled::is_modelled(*code) {
                let text =
                    format!("{title}\n    {code:?} is modelled, and was taken for what it was");
                self.failures.push(text);
            }
        }
        Ok(())
    }

    /// Cases of several instructions that have been compared by themselves.
    fn sequences(&mut self, count: usize) -> Result<()> {
        let is_known = |code: &Code| !self.concretised.contains_key(code);
        let mut codes: Vec<Code> = self.compared.iter().copied().filter(is_known).collect();
        codes.sort();
        for from in (0..count).step_by(BATCH / 4) {
            let cases = (BATCH / 4).min(count - from);
            self.batch(cases, &Content::Sequences(&codes))?;
        }
        Ok(())
    }

    fn batch(&mut self, cases: usize, content: &Content<'_>) -> Result<()> {
        let seed = self.seed;
        self.seed += 1;
        let result =
            batch::run(&self.host, seed, cases, content).with_context(|| format!("seed {seed}"))?;
        let failures = result.failures.iter();
        self.failures
            .extend(failures.map(|text| format!("seed {seed}: {text}")));
        self.concretised.extend(result.concretised);
        self.compared.extend(result.compared);
        self.total.cases += result.cases;
        self.total.cases_compared += result.cases_compared;
        self.total.values += result.values;
        self.total.steps += result.steps;
        Ok(())
    }
}

#[test]
fn replay_computes_what_the_processor_does() {
    let codes: Vec<Code> = modelled_forms().into_iter().step_by(4).collect();
    let mut comparison = Comparison::new(Host::compile().unwrap(), 1);
    comparison.instructions(&codes, codes.len()).unwrap();
    comparison.sequences(40).unwrap();
    assert!(
        comparison.failures.is_empty(),
        "{}",
        comparison.failures.join("\n")
    );
    assert!(comparison.total.cases_compared > 100);
}
