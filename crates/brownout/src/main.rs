//! brownout's command line: the only crate that prints or exits.
//!
//! `main` reads the arguments, hands them to one of [`commands`], and turns what comes back into words
//! and an exit status. A [`Failure`] is a sentence and one of the codes in [`exit_code`]; a panic is a
//! fault of brownout and says so.

mod arguments;
mod commands;
mod config;
mod console;
mod crash_test;
mod decisions;
mod event_json;
mod event_text;
mod exit_code;
mod failure;
mod finding_output;
mod image_files;
mod lint_run;
mod output_directory;
mod progress;
mod results;
mod rules;
mod settings;
mod source_gaps;
mod stacks;
mod trace_file;

use std::io::{self, Write as _};
use std::panic::PanicHookInfo;
use std::process::ExitCode as Status;

use clap::Parser as _;

use crate::arguments::Arguments;
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;

fn main() -> Status {
    std::panic::set_hook(Box::new(report_panic));
    let arguments = Arguments::parse();
    match commands::run(arguments.command, &Console::new(arguments.quiet)) {
        Ok(status) => status,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> Status {
    // Whoever closed the pipe, `head` for one, has seen enough.
    if !failure.is_broken_pipe() {
        let _ = writeln!(io::stderr(), "brownout: {}", failure.sentence());
    }
    failure.exit_code().into()
}

/// Ends the process: a thread that panicked has left its work undone, and nothing printed from then on
/// could be trusted.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let what = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason was given");
    let place = panic.location().map(ToString::to_string);
    let _ = writeln!(
        io::stderr(),
        "brownout: this is a fault of brownout, please report it: {what} ({}, version {})",
        place.as_deref().unwrap_or("place unknown"),
        env!("CARGO_PKG_VERSION"),
    );
    std::process::exit(ExitCode::Internal as i32);
}
