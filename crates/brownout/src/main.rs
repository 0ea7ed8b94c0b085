//! brownout's command line: the only crate that prints or exits.
//!
//! `main` parses the arguments, runs one of the [`commands`] and turns its result into an exit code. A
//! [`Failure`] is printed as one message and maps to an [`ExitCode`]; a panic is reported as an internal error.

mod arguments;
mod behaviour_memory;
mod commands;
mod config;
mod console;
mod coverage_output;
mod crash_test;
mod decisions;
mod earlier_findings;
mod earlier_reasons;
mod event_json;
mod event_text;
mod exit_code;
mod expected_output;
mod failure;
mod finding_output;
mod fix;
mod fix_output;
mod image_files;
mod lint_run;
mod mapped_file_state;
mod next_step;
mod output_directory;
mod patch_file;
mod progress;
mod race_confirmation;
mod race_finding;
mod race_run;
mod recovery_context;
mod results;
mod rules;
mod run_differences;
mod run_environment;
mod run_file;
mod schedule_output;
mod settings;
mod shortfall;
mod source_gaps;
mod stacks;
mod stored_results;
mod suspects;
mod target_outcome;
mod terminal_text;
mod trace_file;
mod trace_notes;
mod unrecorded_changes;
mod watch_list;
mod wrapper_functions;

use std::io::{self, Write as _};
use std::panic::PanicHookInfo;
use std::process::ExitCode as Status;

use brownout_report::quantity;
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
    // The reader closed the pipe, as `head` does: not an error.
    if !failure.is_broken_pipe() {
        let sentence = failure.sentence();
        let _ = writeln!(io::stderr(), "brownout: {sentence}");
        output_directory::mark_failed(|directory, of| {
            stored_results::record_failure(directory, of, failure.exit_code(), sentence);
        });
    }
    failure.exit_code().into()
}

/// Exits at once: the work of the panicking thread is unfinished, so any later output would be unreliable.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let what = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason was given");
    let location = panic.location().map(ToString::to_string);
    let message = format!(
        "internal error: {what} ({}, version {}); please report it",
        location.as_deref().unwrap_or("unknown location"),
        env!("CARGO_PKG_VERSION"),
    );
    let _ = writeln!(io::stderr(), "brownout: {message}");
    output_directory::mark_failed(|directory, of| {
        stored_results::record_failure(directory, of, ExitCode::Internal, message);
    });
    std::process::exit(ExitCode::Internal as i32);
}
