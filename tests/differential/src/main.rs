//! Generated instructions, executed natively and under the engine, compared in every register and byte.
//!
//! `cargo xtask differential` drives this program: it makes cases, executes them in this process, and
//! compares the outcomes of two executions. See `tests/differential/README.md`.

mod case;
mod compare;
mod cpu;
mod execute;
mod generate;
mod layout;
mod outcome;
mod state;
mod trampoline;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::case::Cases;
use crate::layout::Region;

const USAGE: &str = "\
differential generate SEED COUNT REGION CPU CASES make cases; REGION is low, high or middle, CPU v2, v3, v4 or
                                                 host, followed by any number of +FEATURE and -FEATURE
differential execute CASES FROM RESULTS [FILE]   execute them; operands lie in a mapping of FILE if given
differential compare CASES NATIVE ENGINE         print each case that differs; exit 1 if there is one
differential reduce CASES INDEX DROP OUT         one case alone, without its instructions numbered in DROP
differential progress RESULTS                    print the number of the next case
differential show CASES INDEX                    print one case
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("differential: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["generate", seed, count, region, cpu, out] => {
            let region = Region::ALL
                .into_iter()
                .find(|known| known.name() == region)
                .context("no such region")?;
            let cpu = cpu.parse::<cpu::Cpu>()?.on_this_machine();
            generate::generate(seed.parse()?, count.parse()?, region, &cpu).save(out.as_ref())?;
        }
        ["execute", cases, from, results] => {
            execute::execute(
                &Cases::load(cases.as_ref())?,
                from.parse()?,
                None,
                results.as_ref(),
            )?;
        }
        ["execute", cases, from, results, file] => {
            let file = PathBuf::from(file);
            execute::execute(
                &Cases::load(cases.as_ref())?,
                from.parse()?,
                Some(&file),
                results.as_ref(),
            )?;
        }
        ["compare", cases, native, engine] => {
            let cases = Cases::load(cases.as_ref())?;
            if compare::compare(&cases, native.as_ref(), engine.as_ref())? {
                return Ok(ExitCode::FAILURE);
            }
        }
        ["reduce", cases, index, drop, out] => {
            let cases = Cases::load(cases.as_ref())?;
            let drop = drop
                .split(',')
                .filter(|word| !word.is_empty())
                .map(str::parse)
                .collect::<Result<Vec<_>, _>>()?;
            compare::reduce(&cases, index.parse()?, &drop)?.save(out.as_ref())?;
        }
        ["progress", results] => {
            let outcomes = outcome::Outcome::load(results.as_ref())?;
            println!("{}", outcomes.last().map_or(0, |(index, _)| index + 1));
        }
        ["show", cases, index] => {
            let cases = Cases::load(cases.as_ref())?;
            let case = cases
                .cases
                .get(index.parse::<usize>()?)
                .context("no such case")?;
            print!("{}", compare::show(&cases, case));
        }
        _ => bail!("no such command\n{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}
