//! One file a command. Each takes its arguments and the console, and ends with a status or a
//! [`Failure`].

mod dump;
mod image;
mod stat;

use std::process::ExitCode as Status;

use crate::arguments::Command;
use crate::console::Console;
use crate::failure::Failure;

pub fn run(command: Command, console: &Console) -> Result<Status, Failure> {
    match command {
        Command::Stat(arguments) => stat::run(&arguments, console).map(Status::from),
        Command::Dump(arguments) => dump::run(&arguments, console).map(Status::from),
        Command::Image(arguments) => image::run(&arguments, console).map(Status::from),
    }
}
