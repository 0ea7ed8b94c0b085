//! One file per command. Each takes its arguments and the console, and returns an exit status or a
//! [`Failure`].

mod check;
mod crash;
mod demo;
mod diff;
mod dump;
mod executed_lines;
mod explain;
mod fix;
mod fuzz;
mod image;
mod lint;
mod merge;
mod race;
mod record;
mod replay;
mod replay_input;
mod report;
mod send_input;
mod stat;

pub use record::{describe_candidates, unmatched_patterns};

use std::process::ExitCode as Status;

use crate::arguments::Command;
use crate::console::Console;
use crate::failure::Failure;

pub fn run(command: Command, console: &Console) -> Result<Status, Failure> {
    match command {
        Command::Record(arguments) => record::run(&arguments, console),
        Command::Check(arguments) => check::run(&arguments, console).map(Status::from),
        Command::Lint(arguments) => lint::run(&arguments, console).map(Status::from),
        Command::Race(arguments) => race::run(&arguments, console).map(Status::from),
        Command::Crash(arguments) => crash::run(&arguments, console).map(Status::from),
        Command::Replay(arguments) => replay::run(&arguments, console).map(Status::from),
        Command::Fuzz(arguments) => fuzz::run(&arguments, console).map(Status::from),
        Command::Symex(arguments) => fuzz::run_symbolic(&arguments, console).map(Status::from),
        Command::Fix(arguments) => fix::run(&arguments, console).map(Status::from),
        Command::Merge(arguments) => merge::run(&arguments, console).map(Status::from),
        Command::Report(arguments) => report::run(&arguments, console).map(Status::from),
        Command::Diff(arguments) => diff::run(&arguments, console).map(Status::from),
        Command::Explain(arguments) => explain::run(&arguments).map(Status::from),
        Command::Stat(arguments) => stat::run(&arguments, console).map(Status::from),
        Command::Dump(arguments) => dump::run(&arguments, console).map(Status::from),
        Command::Image(arguments) => image::run(&arguments, console).map(Status::from),
        Command::Demo(arguments) => demo::run(&arguments, console).map(Status::from),
        Command::ServeSandbox { arguments } => brownout_recovery::serve(&arguments),
        Command::SendInput(arguments) => Ok(send_input::run(&arguments)?.into()),
        Command::ExecutedLines { trace } => Ok(executed_lines::run(&trace, console)?.into()),
    }
}
