//! Explores a program again and again from its first question on, and prints how many executions end in a second.
//!
//! `explore_speed EXECUTIONS FILE PROGRAM [ARGS…]`: the first 8 bytes of FILE are open.

use brownout_engine::Repetition;
use brownout_engine::explore::{ExplorationStep, ExploreOptions, ExploredTarget, OpenFile};
use std::error::Error;
use std::ffi::OsString;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let executions = arguments.next().ok_or("no number of executions")?;
    let executions: u64 = executions.to_str().ok_or("not a number")?.parse()?;
    let file = arguments.next().ok_or("no file")?;
    let command: Vec<OsString> = arguments.collect();
    let (mut target, step) = ExploredTarget::start(&ExploreOptions {
        command,
        files: vec![OpenFile {
            path: file.into(),
            open: std::iter::once(0..8).collect(),
        }],
        cpu_limit: Duration::from_secs(60),
        repetition: Repetition::default(),
    })?;
    let ExplorationStep::Question(question) = step else {
        return Err(format!("the program does not read the open bytes: {step:?}").into());
    };
    let started = Instant::now();
    for execution in 0..executions {
        let value = execution.to_le_bytes();
        let step = target.answer(question.branch, &value[..question.len], true)?;
        if !matches!(step, ExplorationStep::End(_)) {
            return Err(format!("an execution does not end: {step:?}").into());
        }
    }
    println!("{:.1}", executions as f64 / started.elapsed().as_secs_f64());
    Ok(())
}
