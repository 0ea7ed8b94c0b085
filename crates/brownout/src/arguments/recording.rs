//! What every command that runs a program takes.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

#[derive(Clone, Debug, Default, Args)]
pub struct RecordingArgs {
    /// Record loads from persistent memory too
    #[arg(long)]
    pub loads: bool,

    /// Record calls of FUNCTION too, with its first six integer arguments and its result
    ///
    /// FUNCTION is a name as in symbol tables; of C++ and Rust functions the mangled one. It is found in
    /// the program and in each library that has a symbol for it. May be given several times. Calls
    /// of libpmemobj's transactional functions are always recorded.
    #[arg(long = "watch", value_name = "FUNCTION")]
    pub watched: Vec<String>,

    /// What happens to the program when the disk is full
    #[arg(long, value_enum, default_value_t, value_name = "ACTION")]
    pub on_full: OnFull,

    /// The program to run, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        num_args = 1..
    )]
    pub command: Vec<OsString>,
}

/// What happens to the recorded program when there is no room left for the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFull {
    /// It goes on without being recorded
    #[default]
    Continue,
    /// It is killed
    Stop,
}
