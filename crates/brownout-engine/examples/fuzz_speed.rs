//! Executes a program again and again, and prints how many executions end in a second.
//!
//! `fuzz_speed SECONDS INPUT FILE PROGRAM [ARGS…]`: the program reads the bytes of the file INPUT from its standard input; FILE is its
//! persistent file, `-` if it has none.

use brownout_engine::fuzz::{FuzzServer, FuzzTarget, InputChannel};
use brownout_engine::{Repetition, ThreadSchedule};
use std::error::Error;
use std::ffi::OsString;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let seconds = arguments.next().ok_or("no number of seconds")?;
    let seconds: f64 = seconds.to_str().ok_or("not a number")?.parse()?;
    let input = std::fs::read(arguments.next().ok_or("no input")?)?;
    let file = arguments.next().ok_or("no persistent file")?;
    let command: Vec<OsString> = arguments.collect();
    let mut server = FuzzServer::start(&FuzzTarget {
        command,
        environment: Vec::new(),
        directory: None,
        input: InputChannel::Stdin,
        files: (file != "-").then(|| file.into()).into_iter().collect(),
        fork_at: None,
        timeout: Duration::from_secs(10),
        schedule: ThreadSchedule::of_seed(1),
        repetition: Repetition::default(),
        comparisons: false,
    })?;
    let started = Instant::now();
    let mut executions = 0_u32;
    let mut transitions = 0;
    while started.elapsed().as_secs_f64() < seconds {
        let execution = server.execute(&input)?;
        transitions = execution.transitions().len();
        executions += 1;
    }
    let rate = f64::from(executions) / started.elapsed().as_secs_f64();
    eprintln!("{}; {transitions} transitions", server.fork_point());
    println!("{rate:.1}");
    Ok(())
}
