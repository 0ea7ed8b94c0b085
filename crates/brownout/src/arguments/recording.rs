//! The options of every command that runs the target.

use std::ffi::OsString;
use std::path::PathBuf;

use brownout_engine::ThreadSchedule;
use clap::{Args, ValueEnum};

#[derive(Clone, Debug, Default, Args)]
pub struct RecordingArgs {
    /// Also record loads from persistent memory, and locks that are recognised by their atomic instructions
    ///
    /// Of equal loads of a thread (the same instruction, callers and address), only the first is recorded, until another thread
    /// stores to the page, or the thread holds other locks or makes a system call.
    #[arg(long)]
    pub loads: bool,

    /// Also record calls of FUNCTION, with its first six integer arguments and its result
    ///
    /// FUNCTION is a name from a symbol table, or the demangled name of a function of the program or of a library that it is
    /// linked with. A demangled name may be given with or without parameters and namespaces, and may contain `*`. Names from
    /// symbol tables are also found in other programs that it runs and in libraries that it loads. Can be given more than once. Calls of
    /// libpmemobj's transactional functions are always recorded, equal ones that only ask for the root object once.
    #[arg(long = "watch", value_name = "FUNCTION")]
    pub watched: Vec<String>,

    /// Count how often each source line is executed, and write the counts to FILE
    ///
    /// The counts are the sums over all processes of the run. Source lines need debug information (compile with -g). Code that
    /// belongs to no file, such as code generated at run time, is left out.
    #[arg(long, value_name = "FILE")]
    pub coverage: Option<PathBuf>,

    /// The format of the coverage file
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        requires = "coverage"
    )]
    pub coverage_format: CoverageFormat,

    /// What to do with the program when the disk is full
    #[arg(long, value_enum, default_value_t, value_name = "ACTION")]
    pub on_full: OnFull,

    /// Run one thread at a time, in an order that SEED determines
    ///
    /// The same SEED gives the same interleaving of threads, the same time and random numbers, and so the same trace. A SEED of
    /// the form SEED:STEPS distributes the preemptions over the first STEPS steps of the threads (default: 1000). A step is an
    /// instruction that accesses persistent memory, flushes, fences or is locked; loads and calls count only if they are recorded. What the
    /// program uses that SEED does not determine is named. If all threads wait for each other, that is named, and the program is killed.
    #[arg(long, value_name = "SEED")]
    pub schedule: Option<ThreadSchedule>,

    /// Flush and fence where this plan of `brownout fix` says
    #[arg(long, value_name = "FILE", hide = true)]
    pub patch_plan: Option<PathBuf>,

    /// The program to run, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        num_args = 1..
    )]
    pub command: Vec<OsString>,
}

/// What to do with the target when there is no space left for the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFull {
    /// Let it continue without being recorded
    #[default]
    Continue,
    /// Kill it
    Stop,
}

/// How the coverage of a run is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CoverageFormat {
    /// An lcov tracefile: lines, functions and branches, for genhtml and other tools
    #[default]
    Lcov,
    /// A table of all functions, separated by tabs
    Functions,
}
